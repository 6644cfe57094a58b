"""A statement in the stream: filtered, routed, executed once at the target, and followed by the schema tracker.

Everything before it is applied and checkpointed when it gets here. A DDL of merged shards is executed only after the
DDL lock has decided (:mod:`statement_decisions`, :meth:`DDLBarrier.settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dm_worker.syncer.checkpoint.ddl_table import SETTLING, DDLRecord
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep, StatementContext, contexts_of
from dm_worker.syncer.ddl.operator_orders import STRIDE, readable, settling_number
from dm_worker.syncer.ddl.ordered_statements import OrderedParts, OrderedStatements, typed
from dm_worker.syncer.ddl.parts import Part, StatementParts
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.ddl.statement_decisions import StatementDecisions
from dm_worker.syncer.ddl.statement_effect import StatementEffect, effect_of
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.ddl.variables import in_plain_words
from dm_worker.syncer.online_ddl.ghost_records import GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.rows.name_spellings import namesake, refused_statement
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg import ddl
from pkg.binlog.events import QueryEvent, parse_query
from pkg.binlog.position import Location, Position, location_range
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.errors.workarounds import (
    CONTINUE_AFTER_EVENT,
    CORRECT_STRUCTURE,
    SKIP_OR_REPLACE,
    correct_structure,
    skip_or_replace,
    skip_or_replace_resolved,
)  # fmt: skip
from pkg.ha.binlog_operator import BinlogOperator, OperatorSource, position_name
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger

log = get_logger("syncer.ddl")

_SYSTEM = "SYSTEM"


class DDLBarrier:
    """Handles the statements of one run.

    ``system_zone``: tells the offset of the upstream's time zone SYSTEM at a time (unix seconds). ``upstream_tables``:
    asks the upstream for its tables, by schema. ``decisions``: what the target gets at once, by the shard mode.
    """

    def __init__(
        self,
        cfg: SubTaskConfig,
        *,
        rules: TaskRules,
        source: SchemaSource,
        online: OnlineDDL,
        store: MetaStore,
        executor: DDLExecutor,
        router: StepRouter,
        decisions: StatementDecisions,
        system_zone: Callable[[int], str],
        upstream_tables: Callable[[], Mapping[str, Sequence[str]]] = dict,
        orders: OperatorSource = tuple,
        temporary: TemporaryTables | None = None,
    ) -> None:
        self._cfg = cfg
        self._rules = rules
        self._source = source
        self._online = online
        self._temporary = temporary or TemporaryTables(cfg.flavor)
        self._parts = StatementParts(rules, source, online, self._temporary, cfg.flavor)
        self._statements = OrderedStatements(self._parts, store, orders)
        self._store = store
        self._executor = executor
        self._router = router
        self._decisions = decisions
        self._system_zone = system_zone
        self._upstream_tables = upstream_tables
        self._orders = orders

    def execute(self, statement: BinlogStatement, intent: BatchProgress) -> StatementEffect:
        """Executes the statement unless it was; what that may have changed.

        ``intent`` is the progress to write with each record. Raises DMError naming the range in the binlog.
        """
        query = in_plain_words(parse_query(statement.event, statement.position.name), self._executor.upstream)
        try:
            if query.time_zone == _SYSTEM:
                # The zone of the host, which is another one at the target: all that keeps the session has the offset.
                query = replace(query, time_zone=self._system_zone(statement.event.timestamp))
            ordered = self._statements.ordered(
                statement, query, intent, settle=lambda: self._wind_up(statement, query, intent)
            )
            ordered = self._decisions.adapted(ordered)
            steps = [(ordered_part, self._router.of_part(ordered_part.part)) for ordered_part in ordered.target]
            for _, step in steps:
                self._ensure_own_names(step.parsed)
            for ordered_part, step in steps:
                if self._decisions.is_due(step.parsed):
                    context = StatementContext(ordered_part.session, statement.event.timestamp)
                    record = self._executor.once(statement.position, ordered_part.part.number, step, context, intent)
                    self._store.write(intent, ddl=record)
            reports = self._decisions.reports(statement, ordered)
            for part in ordered.followed:
                void = self._source.is_void(part.parsed)
                if not (statement.inside and self._source.has_made(part.parsed)):
                    self._follow(part, ordered, GhostSession.of(query))
                if not void:
                    reports.followed(part)
            reports.ended()
            self._store.remember(self._online.take_changes(), self._temporary.take_changes())
        except DMError as exc:
            raise self._explained(exc, statement) from exc
        return effect_of((step for _, step in steps), of_the_task=bool(ordered.target or ordered.followed))

    def settle(self, settle: SettleDDL, intent: BatchProgress) -> DDLRecord | None:
        """Executes what the groups' tables have all run, unless it was. Returns the record of its last statement, or
        None for one that an operator leaves out.

        ``intent`` is the progress to write with each record. Raises DMError.
        """
        order = next((readable(one) for one in self._orders() if settle.covers(one.at)), None)
        if order is not None and order.kind == "skip":
            log.info("an operator skips a DDL of merged shards", statements="; ".join(settle.statements))
            return None
        # The decision is what is obeyed once: another one on the same statements is another order.
        place = Position(settle.key, settle.revision)
        record: DDLRecord | None = None
        try:
            for index, step, context in self._settling(settle, order):
                if record is not None:
                    self._store.write(intent, ddl=record)
                record = self._executor.once(place, index, step, context, intent)
        except DMError as exc:
            raise self._unsettled(exc, settle) from exc
        return record

    def _settling(
        self, settle: SettleDDL, order: BinlogOperator | None
    ) -> Iterator[tuple[int, DDLStep, StatementContext]]:
        """The statements of a DDL that all shards have run, or those that an operator gives in place of it."""
        contexts = contexts_of(settle.session)
        if order is not None and order.kind == "replace":
            steps = [self._router.of_parsed(part.parsed) for part in self._parts.given(order.statements, 0)]
            texts = {ddl.uniform(step.text, step.parsed.dialect) for step in steps}
            # What an order gave at the shard's own statement is what the shards ran, and settled as such.
            if not texts.issuperset(settle.statements):
                log.info("an operator replaces a DDL of merged shards", statements="; ".join(order.statements))
                context = replace(contexts[0], query=typed(contexts[0].query))
                yield from ((settling_number(order.statements) - i, step, context) for i, step in enumerate(steps))
                return
        for i, (text, context) in enumerate(zip(settle.statements, contexts, strict=True)):
            yield SETTLING - i, self._router.settling(text, context), context

    def _unsettled(self, exc: DMError, settle: SettleDDL) -> DMError:
        """The error with its place, and with the way past a DDL that all shards have run."""
        # The statement of the shard that ran it first; its key is where that ends, or its GTID.
        end = f"position: {settle.key}, gtid-set: " if settle.key.startswith("(") else f"gtid-set: {settle.key}"
        where = f"startLocation: {Location(settle.at)}, endLocation: [{end}]"
        exc = exc.at(f"{where}, as the first shard of {qualified(*settle.target)} ran it")
        if exc.retryable:
            return exc
        own = exc.workaround.replace(SKIP_OR_REPLACE, "").strip()
        command = skip_or_replace_resolved(self._cfg.name, self._cfg.source_id, position_name(settle.at))
        return exc.with_workaround(f"{own} {command}".strip())

    def _follow(self, part: Part, ordered: OrderedParts, session: GhostSession) -> None:
        self._online.follow(part.parsed, session)
        try:
            self._source.apply(part.parsed)
        except DMError as exc:
            if not ordered.lenient or exc.retryable:
                raise
            log.warning("a skipped statement does not change the known structures", error=exc.message)

    def _explained(self, exc: DMError, statement: BinlogStatement) -> DMError:
        """The error with its place, and with the commands that get past it."""
        # As in DM: where the event itself begins, and not its transaction.
        begin = replace(statement.start, position=statement.at)
        found = exc.at(location_range(begin, statement.after))
        if exc.retryable:
            return found
        command = skip_or_replace(self._cfg.name, self._cfg.source_id, position_name(statement.at))
        own = exc.workaround.replace(SKIP_OR_REPLACE, "").replace(CONTINUE_AFTER_EVENT, "").strip()
        own = own.replace(CORRECT_STRUCTURE, correct_structure(self._cfg.name, self._cfg.source_id))
        return found.with_workaround(f"{own} {command}".strip())

    def _wind_up(self, statement: BinlogStatement, query: QueryEvent, intent: BatchProgress) -> None:
        """Another order decides from now on: what was begun is recorded as run, or withdrawn."""
        for record in self._store.read_ddls(statement.position):
            if not record.done and record.fingerprint:
                context = StatementContext(typed(query) if record.index >= STRIDE else query, statement.event.timestamp)
                step = self._router.settling(record.statement, context)
                self._store.write(intent, ddl=self._executor.withdrawn(record, step, context))

    def _ensure_own_names(self, part: ddl.DDLStatement) -> None:
        """Raises 36004 for a table that is also another one at the target, because that ignores case in names.

        The other one may be known only to the upstream, whose tables may be newer than the statement. Then it counts if
        the target has it: a new table's name would be free otherwise.
        """
        if not self._executor.folds_names:
            return
        for upstream in (name for name in part.tables if name[1]):
            target = self._router.route(*upstream)
            known = [(info.schema, info.name) for info in self._source.tracker.tables()]
            found = self._namesake(target, part, known)
            if found is None and part.kind == "create table" and self._executor.has_table(target):
                listed = self._upstream_tables().items()
                found = self._namesake(target, part, [(schema, table) for schema, names in listed for table in names])
            if found is not None:
                raise refused_statement(part.sql, upstream, target, *found)

    def _namesake(
        self, target: TableId, part: ddl.DDLStatement, tables: Iterable[TableId]
    ) -> tuple[TableId, TableId] | None:
        others = (name for name in tables if name not in part.tables and self._rules.takes_rows(*name))
        return namesake(target, others, self._router.route)
