"""Hazard: rows go to another target table than the rules say, or an ambiguous name is routed without an error."""

from __future__ import annotations

import pickle
import time

import pytest

from pkg.errors import Code, DMError
from pkg.rules.model import ExtractRule, RouteRule
from pkg.rules.table_router import TableRouter


def rule(schema: str, table: str, target_schema: str, target_table: str = "") -> RouteRule:
    return RouteRule(schema_pattern=schema, table_pattern=table, target_schema=target_schema, target_table=target_table)


SHARDS = [rule("shard_*", "t_*", "all", "t"), rule("shard_*", "", "all")]


def test_shards_merge_by_table_rule_and_the_schema_follows_its_schema_rule() -> None:
    router = TableRouter(SHARDS, True)
    assert router.route("shard_1", "t_9") == ("all", "t")
    assert router.route("shard_1", "other") == ("all", "other")
    assert router.route("shard_1") == ("all", "")
    assert router.route("elsewhere", "t_9") == ("elsewhere", "t_9")
    assert router.route("elsewhere") == ("elsewhere", "")


def test_case_follows_the_source() -> None:
    assert TableRouter(SHARDS, True).route("SHARD_1", "T_9") == ("SHARD_1", "T_9")
    assert TableRouter(SHARDS, False).route("SHARD_1", "T_9") == ("all", "t")


@pytest.mark.parametrize("second", [rule("shard_?", "t_*", "x", "y"), rule("~^shard_[0-9]+$", "~^t_", "x", "y")])
def test_two_matching_table_rules_are_ambiguous(second: RouteRule) -> None:
    router = TableRouter([*SHARDS, second], True)
    with pytest.raises(DMError, match="matches more than one rule") as info:
        router.route("shard_1", "t_9")
    assert info.value.kind is Code.WorkerRouteTableDupMatch
    assert router.route("shard_1", "u") == ("all", "u")


def test_two_matching_schema_rules_do_not_disturb_a_table_rule() -> None:
    router = TableRouter([*SHARDS, rule("shard_?", "", "x")], True)
    assert router.route("shard_1", "t_9") == ("all", "t")
    with pytest.raises(DMError) as info:
        router.route("shard_1")
    assert info.value.kind is Code.WorkerRouteTableDupMatch


def test_schema_level_rule_with_a_target_table_takes_all_tables() -> None:
    router = TableRouter([rule("log", "", "archive", "lines")], True)
    assert router.route("log", "a") == ("archive", "lines")
    assert router.route("log") == ("archive", "")


@pytest.mark.parametrize(
    ("schema_pattern", "table_pattern", "schema", "table", "expected"),
    [
        (r"~^shard_\d+$", r"~^t_\d+$", "shard_12", "t_3", True),
        (r"~^shard_\d+$", r"~^t_\d+$", "shard_x", "t_3", False),
        ("~shard", "t_*", "my_shard_1", "t_3", True),  # not anchored
        ("~shard", "t_?", "my_shard_1", "t_33", False),  # the other half is a wildcard over the whole name
        ("sh*", "~[[:digit:]]$", "shop", "a1", True),
        ("sh*", "~[[:digit:]]$", "shop", "a1b", False),
        ("sh*", r"~\d", "shop", "\u0663", False),  # RE2's \d is ASCII
        ("sh*", r"~^\Qa.b\E$", "shop", "a.b", True),
        ("sh*", r"~^\Qa.b\E$", "shop", "axb", False),
        ("sh*", r"~^[^\D]$", "shop", "7", True),
    ],
)
def test_regular_expressions(schema_pattern: str, table_pattern: str, schema: str, table: str, expected: bool) -> None:
    router = TableRouter([rule(schema_pattern, table_pattern, "x", "y")], True)
    assert router.route(schema, table) == (("x", "y") if expected else (schema, table))


def test_regular_expression_ignores_case_when_names_do() -> None:
    assert TableRouter([rule("~^Db$", "~^T", "x")], False).route("dB", "tab") == ("x", "tab")
    assert TableRouter([rule("~^Db$", "~^T", "x")], True).route("dB", "tab") == ("dB", "tab")


@pytest.mark.parametrize(
    "routes",
    [
        [rule("", "t", "x")],
        [rule("s", "t", "")],
        [rule("s*x", "t", "x")],
        [rule("s", "t", "x"), rule("s", "t", "y")],
        [rule("~(", "t", "x")],
        [rule("~a(?=b)", "t", "x")],
        [rule(r"~(a)\1", "t", "x")],
        [rule("~s", "t*x", "x")],
        [rule("~a++", "", "x")],
        [rule("~[a", "", "x")],
    ],
)
def test_invalid_rules_are_refused_with_their_code(routes: list[RouteRule]) -> None:
    with pytest.raises(DMError) as info:
        TableRouter(routes, True)
    assert info.value.kind is Code.ConfigGenTableRouter
    assert info.value.workaround


