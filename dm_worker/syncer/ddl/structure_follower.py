"""Last step of a statement: the known structures of the upstream's tables follow it, and shard groups get reports."""

from __future__ import annotations

from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.ddl.ordered_statements import OrderedParts
from dm_worker.syncer.ddl.parts import Part
from dm_worker.syncer.ddl.routed_steps import Unaltered
from dm_worker.syncer.ddl.statement_decisions import ShardReports
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.online_ddl.ghost_records import GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.rows.schema_source import SchemaSource
from pkg.binlog.events import QueryEvent
from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("syncer.ddl")


class StructureFollower:
    """The known structures, online changes and temporary tables of one run."""

    def __init__(
        self,
        source: SchemaSource,
        online: OnlineDDL,
        temporary: TemporaryTables,
        store: MetaStore,
        is_unaltered: Unaltered,
    ) -> None:
        """``is_unaltered``: as in :class:`StepRouter`."""
        self._is_unaltered = is_unaltered
        self._source = source
        self._online = online
        self._temporary = temporary
        self._store = store

    def follow(
        self, statement: BinlogStatement, query: QueryEvent, ordered: OrderedParts, reports: ShardReports
    ) -> None:
        """Follows all parts of a statement whose due parts are executed. Raises DMError."""
        for part in ordered.followed:
            void = self._source.is_void(part.parsed, lambda table: self._is_unaltered(table, statement.after))
            made = self._source.has_made(part.parsed)
            if void and not made:
                log.info("a table that was there has other columns than a statement", statement=part.parsed.sql[:200])
            elif not (statement.inside and made):
                self._follow(part, GhostSession.of(query), lenient=ordered.lenient)
            if not void:
                reports.followed(part)
        reports.ended()
        self._store.remember(self._online.take_changes(), self._temporary.take_changes())

    def _follow(self, part: Part, session: GhostSession, *, lenient: bool) -> None:
        self._online.record(part.parsed, session)
        try:
            self._source.apply(part.parsed)
        except DMError as exc:
            if not lenient or exc.retryable:
                raise
            log.warning("a skipped statement does not change the known structures", error=exc.message)
