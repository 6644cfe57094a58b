"""One shard group: the upstream tables of a source that merge into one target table, and their DDL. Pure.

All of them run the same DDL in the same order, each at its own time. A DDL's number is its position in the group's
sequence. A table that has run DDLs that the target has not yet is *ahead*: its rows are held back. When all have run
the oldest of these DDLs, the group is *in sync*, and that DDL can be settled; then the rows that were held back
between it and the next one are due (:mod:`source_groups` has them read again).

Memory: one :class:`PassedDDL` per table and DDL that it is ahead, one :class:`GroupDDL` per DDL; nothing per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code, DMError
from pkg.ha.shard_ddl import DDLTexts
from pkg.mysql.names import TableId, qualified


@dataclass(frozen=True, slots=True)
class Boundary:
    """A statement in the binlog where a table's structure, name or existence changes.

    ``ordinal`` is its position in the order of reading, equal for all changes of one statement. ``key`` is its name,
    the same at any time and from any server.
    """

    ordinal: int
    key: str


@dataclass(frozen=True, slots=True)
class PassedDDL:
    """A table is past a DDL from ``boundary`` on; ``structure`` is its structure after it.

    ``changes``: later structures, from statements that the target does not get.
    """

    boundary: Boundary
    structure: str
    changes: tuple[tuple[Boundary, str], ...] = ()

    @property
    def newest(self) -> str:
        """The last structure up to the next step."""
        return self.changes[-1][1] if self.changes else self.structure

    def segments(self, table: TableId, end: Boundary | None) -> Iterator[Segment]:
        """The segments between this step and ``end``, the table's next one: one per structure."""
        starts = ((self.boundary, self.structure), *self.changes)
        ends = (*(boundary for boundary, _ in self.changes), end)
        for (start, structure), stop in zip(starts, ends, strict=True):
            if stop is None or start.ordinal < stop.ordinal:
                yield Segment(table, start, stop, structure)


@dataclass(slots=True)
class TableLifetime:
    """A table from its creation, or from a renaming to this name, up to ``end``; None while it exists.

    ``steps`` are the unsettled DDLs that it is past, in their order. Steps at one boundary have nothing between them: a
    table that is created or renamed within a sequence is past all of them at once.
    """

    table: TableId
    steps: list[PassedDDL] = field(default_factory=list)
    end: Boundary | None = None


@dataclass(slots=True)
class GroupDDL:
    """An unsettled DDL: the first table to run it and its location, and the rows held back after it.

    ``start`` is before the statement, ``session`` (any text) is the session that ran it. ``held`` counts the rows of
    all tables that were read past this DDL and not past the next one.
    """

    statements: DDLTexts
    first: TableId
    boundary: Boundary
    start: Location
    session: str = ""
    held: int = 0


