"""Hazard: a wildcard pattern matches other names than its written rules and an independent matcher say."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.rules.selector import DuplicatePatternError, NamePattern, Selector


def matches(pattern: str, name: str, case_sensitive: bool = True) -> bool:
    return NamePattern(pattern, case_sensitive).matches(name)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("shop_*", "shop_", True),
        ("shop_*", "shop_12", True),
        ("shop_*", "shop", False),
        ("*", "", True),
        ("sh?p", "shop", True),
        ("sh?p", "shp", False),
        ("t[0-63]", "t6", True),
        ("t[0-63]", "t3", True),
        ("t[0-63]", "t63", False),
        ("t[!a-c]", "td", True),
        ("t[!a-c]", "tb", False),
        ("t[!]", "t!", True),
        ("t[!]", "tx", False),
        ("t[a", "t[a", True),
        ("t[]", "t[]", True),
        ("t[a]*", "ta9", True),
        ("t]", "t]", True),
        ("a-b", "a-b", True),
        ("t.1", "tx1", False),
        ("??", "é", True),  # byte-wise: é is two bytes
    ],
)
def test_pattern_rules(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@pytest.mark.parametrize("pattern", ["a*b", "**", "*a", "t[z-a]"])
def test_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not valid"):
        Selector[int](True).insert(pattern, "", 1)


def test_empty_schema_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Selector[int](True).insert("", "t", 1)


def test_same_pattern_twice_is_refused_also_when_only_the_case_differs() -> None:
    selector = Selector[int](False)
    selector.insert("Db*", "T?", 1)
    selector.insert("Db*", "", 2)
    with pytest.raises(DuplicatePatternError, match="already exists"):
        selector.insert("dB*", "t?", 3)
    with pytest.raises(DuplicatePatternError, match="already exists"):
        selector.insert("DB*", "", 4)
    assert selector.match("dbx", "T1").all == (2, 1)


def test_both_levels_match_in_order_of_insertion() -> None:
    selector = Selector[str](True)
    for schema, table, rule in [
        ("*", "t*", "a"),
        ("db", "t1", "b"),
        ("db", "", "c"),
        ("d?", "", "d"),
        ("d*", "?1", "e"),
    ]:
        selector.insert(schema, table, rule)
    found = selector.match("db", "t1")
    assert found.schema_level == ("c", "d")
    assert found.table_level == ("a", "b", "e")
    assert selector.match("db").all == ("c", "d")
    selector.insert("db", "*", "f")
    assert selector.match("db").all == ("c", "d"), "a statement on the schema is not one on any of its tables"


def test_inserting_after_a_look_up_is_seen() -> None:
    selector = Selector[int](True)
    assert selector.match("db", "t").all == ()
    selector.insert("db", "t", 1)
    assert selector.match("db", "t").all == (1,)
    selector.insert("d?", "t", 2)
    assert selector.match("db", "t").all == (1, 2)


def test_pickles_with_the_longest_names() -> None:
    selector = Selector[int](True)
    selector.insert("s" * 64, "t" * 64, 7)
    selector.insert("é" * 64, "[a-z]" * 64, 8)
    copy = pickle.loads(pickle.dumps(selector))
    assert copy.match("s" * 64, "t" * 64).all == (7,)
    assert copy.match("é" * 64, "q" * 64).all == (8,)


ALPHABET = "ab-!["
PIECES = st.sampled_from(["a", "b", "-", "!", "?", "[ab]", "[!a]", "[a-b]", "[!]", "[b-]"])


def oracle(pattern: list[str], tail: bool, name: str) -> bool:
    """The pattern as a regular expression, made from its pieces and not from its text."""
    table = {"?": ".", "[ab]": "(?:a|b)", "[!a]": "[^a]", "[a-b]": "(?:a|b)", "[!]": "!", "[b-]": "(?:b|-)"}
    text = "".join(table.get(piece, re.escape(piece)) for piece in pattern) + (".*" if tail else "")
    return re.fullmatch(text, name, re.DOTALL) is not None


@given(
    st.lists(st.tuples(st.lists(PIECES, min_size=1, max_size=5), st.booleans()), max_size=12, unique_by=str),
    st.text(ALPHABET, max_size=6),
)
def test_many_patterns_in_one_trie_match_like_each_alone(patterns: list[tuple[list[str], bool]], name: str) -> None:
    selector = Selector[int](True)
    expected = []
    for i, (pieces, tail) in enumerate(patterns):
        try:
            selector.insert("s", "".join(pieces) + ("*" if tail else ""), i)
        except DuplicatePatternError:
            continue
        if name and oracle(pieces, tail, name):
            expected.append(i)
    assert list(selector.match("s", name).table_level) == expected


LEVEL = st.tuples(st.lists(PIECES, max_size=3), st.booleans()).filter(lambda level: level != ([], False))


@given(
    st.lists(st.tuples(LEVEL, st.one_of(st.none(), LEVEL)), max_size=10, unique_by=str),
    st.text(ALPHABET + "AB", min_size=1, max_size=4),
    st.text(ALPHABET + "AB", max_size=4),
    st.booleans(),
)
def test_both_levels_match_like_every_rule_asked_by_itself(
    rules: list[tuple[tuple[list[str], bool], tuple[list[str], bool] | None]],
    schema: str,
    table: str,
    case_sensitive: bool,
) -> None:
    selector = Selector[int](case_sensitive)
    schema_level, table_level = [], []
    asked_schema, asked_table = (schema, table) if case_sensitive else (schema.lower(), table.lower())
    for i, (outer, inner) in enumerate(rules):
        texts = ["".join(level[0]) + ("*" if level[1] else "") if level else "" for level in (outer, inner)]
        # The pieces are lower case: upper-case patterns have to mean the same when case does not count.
        schema_pattern, table_pattern = texts if case_sensitive else (text.upper() for text in texts)
        try:
            selector.insert(schema_pattern, table_pattern, i)
        except DuplicatePatternError:
            continue
        if not oracle(*outer, asked_schema):
            continue
        if inner is None:
            schema_level.append(i)
        elif table and oracle(*inner, asked_table):
            table_level.append(i)
    found = selector.match(schema, table)
    assert (list(found.schema_level), list(found.table_level)) == (schema_level, table_level)
    assert found == selector.match(schema, table), "the answer that is remembered"


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_thousands_of_rules_and_ten_thousands_of_tables_cost_nothing_noticeable() -> None:
    """CPU time. A start over 50,000 tables may cost a second or two, a table that is known a microsecond or so."""
    selector = Selector[int](False)
    tables = [(f"shard_{i % 5000:04}", f"order_{i:05}") for i in range(50_000)]

    def build() -> None:
        for i in range(5000):
            selector.insert(f"shard_{i:04}", f"order_{i % 5}*", i)
        for i in range(500):
            selector.insert(f"sh?rd_[0-4]{i:03}", "order_[0-9]???[!0-8]", i)

    def first() -> None:
        for schema, table in tables:
            selector.match(schema, table)

    assert _seconds(build) < 3
    cold = _seconds(first)
    warm = _seconds(first)
    assert cold < 8, f"{cold / len(tables) * 1e6:.1f} µs for each new table"
    assert warm < 1, f"{warm / len(tables) * 1e6:.1f} µs for each known table"
    assert selector.match("shard_0003", "order_30003").all == (3,)


def test_the_cost_of_a_look_up_does_not_grow_with_the_rules() -> None:
    """The same look-ups among 100 and among 10,000 rules; a scan of all rules would take a hundred times as long."""

    def cost(count: int) -> float:
        selector = Selector[int](True)
        for i in range(count):
            selector.insert(f"shard_{i:05}", "order_*", i)
        names = [(f"shard_{i % 100:05}", f"order_{i}") for i in range(5000)]
        return _seconds(lambda: [selector.match(*name) for name in names])

    assert cost(10_000) < 10 * cost(100) + 0.05
