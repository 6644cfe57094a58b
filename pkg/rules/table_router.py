"""Table routing: the target table of an upstream table, and the values that its name adds to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pkg import errors
from pkg.errors import Code
from pkg.rules.model import ExtractRule, RouteRule
from pkg.rules.name_regex import NameRegex
from pkg.rules.regex_selector import RegexSelector
from pkg.rules.selector import CACHE_SIZE, REGEX_MARK, Matches, Selector


@dataclass(frozen=True, slots=True)
class _Extract:
    """``kind`` is the kind of name: table, schema or source."""

    kind: str
    column: str
    regex: NameRegex

    def value(self, name: str) -> str:
        found = self.regex.search(name)
        if found is None:
            raise errors.new(
                Code.ConfigGenTableRouter,
                f"extract-{self.kind} for the column `{self.column}`: {self.regex.pattern!r} is not found in the "
                f"{self.kind} name {name!r}",
                workaround="Correct the regular expression, or give this name a separate route.",
            )
        return "".join(group or "" for group in found.groups())


def extract_regex(extract: ExtractRule, case_sensitive: bool) -> NameRegex:
    """The compiled expression. Raises ``ValueError`` for an invalid one, or without a group or target column."""
    if not extract.target_column:
        raise ValueError("target-column must not be empty")
    regex = NameRegex(extract.regexp, case_sensitive=case_sensitive)
    if not regex.groups:
        raise ValueError(f"regular expression {extract.regexp!r} has no group ( ), so its value would always be empty")
    return regex


class TableRouter:
    """Routes by rules, a table-level rule before a schema-level one; names without a matching rule stay unchanged.

    Raises a 20045 error for an invalid rule. Picklable, and cheap with thousands of rules: results are cached per
    table.
    """

    def __init__(self, routes: Sequence[RouteRule], case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._selector: Selector[tuple[int, RouteRule]] = Selector(case_sensitive)
        self._regexes: RegexSelector[tuple[int, RouteRule]] = RegexSelector(case_sensitive)
        self._cache: dict[tuple[str, str], tuple[str, str]] = {}
        self._extracts: dict[RouteRule, tuple[_Extract, ...]] = {}
        for order, rule in enumerate(routes):
            self._add(order, rule)

    def route(self, schema: str, table: str = "") -> tuple[str, str]:
        """The target's schema and table; an empty ``table`` (schema-level statement) stays empty.

        Raises a 40080 error when more than one rule of the deciding level matches.
        """
        key = (schema, table)
        target = self._cache.get(key)
        if target is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            target = self._cache[key] = self._decide(schema, table)
        return target

    def rule_for(self, schema: str, table: str = "") -> RouteRule | None:
        """The rule that decides for this name, ``None`` when it is not routed. Raises as :meth:`route`."""
        matches = self.matching(schema, table)
        for level, rules in (("table", matches.table_level), ("schema", matches.schema_level)):
            if len(rules) > 1:
                raise _ambiguous(schema, table, level, rules)
            if rules:
                return rules[0]
        return None

    def extracted(self, schema: str, table: str, source_id: str) -> tuple[tuple[str, str], ...]:
        """The values that ``extract-table``, ``-schema`` and ``-source`` (in this order) add to each row of the table.

        Pairs of target column and text, the regular expression's groups one after the other. Raises 40080 as
        :meth:`route`, and 20045 for a name that the expression does not match: without its value the rows of this shard
        could not be distinguished from others.
        """
        rule = self.rule_for(schema, table)
        extracts = self._extracts.get(rule, ()) if rule is not None else ()
        names = {"table": table, "schema": schema, "source": source_id}
        return tuple((extract.column, extract.value(names[extract.kind])) for extract in extracts)

    def _decide(self, schema: str, table: str) -> tuple[str, str]:
        rule = self.rule_for(schema, table)
        if rule is None:
            return schema, table
        return rule.target_schema, (rule.target_table or table) if table else ""

    def matching(self, schema: str, table: str = "") -> Matches[RouteRule]:
        """The matching rules, each level in the order of the rules; :meth:`rule_for` returns the one that decides."""
        wildcard = self._selector.match(schema, table)
        schema_level, table_level = self._regexes.match(schema, table)
        return Matches(_rules([*wildcard.schema_level, *schema_level]), _rules([*wildcard.table_level, *table_level]))

    def _add(self, order: int, rule: RouteRule) -> None:
        if not rule.schema_pattern or not rule.target_schema:
            missing = "target-schema" if rule.schema_pattern else "schema-pattern"
            raise _invalid(rule, f"{missing} must not be empty")
        self._extracts.update(self._compile_extracts(rule))
        try:
            if REGEX_MARK in (rule.schema_pattern[0], rule.table_pattern[:1]):
                self._regexes.insert(rule.schema_pattern, rule.table_pattern, (order, rule))
            else:
                self._selector.insert(rule.schema_pattern, rule.table_pattern, (order, rule))
        except ValueError as exc:
            raise _invalid(rule, str(exc)) from exc

    def _compile_extracts(self, rule: RouteRule) -> dict[RouteRule, tuple[_Extract, ...]]:
        given = (("table", rule.extract_table), ("schema", rule.extract_schema), ("source", rule.extract_source))
        extracts = []
        columns: set[str] = set()
        for kind, extract in given:
            if extract is None:
                continue
            if extract.target_column.lower() in columns:
                raise _invalid(rule, f"two extracts have the target column `{extract.target_column}`")
            columns.add(extract.target_column.lower())
            try:
                extracts.append(_Extract(kind, extract.target_column, extract_regex(extract, self._case_sensitive)))
            except ValueError as exc:
                raise _invalid(rule, f"extract-{kind}: {exc}") from exc
        return {rule: tuple(extracts)} if extracts else {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}


def _rules(entries: list[tuple[int, RouteRule]]) -> tuple[RouteRule, ...]:
    return tuple(rule for _, rule in sorted(entries, key=lambda entry: entry[0]))


def _describe(rule: RouteRule) -> str:
    source = f"{rule.schema_pattern}.{rule.table_pattern}" if rule.table_pattern else rule.schema_pattern
    target = f"{rule.target_schema}.{rule.target_table}" if rule.target_table else rule.target_schema
    return f"{source} -> {target}"


def _invalid(rule: RouteRule, why: str) -> errors.DMError:
    return errors.new(
        Code.ConfigGenTableRouter,
        f"route rule {_describe(rule)!r} is not valid: {why}",
        workaround="Please check the `routes` config in task configuration file.",
    )


def _ambiguous(schema: str, table: str, level: str, rules: Sequence[RouteRule]) -> errors.DMError:
    name = f"`{schema}`.`{table}`" if table else f"`{schema}`"
    return errors.new(
        Code.WorkerRouteTableDupMatch,
        f"{name} matches more than one rule: {len(rules)} {level}-level route rules match it, "
        f"the first two are {_describe(rules[0])!r} and {_describe(rules[1])!r}",
        workaround="Please check the route rules in the task config and make their patterns disjoint.",
    )
