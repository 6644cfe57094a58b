"""Checks of a task's rules on the existing tables: rules without effect, impossible rules, harmful rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dm_master.precheck.result import CheckFinding, fail, from_error, warn
from dm_master.precheck.table_checks import TablesByTarget
from dm_master.rules.inspected_upstream import InspectedUpstream
from dm_master.rules.rule_usage import REASONS, RuleUse
from dm_master.rules.source_rules import SourceRules
from pkg.config.rule_names import RuleName
from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo
from pkg.rules import expression_filter
from pkg.rules.column_mapping import TableMapping, collisions

_FindingMaker = Callable[..., CheckFinding]
_IGNORE = "add `rules` to ignore-checking-items"


def check_routes(upstream: InspectedUpstream) -> list[CheckFinding]:
    """Tables that several routes claim (40080), one finding for each set of routes."""
    rules = upstream.rules
    claimed: dict[tuple[int, ...], list[TableId]] = {}
    for table in upstream.tables:
        matches = rules.router.matching(*table)
        deciding = matches.table_level or matches.schema_level
        if len(deciding) > 1:
            claimed.setdefault(tuple(map(id, deciding)), []).append(table)
    return [_ambiguous(rules, tables) for tables in claimed.values()]


def _ambiguous(rules: SourceRules, tables: Sequence[TableId]) -> CheckFinding:
    matches = rules.router.matching(*tables[0])
    names = [rules.name_of(route) for route in matches.table_level or matches.schema_level]
    more = f" and {len(tables) - 1} more tables" if len(tables) > 1 else ""
    try:
        rules.router.route(*tables[0])
    except DMError as exc:
        found = from_error(exc)
        return fail(
            f"{'; '.join(map(str, names))}: {found.message}",
            found.instruction,
            subject=f"{rules.subtask.source_id} `{tables[0][0]}`.`{tables[0][1]}`{more}",
        )
    raise AssertionError("a table with several routes has a target")


def check_usage(uses: Mapping[RuleName, RuleUse], *, strict: bool) -> list[CheckFinding]:
    """Rules without effect: the tables that they were meant for may be lost or go elsewhere. Pure.

    ``strict`` makes them failures, except for an entry that ignores a table that does not exist, which is harmless.
    """
    findings = []
    for rule, use in uses.items():
        if use is not RuleUse.USED:
            harmless = rule.block == "block-allow-list" and ": ignore-" in rule.name
            problem: _FindingMaker = fail if strict and not harmless else warn
            findings.append(
                problem(
                    f"{rule} has no effect: {REASONS[use]}",
                    f"Correct or remove it, unless its tables are created later. To suppress this warning, {_IGNORE}.",
                )
            )
    return findings


def check_rules(upstream: InspectedUpstream, *, certain: bool) -> list[CheckFinding]:
    """Rules that cannot work on the current tables; if not ``certain``, failures are warnings."""
    findings: list[CheckFinding] = []
    for info in upstream.structures.values():
        found = [
            *_column_mapping(upstream, info),
            *_extracts(upstream, info),
            *_expressions(upstream, info),
        ]
        findings += found if certain else [warn(f.message, f.instruction, subject=f.subject) for f in found]
    return findings


def _subject(upstream: InspectedUpstream, info: TableInfo) -> str:
    return f"{upstream.subtask.source_id} `{info.schema}`.`{info.name}`"


def _column_mapping(upstream: InspectedUpstream, info: TableInfo) -> Iterator[CheckFinding]:
    rules = upstream.rules
    matching = rules.mapper.rules_for(info.schema, info.name)
    if not matching:
        return
    rule_names = "; ".join(str(rules.name_of(rule)) for rule in matching)
    try:
        rules.mapper.compile(info.schema, info.name, info.columns)
    except DMError as exc:
        found = from_error(exc)
        yield fail(f"{rule_names}: {found.message}", found.instruction, subject=_subject(upstream, info))


def _extracts(upstream: InspectedUpstream, info: TableInfo) -> Iterator[CheckFinding]:
    rules, subject = upstream.rules, _subject(upstream, info)
    route = rules.router.rule_for(info.schema, info.name)
    if route is None:
        return
    name = rules.name_of(route)
    try:
        rules.router.extracted(info.schema, info.name, upstream.subtask.source_id)
    except DMError as exc:
        found = from_error(exc)
        yield fail(f"{name}: {found.message}", found.instruction, subject=subject)


def _expressions(upstream: InspectedUpstream, info: TableInfo) -> Iterator[CheckFinding]:
    for rule in upstream.rules.expressions_for(info.schema, info.name):
        expressions = (
            rule.insert_value_expr, rule.update_old_value_expr, rule.update_new_value_expr, rule.delete_value_expr,
        )  # fmt: skip
        for text in filter(None, expressions):
            try:
                expression_filter.compile_filter(text, info.columns, flavor=upstream.subtask.flavor)
            except DMError as exc:
                found = from_error(exc)
                yield fail(
                    f"{upstream.rules.name_of(rule)}: {found.message}",
                    found.instruction,
                    subject=_subject(upstream, info),
                )


def check_collisions(groups: TablesByTarget, rules: Mapping[str, SourceRules]) -> list[CheckFinding]:
    """Shards of one target that get the same bits from ``partition id``: one would overwrite the other. Pure.

    Shards with different extracted values are left out: a key that contains these keeps them apart.
    """
    findings = []
    for target, shards in groups.items():
        mapped = [(shard.source_id, target, shard.mapping) for shard in shards if shard.mapping is not None]
        filled = {(shard.source_id, shard.info.schema, shard.info.name): shard.filled for shard in shards}
        for (source, one), (other, two) in collisions(mapped):
            if filled[source, one.schema, one.table] == filled[other, two.schema, two.table]:
                findings.append(_collide(target, (rules[source], one), (rules[other], two)))
    return findings


def _collide(
    target: TableId, one: tuple[SourceRules, TableMapping], two: tuple[SourceRules, TableMapping]
) -> CheckFinding:
    names = dict.fromkeys(str(name) for side in (one, two) for name in _names_of(*side))
    first, second = (f"{rules.subtask.source_id} `{m.schema}`.`{m.table}`" for rules, m in (one, two))
    return fail(
        f"{'; '.join(names)}: {first} and {second} get the same bits of `partition id` in "
        f"`{target[0]}`.`{target[1]}`, so rows of one would overwrite rows of the other",
        "Give them other instance ids, or prefixes that leave different numbers.",
        subject=second,
        other=first,
    )


def _names_of(rules: SourceRules, mapping: TableMapping) -> Iterator[RuleName]:
    for rule in rules.mapper.rules_for(mapping.schema, mapping.table):
        yield rules.name_of(rule)
