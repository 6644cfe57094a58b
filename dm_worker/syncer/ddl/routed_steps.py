"""What a part of a statement is at the target: its text under the target's names, and the tables it is about."""

from __future__ import annotations

from collections.abc import Iterable

from dm_worker.syncer.ddl.differences import adds_ids
from dm_worker.syncer.ddl.executor import DDLStep, RoutedPart, StatementContext
from dm_worker.syncer.ddl.parts import OrderedPart, Part
from dm_worker.syncer.rows.row_shape import NO_RULES
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import ddl
from pkg.config.model import SubTaskConfig
from pkg.ddl.sql_modes import sql_mode_text
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo


class StepRouter:
    """Routes the statements of one run."""

    def __init__(self, cfg: SubTaskConfig, rules: TaskRules, source: SchemaSource, target_flavor: str) -> None:
        self._merges = bool(cfg.shard_mode)
        self._flavor = cfg.flavor
        self._rules = rules
        self._source = source
        self._target_flavor = target_flavor

    def route(self, schema: str, table: str) -> TableId:
        """The name at the target."""
        return self._rules.route(schema, table)

    def routed(self, target: Iterable[OrderedPart]) -> list[RoutedPart]:
        """The parts of a statement that is executed where it is met."""
        return [
            RoutedPart(one.part.number, one.session, self._step(one.part.parsed, self._source_of(one.part)))
            for one in target
        ]

    def of_parsed(self, parsed: ddl.DDLStatement) -> DDLStep:
        """A statement that may run later than where it is met, so that the upstream's table is not the target's."""
        return self._step(parsed, None)

    def settling(self, text: str, context: StatementContext) -> DDLStep:
        """A text that was routed when it was recorded, or when the shard ran it."""
        parsed = ddl.parse(text, sql_mode=sql_mode_text(context.query.sql_mode), flavor=self._flavor)
        return DDLStep(parsed, text, parsed.tables, lambda schema, table: (schema, table))

    def _step(self, parsed: ddl.DDLStatement, source: TableInfo | None) -> DDLStep:
        targets = tuple(dict.fromkeys(self.route(*name) for name in parsed.tables))
        text = ddl.rewrite(parsed, self.route, target_flavor=self._target_flavor)
        return DDLStep(parsed, text, targets, self.route, source)

    def _source_of(self, part: Part) -> TableInfo | None:
        """The upstream's table before the part, where its rows' order matters and the target has the same rows."""
        if self._merges or part.session is not None or not adds_ids(part.parsed):
            return None
        source, _ = self._source.around(part.parsed)
        name = part.parsed.tables[0]
        alone = [
            info for info in self._source.tracker.tables() if self.route(info.schema, info.name) == self.route(*name)
        ]
        same = source is not None and len(alone) == 1 and self._rules.of_table(source) == NO_RULES
        return source if same else None
