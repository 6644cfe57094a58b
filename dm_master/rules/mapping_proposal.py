"""Proposes a column mapping that keeps merging shards apart, from the names of the shards. Pure.

Each proposal is verified: the rules match exactly the shards, and give each of them different bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo
from pkg.rules.column_mapping import ColumnMapper, collisions
from pkg.rules.column_mapping.mapper import INSTANCE_BITS, PARTITION_ID, SCHEMA_BITS, TABLE_BITS
from pkg.rules.model import ColumnMappingRule

#: A name, the separator before its number (no letters, no digits), and the number.
_NUMBERED = re.compile(r"(.*?)([^0-9A-Za-z]*)([0-9]+)", re.ASCII | re.DOTALL)
#: The most rules in a proposal for one source: an operator would not paste more.
_MOST_RULES = 20


@dataclass(frozen=True, slots=True)
class _Names:
    """Schema or table names: ``prefix`` and ``separator`` before the numbers, and the name without a number."""

    prefix: str
    separator: str
    bare: str
    patterns: tuple[str, ...]


def propose(
    target: TableId,
    column: str,
    shards: Mapping[str, Sequence[TableInfo]],
    migrated: Mapping[str, Sequence[TableId]],
    case_sensitive: bool,
) -> str:
    """``column-mappings`` as one line of YAML, with the rules of each instance; '' if the names allow none.

    ``shards`` are the tables that merge into ``target``, by source; ``migrated`` all tables of these sources that the
    task migrates, among which the rules must match no others.
    """
    if len(shards) >= 1 << INSTANCE_BITS:
        return ""
    by_source: dict[str, list[ColumnMappingRule]] = {}
    for number, (source_id, infos) in enumerate(sorted(shards.items()), 1):
        instance = str(number) if len(shards) > 1 else ""
        names = [(info.schema, info.name) for info in infos]
        rules = _rules(instance, column, names, migrated[source_id], case_sensitive)
        if not rules:
            return ""
        by_source[source_id] = rules
    if not _proven(target, by_source, shards, case_sensitive):
        return ""
    return _text(target, by_source)


def _rules(
    instance: str, column: str, shards: Sequence[TableId], migrated: Sequence[TableId], case_sensitive: bool
) -> list[ColumnMappingRule]:
    schemas = _names([schema for schema, _ in shards], SCHEMA_BITS)
    tables = _names([table for _, table in shards], TABLE_BITS)
    if schemas is None or tables is None:
        return []
    arguments = _arguments(instance, schemas, tables)
    if arguments is None:
        return []
    patterns = [(schema, table) for schema in schemas.patterns for table in tables.patterns]
    if not _match_just(patterns, shards, migrated, case_sensitive):
        patterns = [(literal_pattern(schema), literal_pattern(table)) for schema, table in shards]
    if len(patterns) > _MOST_RULES:
        return []
    return [ColumnMappingRule(schema, column, PARTITION_ID, table, column, arguments) for schema, table in patterns]


def _names(names: Sequence[str], bits: int) -> _Names | None:
    """The common part of the names before their numbers; None if they differ in more than the numbers."""
    distinct = sorted(set(names))
    if len(distinct) == 1:
        return _Names("", "", "", (literal_pattern(distinct[0]),))
    numbered = {name: found for name in distinct if (found := _NUMBERED.fullmatch(name))}
    heads = {(found[1], found[2]) for found in numbered.values()}
    bare = [name for name in distinct if name not in numbered]
    if len(heads) != 1 or any(int(found[3]) >= 1 << bits for found in numbered.values()):
        return None
    [(prefix, separator)] = heads
    if not prefix or bare not in ([], [prefix]):
        return None
    patterns = [literal_pattern(prefix + separator) + "[0-9]*", *map(literal_pattern, bare)]
    return _Names(prefix, separator, bare[0] if bare else "", tuple(patterns))


def _arguments(instance: str, schemas: _Names, tables: _Names) -> tuple[str, ...] | None:
    """Schema and table share one separator, which is needed only if one name has no number."""
    if not schemas.bare and not tables.bare:
        return (instance, schemas.prefix + schemas.separator, tables.prefix + tables.separator)
    used = {names.separator for names in (schemas, tables) if names.prefix}
    if len(used) != 1:
        return None
    return (instance, schemas.prefix, tables.prefix, used.pop())


def literal_pattern(name: str) -> str:
    """A wildcard pattern that matches this name alone."""
    escaped = re.sub(r"[*?[]", lambda found: f"[{found[0]}]", name)
    return f"[~]{escaped[1:]}" if escaped.startswith("~") else escaped


def _match_just(
    patterns: Sequence[TableId], shards: Sequence[TableId], migrated: Sequence[TableId], case_sensitive: bool
) -> bool:
    rules = [ColumnMappingRule(schema, "c", PARTITION_ID, table, "", ("1", "", "")) for schema, table in patterns]
    mapper = ColumnMapper(rules, case_sensitive)
    return {table for table in migrated if mapper.rules_for(*table)} == set(shards)


def _proven(
    target: TableId,
    by_source: Mapping[str, Sequence[ColumnMappingRule]],
    shards: Mapping[str, Sequence[TableInfo]],
    case_sensitive: bool,
) -> bool:
    mapped = []
    try:
        for source_id, rules in by_source.items():
            mapper = ColumnMapper(rules, case_sensitive)
            for info in shards[source_id]:
                mapping = mapper.compile(info.schema, info.name, info.columns)
                if mapping is None:
                    return False
                mapped.append((source_id, target, mapping))
    except DMError:
        return False  # a column of another type, or a name of another form: no proposal
    return not collisions(mapped)


def _text(target: TableId, by_source: Mapping[str, Sequence[ColumnMappingRule]]) -> str:
    """YAML in flow style with single quotes, which need no escape in JSON."""
    blocks, instances = [], []
    numbers = iter(range(1, 1 << 30))
    for source_id, rules in by_source.items():
        names = [_quoted(f"{target[1]}-{next(numbers)}") for _ in rules]
        blocks += [f"{name}: {_block(rule)}" for name, rule in zip(names, rules, strict=True)]
        instances.append(f"{source_id} column-mapping-rules: [{', '.join(names)}]")
    return f"column-mappings: {{{', '.join(blocks)}}}; in mysql-instances: {'; '.join(instances)}"


def _block(rule: ColumnMappingRule) -> str:
    pairs = {
        "schema-pattern": rule.schema_pattern,
        "table-pattern": rule.table_pattern,
        "source-column": rule.source_column,
        "target-column": rule.target_column,
        "expression": rule.expression,
    }
    keys = [f"{key}: {_quoted(value)}" for key, value in pairs.items()]
    return f"{{{', '.join(keys)}, arguments: [{', '.join(map(_quoted, rule.arguments))}]}}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
