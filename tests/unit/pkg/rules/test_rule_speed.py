"""Hazard: a task with thousands of rules over ten-thousands of tables that takes minutes to decide what goes where.

CPU time. The bounds are several times what a slow core takes, and a small part of what a scan of all rules would take:
5,000 rules times 20,000 tables are 100,000,000 tries.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

import pytest

from pkg.rules.binlog_filter import BinlogEventFilter
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.model import BinlogFilterRule, BlockAllowList, ColumnMappingRule, RouteRule, TableName
from pkg.rules.table_router import TableRouter

RULES = 5_000
#: Seconds of CPU for building the rules and asking for each of the tables once.
LIMIT = 12.0
SPREAD = [(f"shard_{i % RULES:04}", f"order_{i % RULES:04}_{i // RULES}") for i in range(20_000)]
ONE_SCHEMA = [("shard", f"order_{i % RULES:04}_{i // RULES}") for i in range(20_000)]


def _wildcards(i: int, one_schema: bool) -> tuple[str, str]:
    return "shard" if one_schema else f"shard_{i:04}", f"order_{i:04}_*"


def _regexes(i: int, one_schema: bool) -> tuple[str, str]:
    return "~^shard$" if one_schema else f"~^shard_{i:04}$", rf"~^order_{i:04}_\d+$"


Patterns = Callable[[int, bool], tuple[str, str]]


@pytest.mark.parametrize("one_schema", [False, True], ids=["many schemas", "one schema"])
@pytest.mark.parametrize("patterns", [_wildcards, _regexes])
def test_routes_and_the_block_allow_list(patterns: Patterns, one_schema: bool) -> None:
    tables = ONE_SCHEMA if one_schema else SPREAD
    named = [patterns(i, one_schema) for i in range(RULES)]
    start = time.process_time()
    router = TableRouter([RouteRule(s, "all", t, f"order_{i % 7}") for i, (s, t) in enumerate(named)], True)
    # Workers get them pickled.
    router = pickle.loads(pickle.dumps(router))
    assert {router.route(*table)[0] for table in tables} == {"all"}
    routed = time.process_time() - start
    allowed = BlockAllowListFilter(BlockAllowList(do_tables=tuple(TableName(s, t) for s, t in named[1:])), True)
    out = [table for table in tables if not allowed.allows(*table)]
    assert out == [table for table in tables if table[1].startswith("order_0000_")]
    spent = time.process_time() - start
    assert spent < LIMIT, f"{routed:.1f} s for the routes, {spent - routed:.1f} s for the list"


@pytest.mark.parametrize("one_schema", [False, True], ids=["many schemas", "one schema"])
def test_binlog_filters_and_column_mappings(one_schema: bool) -> None:
    tables = ONE_SCHEMA if one_schema else SPREAD
    named = [_wildcards(i, one_schema) for i in range(RULES)]
    start = time.process_time()
    events = BinlogEventFilter([BinlogFilterRule(s, t, ("delete",), action="Ignore") for s, t in named], True)
    assert {tuple(events.rows(*table).ignored) for table in tables} == {("delete",)}
    mapper = ColumnMapper([ColumnMappingRule(s, "c", "add prefix", t, arguments=("x",)) for s, t in named], True)
    assert all(len(mapper.rules_for(*table)) == 1 for table in tables)
    spent = time.process_time() - start
    assert spent < LIMIT, f"{spent:.1f} s"


def test_patterns_with_a_choice_of_characters_at_one_place_are_not_tried_one_by_one() -> None:
    """Each of the rules begins with a class of its own, so that no two share a step of the trie."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    rules = [
        BinlogFilterRule(f"[{a}{b}]{c}*", events=("delete",), action="Ignore")
        for a in letters for b in letters if a < b for c in letters[:15]
    ]  # fmt: skip
    start = time.process_time()
    events = BinlogEventFilter(rules, True)
    for i in range(20_000):
        events.rows(f"{letters[i % 26]}{letters[i // 26 % 26]}{i}", "t")
    assert time.process_time() - start < LIMIT
