"""The binlog event filter. Hazards: a rule that silently does nothing, a dropped table that should have stayed."""

from __future__ import annotations

import fnmatch
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import Code, DMError
from pkg.rules.binlog_filter import DO, EVENT_TYPES, GROUPS, BinlogEventFilter, find_contradiction, rule_problem
from pkg.rules.model import BinlogFilterRule

DML = {"insert", "update", "delete"}
PLAIN = {
    "create database", "alter database", "create table", "create index", "create view", "drop view", "alter table",
    "add table partition",
}  # fmt: skip


def rule(
    action: str, *events: str, sql: tuple[str, ...] = (), schema: str = "db*", table: str = "t*"
) -> BinlogFilterRule:
    return BinlogFilterRule(schema, table, events, sql, action)


def action(rules: list[BinlogFilterRule], event: str, sql: str = "", schema: str = "db1", table: str = "t1") -> str:
    return BinlogEventFilter(rules, True).decide(schema, table, (event,) if event else (), sql).action


def test_the_documented_example_keeps_truncated_and_dropped_shards() -> None:
    rules = [BinlogFilterRule("test_*", "t_*", ("truncate table", "drop table"), (), "Ignore")]
    chosen = BinlogEventFilter(rules, False)
    assert chosen.decide("Test_1", "T_1", ("drop table",), "DROP TABLE t_1").action == "ignore"
    assert chosen.decide("test_1", "t_1", ("truncate table",), "TRUNCATE t_1").action == "ignore"
    assert chosen.decide("test_1", "t_1", ("create table",), "CREATE TABLE t_1 (a INT)") == DO
    assert chosen.decide("test_1", "other", ("drop table",), "DROP TABLE other") == DO
    assert chosen.rows("test_1", "t_1").takes_all


@pytest.mark.parametrize("event", sorted(EVENT_TYPES))
def test_every_event_is_matched_by_its_name_and_by_its_groups_only(event: str) -> None:
    groups = {"all", "all dml" if event in DML else "all ddl"}
    if event not in DML | PLAIN:
        groups.add("incompatible ddl changes")
    for entry in [*GROUPS, *EVENT_TYPES]:
        expected = "ignore" if entry in groups or entry == event else "do"
        assert action([rule("Ignore", entry.title())], event) == expected, entry
        if entry not in GROUPS:
            assert action([rule("Do", entry)], event) == ("do" if entry == event else "ignore")
    assert action([rule("Do", "none", sql=("x",))], event) == "ignore"


@pytest.mark.parametrize(
    ("events", "event", "expected"),
    [
        (("none dml", "all"), "insert", "do"),
        (("none dml", "all"), "drop table", "ignore"),
        (("insert", "none dml", "all ddl"), "insert", "ignore"),
        (("insert", "none dml", "all ddl"), "update", "do"),
        (("none ddl", "all dml"), "alter table", "do"),
        (("Create Schema",), "create database", "ignore"),
        (("drop  schema",), "drop database", "ignore"),
    ],
)
def test_the_first_entry_that_decides_wins(events: tuple[str, ...], event: str, expected: str) -> None:
    assert action([rule("Ignore", *events)], event) == expected


def test_a_do_rule_lets_pass_what_it_lists_and_later_rules_are_asked_still() -> None:
    rules = [rule("Do", "all dml"), rule("Error", "delete"), rule("Ignore", "delete")]
    assert [action(rules, event) for event in ("insert", "delete", "drop table")] == ["do", "error", "ignore"]


def test_statements_are_searched_for_patterns_without_case_and_anchors() -> None:
    rules = [rule("Ignore", sql=(r"drop\s+column", "^alter table .* engine"))]
    assert action(rules, "alter table", "ALTER TABLE t DROP  COLUMN a") == "ignore"
    assert action(rules, "alter table", "alter table t engine=innodb") == "ignore"
    assert action(rules, "alter table", "/* x */ alter table t engine=innodb") == "do"
    assert action(rules, "insert") == "do"
    only = [rule("Do", "all", sql=("^create",))]
    assert action(only, "create table", "CREATE TABLE t (a INT)") == "do"
    assert action(only, "drop table", "DROP TABLE t") == "ignore"
    assert action(only, "insert") == "do"


def test_patterns_that_operators_write_for_re2() -> None:
    written = (r"^ALTER\s+TABLE[\s\S]*ADD\s+PARTITION", r"^(?i:analyze) table .*$", r"\bfoo\b", r"[[:digit:]]{3}")
    rules = [rule("Ignore", sql=written)]
    for sql in ("alter table t\n ADD PARTITION (x)", "ANALYZE TABLE t", "drop table foo", "drop table t123"):
        assert action(rules, "alter table", sql) == "ignore", sql
    for sql in ("alter table t\n DROP PARTITION x", "drop table food", "drop table t12"):
        assert action(rules, "alter table", sql) == "do", sql


