"""Differences that must be seen at several positions before they count. Pure.

Where a snapshot may lack a transaction that its position includes (MySQL without GTIDs), a difference of one pair may
be that transaction's. At another position another transaction is concerned; a fault of the target stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.diff.progress import ChunkWork
from pkg.mysql.names import TableId

_RowIdentity = tuple[DifferenceKind, tuple[bytes, ...]]


#: Pairs in which a difference must be seen, if none of them is exact.
NEEDED = 3


class Confirmations:
    """A difference must be in :data:`NEEDED` pairs, or in one that is exact: see
    :class:`dm_worker.diff.methods.Certainty`."""

    waits_for = ""

    def __init__(self) -> None:
        self._seen: dict[ChunkWork, tuple[int, frozenset[_RowIdentity] | None]] = {}

    def is_due(self, _: ChunkWork) -> bool:
        """At once: other positions are moments apart."""
        return True

    def forget(self, target: TableId) -> None:
        """No chunk of the table is compared any more."""
        for work in [one for one in self._seen if one.target == target]:
            del self._seen[work]

    def given_up(self, _: ChunkWork) -> str:
        """No chunk is."""
        return ""

    def seen(self, work: ChunkWork, differences: Sequence[Difference], *, exact: bool) -> list[Difference] | None:
        """The differences that count, of a chunk that was compared again; None while it must be compared again.

        Of a row that is different each time the last look counts."""
        times, before = self._seen.pop(work, (0, None))
        if exact:
            return list(differences)
        now = frozenset(_row_identity(one) for one in differences)
        both = now if before is None else now & before
        if both and times + 1 < NEEDED:
            self._seen[work] = (times + 1, both)
            return None
        return [one for one in differences if _row_identity(one) in both]


def _row_identity(one: Difference) -> _RowIdentity:
    """A row with a key stays the same row when its values change."""
    return one.kind, one.key or one.upstream or one.target or ()
