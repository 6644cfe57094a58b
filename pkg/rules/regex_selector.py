"""Rules whose schema or table pattern is a regular expression, found by the start of names.

A trie can't hold them, and trying thousands of expressions for each of thousands of tables takes minutes. Most begin
with plain text (``~^shop_\\d+$``), so only those whose start matches the name are tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar

from pkg.rules.selector import CACHE_SIZE, NamePattern

T = TypeVar("T")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _RegexRule(Generic[T]):
    schema: NamePattern
    table: NamePattern | None
    rule: T


class _ByPrefix(Generic[_V]):
    """Values by the plain text at the start of a pattern."""

    def __init__(self, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._values: dict[str, list[_V]] = {}

    def add(self, prefix: str, value: _V) -> None:
        self._values.setdefault(prefix, []).append(value)

    def candidates(self, name: str) -> Iterable[_V]:
        if not self._case_sensitive and not name.isascii():
            # Ignoring case, letters outside ASCII may equal one of a prefix in ways that lower() does not show.
            return chain.from_iterable(self._values.values())
        folded = name if self._case_sensitive else name.lower()
        return chain.from_iterable(self._values.get(folded[:end], ()) for end in range(len(folded) + 1))


@dataclass(slots=True)
class _MatchedSchema(Generic[T]):
    """The rules whose schema pattern matches one schema."""

    tables: _ByPrefix[_RegexRule[T]]
    schema_level: list[T] = field(default_factory=list)


class RegexSelector(Generic[T]):
    """Rules by pairs of patterns, each of which may be a regular expression. Picklable (without its cache)."""

    def __init__(self, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._rules: _ByPrefix[_RegexRule[T]] = _ByPrefix(case_sensitive)
        self._by_schema: dict[str, _MatchedSchema[T]] = {}

    def insert(self, schema_pattern: str, table_pattern: str, rule: T) -> None:
        """Adds a rule; raises ``ValueError`` for an invalid pattern."""
        schema = NamePattern(schema_pattern, self._case_sensitive)
        table = NamePattern(table_pattern, self._case_sensitive) if table_pattern else None
        self._rules.add(schema.prefix, _RegexRule(schema, table, rule))
        self._by_schema.clear()

    def match(self, schema: str, table: str = "") -> tuple[list[T], list[T]]:
        """The matching schema-level and table-level rules, in no order; without ``table`` only the former."""
        found = self._by_schema.get(schema)
        if found is None:
            if len(self._by_schema) >= CACHE_SIZE:
                self._by_schema.clear()
            found = self._by_schema[schema] = self._look_up(schema)
        if not table:
            return found.schema_level, []
        matching = [rule.rule for rule in found.tables.candidates(table) if rule.table and rule.table.matches(table)]
        return found.schema_level, matching

    def _look_up(self, schema: str) -> _MatchedSchema[T]:
        found: _MatchedSchema[T] = _MatchedSchema(_ByPrefix(self._case_sensitive))
        for rule in self._rules.candidates(schema):
            if not rule.schema.matches(schema):
                continue
            if rule.table is None:
                found.schema_level.append(rule.rule)
            else:
                found.tables.add(rule.table.prefix, rule)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_by_schema": {}}
