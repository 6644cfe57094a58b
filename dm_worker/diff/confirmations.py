"""Differences that must last before they count, where a look does not prove them. Pure.

Where a snapshot may lack transactions that its position includes (MySQL without GTIDs), a difference of one pair may
be theirs. A row that is written all the time is in such a transaction at most looks, so that the number of looks alone
proves nothing: its values decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_worker.comparison.outcome import Difference
from dm_worker.diff.progress import ChunkWork
from dm_worker.diff.standing import StandingDifferences
from pkg.mysql.names import TableId

#: Looks at which a difference must have the same values, if none is exact: a flag that is set and reset all the time
#: has the same two values by chance at a third of them. Looks at which a row may change.
NEEDED, MOST_LOOKS = 12, 60
#: Seconds for which such a difference must last at least.
SETTLE = 3.0


class Confirmations:
    """A difference counts at once in a pair that is exact, else if it lasts: see
    :class:`dm_worker.diff.methods.Certainty`. ``clock``: a steady one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lasting = StandingDifferences(SETTLE, clock, needed=NEEDED, most=MOST_LOOKS, follows=True)

    @property
    def waits_for(self) -> str:
        return self._lasting.waits_for

    def is_due(self, work: ChunkWork) -> bool:
        return self._lasting.is_due(work)

    def forget(self, target: TableId) -> None:
        self._lasting.forget(target)

    def given_up(self, work: ChunkWork) -> str:
        return self._lasting.given_up(work)

    def seen(self, work: ChunkWork, differences: Sequence[Difference], *, exact: bool) -> list[Difference] | None:
        """The differences that count; None while the chunk must be compared again. An exact look decides alone."""
        if exact:
            self._lasting.decided(work)
            return list(differences)
        return self._lasting.seen(work, differences, exact=False)
