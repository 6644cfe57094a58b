"""Which columns of a table are mapped, and how: rules in, one compiled mapping per table out.

Table-level rules take precedence over schema-level ones, as with routes. Several rules of the deciding level may match
one table if each has a different target column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pkg import errors
from pkg.errors import Code, ErrorKind
from pkg.mysql.schema import Column
from pkg.rules.column_mapping.transforms import Affix, MappedColumn, MappedValue, PartitionId, Transform
from pkg.rules.model import ColumnMappingRule
from pkg.rules.selector import Matches, Selector, check_wildcard
from pkg.settings.options import nearest

PARTITION_ID = "partition id"
ADD_PREFIX = "add prefix"
ADD_SUFFIX = "add suffix"
EXPRESSIONS = (PARTITION_ID, ADD_PREFIX, ADD_SUFFIX)
#: Widths of the parts, from the high bits on; an absent part has none.
INSTANCE_BITS, SCHEMA_BITS, TABLE_BITS = 4, 7, 8

MappingUnit = Literal["check", "load", "sync"]
_ERRORS: dict[MappingUnit, tuple[ErrorKind, ErrorKind]] = {
    "check": (Code.TaskCheckGenColumnMapping, Code.TaskCheckGenColumnMapping),
    "load": (Code.LoadUnitGenColumnMapping, Code.LoadUnitDoColumnMapping),
    "sync": (Code.SyncerUnitGenColumnMapping, Code.SyncerUnitDoColumnMapping),
}
_INTEGER_TYPES = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXT_TYPES = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "binary", "varbinary"}
    | {"tinyblob", "blob", "mediumblob", "longblob"}
)
_CHECK_RULES = "Please check the `column-mappings` config in task configuration file."
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableMapping:
    """The transforms of one upstream table. Picklable; holds no rule and no selector."""

    schema: str
    table: str
    transforms: tuple[Transform, ...]

    def values(self, row: Sequence[MappedValue]) -> list[MappedValue]:
        """The row with its mapped columns. Raises 34004 or 36033 for a value that can't be mapped."""
        result = list(row)
        for transform in self.transforms:
            result[transform.target] = transform.value(row[transform.source])
        return result

    def literals(self, row: Sequence[bytes]) -> list[bytes]:
        """As :meth:`values`, for a row of SQL literals."""
        result = list(row)
        for transform in self.transforms:
            result[transform.target] = transform.literal(row[transform.source])
        return result


class ColumnMapper:
    """Compiles the rules of one source for its tables.

    ``unit`` selects DM's error codes: 26004 (check), 34011 and 34004 (load), 36032 and 36033 (sync). Raises 20046 for
    an invalid rule. Picklable.
    """

    def __init__(self, rules: Iterable[ColumnMappingRule], case_sensitive: bool, unit: MappingUnit = "check") -> None:
        self._case_sensitive = case_sensitive
        self._unit: MappingUnit = unit
        groups: dict[tuple[str, str], list[ColumnMappingRule]] = {}
        for rule in rules:
            check_rule(rule)
            patterns = rule.schema_pattern, rule.table_pattern
            key = patterns if case_sensitive else (patterns[0].lower(), patterns[1].lower())
            groups.setdefault(key, []).append(rule)
        self._selector: Selector[tuple[ColumnMappingRule, ...]] = Selector(case_sensitive)
        for group in groups.values():
            _check_group(group)
            self._selector.insert(group[0].schema_pattern, group[0].table_pattern, tuple(group))

    def rules_for(self, schema: str, table: str) -> tuple[ColumnMappingRule, ...]:
        """The rules that decide for the table."""
        matches = self.matching(schema, table)
        return tuple(rule for group in matches.table_level or matches.schema_level for rule in group)

    def matching(self, schema: str, table: str) -> Matches[tuple[ColumnMappingRule, ...]]:
        """All matching rules, in groups with the same patterns."""
        return self._selector.match(schema, table)

    def compile(self, schema: str, table: str, columns: Sequence[Column]) -> TableMapping | None:
        """The mapping of a table with these columns, ``None`` when no rule matches it.

        Raises the unit's error for a missing column or one whose type the expression does not accept, for two rules
        with one target column, and for a schema or table name without the number that ``partition id`` needs.
        """
        rules = self.rules_for(schema, table)
        if not rules:
            return None
        by_target: dict[int, ColumnMappingRule] = {}
        transforms = []
        for rule in rules:
            transform = _TableCompiler(rule, schema, table, self._case_sensitive, self._unit).compile(columns)
            other = by_target.setdefault(transform.target, rule)
            if other is not rule:
                raise errors.new(
                    _ERRORS[self._unit][0],
                    f"`{schema}`.`{table}`: column `{rule.target_column}` is the target of two column mapping rules, "
                    f"{describe(other)} and {describe(rule)}",
                    workaround="Make their patterns disjoint.",
                )
            transforms.append(transform)
        return TableMapping(schema, table, tuple(transforms))


