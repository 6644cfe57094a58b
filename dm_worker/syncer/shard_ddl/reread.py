"""One re-read of a shard group: which rows are due where, and its progress. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dm_worker.syncer.planning.xa import PreparedLocations
from dm_worker.syncer.shard_ddl.group import Boundary, Segment
from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql.names import TableId, qualified


class RereadPass:
    """The re-read of ``target``'s rows after its active DDL, up to ``end`` at most.

    ``at`` is its applied location, ``passed`` the ordinal of the last boundary before that, ``prepared`` the XA
    transactions that wait there for their XA COMMIT. ``segments`` must be those of the group, which does not change
    meanwhile.
    """

    def __init__(self, target: TableId, at: Location, end: Location, passed: int, segments: Iterable[Segment]) -> None:
        self.target = target
        self.at = at
        self.end = end
        self.passed = passed
        self.prepared: PreparedLocations = {}
        all_of_it = list(segments)
        self._starts: dict[Boundary, list[Segment]] = {}
        self._ends: dict[Boundary, list[Segment]] = {}
        for one in all_of_it:
            self._starts.setdefault(one.start, []).append(one)
            if one.end is not None:
                self._ends.setdefault(one.end, []).append(one)
        met = self._starts.keys() | self._ends.keys()
        #: The boundaries still to be read, the next one last.
        self._coming = sorted((one for one in met if one.ordinal > passed), key=lambda one: -one.ordinal)
        self._keys = {one.key for one in self._coming}
        #: The tables whose rows are due here, and their structures.
        self.open: dict[TableId, str] = {one.table: one.structure for one in all_of_it if one.has(passed)}
        self._endless = any(one.end is None for one in all_of_it)

    @property
    def is_over(self) -> bool:
        """Whether nothing is due any more, regardless of the main pass's location."""
        return not self._coming and not self._endless

    def meet(self, key: str) -> None:
        """All before a statement is applied. Raises 36064 when another one should have come before it."""
        if key not in self._keys:
            return
        self._expect(key)
        boundary = self._coming.pop()
        self._keys.remove(boundary.key)
        self.passed = boundary.ordinal
        for one in self._ends.get(boundary, ()):
            del self.open[one.table]
        for one in self._starts.get(boundary, ()):
            self.open[one.table] = one.structure

    def ensure_complete(self) -> None:
        """Raises 36064 when the end is reached and not all boundaries were read."""
        if self._coming:
            self._expect(str(self.end))

    def _expect(self, found: str) -> None:
        missing = self._coming[-1].key
        if missing != found:
            raise errors.new(
                Code.SyncerEvent,
                f"while the rows that {qualified(*self.target)} held back were read again, the statement at "
                f"{missing} did not appear; found: {found}",
                scope="upstream",
                workaround=Advice.BINLOG_REPLACED,
            )