def test_pickles_into_tasks() -> None:
    router = TableRouter([*SHARDS, rule("~^r", "~^t", "x")], False)
    router.route("shard_1", "t_9")
    copy = pickle.loads(pickle.dumps(router))
    assert copy.route("shard_2", "t_9") == ("all", "t")
    assert copy.route("r", "t") == ("x", "t")


@pytest.mark.parametrize(
    ("pattern", "schema", "expected"),
    [
        ("~^ab*$", "a", True),  # the last letter before a quantifier may be missing
        ("~^ab?c", "ac", True),
        ("~^ab{0}c", "ac", True),
        ("~^ab|^cd", "cd", True),
        ("~^(ab|cd)", "cd", True),
        ("~ab", "xab", True),
        ("~^ab", "xab", False),
        ("~^AB_1", "ab_1", True),
        ("~^k", "\u212a", True),  # the Kelvin sign is a k without case
        ("a[bc]*", "ACx", True),
        ("~^", "anything", True),
    ],
)
def test_expressions_sorted_by_prefix_miss_no_name(pattern: str, schema: str, expected: bool) -> None:
    router = TableRouter([rule(pattern, "~^t", "x", "y"), rule("~^zz", "", "z")], False)
    assert (router.route(schema, "t1") == ("x", "y")) is expected


def test_thousands_of_expressions_cost_nothing_noticeable() -> None:
    rules = [rule(rf"~^shard{i}_\d+$", rf"~^t{i}_\d+$", "x", "y") for i in range(3000)]
    router = TableRouter(rules, True)
    start = time.process_time()
    for i in range(10_000):
        assert router.route(f"shard{i % 3000}_1", f"t{i % 3000}_{i}") == ("x", "y")
    assert time.process_time() - start < 5


def test_thousands_of_rules_and_tables_cost_nothing_noticeable() -> None:
    router = TableRouter([rule(f"s{i}", "t_*", f"x{i}") for i in range(3000)] + [rule("~^r_", "~^u", "y")], True)
    start = time.process_time()
    for _ in range(3):
        for i in range(30_000):
            assert router.route(f"s{i % 3000}", f"t_{i}")[0] == f"x{i % 3000}"
    assert time.process_time() - start < 5


def extracting(table: str = "", schema: str = "", source: str = "", column: str = "") -> RouteRule:
    def extract(regexp: str, name: str) -> ExtractRule | None:
        return ExtractRule(regexp, column or name) if regexp else None

    return RouteRule(
        "shard_*",
        "all",
        "t_*",
        "t",
        extract(table, "c_table"),
        extract(schema, "c_schema"),
        extract(source, "c_source"),
    )


def test_extracted_values_are_the_groups_of_each_name_in_the_order_table_schema_source() -> None:
    router = TableRouter([extracting("^t_(.*)$", "shard_(.)(.*)", "^mysql-(?:replica-)?(..)(x)?"), *SHARDS[1:]], True)
    expected = (("c_table", "9"), ("c_schema", "12"), ("c_source", "01"))
    assert router.extracted("shard_12", "t_9", "mysql-replica-01") == expected
    assert pickle.loads(pickle.dumps(router)).extracted("shard_12", "t_9", "mysql-01") == expected
    assert router.extracted("shard_12", "other", "mysql-01") == ()
    assert router.extracted("elsewhere", "t_9", "mysql-01") == ()


def test_extracting_follows_case_sensitivity_and_keeps_the_names_own_letters() -> None:
    assert TableRouter([extracting("^t_(.*)$")], False).extracted("SHARD_1", "T_Ab", "s") == (("c_table", "Ab"),)


def test_a_name_without_the_expression_is_refused_instead_of_filled_with_nothing() -> None:
    router = TableRouter([extracting("^t_([0-9]+)$")], True)
    with pytest.raises(DMError, match="not found in the table name 't_x'") as info:
        router.extracted("shard_1", "t_x", "s")
    assert info.value.kind is Code.ConfigGenTableRouter
    assert "`c_table`" in info.value.message


def test_extracting_from_an_ambiguous_table_is_refused() -> None:
    router = TableRouter([extracting("(.)"), rule("shard_?", "t_*", "x")], True)
    with pytest.raises(DMError) as info:
        router.extracted("shard_1", "t_1", "s")
    assert info.value.kind is Code.WorkerRouteTableDupMatch


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (extracting("^t_.*$"), r"has no group \( \)"),
        (extracting("(a"), "extract-table: regular expression"),
        (extracting(source="(?=a)(b)"), "extract-source: .* invalid perl operator"),
        (extracting("(.)", "(.)", column="c"), "two extracts have the target column `c`"),
    ],
)
def test_an_extract_that_can_not_work_is_refused(wrong: RouteRule, why: str) -> None:
    with pytest.raises(DMError, match=why) as info:
        TableRouter([wrong], True)
    assert info.value.kind is Code.ConfigGenTableRouter
