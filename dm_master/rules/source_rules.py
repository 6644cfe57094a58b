"""The rules of one source, compiled, with their names; explains what they do with a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pkg.config.model import SubTaskConfig
from pkg.config.rule_names import InstanceNames, RuleName
from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.mysql.schema import Column
from pkg.rules.binlog_filter import BinlogEventFilter
from pkg.rules.block_allow_list import AllowListDecision, BlockAllowListFilter
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.column_mapping.mapper import INSTANCE_BITS, SCHEMA_BITS, TABLE_BITS
from pkg.rules.column_mapping.transforms import PartitionId, Transform
from pkg.rules.model import BinlogFilterRule, ColumnMappingRule, ExpressionFilter, RouteRule
from pkg.rules.online_tables import TableKind
from pkg.rules.table_router import TableRouter


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """One rule that applies to a table: the ``pattern`` by which it matches, and its effect."""

    rule: RuleName
    pattern: str
    effect: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the rules do with one upstream table.

    ``target`` is None for an ignored table, and ``reason`` says why; ``problem`` is the error that would stop the task.
    A table with a problem may have a target or none.
    """

    source_id: str
    schema: str
    table: str
    target: TableId | None
    reason: str = ""
    applied: tuple[AppliedRule, ...] = ()
    problem: str = ""


class SourceRules:
    """The constructor raises configuration errors of the rules; a parsed task file has none."""

    def __init__(self, subtask: SubTaskConfig, names: InstanceNames) -> None:
        self.subtask = subtask
        self.names = names
        case = subtask.case_sensitive
        self.allow_list = BlockAllowListFilter.of(subtask)
        self.router = TableRouter(subtask.routes, case)
        self.mapper = ColumnMapper(subtask.column_mappings, case)
        self.events = BinlogEventFilter(subtask.filters, case)
        self._by_id: dict[int, RuleName] = {}
        self._expressions: dict[TableId, list[ExpressionFilter]] = {}
        for rule in subtask.expression_filters:
            self._expressions.setdefault(self._fold(rule.schema, rule.table), []).append(rule)
        self._note(subtask.routes, names.routes)
        self._note(subtask.filters, names.filters)
        self._note(subtask.column_mappings, names.column_mappings)
        self._note(subtask.expression_filters, names.expression_filters)

    def name_of(self, rule: RouteRule | BinlogFilterRule | ColumnMappingRule | ExpressionFilter) -> RuleName:
        """The name of one of this source's rules, given as the same object that the subtask has."""
        return self._by_id[id(rule)]

    def expressions_for(self, schema: str, table: str) -> Sequence[ExpressionFilter]:
        return self._expressions.get(self._fold(schema, table), ())

    def takes_any(self, schema: str, tables: Iterable[str]) -> bool:
        """Whether the block-allow-list accepts one of these tables."""
        return any(self.allow_list.allows(schema, table) for table in tables)

    def explain(self, schema: str, table: str, columns: Sequence[Column] | None = None) -> Explanation:
        """What the rules do with the table. Without ``columns``, mapped values are not computed."""
        source_id = self.subtask.source_id
        verdict = self.allow_list.verdict(schema, table)
        if not verdict.allowed:
            return Explanation(source_id, schema, table, None, self._left_out(verdict))
        applied = [*self._allowed_by(verdict, schema, table)]
        target, problem = None, ""
        try:
            target = self.router.route(schema, table)
            applied += self._route(schema, table)
            applied += self._mappings(schema, table, columns)
        except DMError as exc:
            problem = str(exc)
        applied += self._filters(schema, table)
        return Explanation(source_id, schema, table, target, "", tuple(applied), problem)

    def _note(self, rules: Iterable[object], names: Sequence[RuleName]) -> None:
        for rule, name in zip(rules, names, strict=True):
            self._by_id[id(rule)] = name

    def _fold(self, schema: str, table: str) -> TableId:
        return (schema, table) if self.subtask.case_sensitive else (schema.lower(), table.lower())

    def _left_out(self, verdict: AllowListDecision) -> str:
        if verdict.key == "meta-schema":
            return "the target keeps the task's progress in a schema of that name (meta-schema)"
        if verdict.key in (TableKind.GHOST.value, TableKind.TRASH.value):
            return f"its name is that of an online DDL tool's table ({verdict.key}, with online-ddl)"
        whole = self.names.block_allow_list
        if verdict.key == "system" or whole is None:
            return "system schemas are never migrated"
        if verdict.item < 0:
            return f"no entry of {verdict.key} in {whole.label} matches ({whole.location})"
        entry = self.names.entries[verdict.key][verdict.item]
        return f"{entry.label} leaves it out ({entry.location})"

    def _allowed_by(self, verdict: AllowListDecision, schema: str, table: str) -> Iterator[AppliedRule]:
        if verdict.item < 0:
            return
        lists = self.subtask.block_allow_list
        if verdict.key == "do-dbs":
            pattern = lists.do_dbs[verdict.item]
        else:
            named = lists.do_tables[verdict.item]
            pattern = f"{named.db_name}.{named.tbl_name}"
        yield AppliedRule(self.names.entries[verdict.key][verdict.item], pattern, "includes it")

    def _route(self, schema: str, table: str) -> Iterator[AppliedRule]:
        rule = self.router.rule_for(schema, table)
        if rule is None:
            return
        name, pattern = self.name_of(rule), pattern_of(rule)
        target = self.router.route(schema, table)
        yield AppliedRule(name, pattern, f"goes to `{target[0]}`.`{target[1]}`")
        for column, value in self.router.extracted(schema, table, self.subtask.source_id):
            yield AppliedRule(name, pattern, f"fills `{column}` with {value!r}")

    def _mappings(self, schema: str, table: str, columns: Sequence[Column] | None) -> Iterator[AppliedRule]:
        rules = self.mapper.rules_for(schema, table)
        mapping = None if columns is None else self.mapper.compile(schema, table, columns)
        transforms = mapping.transforms if mapping is not None else [None] * len(rules)
        for rule, transform in zip(rules, transforms, strict=True):
            yield AppliedRule(self.name_of(rule), pattern_of(rule), mapping_effect(rule, transform))

    def _filters(self, schema: str, table: str) -> Iterator[AppliedRule]:
        for rule in self.events.rules_for(schema, table):
            parts = [f"events {', '.join(rule.events)}"] if rule.events else []
            parts += [f"sql-pattern {text!r}" for text in rule.sql_pattern]
            yield AppliedRule(self.name_of(rule), pattern_of(rule), f"{rule.action}: {'; '.join(parts)}")
        for expression in self.expressions_for(schema, table):
            name = self.name_of(expression)
            yield AppliedRule(name, f"{expression.schema}.{expression.table}", expression_effect(expression))