@dataclass(frozen=True, slots=True)
class PendingAcknowledgement:
    """A DDL that is settled at the target, but not yet acknowledged to the lock service.

    ``revision`` is the lock service's name of the decision that was followed.
    """

    number: int
    statements: DDLTexts
    executed: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of the binlog in which a table's rows are past the active DDL and not past the next one.

    ``end`` is None when it extends to the main pass's location.
    """

    table: TableId
    start: Boundary
    end: Boundary | None
    structure: str

    def has(self, ordinal: int) -> bool:
        """Whether it is open once all up to the boundary ``ordinal`` are passed, and no later one."""
        return self.start.ordinal <= ordinal and (self.end is None or ordinal < self.end.ordinal)


class ShardGroup:
    """The tables that are routed to ``target``."""

    def __init__(self, target: TableId) -> None:
        self.target = target
        #: The number of the active DDL: how many DDLs of the sequence are settled with their rows applied.
        self.number = 0
        self.ddls: list[GroupDDL] = []
        self.members: dict[TableId, TableLifetime] = {}
        #: Lifetimes that have ended and still hold back rows.
        self.gone: list[TableLifetime] = []
        self.pending_acknowledgement: PendingAcknowledgement | None = None

    @property
    def name(self) -> str:
        return qualified(*self.target)

    @property
    def in_sync(self) -> bool:
        """Whether all existing tables are past the active DDL."""
        return bool(self.ddls) and all(lifetime.steps for lifetime in self.members.values())

    @property
    def held(self) -> int:
        """Rows held back that are not applied yet."""
        return sum(ddl.held for ddl in self.ddls)

    # -- what the main pass reads -------------------------------------------------------------------------------

    def join(self, table: TableId) -> None:
        """An existing table takes part from the group's start on. Raises 36005 within a sequence."""
        if self.ddls:
            raise errors.new(
                Code.SyncUnitAddTableInSharding,
                f"{qualified(*table)} is not known as one of the tables that merge into {self.name}, so whether it "
                f"has run their DDL {'; '.join(self.ddls[0].statements)[:500]} is not known either",
                workaround="Exclude the table with block-allow-list until the DDL is resolved (query-status shows it "
                "under unresolvedGroups), then migrate the table with a separate task.",
            )
        self.members[table] = TableLifetime(table)

    def advance(
        self,
        table: TableId,
        statements: DDLTexts,
        boundary: Boundary,
        start: Location,
        structure: str,
        session: str,
    ) -> None:
        """A member has run the next DDL of its sequence. Raises 36008 when another one ran a different DDL there."""
        lifetime = self.members[table]
        index = len(lifetime.steps)
        if index == len(self.ddls):
            self.ddls.append(GroupDDL(statements, table, boundary, start, session))
        elif self.ddls[index].statements != statements:
            raise self._differ(lifetime, statements, boundary)
        lifetime.steps.append(PassedDDL(boundary, structure))

    def restructure(self, table: TableId, boundary: Boundary, structure: str) -> None:
        """The structure of a member that is ahead changes here, by a statement that the target does not get."""
        steps = self.members[table].steps
        steps[-1] = replace(steps[-1], changes=(*steps[-1].changes, (boundary, structure)))

    def create(self, table: TableId, boundary: Boundary, structure: str) -> None:
        """A new table. It has the newest structure in the group: it is past all DDLs that any member has run."""
        if table in self.members:
            # It was listed before its creation was read, or is replaced.
            self.drop(table, boundary)
        self.members[table] = TableLifetime(table, [PassedDDL(boundary, structure) for _ in self.ddls])

    def may_be_new(self, table: TableId, structure: str, shape: Callable[[str], object]) -> bool:
        """Whether CREATE TABLE IF NOT EXISTS created the table, of which no rows were read; else it exists already.

        A table that has run a DDL existed. A listed one may be older than the statement or not; it is new only with
        the newest structure (``shape`` returns the relevant parts): to wait in vain for a table is visible, but the DDL
        must not come before the rows of a table that is not waited for.
        """
        lifetime = self.members.get(table)
        if lifetime is None or not self.ddls:
            return True
        others = (*self.gone, *self.members.values())
        newest = [one.steps[-1].newest for one in others if len(one.steps) == len(self.ddls)]
        return not lifetime.steps and shape(structure) in map(shape, newest)

    def drop(self, table: TableId, boundary: Boundary) -> None:
        """A table was dropped: the group does not wait for it. Its held rows are still applied."""
        lifetime = self.members.pop(table)
        lifetime.end = boundary
        if lifetime.steps:
            self.gone.append(lifetime)

    def rename(self, table: TableId, new: TableId, boundary: Boundary, structure: str) -> None:
        """A table continues under another name, which is free: the upstream ensures that."""
        ahead = len(self.members[table].steps)
        self.drop(table, boundary)
        if new in self.members:
            # It was listed before its creation was read.
            self.drop(new, boundary)
        self.members[new] = TableLifetime(new, [PassedDDL(boundary, structure)] * ahead)

    def hold(self, table: TableId, rows: int) -> None:
        """Counts rows of a member that is ahead: they were read, but not applied."""
        ahead = len(self.members[table].steps)
        assert ahead, "rows of a table that is not ahead are applied"
        self.ddls[ahead - 1].held += rows

    # -- the active DDL -----------------------------------------------------------------------------------------

    def segments(self) -> Iterator[Segment]:
        """The segments whose rows are due with the active DDL."""
        for lifetime in (*self.gone, *self.members.values()):
            if lifetime.steps:
                end = lifetime.steps[1].boundary if len(lifetime.steps) > 1 else lifetime.end
                yield from lifetime.steps[0].segments(lifetime.table, end)

    def pass_on(self) -> None:
        """The active DDL is settled and the rows after it are applied: the next one becomes active."""
        self.number += 1
        del self.ddls[0]
        for lifetime in (*self.gone, *self.members.values()):
            del lifetime.steps[:1]
        self.gone = [lifetime for lifetime in self.gone if lifetime.steps]

    # -- errors -------------------------------------------------------------------------------------------------

    def _differ(self, lifetime: TableLifetime, statements: DDLTexts, boundary: Boundary) -> DMError:
        index = len(lifetime.steps)
        known = self.ddls[index]
        other = qualified(*known.first)
        mine = qualified(*lifetime.table)
        ours = [*(ddl.statements for ddl in self.ddls[:index]), statements]
        theirs = [ddl.statements for ddl in self.ddls]
        return errors.new(
            Code.SyncUnitDDLWrongSequence,
            f"detect inconsistent DDL sequence: the tables that merge into {self.name} run different DDLs: number "
            f"{self.number + index + 1} of their sequence is {'; '.join(known.statements)} in {other} "
            f"({known.boundary.key}), and {'; '.join(statements)} in {mine} ({boundary.key}). Their unresolved DDLs "
            "side by side:\n" + side_by_side((other, theirs), (mine, ours), self.number),
            workaround=f"All of them must run the same DDLs in the same order. If {mine} is to run what {other} ran: "
            "put that statement in place of its own with `binlog replace`, or before its own with `binlog "
            "inject` if it ran the statement without logging it, or skip its own with `binlog skip`; and "
            f"make sure that {mine} has the same columns as the others.",
        )


def side_by_side(one: tuple[str, Sequence[DDLTexts]], other: tuple[str, Sequence[DDLTexts]], number: int) -> str:
    """Two sequences in two columns, a line each; lines that differ begin with '*'. ``number`` DDLs came before."""
    left, right = ["; ".join(ddl) for ddl in one[1]], ["; ".join(ddl) for ddl in other[1]]
    width = max(map(len, (one[0], *left)))
    lines = [f"     # | {one[0]:<{width}} | {other[0]}"]
    for i in range(max(len(left), len(right))):
        a, b = (column[i] if i < len(column) else "" for column in (left, right))
        # A DDL that only one of them has run yet is no difference.
        mark = "*" if a and b and a != b else " "
        lines.append(f"{mark}{number + i + 1:>5} | {a:<{width}} | {b}")
    return "\n".join(line.rstrip() for line in lines)
