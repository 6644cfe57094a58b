"""Which rules are used, and why the others are not. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dm_master.rules.source_rules import SourceRules
from pkg.config.rule_names import InstanceNames, RuleName
from pkg.mysql.names import SYSTEM_SCHEMAS, TableId


class RuleUse(enum.IntEnum):
    """The best use of a rule, over all tables of all its sources."""

    NOTHING = 0
    LEFT_OUT = 1
    OUTRANKED = 2
    USED = 3


#: Why a rule is not used.
REASONS = {
    RuleUse.NOTHING: "it matches no table",
    RuleUse.LEFT_OUT: "the block-allow-list leaves out every table that it matches",
    RuleUse.OUTRANKED: "other rules override it wherever it matches",
}


def usage_of(rules: SourceRules, schemas: Mapping[str, Sequence[str]]) -> dict[RuleName, RuleUse]:
    """The use of each rule that the task gives to this source; ``schemas`` are all of its schemas and tables."""
    found = dict.fromkeys(_all_names(rules), RuleUse.NOTHING)
    for schema, tables in schemas.items():
        _note(found, _of_schema(rules, schema))
        for table in tables:
            _note(found, _of_table(rules, schema, table))
    return found


def merge(parts: Iterable[Mapping[RuleName, RuleUse]]) -> dict[RuleName, RuleUse]:
    """The use of rules that several sources share."""
    found: dict[RuleName, RuleUse] = {}
    for part in parts:
        for rule, use in part.items():
            found[rule] = max(use, found.get(rule, RuleUse.NOTHING))
    return found


def known_uses(
    parts: Iterable[Mapping[RuleName, RuleUse]], names: Mapping[str, InstanceNames], checked: Collection[str]
) -> dict[RuleName, RuleUse]:
    """The use of the rules that only ``checked`` sources have; for rules shared with other sources it is unknown."""
    elsewhere = {name for source, found in names.items() if source not in checked for name in found.all}
    return {rule: use for rule, use in merge(parts).items() if rule not in elsewhere}


def describe(uses: Mapping[RuleName, RuleUse]) -> tuple[str, ...]:
    """A line for each rule that does nothing."""
    return tuple(f"{rule} has no effect: {REASONS[use]}" for rule, use in uses.items() if use is not RuleUse.USED)


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """How many ``tables`` go to how many ``targets``, how many are ``left_out``, and a line for each unused rule."""

    tables: int
    targets: int
    left_out: int
    unused: tuple[str, ...]


def summary(targets: Sequence[TableId], left_out: int, uses: Mapping[RuleName, RuleUse]) -> RuleSummary:
    """``targets`` are those of all migrated tables, ``left_out`` is the number of the others."""
    return RuleSummary(len(targets), len(set(targets)), left_out, describe(uses))


def _all_names(rules: SourceRules) -> Iterator[RuleName]:
    names, lists = rules.names, rules.subtask.block_allow_list
    # Filters of the source's own file apply to all its tasks; a single task may not use them.
    yield from (name for name in (*names.routes, *names.filters) if name.location)
    yield from (*names.column_mappings, *names.expression_filters)
    system = {"ignore-dbs": lists.ignore_dbs, "ignore-tables": tuple(t.db_name for t in lists.ignore_tables)}
    for key, entries in names.entries.items():
        for i, name in enumerate(entries):
            # Many files list system schemas there, which is harmless.
            if key not in system or system[key][i].lower() not in SYSTEM_SCHEMAS:
                yield name


def _note(found: dict[RuleName, RuleUse], uses: Iterable[tuple[RuleName, RuleUse]]) -> None:
    for rule, use in uses:
        if rule in found:
            found[rule] = max(use, found[rule])


def _of_schema(rules: SourceRules, schema: str) -> Iterator[tuple[RuleName, RuleUse]]:
    entries = rules.names.entries
    outranked = RuleUse.OUTRANKED if rules.subtask.block_allow_list.do_dbs else RuleUse.USED
    for key, use in (("do-dbs", RuleUse.USED), ("ignore-dbs", outranked)):
        yield from ((entries[key][i], use) for i in rules.allow_list.entries(key, schema))
    use = RuleUse.USED if rules.allow_list.allows(schema) else RuleUse.LEFT_OUT
    for route in rules.router.matching(schema).schema_level:
        yield rules.name_of(route), use
    for event in rules.events.rules_for(schema):
        yield rules.name_of(event), use


def _of_table(rules: SourceRules, schema: str, table: str) -> Iterator[tuple[RuleName, RuleUse]]:
    verdict = rules.allow_list.verdict(schema, table)
    use = RuleUse.USED if verdict.allowed else RuleUse.LEFT_OUT
    yield from _of_lists(rules, schema, table, verdict.key)
    routes = rules.router.matching(schema, table)
    for route in routes.table_level or routes.schema_level:
        yield rules.name_of(route), use
    groups = rules.mapper.matching(schema, table)
    for level in (groups.table_level, groups.schema_level):
        decides = level is groups.table_level or not groups.table_level
        for mapping in (rule for group in level for rule in group):
            yield rules.name_of(mapping), use if decides else min(use, RuleUse.OUTRANKED)
    for event in rules.events.rules_for(schema, table):
        yield rules.name_of(event), use
    for expression in rules.expressions_for(schema, table):
        yield rules.name_of(expression), use


def _of_lists(rules: SourceRules, schema: str, table: str, decided: str) -> Iterator[tuple[RuleName, RuleUse]]:
    """The use of list entries for tables; ``decided`` is the key of the entry that decided."""
    let_in = rules.allow_list.allows(schema)
    for i in rules.allow_list.entries("do-tables", schema, table):
        yield rules.names.entries["do-tables"][i], RuleUse.USED if let_in else RuleUse.LEFT_OUT
    for i in rules.allow_list.entries("ignore-tables", schema, table):
        use = RuleUse.USED if decided == "ignore-tables" else RuleUse.OUTRANKED if let_in else RuleUse.LEFT_OUT
        yield rules.names.entries["ignore-tables"][i], use
