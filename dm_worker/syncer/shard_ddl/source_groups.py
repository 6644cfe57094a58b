"""Level 1 of shard DDL (per source): the shard groups of one source, as a state machine. Pure.

**The main pass** reads the binlog once, in order. Rows of a table that is ahead of its group are skipped and
counted; all others are applied. Groups do not wait for each other, and no DDL stops the main pass: while the DDL lock
decides on a DDL, the group's rows are held back and everything else continues.

**Settling.** When a group is in sync, its active DDL is reported. The DDL lock decides whether this source executes it
or another one has. Then the rows held back between this DDL and each table's next one are due.

**The re-read.** One per settled DDL, for one group at a time: from before the first table's DDL up to the location of
the main pass, which waits meanwhile. Only the group's tables are applied, each in its segments: from its DDL
to its next DDL, its end, or the end of the re-read. So each row that was held back belongs to exactly one re-read,
that of the last DDL before it in its table, and is applied when the target has the row's structure. When the last
segment is closed, the rest is not read. Later rows in the main pass, of tables that are no longer ahead, are applied
there.

**Exactly once.** The set of rows to apply (:meth:`SourceGroups.takes`) changes only at statements and when a DDL is
settled. Both are barriers: all before is applied, and the state (:mod:`groups_snapshot`) is written in the same
transaction as the checkpoint or intent with the location, like that of prepared XA transactions. A batch
therefore has one set of rows, and a batch that is applied again after a crash has the same. Batches of a re-read
continue the numbers of the main pass, so markers show which are applied; their locations are those of the re-read,
while the checkpoint stays at the main pass's location and the state contains the re-read's own.

**The rule for the caller:** the change by an event must be durable before the returned instructions are executed, and
:meth:`SourceGroups.resume` returns an instruction again that a crash prevented. Settling a DDL
has its own intent and record (:mod:`barrier`); the record that it is done and the state after
:meth:`SourceGroups.settled` are one transaction. An acknowledgement is repeated until it has arrived; before
that, no later DDL of the group is reported.

**Decisions may be revoked** until they are followed. So none is stored for later: one that arrives while another is
executed is requested again after that, and :meth:`SourceGroups.revoke` reports that one was revoked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dm_worker.syncer.planning.xa import PreparedLocations
from dm_worker.syncer.shard_ddl.group import Boundary, PendingAcknowledgement, ShardGroup, TableLifetime
from dm_worker.syncer.shard_ddl.reread import RereadPass
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.errors import Code
from pkg.ha.shard_ddl import DDLTexts
from pkg.mysql.names import TableId, qualified

#: The target table of an upstream table.
TargetOf = Callable[[str, str], TableId]


@dataclass(frozen=True, slots=True)
class ReportDDL:
    """Report to the lock service that this source has reached the DDL in all its tables; from then on, ask for its
    decision.

    ``number`` counts the group's DDLs on this source.
    """

    target: TableId
    number: int
    statements: DDLTexts


@dataclass(frozen=True, slots=True)
class SettleDDL:
    """Execute the DDL once, or accept that another source has (``execute`` False); then :meth:`SourceGroups.settled`.

    ``key`` names the first statement of this DDL in the binlog: the name of the DDL across restarts. ``session`` is the
    session of that statement, ``revision`` the lock service's name of the decision, ``at`` the position before that
    statement: the DDL's name in commands.
    """

    target: TableId
    number: int
    statements: DDLTexts
    execute: bool
    key: str
    session: str
    revision: int
    at: Position

    def covers(self, position: Position) -> bool:
        """Whether ``position`` refers to this DDL."""
        return position == self.at


@dataclass(frozen=True, slots=True)
class AcknowledgeDDL:
    """Report to the lock service that its decision ``revision`` was followed: the DDL is settled here. A repeated
    report does no harm.

    ``executed``: by this source.
    """

    target: TableId
    number: int
    statements: DDLTexts
    executed: bool
    revision: int


@dataclass(frozen=True, slots=True)
class StartReread:
    """Leave the main pass at its location and read from ``start`` up to ``end`` at most."""

    target: TableId
    start: Location
    end: Location


@dataclass(frozen=True, slots=True)
class EndReread:
    """The re-read is over: the main pass continues at its location."""


GroupInstruction = ReportDDL | SettleDDL | AcknowledgeDDL | StartReread | EndReread


class SourceGroups:
    """All groups of one source. ``route`` must stay the same while DDLs are unsettled."""

    def __init__(self, route: TargetOf) -> None:
        self._route = route
        self.groups: dict[TableId, ShardGroup] = {}
        self.reread: RereadPass | None = None
        #: The ordinal of the newest boundary, and its key.
        self.newest = 0
        self.newest_key = ""
        #: Whether keys are GTIDs; otherwise positions. None while unknown.
        self.by_gtid: bool | None = None
        #: The main pass is after a statement within a transaction: nothing can be settled before the transaction's end.
        self.inside = False
        #: The decision that is being executed; the targets of those that arrived meanwhile. The lock service repeats
        #: all of them after a restart.
        self._settling: SettleDDL | None = None
        self._put_off: dict[TableId, None] = {}

    # -- queries of the shell -----------------------------------------------------------------------------------

    def takes(self, table: TableId) -> bool:
        """Whether rows of a migrated table are to be applied in the current pass; else they are held back or not due.

        In the main pass it must have joined its group.
        """
        if self.reread is not None:
            return table in self.reread.open
        return not self.group_of(table).members[table].steps

    def structure(self, table: TableId) -> str | None:
        """In a re-read, the structure of the rows to apply; None for a table without such rows."""
        return None if self.reread is None else self.reread.open.get(table)

    def knows(self, table: TableId) -> bool:
        """Whether the table has joined its group; else :meth:`join` must come before other calls for it."""
        return table in self.group_of(table).members

    @property
    def oldest_needed(self) -> Location | None:
        """What the upstream (or relay) must keep besides what the main pass needs; None for nothing."""
        active = [group.ddls[0] for group in self.groups.values() if group.ddls]
        return min(active, key=lambda ddl: ddl.boundary.ordinal).start if active else None

    def is_settled(self, target: TableId, number: int) -> bool:
        """Whether the group of ``target`` has settled its DDL ``number``; rows after it may still be held back."""
        group = self.groups.get(target)
        if group is None or group.number != number or not group.ddls:
            return True
        return self._is_reread(group)

    def ensure_routes(self) -> None:
        """Raises 36058 when the routes differ from those under which still unsettled DDLs were read."""
        for group in self.groups.values():
            lifetimes = [*group.gone, *group.members.values()] if group.ddls else []
            for lifetime in lifetimes:
                now = self._route(*lifetime.table)
                if now != group.target:
                    raise errors.new(
                        Code.SyncerUnitUpdateConfigInSharding,
                        f"{qualified(*lifetime.table)} is now routed to {qualified(*now)}, but the DDL "
                        f"{'; '.join(group.ddls[0].statements)[:500]} of {group.name} is not resolved",
                        workaround="Restore the routes, wait until query-status shows no unresolvedGroups, then "
                        "change them.",
                    )

    def resume(self) -> list[GroupInstruction]:
        """The instructions after a restart, once the unfinished batch is applied again.

        It replaces all instructions that were returned before.
        """
        out: list[GroupInstruction] = []
        for group in self.groups.values():
            out += self._acknowledge(group) if group.pending_acknowledgement else self._report(group)
        if self.reread is not None:
            out.append(StartReread(self.reread.target, self.reread.at, self.reread.end))
        return out

    # -- the main pass ------------------------------------------------------------------------------------------

    def join(self, table: TableId) -> None:
        """A table that the upstream has when replication begins, or whose rows are read without its creation.

        Raises 36005 within a sequence. The caller must store the groups, not only the progress.
        """
        self._member(self.group_of(table), table)

    def ddl(
        self,
        table: TableId,
        statements: DDLTexts,
        *,
        key: str,
        start: Location,
        structure: str,
        session: str = "",
    ) -> list[GroupInstruction]:
        """A table has run a DDL. ``start`` is before the statement, ``structure`` (any text) the table's structure
        now, ``session`` (any text) the statement's session. ``key`` is the statement's name: its GTID where these are
        used, else its position. Raises 36008 when other tables of the group ran another DDL instead, 36005 for an
        unknown table; then nothing changes.
        """
        group = self.group_of(table)
        self._member(group, table)
        group.advance(table, statements, self._boundary(key), start, structure, session)
        # Only the first step of a table can bring its group in sync.
        return self._report(group) if len(group.members[table].steps) == 1 else []

    def restructure(self, table: TableId, *, key: str, structure: str) -> None:
        """A statement changed a table and is not for the target, because of a filter or an operator's order."""
        group = self.group_of(table)
        if table in group.members and group.members[table].steps:
            group.restructure(table, self._boundary(key), structure)

    def create(self, table: TableId, *, key: str, structure: str) -> list[GroupInstruction]:
        """CREATE TABLE. The shell also creates the target's table, where it does not exist."""
        group = self.group_of(table)
        was_in_sync = group.in_sync
        group.create(table, self._boundary(key), structure)
        return [] if was_in_sync else self._report(group)

    def drop(self, table: TableId, *, key: str) -> list[GroupInstruction]:
        """DROP TABLE: not for the target. An unknown table is fine."""
        group = self.group_of(table)
        if table not in group.members:
            return []
        was_in_sync = group.in_sync
        group.drop(table, self._boundary(key))
        return [] if was_in_sync else self._report(group)

    def rename(self, table: TableId, new: TableId, *, key: str, structure: str) -> list[GroupInstruction]:
        """RENAME TABLE within a group: not for the target. Raises 36068 for any other, 36005 for an unknown table."""
        group, other = self.group_of(table), self.group_of(new)
        if group is not other:
            raise errors.new(
                Code.SyncerUnsupportedStmt,
                f"RENAME TABLE {qualified(*table)} TO {qualified(*new)} can't be replicated with merged shards: "
                f"{qualified(*new)} merges into {other.name} and not into {group.name} ({key})",
                workaround="Rename merged tables only to names that are routed to the same target table. To continue, "
                "migrate the table under its new name with a separate task.",
            )
        self._member(group, table)
        was_in_sync = group.in_sync
        group.rename(table, new, self._boundary(key), structure)
        return [] if was_in_sync else self._report(group)

    def leave(self, table: TableId, new: TableId, *, key: str, structure: str) -> list[GroupInstruction]:
        """A renaming that can't be followed and that an operator skipped: one table is gone, another exists."""
        return [*self.drop(table, key=key), *self.create(new, key=key, structure=structure)]

    def hold(self, table: TableId, rows: int) -> None:
        """``rows`` of a table that is ahead were skipped. To be called with the end of their batch."""
        self.group_of(table).hold(table, rows)

    # -- the lock service ----------------------------------------------------------------------------------------------

    def resolve(self, target: TableId, statements: DDLTexts, *, execute: bool, revision: int) -> list[GroupInstruction]:
        """The lock service has decided on a DDL that is not acknowledged. A decision before its report, or a repeated
        one, has no effect.

        ``revision`` is its unique name of this decision. One DDL is settled at a time, and none during a re-read: the
        main pass must be at the applied location. Raises 36059 when the group waits for another DDL.
        """
        group = self.groups.get(target)
        if group is None or not self._may_report(group):
            return []
        if group.ddls[0].statements != statements:
            raise errors.new(
                Code.SyncerUnitExecWithNoBlockingDDL,
                f"the decision on {'; '.join(statements)[:500]} does not match the DDL that {group.name} waits "
                f"for: {'; '.join(group.ddls[0].statements)[:500]}",
                workaround="Compare both with `dmctl shard-ddl-lock` and query-status, and remove the outdated lock: "
                "`dmctl shard-ddl-lock unlock LOCK-ID --force-remove`.",
            )
        if self._settling is not None or self.reread is not None:
            self._put_off[target] = None
            return []
        self._settling = settle = _settle(group, execute, revision)
        return [settle]

    def revoke(self, target: TableId) -> list[GroupInstruction]:
        """The lock service has revoked its decision on ``target``: a :class:`SettleDDL` that was not begun is
        void."""
        if self._settling is None or self._settling.target != target:
            return []
        self._settling = None
        return self._ask_again()

    def settled(self, target: TableId, main: Location) -> list[GroupInstruction]:
        """The DDL to settle is settled; the main pass is at ``main``, and all before it is applied."""
        done = self._settling
        assert done is not None
        assert done.target == target
        self._settling = None
        group = self.groups[target]
        ddl = group.ddls[0]
        group.pending_acknowledgement = PendingAcknowledgement(
            group.number, ddl.statements, done.execute, done.revision
        )
        out = self._acknowledge(group)
        if not ddl.held:
            group.pass_on()
            return [*out, *self._ask_again()]
        self.reread = RereadPass(target, ddl.start, main, ddl.boundary.ordinal - 1, group.segments())
        return [*out, StartReread(target, ddl.start, main)]

    def acknowledged(self, target: TableId) -> list[GroupInstruction]:
        """The lock service knows that the last settled DDL is settled here."""
        group = self.groups[target]
        group.pending_acknowledgement = None
        return self._report(group)

    # -- the re-read --------------------------------------------------------------------------------------------

    def met(self, key: str, behind: Location, prepared: PreparedLocations | None = None) -> list[GroupInstruction]:
        """The re-read has passed a statement, and all rows before it are applied; ``behind`` is the location after it.

        Raises 36064 when the binlog is not the one that the main pass has read.
        """
        reread = self._rereading()
        reread.meet(key)
        return self._finish() if reread.is_over else self.reached(behind, prepared)

    def reached(self, location: Location, prepared: PreparedLocations | None = None) -> list[GroupInstruction]:
        """The re-read has applied all that is due up to ``location``. Raises 36064 as :meth:`met`.

        ``prepared``: the XA transactions that wait there, of those that the re-read has seen; None for no change.
        """
        reread = self._rereading()
        reread.at = location
        if prepared is not None:
            reread.prepared = prepared
        if location != reread.end:
            return []
        reread.ensure_complete()
        return self._finish()

    def _finish(self) -> list[GroupInstruction]:
        group = self.groups[self._rereading().target]
        self.reread = None
        group.pass_on()
        return [EndReread(), *self._report(group), *self._ask_again()]

    # -- bookkeeping --------------------------------------------------------------------------------------------

    def group_of(self, table: TableId) -> ShardGroup:
        """The group of the table, also before the table has joined."""
        target = self._route(*table)
        if target not in self.groups:
            self.groups[target] = ShardGroup(target)
        return self.groups[target]

    @staticmethod
    def _member(group: ShardGroup, table: TableId) -> TableLifetime:
        if table not in group.members:
            group.join(table)
        return group.members[table]

    def _boundary(self, key: str) -> Boundary:
        if key != self.newest_key:
            self.newest_key = key
            self.newest += 1
        return Boundary(self.newest, key)

    def _rereading(self) -> RereadPass:
        assert self.reread is not None
        return self.reread

    def _is_reread(self, group: ShardGroup) -> bool:
        return self.reread is not None and self.reread.target == group.target

    def _report(self, group: ShardGroup) -> list[GroupInstruction]:
        if not self._may_report(group):
            return []
        return [ReportDDL(group.target, group.number, group.ddls[0].statements)]

    def _may_report(self, group: ShardGroup) -> bool:
        """Whether the active DDL may be reported. The lock service identifies DDLs by their SQL alone, so one must be
        finished before the next one, which may have the same SQL, is reported."""
        return group.in_sync and group.pending_acknowledgement is None and not self._is_reread(group)

    @staticmethod
    def _acknowledge(group: ShardGroup) -> list[GroupInstruction]:
        pending_acknowledgement = group.pending_acknowledgement
        assert pending_acknowledgement is not None
        return [
            AcknowledgeDDL(
                group.target,
                pending_acknowledgement.number,
                pending_acknowledgement.statements,
                pending_acknowledgement.executed,
                pending_acknowledgement.revision,
            )
        ]

    def _ask_again(self) -> list[GroupInstruction]:
        """Requests decisions again that arrived while another was executed: they may have been revoked since."""
        targets, self._put_off = self._put_off, {}
        return [report for target in targets for report in self._report(self.groups[target])]


def _settle(group: ShardGroup, execute: bool, revision: int) -> SettleDDL:
    ddl = group.ddls[0]
    return SettleDDL(
        group.target, group.number, ddl.statements, execute, ddl.boundary.key, ddl.session, revision,
        ddl.start.position,
    )  # fmt: skip
