"""A statement in the stream: filtered, routed, executed once at the target, and followed by the schema tracker.

Everything before it is applied and checkpointed when it gets here. A DDL of merged shards goes to the shard groups
instead, and is executed after the DDL lock has decided (:meth:`DDLBarrier.settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dm_worker.syncer.checkpoint.ddl_table import SETTLING, DDLRecord
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.differences import adds_ids
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep, StatementContext, contexts_of, contexts_text
from dm_worker.syncer.ddl.operator_orders import STRIDE, readable, refused, settling_number
from dm_worker.syncer.ddl.ordered_statements import OrderedPart, OrderedParts, OrderedStatements, typed
from dm_worker.syncer.ddl.parts import Part, StatementParts
from dm_worker.syncer.ddl.statement_effect import StatementEffect, effect_of
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.ddl.variables import in_plain_words
from dm_worker.syncer.online_ddl.ghost_records import GhostSession
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.rows.name_spellings import namesake, refused_statement
from dm_worker.syncer.rows.row_shape import NO_RULES
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.sharding import Sharding
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from dm_worker.syncer.shard_ddl.statement_effects import (
    changes_group,
    comes_to_nothing,
    goes_on,
    mixes_in_renaming,
    runs_at_once,
)
from pkg import ddl
from pkg.binlog.events import QueryEvent, parse_query
from pkg.binlog.position import Location, Position, location_range
from pkg.config.model import SubTaskConfig
from pkg.ddl.sql_modes import sql_mode_text
from pkg.errors import DMError
from pkg.errors.workarounds import Advice
from pkg.ha.binlog_operator import BinlogOperator, OperatorSource, position_name
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger
from pkg.rules.online_tables import TableKind

log = get_logger("syncer.ddl")

_SYSTEM = "SYSTEM"


class DDLBarrier:
    """Handles the statements of one run.

    ``system_zone``: tells the offset of the upstream's time zone SYSTEM at a time (unix seconds). ``upstream_tables``:
    asks the upstream for its tables, by schema. ``sharding``: the groups of merged shards, None when nothing merges.
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
        system_zone: Callable[[int], str],
        upstream_tables: Callable[[], Mapping[str, Sequence[str]]] = dict,
        orders: OperatorSource = tuple,
        sharding: Sharding | None = None,
        temporary: TemporaryTables | None = None,
    ) -> None:
        self._cfg = cfg
        self._rules = rules
        self._route = rules.route
        self._source = source
        self._online = online
        self._temporary = temporary or TemporaryTables(cfg.flavor)
        self._parts = StatementParts(rules, source, online, self._temporary, cfg.flavor)
        self._statements = OrderedStatements(self._parts, store, orders)
        self._store = store
        self._executor = executor
        self._system_zone = system_zone
        self._upstream_tables = upstream_tables
        self._sharding = sharding
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
            if self._sharding is not None:
                ordered = _taken_apart(ordered)
                self._ensure_heeded(ordered)
            steps = [
                (ordered_part, self._step(ordered_part.part.parsed, self._source_of(ordered_part.part)))
                for ordered_part in ordered.target
            ]
            for _, step in steps:
                self._ensure_own_names(step.parsed)
            for ordered_part, step in steps:
                if self._sharding is None or runs_at_once(step.parsed, self._route):
                    context = StatementContext(ordered_part.session, statement.event.timestamp)
                    record = self._executor.once(statement.position, ordered_part.part.number, step, context, intent)
                    self._store.write(intent, ddl=record)
            # A transaction that was broken off behind its statement begins anew.
            sharding = None if self._sharding is None or self._sharding.has_met(statement) else self._sharding
            for part in ordered.followed:
                void = self._source.is_void(part.parsed)
                if not (statement.inside and self._source.has_made(part.parsed)):
                    self._follow(part, ordered, GhostSession.of(query))
                if sharding is not None and self._online.is_real(part.parsed) and not void:
                    self._report_to_groups(
                        sharding, statement, part, _given_for(part, ordered), lenient=ordered.lenient
                    )
            if sharding is not None:
                for part in self._additional(ordered):
                    self._report_to_groups(
                        sharding, statement, part, _on_table_of(part, ordered), lenient=ordered.lenient
                    )
                for table in self._swapped_in(ordered):
                    sharding.restructured(statement, table)
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
            steps = [self._step(part.parsed) for part in self._parts.given(order.statements, 0)]
            texts = {ddl.uniform(step.text, step.parsed.dialect) for step in steps}
            # What an order gave at the shard's own statement is what the shards ran, and settled as such.
            if not texts.issuperset(settle.statements):
                log.info("an operator replaces a DDL of merged shards", statements="; ".join(order.statements))
                context = replace(contexts[0], query=typed(contexts[0].query))
                yield from ((settling_number(order.statements) - i, step, context) for i, step in enumerate(steps))
                return
        for i, (text, context) in enumerate(zip(settle.statements, contexts, strict=True)):
            yield SETTLING - i, self._settling_step(text, context), context

    def _unsettled(self, exc: DMError, settle: SettleDDL) -> DMError:
        """The error with its place, and with the way past a DDL that all shards have run."""
        # The statement of the shard that ran it first; its key is where that ends, or its GTID.
        end = f"position: {settle.key}, gtid-set: " if settle.key.startswith("(") else f"gtid-set: {settle.key}"
        where = f"startLocation: {Location(settle.at)}, endLocation: [{end}]"
        exc = exc.at(f"{where}, as the first shard of {qualified(*settle.target)} ran it")
        if exc.retryable:
            return exc
        own = exc.workaround.replace(Advice.SKIP_OR_REPLACE, "").strip()
        command = Advice.SKIP_OR_REPLACE_RESOLVED.about(position_name(settle.at))
        return exc.with_workaround(f"{own} {command}".strip())

    def _follow(self, part: Part, ordered: OrderedParts, session: GhostSession) -> None:
        self._online.follow(part.parsed, session)
        try:
            self._source.apply(part.parsed)
        except DMError as exc:
            if not ordered.lenient or exc.retryable:
                raise
            log.warning("a skipped statement does not change the known structures", error=exc.message)

    def _report_to_groups(
        self, sharding: Sharding, statement: BinlogStatement, part: Part, given: list[OrderedPart], *, lenient: bool
    ) -> None:
        """The shard groups: what the target is to get for a part, which an operator may have decided.

        A statement that an operator typed is a DDL by itself, as if the table had run it alone.
        Raises 11118 for a part that an operator gave about a table that is no shard.
        """
        table = part.parsed.tables[0]
        if part.number >= STRIDE and goes_on(part.parsed) and not sharding.knows(table):
            # It would join as a shard that never runs any DDL, and keep all others waiting.
            target = qualified(*self._route(*table))
            raise refused(
                f"{qualified(*table)} is not one of the upstream tables that merge into {target}: "
                f"{part.parsed.sql[:500]}",
                "Write the statement with the name of the upstream table whose rows follow it.",
            )
        by_operator = [[ordered_part] for ordered_part in given if ordered_part.part.number >= STRIDE]
        own = [ordered_part for ordered_part in given if ordered_part.part.number < STRIDE]
        for one in [*by_operator, own] if own or not by_operator else by_operator:
            steps = [self._step(ordered_part.part.parsed) for ordered_part in one]
            texts = tuple(ddl.uniform(step.text, step.parsed.dialect) for step in steps)
            contexts = contexts_text(
                StatementContext(ordered_part.session, statement.event.timestamp) for ordered_part in one
            )
            sharding.met(statement, part.parsed, texts, contexts, passed_over=lenient)

    def _ensure_heeded(self, ordered: OrderedParts) -> None:
        """Raises 11118 for what an operator gave of which nothing would come, without a word."""
        followed = [part.parsed for part in ordered.followed]
        for part in (ordered_part.part for ordered_part in ordered.target if ordered_part.part.number >= STRIDE):
            if comes_to_nothing(part.parsed, followed, self._route):
                raise refused(
                    f"with shard-mode, the target does not get {part.parsed.sql[:500]}, because its table also "
                    "belongs to other shards",
                    "Execute what is needed on the target by hand, and give the order again without this statement.",
                )

    def _additional(self, ordered: OrderedParts) -> Iterable[Part]:
        """One part for each table that an operator or the swap of a ghost table has changed at the target, and that
        the statement itself does not change."""
        real = (part.parsed for part in ordered.followed if self._online.is_real(part.parsed))
        known = {parsed.tables[:1] for parsed in real if _changes_only(parsed)}
        found = {
            ordered_part.part.parsed.tables[:1]: ordered_part.part
            for ordered_part in ordered.target
            if changes_group(ordered_part.part.parsed)
        }
        return [part for tables, part in found.items() if tables not in known]

    def _swapped_in(self, ordered: OrderedParts) -> set[tuple[str, str]]:
        """Real tables that are a ghost table from here on, and of whose change the target gets nothing: an operator
        or a filter has left it out."""
        given = {
            ordered_part.part.parsed.tables[0]
            for ordered_part in ordered.target
            if changes_group(ordered_part.part.parsed)
        }
        renamings = (part.parsed for part in ordered.followed if not self._online.is_real(part.parsed))
        found = {parsed.renamed[1] for parsed in renamings if parsed.renamed is not None}
        return {table for table in found - given if self._online.tables.kind(table[1]) is TableKind.REAL}

    def _explained(self, exc: DMError, statement: BinlogStatement) -> DMError:
        """The error with its place, and with the commands that get past it."""
        # As in DM: where the event itself begins, and not its transaction.
        begin = replace(statement.start, position=statement.at)
        found = exc.at(location_range(begin, statement.after))
        if exc.retryable:
            return found
        command = Advice.SKIP_OR_REPLACE.about(position_name(statement.at))
        own = exc.workaround.replace(Advice.SKIP_OR_REPLACE, "").replace(Advice.CONTINUE_AFTER_EVENT, "").strip()
        return found.with_workaround(f"{own} {command}".strip())

    def _wind_up(self, statement: BinlogStatement, query: QueryEvent, intent: BatchProgress) -> None:
        """Another order decides from now on: what was begun is recorded as run, or withdrawn."""
        for record in self._store.read_ddls(statement.position):
            if not record.done and record.fingerprint:
                context = StatementContext(typed(query) if record.index >= STRIDE else query, statement.event.timestamp)
                step = self._settling_step(record.statement, context)
                self._store.write(intent, ddl=self._executor.withdrawn(record, step, context))

    def _ensure_own_names(self, part: ddl.DDLStatement) -> None:
        """Raises 36004 for a table that is also another one at the target, because that ignores case in names.

        The other one may be known only to the upstream, whose tables may be newer than the statement. Then it counts if
        the target has it: a new table's name would be free otherwise.
        """
        if not self._executor.folds_names:
            return
        for upstream in (name for name in part.tables if name[1]):
            target = self._route(*upstream)
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
        return namesake(target, others, self._route)

    # -- what to execute ----------------------------------------------------------------------------------------

    def _source_of(self, part: Part) -> TableInfo | None:
        """The upstream's table before the part, where its rows' order matters and the target has the same rows."""
        if self._sharding is not None or part.session is not None or not adds_ids(part.parsed):
            return None
        source, _ = self._source.around(part.parsed)
        name = part.parsed.tables[0]
        alone = [
            info for info in self._source.tracker.tables() if self._route(info.schema, info.name) == self._route(*name)
        ]
        same = source is not None and len(alone) == 1 and self._rules.of_table(source) == NO_RULES
        return source if same else None

    def _step(self, part: ddl.DDLStatement, source: TableInfo | None = None) -> DDLStep:
        targets = tuple(dict.fromkeys(self._route(*name) for name in part.tables))
        text = ddl.rewrite(part, self._route, target_flavor=self._executor.target_flavor)
        return DDLStep(part, text, targets, self._route, source)

    def _settling_step(self, text: str, context: StatementContext) -> DDLStep:
        """A text that was routed when it was recorded, or when the shard ran it."""
        parsed = ddl.parse(text, sql_mode=sql_mode_text(context.query.sql_mode), flavor=self._cfg.flavor)
        return DDLStep(parsed, text, parsed.tables, lambda schema, table: (schema, table))


