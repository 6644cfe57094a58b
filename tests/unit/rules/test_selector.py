"""The wildcard selector against its written rules and against an independent matcher."""

from __future__ import annotations

import pickle
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.selector import DuplicatePatternError, NamePattern, Selector


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


def test_inserting_after_a_look_up_is_seen() -> None:
    selector = Selector[int](True)
    assert selector.match("db", "t").all == ()
    selector.insert("db", "t", 1)
    assert selector.match("db", "t").all == (1,)


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


def test_thousands_of_rules_cost_nothing_noticeable() -> None:
    selector = Selector[int](False)
    for i in range(5000):
        selector.insert(f"shard_{i:04}", "order_*", i)
    start = time.process_time()
    for i in range(20_000):
        assert selector.match(f"shard_{i % 5000:04}", f"order_{i}").all == (i % 5000,)
    assert time.process_time() - start < 5
