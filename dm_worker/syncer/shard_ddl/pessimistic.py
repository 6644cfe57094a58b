"""Pessimistic mode in one run: keeps the shard groups' state with the checkpoint, and executes their instructions.

The planning thread asks whose rows to apply, the main loop reports its progress. The consequences of a change
are executed only when the change is durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.shard_ddl.coordination import ShardCoordination, TakesRows
from dm_worker.syncer.shard_ddl.group_status import ShardingStatus, status_of
from dm_worker.syncer.shard_ddl.groups_snapshot import encode_group, encode_progress
from dm_worker.syncer.shard_ddl.groups_table import GroupsChanges
from dm_worker.syncer.shard_ddl.lock_client import LockClient
from dm_worker.syncer.shard_ddl.lock_protocol import Decided, ExecutionError, Revoked
from dm_worker.syncer.shard_ddl.reread import RereadPass
from dm_worker.syncer.shard_ddl.source_groups import (
    AcknowledgeDDL,
    EndReread,
    GroupInstruction,
    ReportDDL,
    SettleDDL,
    SourceGroups,
    StartReread,
)
from dm_worker.syncer.shard_ddl.statement_effects import changes_group, renames_table
from pkg import ddl
from pkg.binlog.position import Location
from pkg.binlog.rows.table_check import check_table_map, fits
from pkg.binlog.table_map import TableMap
from pkg.errors import DMError
from pkg.errors.workarounds import way_on
from pkg.ha.shard_ddl import DDLTexts, ShardTables
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger

log = get_logger("syncer.shard")

#: The log's names of the instructions; users filter by them.
_LOGGED: Mapping[type[GroupInstruction], str] = {
    ReportDDL: "Report",
    SettleDDL: "Settle",
    AcknowledgeDDL: "Acknowledge",
    StartReread: "Reread",
}


class Pessimistic(ShardCoordination):
    """``groups`` as at the run's start; those of the targets ``changed`` are not stored in that form yet."""

    keeps_state = True
    needs_new_pass = False

    def __init__(
        self,
        groups: SourceGroups,
        link: LockClient,
        source: SchemaSource,
        *,
        takes_rows: TakesRows,
        task: str,
        source_id: str,
        changed: Iterable[TableId],
    ) -> None:
        self._groups = groups
        self._lock_client = link
        self._source = source
        self._takes_rows = takes_rows
        self._task = task
        self._source_id = source_id
        self._lock = threading.RLock()
        #: Groups that differ from the stored ones; the stored progress and location of the first unsettled DDL.
        self._dirty: set[TableId] = set(changed)
        self._stored_progress = ""
        self._stored_oldest = groups.oldest_needed
        #: Whether the existing tables must be reported to the lock service.
        self._joined = True
        self._begun = False
        #: Consequences of changes that are not durable yet.
        self._coming: list[GroupInstruction] = []
        #: The next DDL for the main loop to settle.
        self.settle: SettleDDL | None = None

    def start(self, wake: Callable[[], None]) -> None:
        self._lock_client.start(wake)

    def stop(self) -> None:
        self._lock_client.stop()

    # -- queries of the planning thread -------------------------------------------------------------------------

    def allows(self, schema: str, table: str) -> bool:
        if not self._takes_rows(schema, table):
            return False
        with self._lock:
            return self._groups.reread is None or self._groups.takes((schema, table))

    def holds_back(self, schema: str, table: str) -> bool:
        with self._lock:
            if self._groups.reread is not None:
                return False
            if not self._groups.knows((schema, table)):
                self._groups.join((schema, table))
                self._touch((schema, table))
                self._joined = True
            return not self._groups.takes((schema, table))

    def structure(self, table_map: TableMap) -> TableInfo:
        """As :meth:`SchemaSource.structure`; in a re-read, the structure that the rows had at their location.

        After a skipped statement that could not be followed, it is the structure that an operator has set since.
        """
        name = (table_map.schema, table_map.table)
        with self._lock:
            text = self._groups.structure(name)
        if text is None:
            return self._source.structure(table_map)
        if not text:
            return self._source.guess(table_map)
        info = TableInfo.from_json(text).renamed(*name)
        known = self._source.tracker.table(*name)
        if known is not None and not fits(table_map, info.columns):
            info = known
        check_table_map(table_map, info.columns)
        return info

    # -- reports of the main loop -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Repeats the groups' earlier instructions."""
        with self._lock:
            self._begun = True
            self._publish()
            # The current pass is the right one already.
            self._carry_out(one for one in self._groups.resume() if not isinstance(one, StartReread))

    def knows(self, table: TableId) -> bool:
        """Whether a migrated table is in its group, as known from statements and rows."""
        with self._lock:
            return self._groups.knows(table)

    def has_met(self, statement: BinlogStatement) -> bool:
        """Whether the groups know a statement whose transaction begins again."""
        with self._lock:
            return statement.inside and statement.name == self._groups.newest_key

    def met(
        self,
        statement: BinlogStatement,
        part: ddl.DDLStatement,
        executed: DDLTexts,
        session: str,
        *,
        passed_over: bool = False,
    ) -> None:
        """Reports a part of a statement that the schema tracker has followed; ``executed`` is the target's SQL for it.

        ``passed_over``: an operator skipped it, so if it can't be followed, that must not stop the task.
        """
        with self._lock:
            self._coming += self._pass_on(statement, part, executed, session, passed_over=passed_over)

    def restructured(self, statement: BinlogStatement, table: TableId) -> None:
        """A statement that the target does not get has changed the structure; the tracker has followed it."""
        with self._lock:
            self._touch(table)
            self._groups.restructure(table, key=statement.name, structure=self._structure_of(table))

    def executed(self, statement: BinlogStatement) -> None:
        with self._lock:
            self._groups.inside = statement.inside

    def passed(self, item: Batch | Advance) -> None:
        with self._lock:
            groups = self._groups
            groups.inside = False
            end = item.end if isinstance(item, Batch) else item.location
            if groups.reread is not None:
                self._follow(groups.reread.target, groups.reached(end, item.prepared))
            for table, rows in item.held.items():
                groups.hold(table, rows)

    def met_again(self, statement: BinlogStatement) -> None:
        with self._lock:
            reread = self._groups.reread
            assert reread is not None
            self._follow(reread.target, self._groups.met(statement.name, statement.end))

    def due(self, applied: Location) -> SettleDDL | None:
        # The main pass must be between transactions.
        between = self.reread is None and not self._groups.inside and not applied.rows_events
        return self.settle if between else None

    def settling(self, settle: SettleDDL, error: DMError | None = None) -> None:
        text = "" if error is None else str(error.with_workaround(way_on(error, self._task, self._source_id)))
        self._lock_client.tell_error(ExecutionError(settle.target, settle.revision, text))

    def settled(self, main: Location) -> None:
        assert self.settle is not None
        with self._lock:
            target, self.settle = self.settle.target, None
            self._follow(target, self._groups.settled(target, main))
            # Rows that were planned as held back may be due now.
            self.needs_new_pass = True

    def pass_ended(self) -> None:
        self.needs_new_pass = False

    def follow_decisions(self) -> bool:
        if not self._begun:
            self._begin()
        changed = False
        for news in self._lock_client.take_news():
            with self._lock:
                if isinstance(news, Decided):
                    execute, revision = news.execute, news.revision
                    found = self._groups.resolve(news.target, news.statements, execute=execute, revision=revision)
                    self._carry_out(found)
                elif isinstance(news, Revoked):
                    self._revoke(news.target)
                else:
                    self._coming += self._groups.acknowledged(news.target)
                    self._dirty.add(news.target)
                    changed = True
        return changed

    # -- durable state ------------------------------------------------------------------------------------------

    def take_changes(self) -> GroupsChanges:
        with self._lock:
            dirty, self._dirty = self._dirty, set()
            found = {target: self._groups.groups[target] for target in dirty}
            groups = {target: (group.number, encode_group(group)) for target, group in found.items()}
            progress = encode_progress(self._groups)
            return GroupsChanges(groups, progress if progress != self._stored_progress else "")

    def put_back(self, changes: GroupsChanges) -> None:
        with self._lock:
            self._dirty |= changes.groups.keys()

    def stored(self, changes: GroupsChanges) -> None:
        with self._lock:
            self._stored_progress = changes.progress or self._stored_progress
            self._stored_oldest = self._groups.oldest_needed
            self._publish()
            coming, self._coming = self._coming, []
            self._carry_out(coming)

    @property
    def has_news(self) -> bool:
        return bool(self._coming)

    @property
    def reread(self) -> RereadPass | None:
        return self._groups.reread

    @property
    def checkpoint(self) -> Location | None:
        reread = self._groups.reread
        return None if reread is None else reread.end

    @property
    def oldest_needed(self) -> Location | None:
        with self._lock:
            return self._stored_oldest or self._groups.oldest_needed

    def is_settled(self, settle: SettleDDL) -> bool:
        with self._lock:
            return self._groups.is_settled(settle.target, settle.number)

    def status(self) -> ShardingStatus:
        with self._lock:
            return status_of(self._groups)

    # -- details ------------------------------------------------------------------------------------------------

    def _pass_on(
        self,
        statement: BinlogStatement,
        part: ddl.DDLStatement,
        executed: DDLTexts,
        session: str,
        *,
        passed_over: bool,
    ) -> list[GroupInstruction]:
        groups, key = self._groups, statement.name
        if part.kind == "drop database":
            schema = part.tables[0][0]
            return self._drop(
                [table for one in groups.groups.values() for table in one.members if table[0] == schema], key
            )
        if not part.tables[0][1]:
            return []
        table = part.tables[0]
        if part.kind == "drop table":
            return self._drop([table], key)
        self._touch(table)
        if part.kind == "create table":
            structure = self._structure_of(table)
            if part.if_not_exists and not groups.group_of(table).may_be_new(table, structure, _columns):
                return []
            self._joined = True
            return groups.create(table, key=key, structure=structure)
        if part.renamed is not None and (passed_over or renames_table(part)):
            return self._rename(*part.renamed, key, passed_over=passed_over)
        if not changes_group(part):
            return []
        structure = self._structure_of(table)
        if not executed:
            groups.restructure(table, key=key, structure=structure)
            return []
        return groups.ddl(table, executed, key=key, start=statement.start, structure=structure, session=session)

    def _drop(self, tables: Iterable[TableId], key: str) -> list[GroupInstruction]:
        self._joined = True
        found: list[GroupInstruction] = []
        for table in tables:
            self._touch(table)
            found += self._groups.drop(table, key=key)
        return found

    def _rename(self, table: TableId, new: TableId, key: str, *, passed_over: bool) -> list[GroupInstruction]:
        self._joined = True
        self._touch(new)
        structure = self._structure_of(new)
        try:
            return self._groups.rename(table, new, key=key, structure=structure)
        except DMError as exc:
            if not passed_over:
                raise
            log.warning(
                "a table leaves its group", table=qualified(*table), new_name=qualified(*new), error=exc.message
            )
            return self._groups.leave(table, new, key=key, structure=structure)

    def _structure_of(self, table: TableId) -> str:
        """The table's structure in the tracker, the same text for equal tables; '' when unknown."""
        info = self._source.tracker.table(*table)
        return "" if info is None else info.renamed("", "").to_json()

    def _touch(self, table: TableId) -> None:
        self._dirty.add(self._groups.group_of(table).target)

    def _follow(self, target: TableId, instructions: list[GroupInstruction]) -> None:
        """Records a change of a group that must be durable before its ``instructions`` are executed."""
        self._coming += instructions
        if instructions:
            self._dirty.add(target)

    def _revoke(self, target: TableId) -> None:
        if self.settle is not None and self.settle.target == target:
            log.info("a decision on merged shards was withdrawn", task=self._task, target=qualified(*target))
            self.settle = None
        self._carry_out(self._groups.revoke(target))

    def _carry_out(self, instructions: Iterable[GroupInstruction]) -> None:
        for one in instructions:
            if not isinstance(one, EndReread):
                log.info("shard group step", step=_LOGGED[type(one)], task=self._task, target=qualified(*one.target))
            if isinstance(one, ReportDDL | AcknowledgeDDL):
                self._lock_client.request(one)
            elif isinstance(one, SettleDDL):
                self.settle = one
            else:
                # StartReread and EndReread.
                self.needs_new_pass = True

    def _publish(self) -> None:
        if not self._joined:
            return
        self._joined = False
        tables: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
        for (schema, name), group in self._groups.groups.items():
            shards: dict[str, list[str]] = {}
            for shard_schema, shard in group.members:
                shards.setdefault(shard_schema, []).append(shard)
            if shards:
                tables.setdefault(schema, {})[name] = {one: tuple(names) for one, names in shards.items()}
        self._lock_client.publish(ShardTables(self._task, self._source_id, tables))


def _columns(structure: str) -> list[tuple[str, str]]:
    """What a new shard must have in common with the others; servers show other parts in different ways."""
    columns = TableInfo.from_json(structure).columns if structure else ()
    return sorted((column.name.lower(), column.column_type) for column in columns)
