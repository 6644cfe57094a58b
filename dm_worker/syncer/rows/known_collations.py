"""The process's cache of the targets' collations, so that a task that is paused and resumed does not query again.

The weights of a collation belong to the server program: they change with its version, not while it runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from pkg.mysql.collation_weights import CollationWeights

#: (host, port, version, collation).
Key = tuple[str, int, str, str]


class KnownCollations:
    """The ``limit`` most recently used collations; thread-safe."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._lock = Lock()
        self._found: OrderedDict[Key, CollationWeights] = OrderedDict()

    def get(self, key: Key, ask: Callable[[], CollationWeights | None]) -> CollationWeights | None:
        """The cached weights, or else the result of ``ask``, whose exceptions it raises.

        None is not cached: the collation has no weights, or the server could not return them at this time.
        """
        with self._lock:
            known = self._found.get(key)
            if known is not None:
                self._found.move_to_end(key)
                return known
        # Not under the lock: other callers need not wait for this server.
        asked = ask()
        if asked is not None:
            with self._lock:
                self._found[key] = asked
                self._found.move_to_end(key)
                while len(self._found) > self._limit:
                    self._found.popitem(last=False)
        return asked


KNOWN_COLLATIONS = KnownCollations()