def pattern_of(rule: RouteRule | BinlogFilterRule | ColumnMappingRule) -> str:
    return f"{rule.schema_pattern}.{rule.table_pattern}" if rule.table_pattern else rule.schema_pattern


def mapping_effect(rule: ColumnMappingRule, transform: Transform | None) -> str:
    """How the rule changes a column; ``transform`` is the rule compiled for one table, None if that is not known."""
    source = rule.source_column or rule.target_column
    start = f"`{rule.target_column}` becomes "
    if isinstance(transform, PartitionId):
        parts = ", ".join(f"{part} {number}" for part, number in partition_parts(rule, transform.base))
        return f"{start}{transform.base} + `{source}` ({rule.expression}: {parts})"
    return f"{start}{rule.expression} {list(rule.arguments)} of `{source}`"


def partition_parts(rule: ColumnMappingRule, base: int) -> list[tuple[str, int]]:
    """The numbers of instance, schema and table that ``partition id`` has put into ``base``."""
    shift, parts = 63, []
    sizes = (("instance", INSTANCE_BITS), ("schema", SCHEMA_BITS), ("table", TABLE_BITS))
    for (part, bits), argument in zip(sizes, rule.arguments[:3], strict=True):
        if argument:
            shift -= bits
            parts.append((part, base >> shift & (1 << bits) - 1))
    return parts


def expression_effect(rule: ExpressionFilter) -> str:
    """Which rows the filter leaves out."""
    if rule.insert_value_expr:
        return f"leaves out inserted rows where {rule.insert_value_expr}"
    if rule.delete_value_expr:
        return f"leaves out deletions of rows where {rule.delete_value_expr}"
    sides = (("old", rule.update_old_value_expr), ("new", rule.update_new_value_expr))
    return "leaves out updates where " + " and ".join(f"the {side} row has {text}" for side, text in sides if text)
