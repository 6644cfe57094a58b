"""The wildcard selector of routes and filters: which rules match a schema and a table name.

Patterns are stored in a trie of bytes, so that a look-up costs about the length of the name for any number of rules:

- ``*`` zero or more characters, only as the last one;
- ``?`` exactly one;
- ``[…]`` one of a list of characters and ranges, ``[!…]`` any other; ``[!]`` is a literal ``!``, a ``[``
  without its ``]`` is literal. ``[0-63]`` is one character of ``0``–``6`` or ``3``, not a number up to 63.

A rule with an empty table pattern is a *schema-level* rule, the others are *table-level*. A name without a table (a
statement on a schema) matches schema-level rules; for binlog event filters it also matches the table pattern ``*``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pkg.rules.name_regex import NameRegex

T = TypeVar("T")

#: Distinct names in one selector's cache; above it, the cache is cleared, so memory stays limited.
CACHE_SIZE = 200_000
#: The prefix of a regular expression, which the trie can't hold.
REGEX_MARK = "~"


class DuplicatePatternError(ValueError):
    """The same schema and table pattern was inserted twice."""


@dataclass(slots=True, eq=False)
class _TrieNode(Generic[T]):
    """One state of the trie. ``exact`` is the item of a pattern ending here, ``tail`` that of ``…*`` here."""

    literal: dict[int, _TrieNode[T]] = field(default_factory=dict)
    question: _TrieNode[T] | None = None
    classes: dict[frozenset[int], _TrieNode[T]] = field(default_factory=dict)
    exact: T | None = None
    tail: T | None = None


class _Trie(Generic[T]):
    """Patterns → items; several patterns may match one name."""

    def __init__(self) -> None:
        self._root: _TrieNode[T] = _TrieNode()

    def get(self, pattern: str) -> T | None:
        """The item of exactly this pattern."""
        node, tail = self._walk(pattern)
        return node.tail if tail else node.exact

    def put(self, pattern: str, item: T) -> None:
        node, tail = self._walk(pattern)
        if tail:
            node.tail = item
        else:
            node.exact = item

    def _walk(self, pattern: str) -> tuple[_TrieNode[T], bool]:
        """The node of the pattern (created when missing), and whether a ``*`` ends it."""
        steps, tail = _parse(pattern)
        node = self._root
        for step in steps:
            if step is None:
                node.question = node.question or _TrieNode()
                node = node.question
            elif isinstance(step, int):
                node = node.literal.setdefault(step, _TrieNode())
            else:
                node = node.classes.setdefault(step, _TrieNode())
        return node, tail

    def match(self, name: str) -> list[T]:
        found: list[T] = []
        states = [self._root]
        for byte in name.encode("utf-8", "surrogateescape"):
            found.extend(state.tail for state in states if state.tail is not None)
            states = [successor for state in states for successor in _successors(state, byte)]
            if not states:
                return found
        for state in states:
            found.extend(item for item in (state.tail, state.exact) if item is not None)
        return found


def _successors(node: _TrieNode[T], byte: int) -> list[_TrieNode[T]]:
    result = [child for members, child in node.classes.items() if byte in members]
    if node.question is not None:
        result.append(node.question)
    literal = node.literal.get(byte)
    if literal is not None:
        result.append(literal)
    return result


def _parse(pattern: str) -> tuple[list[int | frozenset[int] | None], bool]:
    """Steps of a pattern (a byte, a set of bytes, ``None`` for any byte), and whether ``*`` ends it."""
    data = pattern.encode("utf-8", "surrogateescape")
    steps: list[int | frozenset[int] | None] = []
    at = 0
    while at < len(data):
        byte = data[at]
        # A class has at least one member, so a "]" right after the "[" does not close it.
        end = data.find(b"]", at + 2) if byte == ord("[") else -1
        if byte == ord("*"):
            if at != len(data) - 1:
                raise ValueError(f"pattern {pattern!r} is not valid: '*' is allowed only as its last character")
            return steps, True
        if byte == ord("?"):
            steps.append(None)
        elif end >= 0:
            steps.append(_parse_class(data[at + 1 : end], pattern))
            at = end
        else:
            steps.append(byte)
        at += 1
    return steps, False


def check_wildcard(pattern: str) -> None:
    """For rules that accept only wildcards; raises ``ValueError`` for an invalid pattern, or one meant as a regex."""
    if pattern.startswith(REGEX_MARK):
        raise ValueError(
            f"pattern {pattern!r} is a regular expression, which only routes and the block-allow-list support (for "
            f"a name that begins with {REGEX_MARK}, write [{REGEX_MARK}])"
        )
    _parse(pattern)


def _parse_class(body: bytes, pattern: str) -> frozenset[int]:
    negated = len(body) > 1 and body[0] == ord("!")
    members: set[int] = set()
    at = 1 if negated else 0
    while at < len(body):
        if at + 2 < len(body) and body[at + 1] == ord("-"):
            low, high = body[at], body[at + 2]
            if low > high:
                raise ValueError(f"pattern {pattern!r} is not valid: the range {chr(low)}-{chr(high)} is reversed")
            members.update(range(low, high + 1))
            at += 3
        else:
            members.add(body[at])
            at += 1
    return frozenset(range(256)) - members if negated else frozenset(members)


@dataclass(slots=True)
class _SchemaItem(Generic[T]):
    """The content of one schema pattern: its schema-level rule, and the trie of its table-level rules."""

    rule: tuple[int, T] | None = None
    tables: _Trie[tuple[int, T]] | None = None


@dataclass(frozen=True, slots=True)
class Matches(Generic[T]):
    """The rules that match one name, each level in the order of insertion."""

    schema_level: tuple[T, ...]
    table_level: tuple[T, ...]

    @property
    def all(self) -> tuple[T, ...]:
        return self.schema_level + self.table_level


class Selector(Generic[T]):
    """Rules by schema and table pattern. Look-ups are cached; picklable (without its cache).

    ``star_takes_schemas``: a name without a table matches the table pattern ``*``, as in DM's binlog event filters.
    """

    def __init__(self, case_sensitive: bool, *, star_takes_schemas: bool = False) -> None:
        self._case_sensitive = case_sensitive
        self._star_takes_schemas = star_takes_schemas
        self._schemas: _Trie[_SchemaItem[T]] = _Trie()
        self._rules: list[tuple[str, str, T]] = []
        self._cache: dict[tuple[str, str], Matches[T]] = {}
        # A schema has many tables; its patterns are looked up once.
        self._by_schema: dict[str, list[_SchemaItem[T]]] = {}

    def insert(self, schema_pattern: str, table_pattern: str, rule: T) -> None:
        """Adds a rule; raises ``ValueError`` for an invalid or existing pattern."""
        if not schema_pattern:
            raise ValueError("the schema pattern must not be empty")
        schema_key, table_key = self._fold(schema_pattern), self._fold(table_pattern)
        item = self._schemas.get(schema_key)
        if item is None:
            item = _SchemaItem()
            self._schemas.put(schema_key, item)
        entry = (len(self._rules), rule)
        if not table_key:
            exists = item.rule is not None
            item.rule = item.rule or entry
        else:
            item.tables = item.tables or _Trie()
            exists = item.tables.get(table_key) is not None
            if not exists:
                item.tables.put(table_key, entry)
        if exists:
            name = f"{schema_pattern!r}.{table_pattern!r}" if table_pattern else repr(schema_pattern)
            raise DuplicatePatternError(f"a rule for the pattern {name} already exists")
        self._rules.append((schema_pattern, table_pattern, rule))
        self._cache.clear()
        self._by_schema.clear()

    def match(self, schema: str, table: str = "") -> Matches[T]:
        """All matching rules; without a ``table`` the schema-level ones, and ``*`` with ``star_takes_schemas``."""
        key = (self._fold(schema), self._fold(table))
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            found = self._cache[key] = self._look_up(*key)
        return found

    def _look_up(self, schema: str, table: str) -> Matches[T]:
        items = self._by_schema.get(schema)
        if items is None:
            if len(self._by_schema) >= CACHE_SIZE:
                self._by_schema.clear()
            items = self._by_schema[schema] = self._schemas.match(schema)
        schema_level = [item.rule for item in items if item.rule is not None]
        asks_tables = bool(table) or self._star_takes_schemas
        table_level = [entry for item in items if asks_tables and item.tables for entry in item.tables.match(table)]
        return Matches(_in_order(schema_level), _in_order(table_level))

    def _fold(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def __reduce__(self) -> tuple[Any, ...]:
        # The trie of long patterns is nested too deeply for pickle's recursion; the rules are flat.
        return _rebuild, (self._case_sensitive, self._star_takes_schemas, self._rules)


def _rebuild(case_sensitive: bool, star_takes_schemas: bool, rules: list[tuple[str, str, T]]) -> Selector[T]:
    selector: Selector[T] = Selector(case_sensitive, star_takes_schemas=star_takes_schemas)
    for schema_pattern, table_pattern, rule in rules:
        selector.insert(schema_pattern, table_pattern, rule)
    return selector


def _in_order(entries: list[tuple[int, T]]) -> tuple[T, ...]:
    return tuple(rule for _, rule in sorted(entries, key=lambda entry: entry[0]))


class NamePattern:
    """One pattern over one name: ``~`` and a regular expression, or a wildcard pattern.

    Raises ``ValueError`` for an invalid pattern.
    """

    def __init__(self, pattern: str, case_sensitive: bool) -> None:
        self._regex = None
        #: Every matching name begins with it ('' when unknown); lower case when case is ignored.
        self.prefix = _literal_prefix(pattern) if case_sensitive else _literal_prefix(pattern).lower()
        self._wildcard: Selector[bool] | None = None
        if pattern.startswith(REGEX_MARK):
            self._regex = NameRegex(pattern[len(REGEX_MARK) :], case_sensitive=case_sensitive)
        else:
            self._wildcard = Selector(case_sensitive)
            self._wildcard.insert(pattern, "", True)

    def matches(self, name: str) -> bool:
        if self._wildcard is not None:
            return bool(self._wildcard.match(name).schema_level)
        return self._regex is not None and self._regex.search(name) is not None


_ANCHORED_LITERAL = re.compile(r"~\^([\w-]*)(?![\w*?{+-])", re.ASCII)
_WILDCARD_LITERAL = re.compile(r"[^*?\[~]*")


def _literal_prefix(pattern: str) -> str:
    """The plain characters at the start of a pattern; '' for a regular expression that may begin differently."""
    if not pattern.startswith(REGEX_MARK):
        literal = _WILDCARD_LITERAL.match(pattern)
        return literal[0] if literal else ""
    anchored = _ANCHORED_LITERAL.match(pattern)
    # An alternative may begin differently, at any position.
    return anchored[1] if anchored and "|" not in pattern else ""