def test_a_statement_that_can_not_be_parsed_needs_a_rule_for_all_schemas() -> None:
    rules = [rule("Ignore", sql=("odd",), table="")]
    assert action(rules, "", "ODD STATEMENT", "", "") == "do"
    everywhere = [rule("Ignore", "none", sql=("odd",), schema="*", table="")]
    assert action(everywhere, "", "ODD STATEMENT", "", "") == "ignore"


@pytest.mark.parametrize("event", ["create database", "drop database", "alter database"])
def test_a_rule_for_all_tables_decides_statements_on_the_schema(event: str) -> None:
    """As in DM: without a name, * matches and no other table pattern does."""
    assert action([rule("Ignore", event, table="*")], event, table="") == "ignore"
    assert action([rule("Error", event, schema="db*", table="*")], event, table="") == "error"
    assert action([rule("Do", "insert", table="*")], event, table="") == "ignore"
    for others in ("?", "?*", "[!]*", "t*"):
        assert action([rule("Ignore", event, table=others)], event, table="") == "do", others


def test_a_rule_for_all_tables_decides_statements_that_are_not_understood() -> None:
    assert action([rule("Ignore", "none", sql=("odd",), schema="*", table="*")], "", "ODD WORDS", "", "") == "ignore"
    assert action([rule("Ignore", "none", sql=("odd",), table="*")], "", "ODD WORDS", "", "") == "do"


def test_a_copied_filter_decides_the_same() -> None:
    copied = pickle.loads(pickle.dumps(BinlogEventFilter([rule("Ignore", "drop database", table="*")], True)))
    assert copied.decide("db1", "", ("drop database",)).action == "ignore"


def test_schema_level_rules_come_before_table_level_rules() -> None:
    rules = [rule("Error", "drop table"), rule("Ignore", "drop table", table="")]
    decision = BinlogEventFilter(rules, True).decide("db1", "t1", ("drop table",))
    assert (decision.action, decision.rule) == ("ignore", rules[1])


def test_rules_with_the_same_patterns_are_all_asked() -> None:
    """The source's own filters are appended to the task's and may name the same tables."""
    rules = [rule("Ignore", "insert"), rule("Ignore", "delete"), rule("Error", "update", schema="DB*")]
    rows = BinlogEventFilter(rules, False).rows("db1", "T1")
    assert rows.ignored == {"insert", "delete"}
    assert rows.refused == {"update"}
    assert not rows.takes_all
    assert BinlogEventFilter(rules, True).rows("db1", "t1").refused == set()


def test_rules_of_one_level_keep_their_order_whatever_patterns_they_share() -> None:
    rules = [rule("Ignore", "insert"), rule("Ignore", "insert", table="*"), rule("Error", "delete")]
    rules += [rule("Ignore", "delete", table="*")]
    chosen = BinlogEventFilter(rules, True)
    assert chosen.rules_for("db1", "t1") == tuple(rules)
    assert chosen.rules_for("db1", "x") == (rules[1], rules[3])
    assert chosen.rows("db1", "t1").refused == {"delete"}


def test_decisions_that_are_remembered_do_not_travel() -> None:
    chosen = BinlogEventFilter([rule("Ignore", "insert")], True)
    size = len(pickle.dumps(chosen))
    for i in range(50):
        assert chosen.rows("db1", f"t{i}").ignored == {"insert"}
    assert len(pickle.dumps(chosen)) == size


def test_a_refusal_names_rule_table_statement_and_position() -> None:
    chosen = BinlogEventFilter([rule("Error", "drop table")], True)
    decision = pickle.loads(pickle.dumps(chosen)).decide("db1", "t1", ("drop table",), "DROP TABLE t1")
    error = decision.refusal("db1", "t1", "DROP TABLE t1", "mysql-bin.000003:154")
    assert error.kind is Code.SyncerUnitBinlogEventFilter
    for part in ("db*.t*: Error", "event drop table", "`db1`.`t1`", "DROP TABLE t1", "mysql-bin.000003:154"):
        assert part in error.message


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (rule("", "all"), "action ''"),
        (rule("Drop", "all"), "action 'Drop'"),
        (rule("Ignore", "all", schema=""), "schema-pattern"),
        (rule("Ignore", "drop tables"), "'drop tables'"),
        (rule("Ignore"), "neither events nor sql-pattern"),
        (rule("Do"), "drop everything"),
        (rule("Do", sql=("a",)), "drop everything"),
        (rule("Ignore", sql=("a(",)), "a("),
        (rule("Ignore", sql=("(?=a)",)), "invalid perl operator"),
        (rule("Ignore", sql=("a", "a")), "twice"),
        (rule("Ignore", sql=("",)), "every statement"),
        (rule("Ignore", "none dml", "insert"), "contradicts 'none dml'"),
        (rule("Ignore", "all", "none ddl"), "contradicts 'all'"),
        (rule("Ignore", "all", schema="a*b"), "allowed only as its last"),
    ],
)
def test_an_invalid_rule_is_an_error_and_never_left_out(wrong: BinlogFilterRule, why: str) -> None:
    with pytest.raises(DMError, match="is not valid") as caught:
        BinlogEventFilter([rule("Ignore", "all"), wrong], True)
    assert caught.value.kind is Code.ConfigBinlogEventFilter
    assert why in caught.value.message
    assert caught.value.workaround