def _taken_apart(ordered: OrderedParts) -> OrderedParts:
    """The structures follow what an operator gave for a statement that shard groups can't follow as it is."""
    mixed = any(mixes_in_renaming(part.parsed) for part in ordered.followed)
    if not (ordered.lenient and ordered.target and mixed):
        return ordered
    return replace(ordered, followed=tuple(ordered_part.part for ordered_part in ordered.target))


def _given_for(part: Part, ordered: OrderedParts) -> list[OrderedPart]:
    """What the target is to get for a part that is followed."""
    if not _changes_only(part.parsed):
        return []
    found = _on_table_of(part, ordered)
    # What an operator gave is followed where it is taken for the statement: each for itself.
    return [ordered_part for ordered_part in found if ordered_part.part is part] if part.number >= STRIDE else found


def _changes_only(statement: ddl.DDLStatement) -> bool:
    """Whether all tables of a group have to run it; False for one that renames too: an operator may pass over it."""
    return not mixes_in_renaming(statement) and changes_group(statement)


def _on_table_of(part: Part, ordered: OrderedParts) -> list[OrderedPart]:
    """The pieces that change the table that the part does."""
    changes = (ordered_part for ordered_part in ordered.target if changes_group(ordered_part.part.parsed))
    return [ordered_part for ordered_part in changes if ordered_part.part.parsed.tables[:1] == part.parsed.tables[:1]]