class _TableCompiler:
    """One rule for one table."""

    def __init__(
        self, rule: ColumnMappingRule, schema: str, table: str, case_sensitive: bool, unit: MappingUnit
    ) -> None:
        self._rule = rule
        self._schema = schema
        self._table = table
        self._case_sensitive = case_sensitive
        self._unit: MappingUnit = unit

    def compile(self, columns: Sequence[Column]) -> Transform:
        rule = self._rule
        positions = {column.name.lower(): i for i, column in enumerate(columns)}
        name = rule.source_column or rule.target_column
        source, target = self._find(positions, name), self._find(positions, rule.target_column)
        self._check_types(columns[source], columns[target])
        place = MappedColumn(self._schema, self._table, columns[source].name, _ERRORS[self._unit][1])
        if rule.expression.lower() == PARTITION_ID:
            return PartitionId(source, target, self._base(), place)
        text = rule.arguments[0]
        prefix, suffix = (text, "") if rule.expression.lower() == ADD_PREFIX else ("", text)
        charset = columns[source].charset or "binary"
        return Affix(source, target, prefix, suffix, charset, place)

    def _find(self, positions: dict[str, int], name: str) -> int:
        position = positions.get(name.lower())
        if position is None:
            near = nearest(name, list(positions))
            raise self._error(
                f"the table has no column `{name}`", f"Did you mean {near!r}?" if near else "Correct the rule."
            )
        return position

    def _check_types(self, source: Column, target: Column) -> None:
        partition = self._rule.expression.lower() == PARTITION_ID
        allowed = _INTEGER_TYPES | _TEXT_TYPES if partition else _TEXT_TYPES
        for column in (source, target):
            if column.type_name.lower() not in allowed:
                kinds = "whole numbers and text" if partition else "text"
                raise self._error(
                    f"column `{column.name}` is {column.column_type}, but {self._rule.expression!r} needs {kinds}",
                    "Map another column.",
                )
        if target.generated:
            raise self._error(
                f"column `{target.name}` is generated, so no value can be written to it", "Map another column."
            )

    def _base(self) -> int:
        instance, schema_prefix, table_prefix = self._rule.arguments[:3]
        shift, base = 63, 0
        if instance:
            shift -= INSTANCE_BITS
            base |= int(instance) << shift
        if schema_prefix:
            shift -= SCHEMA_BITS
            base |= self._part(self._schema, schema_prefix, SCHEMA_BITS, "schema") << shift
        if table_prefix:
            shift -= TABLE_BITS
            base |= self._part(self._table, table_prefix, TABLE_BITS, "table") << shift
        return base

    def _part(self, name: str, prefix: str, bits: int, kind: str) -> int:
        """The number in a name after its prefix; 0 for the prefix alone."""
        folded, start = (name, prefix) if self._case_sensitive else (name.lower(), prefix.lower())
        if folded == start:
            return 0
        separator = self._rule.arguments[3] if len(self._rule.arguments) > 3 else ""
        start += separator if self._case_sensitive else separator.lower()
        number = folded[len(start) :]
        if not folded.startswith(start) or not _DIGITS.fullmatch(number):
            raise self._error(
                f"the {kind} name {name!r} is neither {prefix!r} nor {prefix + separator!r} and a number",
                "Correct the rule's arguments, or remove the table from its patterns.",
            )
        if int(number) >= 1 << bits:
            most = (1 << bits) - 1
            raise self._error(
                f"the number {number} of the {kind} name {name!r} is too large: {bits} bits hold up to {most}",
                "Give some shards a separate rule with another instance id and another prefix.",
            )
        return int(number)

    def _error(self, why: str, workaround: str) -> errors.DMError:
        column = self._rule.source_column or self._rule.target_column
        return errors.new(
            _ERRORS[self._unit][0],
            f"`{self._schema}`.`{self._table}`, column `{column}`: the column mapping rule {describe(self._rule)} "
            f"cannot be applied: {why}",
            workaround=workaround,
        )


