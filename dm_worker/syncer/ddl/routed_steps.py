"""Routes a part of a statement: its SQL with the target's names, and the tables that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from dm_worker.syncer.ddl.differences import adds_ids, takes_rows_away
from dm_worker.syncer.ddl.executor import DDLStep, RoutedPart, StatementContext
from dm_worker.syncer.ddl.filled_columns import adds_guarded
from dm_worker.syncer.ddl.own_names import UpstreamTables
from dm_worker.syncer.ddl.parts import OrderedPart, Part
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.rows.row_shape import NO_RULES
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import ddl
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.ddl.sql_modes import sql_mode_text
from pkg.mysql.names import TableId

#: Whether no statement from a location up to now may refer to a table of that name.
Unaltered = Callable[[str, Location], bool]


class StepRouter:
    """Routes the statements of one run."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        rules: TaskRules,
        source: SchemaSource,
        target_flavor: str,
        upstream_tables: UpstreamTables,
        is_unaltered: Unaltered,
    ) -> None:
        self._merges = bool(cfg.shard_mode)
        self._flavor = cfg.flavor
        self._rules = rules
        self._source = source
        self._target_flavor = target_flavor
        self._upstream_tables = upstream_tables
        self.is_unaltered = is_unaltered

    def route(self, schema: str, table: str) -> TableId:
        """The name at the target."""
        return self._rules.route(schema, table)

    def routed(self, statement: BinlogStatement, target: Iterable[OrderedPart]) -> list[RoutedPart]:
        """The parts of a statement that is executed at its own location."""
        return [RoutedPart(one.part.number, one.session, self._sourced(one.part, statement)) for one in target]

    def of_parsed(self, parsed: ddl.DDLStatement) -> DDLStep:
        """A statement that may run after its own location: the upstream's table may then differ from the target's."""
        targets = tuple(dict.fromkeys(self.route(*name) for name in parsed.tables))
        text = ddl.rewrite(parsed, self.route, target_flavor=self._target_flavor)
        return DDLStep(parsed, text, targets, self.route)

    def settling(self, text: str, context: StatementContext) -> DDLStep:
        """SQL that was routed when it was recorded, or when the shard ran it."""
        parsed = ddl.parse(text, sql_mode=sql_mode_text(context.query.sql_mode), flavor=self._flavor)
        return DDLStep(parsed, text, parsed.tables, lambda schema, table: (schema, table))

    def _sourced(self, part: Part, statement: BinlogStatement) -> DDLStep:
        """A part's step, with what matters for it of the upstream's tables before the part."""
        step = self.of_parsed(part.parsed)
        if self._merges or part.session is not None:
            return step
        if adds_guarded(part.parsed):
            before, _ = self._source.around(part.parsed)
            had = None if before is None else frozenset(column.name.lower() for column in before.columns)
            step = replace(step, had=had)
        if takes_rows_away(part.parsed):
            return replace(step, beside=next(iter(self._beside(part.parsed.tables[0])), None))
        return self._ordered(step, part, statement) if adds_ids(part.parsed) else step

    def _ordered(self, step: DDLStep, part: Part, statement: BinlogStatement) -> DDLStep:
        """The step with the upstream's table, if the target's has the same rows."""
        source = self._source.keyed_before(part.parsed, lambda table: self.is_unaltered(table, statement.after))
        if self._beside(part.parsed.tables[0]) or (source is not None and self._rules.of_table(source) != NO_RULES):
            return step
        return replace(step, source=source, unknown=source is None)

    def _beside(self, name: TableId) -> list[TableId]:
        """The source's other tables with rows in the target's table, or in its schema for table ''."""
        known = {(info.schema, info.name) for info in self._source.tracker.tables()}
        listed = {(schema, table) for schema, names in self._upstream_tables().items() for table in names}
        target, whole = self.route(*name), not name[1]

        def shares(other: TableId) -> bool:
            routed = self.route(*other)
            return other[0] != name[0] and routed[0] == target[0] if whole else other != name and routed == target

        return sorted(other for other in known | listed if self._rules.takes_rows(*other) and shares(other))
