"""Which tables of the target show that a transaction is this program's, and which belong to no task. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Collection
from enum import Enum

from pkg.mysql.names import SYSTEM_SCHEMAS, TableId

#: Written in each transaction of rows, by the syncer and by the load: tasks with another meta schema write them too.
_OWN_SUFFIXES = ("_syncer_marker", "_loader_progress", "_loader_early")
#: Before each name: see ``pass_known`` of the compiled scan.
_MARK = b"\0\0"


class WriterKind(Enum):
    """OWN: only this program writes it. OTHER: it gets no rows of the task. TARGET: it may get rows of the task."""

    OWN = "own"
    OTHER = "other"
    TARGET = "target"


class KnownTables:
    """Names are those of TABLE_MAP events; in lower case if the target ``folds`` names. For any thread.

    ``generation`` counts the statements of the task: what was known of tables before one may be wrong after it.
    """

    def __init__(self, meta_schema: str) -> None:
        self._meta_schema = meta_schema.lower()
        self.folds = False
        self.generation = 0
        self._lock = threading.Lock()
        self._others: frozenset[TableId] = frozenset()
        #: The names that were met, for the compiled scan.
        self.own_names = self.other_names = b""

    def folded(self, name: TableId) -> TableId:
        return (name[0].lower(), name[1].lower()) if self.folds else name

    def kind(self, name: TableId, raw: bytes) -> WriterKind:
        """``raw``: the name as the event has it."""
        schema, table = name
        with self._lock:
            if schema.lower() == self._meta_schema or table.lower().endswith(_OWN_SUFFIXES):
                self.own_names = _with(self.own_names, raw)
                return WriterKind.OWN
            if schema.lower() in SYSTEM_SCHEMAS or self.folded(name) in self._others:
                self.other_names = _with(self.other_names, raw)
                return WriterKind.OTHER
        return WriterKind.TARGET

    def add_others(self, names: Collection[TableId], generation: int) -> None:
        """These tables got no rows of the task in that generation."""
        with self._lock:
            if generation == self.generation:
                self._others |= frozenset(names)

    def forget(self) -> None:
        """A statement of the task may have created tables that now get rows."""
        with self._lock:
            self.generation += 1
            self._others, self.other_names = frozenset(), b""


def _with(names: bytes, raw: bytes) -> bytes:
    name = _MARK + raw
    return names if name in names else names + name
