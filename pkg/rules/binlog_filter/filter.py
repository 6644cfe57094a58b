"""Rules and names in, decisions out. Pure; applies nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pkg import errors
from pkg.errors import Code
from pkg.rules.binlog_filter.events import DELETE, EVENT_TYPES, GROUPS, INSERT, UPDATE, covers, listed, normal_name
from pkg.rules.model import BinlogFilterRule
from pkg.rules.name_regex import NameRegex
from pkg.rules.selector import CACHE_SIZE, Selector, check_wildcard
from pkg.settings.options import nearest

FilterAction = Literal["do", "ignore", "error"]
_ACTIONS: dict[str, FilterAction] = {"do": "do", "ignore": "ignore", "error": "error"}
_SHOWN = 200
_CHECK_RULES = "Please check the `filters` config in task and source configuration files."


@dataclass(frozen=True, slots=True)
class FilterDecision:
    """The action for an event. ``rule`` and ``why`` (the part of it that decided) are empty when no rule decided."""

    action: FilterAction
    rule: BinlogFilterRule | None = None
    why: str = ""

    def refusal(self, schema: str, table: str, what: str, position: str = "") -> errors.DMError:
        """The 36015 error of an *error* decision; ``what`` is the statement or the kind of row change."""
        name = f"`{schema}`.`{table}`" if table else f"`{schema}`"
        rule = describe(self.rule) if self.rule else ""
        # Scripts search for the event's name without quotes; ``why`` itself is part of stored fingerprints.
        why = self.why.replace("'", "") if self.why.startswith("event") else self.why
        return errors.new(
            Code.SyncerUnitBinlogEventFilter,
            f"the binlog event filter {rule} stops the task by its {why}"
            f"{f' at {position}' if position else ''}, for {name}: {what[:_SHOWN]}{'…' if len(what) > _SHOWN else ''}",
            workaround="Decide what the target needs, then change the filter's action or skip the event.",
        )


DO: Final = FilterDecision("do")


@dataclass(frozen=True, slots=True)
class RowDecisions:
    """The decisions about the row changes of one table."""

    insert: FilterDecision = DO
    update: FilterDecision = DO
    delete: FilterDecision = DO

    @property
    def ignored(self) -> frozenset[str]:
        """The kinds to skip."""
        return self._with("ignore")

    @property
    def refused(self) -> frozenset[str]:
        """The kinds to stop at."""
        return self._with("error")

    @property
    def takes_all(self) -> bool:
        return self.insert.action == self.update.action == self.delete.action == "do"

    def _with(self, action: FilterAction) -> frozenset[str]:
        kinds = ((INSERT, self.insert), (UPDATE, self.update), (DELETE, self.delete))
        return frozenset(kind for kind, decision in kinds if decision.action == action)


@dataclass(frozen=True, slots=True)
class _Compiled:
    rule: BinlogFilterRule
    action: FilterAction
    events: tuple[str, ...]
    patterns: tuple[NameRegex, ...]


class BinlogEventFilter:
    """Decides by rules, first those of the task, then the source's own. As in DM, a rule for the tables ``*`` also
    applies to statements without a table (DROP DATABASE).

    Raises 20037 for an invalid rule; none is ever dropped. Picklable; decisions about rows are cached per table.
    """

    def __init__(self, rules: Iterable[BinlogFilterRule], case_sensitive: bool) -> None:
        groups: dict[tuple[str, str], list[tuple[int, _Compiled]]] = {}
        for order, rule in enumerate(rules):
            patterns = rule.schema_pattern, rule.table_pattern
            key = patterns if case_sensitive else (patterns[0].lower(), patterns[1].lower())
            groups.setdefault(key, []).append((order, _compile(rule)))
        self._selector: Selector[tuple[tuple[int, _Compiled], ...]] = Selector(case_sensitive, star_takes_schemas=True)
        for group in groups.values():
            rule = group[0][1].rule
            self._selector.insert(rule.schema_pattern, rule.table_pattern, tuple(group))
        self._rows: dict[tuple[str, str], RowDecisions] = {}

    def rules_for(self, schema: str, table: str = "") -> tuple[BinlogFilterRule, ...]:
        """The rules for the table, in their order."""
        return tuple(compiled.rule for compiled in self._matching(schema, table))

    def decide(self, schema: str, table: str, types: Sequence[str], sql: str = "") -> FilterDecision:
        """The decision about one event.

        ``types`` are the event's (:func:`event_types`), none when it has no class; ``sql`` is the statement, '' for row
        changes. For a statement that can't be parsed, names are empty and there are no types.
        """
        for compiled in self._matching(schema, table):
            decision = _by_event(compiled, types) or _by_statement(compiled, sql)
            if decision is not None:
                return decision
        return DO

    def rows(self, schema: str, table: str) -> RowDecisions:
        """The decisions about row changes of the table."""
        found = self._rows.get((schema, table))
        if found is None:
            if len(self._rows) >= CACHE_SIZE:
                self._rows.clear()
            found = RowDecisions(*(self.decide(schema, table, (kind,)) for kind in (INSERT, UPDATE, DELETE)))
            self._rows[schema, table] = found
        return found

    def _matching(self, schema: str, table: str) -> list[_Compiled]:
        matches = self._selector.match(schema, table)
        # Each level in the order of its rules; rules with the same patterns are one item of the selector.
        levels = (matches.schema_level, matches.table_level)
        return [
            entry[1]
            for level in levels
            for entry in sorted((entry for group in level for entry in group), key=lambda entry: entry[0])
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": {}}


def _by_event(compiled: _Compiled, types: Sequence[str]) -> FilterDecision | None:
    if not types:
        return None
    if listed(types, compiled.events):
        return (
            None if compiled.action == "do" else FilterDecision(compiled.action, compiled.rule, f"event {types[0]!r}")
        )
    if compiled.action == "do":
        return FilterDecision("ignore", compiled.rule, f"events, which lack {types[0]!r}")
    return None


def _by_statement(compiled: _Compiled, sql: str) -> FilterDecision | None:
    if not sql or not compiled.patterns:
        return None
    for pattern, text in zip(compiled.patterns, compiled.rule.sql_pattern, strict=True):
        if pattern.search(sql):
            return (
                None
                if compiled.action == "do"
                else FilterDecision(compiled.action, compiled.rule, f"sql-pattern {text!r}")
            )
    return (
        FilterDecision("ignore", compiled.rule, "sql-pattern, which does not match")
        if compiled.action == "do"
        else None
    )


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """The error of a rule: the key, the item of its list (-1 for the whole), text and remedy."""

    key: str
    what: str
    workaround: str = _CHECK_RULES
    item: int = field(default=-1)


def _compile(rule: BinlogFilterRule) -> _Compiled:
    problem = rule_problem(rule)
    if problem is not None:
        raise _invalid(rule, problem.what, problem.workaround)
    patterns = tuple(NameRegex(text, case_sensitive=False) for text in rule.sql_pattern)
    return _Compiled(rule, _ACTIONS[rule.action.lower()], tuple(map(normal_name, rule.events)), patterns)


def rule_problem(rule: BinlogFilterRule) -> FilterProblem | None:
    """The first error of the rule itself; ``None`` for a valid rule."""
    action = _ACTIONS.get(rule.action.lower())
    if action is None:
        return FilterProblem("action", f"action {rule.action!r} is not valid", "Set action to Do, Ignore or Error.")
    if not rule.schema_pattern:
        return FilterProblem("schema-pattern", "schema-pattern is missing", 'Use "*" for all schemas.')
    for key, pattern in (("schema-pattern", rule.schema_pattern), ("table-pattern", rule.table_pattern)):
        try:
            check_wildcard(pattern)
        except ValueError as exc:
            return FilterProblem(key, str(exc))
    problem = _event_problem(rule.events) or _pattern_problem(rule.sql_pattern)
    if problem is not None or rule.events:
        return problem
    if action == "do":
        return FilterProblem("events", "action Do without events would drop everything", 'Add events: ["all"].')
    if not rule.sql_pattern:
        return FilterProblem(
            "events", "neither events nor sql-pattern is given, so the rule has no effect", "Add one of them."
        )
    return None


def _event_problem(events: Sequence[str]) -> FilterProblem | None:
    earlier: list[str] = []
    for i, entry in enumerate(events):
        try:
            name = normal_name(entry)
        except ValueError as exc:
            near = nearest(entry.lower(), sorted({*EVENT_TYPES, *GROUPS}))
            return FilterProblem("events", str(exc), f"Did you mean {near!r}?" if near else _CHECK_RULES, i)
        members, verdict = covers(name)
        decided = [other for other in earlier if covers(other)[0] >= members]
        if decided and covers(decided[0])[1] is not verdict:
            return FilterProblem(
                "events",
                f"event {entry!r} contradicts {decided[0]!r} before it, which takes precedence",
                "Put the narrower one first, or remove one of them.",
                i,
            )
        earlier.append(name)
    return None


def _pattern_problem(patterns: Sequence[str]) -> FilterProblem | None:
    for i, text in enumerate(patterns):
        if not text:
            return FilterProblem("sql-pattern", "an empty sql-pattern matches every statement", "Remove it.", i)
        if text in patterns[:i]:
            return FilterProblem("sql-pattern", f"sql-pattern {text!r} is here twice", "Remove one of them.", i)
        try:
            NameRegex(text, case_sensitive=False)
        except ValueError as exc:
            return FilterProblem("sql-pattern", str(exc), "Correct the regular expression (RE2 syntax).", i)
    return None


def find_contradiction(rules: Sequence[BinlogFilterRule], case_sensitive: bool) -> tuple[int, int] | None:
    """The indexes of two rules that differ only in their action; ``None`` when there are none."""
    seen: dict[tuple[object, ...], int] = {}
    for i, rule in enumerate(rules):
        names = (rule.schema_pattern, rule.table_pattern)
        if not case_sensitive:
            names = (names[0].lower(), names[1].lower())
        key = (*names, tuple(map(normal_name, rule.events)), rule.sql_pattern)
        first = seen.setdefault(key, i)
        if rules[first].action.lower() != rule.action.lower():
            return first, i
    return None


def describe(rule: BinlogFilterRule) -> str:
    """The rule in an error's text."""
    patterns = f"{rule.schema_pattern}.{rule.table_pattern}" if rule.table_pattern else rule.schema_pattern
    return f"'{patterns}: {rule.action}'"


def _invalid(rule: BinlogFilterRule, why: str, workaround: str = _CHECK_RULES) -> errors.DMError:
    return errors.new(
        Code.ConfigBinlogEventFilter, f"binlog event filter {describe(rule)} is not valid: {why}", workaround=workaround
    )