def test_rules_that_differ_in_their_action_alone_contradict_each_other() -> None:
    rules = [rule("Ignore", "insert"), rule("Error", "delete"), rule("Error", "Insert", schema="DB*")]
    assert find_contradiction(rules, False) == (0, 2)
    assert find_contradiction(rules, True) is None


RULES = st.lists(
    st.builds(
        BinlogFilterRule,
        st.sampled_from(["*", "a*", "a", "b?"]),
        st.sampled_from(["", "*", "x", "x*"]),
        st.lists(st.sampled_from([*GROUPS, "insert", "drop table", "alter table", "add column"]), max_size=3).map(
            tuple
        ),
        st.lists(st.sampled_from(["DROP", "a.b", "^alter"]), max_size=2, unique=True).map(tuple),
        st.sampled_from(["Do", "ignore", "ERROR"]),
    ),
    max_size=5,
)


def naive(rules: list[BinlogFilterRule], schema: str, table: str, event: str, sql: str) -> str:
    """The written rules, step by step, with none of the program's parts."""
    matching = [r for r in rules if fnmatch.fnmatchcase(schema, r.schema_pattern)]
    levels = [r for r in matching if not r.table_pattern]
    levels += [r for r in matching if r.table_pattern and fnmatch.fnmatchcase(table, r.table_pattern)]
    dml = event in DML
    for r in levels:
        does = r.action.lower()
        if event:
            verdict = False
            for entry in r.events:
                if entry in ("all", "none") or entry in (("all dml", "none dml") if dml else ("all ddl", "none ddl")):
                    verdict = entry.startswith("all")
                    break
                if entry == event or (entry.startswith("incompatible") and event in ("drop table", "add column")):
                    verdict = True
                    break
            if verdict and does != "do":
                return does
            if not verdict and does == "do":
                return "ignore"
        if sql and r.sql_pattern:
            hit = re.search("|".join(r.sql_pattern), sql, re.IGNORECASE) is not None
            if hit and does != "do":
                return does
            if not hit and does == "do":
                return "ignore"
    return "do"


@given(
    RULES,
    st.sampled_from(["a", "ab", "b1", "c", ""]),
    st.sampled_from(["", "x", "xy", "z"]),
    st.sampled_from(["", "insert", "update", "drop table", "alter table", "add column"]),
    st.sampled_from(["", "drop table a.b", "ALTER TABLE x", "create"]),
)
def test_decisions_equal_the_written_rules(
    rules: list[BinlogFilterRule], schema: str, table: str, event: str, sql: str
) -> None:
    rules = [rule for rule in rules if rule_problem(rule) is None]
    chosen = BinlogEventFilter(rules, True)
    assert chosen.decide(schema, table, (event,) if event else (), sql).action == naive(
        rules, schema, table, event, sql
    )


def test_a_change_with_a_second_name_is_matched_by_both_but_by_the_groups_of_its_class_alone() -> None:
    added = ("alter table", "add column")

    def decided(chosen: BinlogFilterRule) -> str:
        return BinlogEventFilter([chosen], True).decide("db1", "t1", added).action

    assert decided(rule("Ignore", "alter table")) == decided(rule("Ignore", "add column")) == "ignore"
    assert decided(rule("Do", "add column")) == "do"
    assert decided(rule("Ignore", "incompatible ddl changes")) == "do"


def test_a_refusal_names_the_event_without_quotes() -> None:
    """Scripts look for these strings."""
    rule = BinlogFilterRule("db1", "t1", ("value range decrease",), (), "Error")
    decision = BinlogEventFilter([rule], False).decide("db1", "t1", ("value range decrease",), "ALTER TABLE t1 …")
    assert "event value range decrease" in decision.refusal("db1", "t1", "ALTER TABLE t1 …").message