def collisions(
    mapped: Iterable[tuple[str, tuple[str, str], TableMapping]],
) -> list[tuple[tuple[str, TableMapping], tuple[str, TableMapping]]]:
    """Pairs of upstream tables that merge, but get the same ``partition id``.

    ``mapped`` gives source-id, target table and mapping of each upstream table. Two tables of one target whose mapped
    columns get the same bits (``t`` and ``t_0``, ``t_1`` and ``t_01``, two sources with one instance id) would
    overwrite each other's rows. Each table is in one pair at most, with the first that has its bits.
    """
    first: dict[tuple[tuple[str, str], str, int], tuple[str, TableMapping]] = {}
    found = []
    for source, target, mapping in mapped:
        for transform in mapping.transforms:
            if not isinstance(transform, PartitionId):
                continue
            key = (target, transform.place.column.lower(), transform.base)
            other = first.setdefault(key, (source, mapping))
            if other != (source, mapping):
                found.append((other, (source, mapping)))
                break
    return found


def check_rule(rule: ColumnMappingRule) -> None:
    """Raises 20046 for a rule that can't work with any table."""
    problem = rule_problem(rule)
    if problem is not None:
        raise _invalid(rule, problem[1], problem[2])


def rule_problem(rule: ColumnMappingRule) -> tuple[str, str, str] | None:
    """The key with the error, the error and the operator action; ``None`` for a valid rule."""
    if not rule.schema_pattern:
        return "schema-pattern", "schema-pattern is missing", 'Use "*" for all schemas.'
    for key, pattern in (("schema-pattern", rule.schema_pattern), ("table-pattern", rule.table_pattern)):
        try:
            check_wildcard(pattern)
        except ValueError as exc:
            return key, str(exc), _CHECK_RULES
    if not rule.target_column:
        return "target-column", "target-column is missing", "Name the column that gets the value."
    expression = rule.expression.lower()
    if expression not in EXPRESSIONS:
        near = nearest(rule.expression, EXPRESSIONS)
        what = f"expression {rule.expression!r} is unknown" if rule.expression else "expression is missing"
        return "expression", what, f"Did you mean {near!r}?" if near else f"Set one of {', '.join(EXPRESSIONS)}."
    return _argument_problem(expression, rule.arguments)


def _argument_problem(expression: str, arguments: tuple[str, ...]) -> tuple[str, str, str] | None:
    if expression != PARTITION_ID:
        if len(arguments) == 1 and arguments[0]:
            return None
        return "arguments", f"{expression!r} takes one text, not {list(arguments)}", 'Write arguments: ["text"].'
    if len(arguments) not in (3, 4):
        return (
            "arguments",
            f"{PARTITION_ID!r} takes 3 or 4 arguments, not {len(arguments)}",
            "Give instance id, schema prefix, table prefix and, if names have one, the separator before the number.",
        )
    instance = arguments[0]
    if instance and (not _DIGITS.fullmatch(instance) or int(instance) >= 1 << INSTANCE_BITS):
        limit = (1 << INSTANCE_BITS) - 1
        return "arguments", f"instance id {instance!r} is not valid", f"Use a number from 0 to {limit}, or ''."
    if not any(arguments[:3]):
        return "arguments", f"{PARTITION_ID!r} without any part has no effect", "Give an instance id or a prefix."
    return None


def _check_group(rules: Sequence[ColumnMappingRule]) -> None:
    """Rules with the same patterns; raises 20046 when two of them have the same target column."""
    seen: set[str] = set()
    for rule in rules:
        if rule.target_column.lower() in seen:
            raise _invalid(
                rule, f"another rule with the same patterns has the target column `{rule.target_column}` too"
            )
        seen.add(rule.target_column.lower())


def describe(rule: ColumnMappingRule) -> str:
    """The rule in an error's text."""
    patterns = f"{rule.schema_pattern}.{rule.table_pattern}" if rule.table_pattern else rule.schema_pattern
    return f"'{patterns}: {rule.expression} {list(rule.arguments)} -> {rule.target_column}'"


def _invalid(rule: ColumnMappingRule, why: str, workaround: str = _CHECK_RULES) -> errors.DMError:
    return errors.new(
        Code.ConfigGenColumnMapping, f"column mapping rule {describe(rule)} is not valid: {why}", workaround=workaround
    )
