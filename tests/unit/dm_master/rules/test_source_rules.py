"""Hazards: a table that is routed elsewhere than shown, a rule that silently does nothing."""

from __future__ import annotations

import pytest

from dm_master.rules.rule_usage import RuleUse, known_uses, usage_of
from dm_master.rules.source_rules import Explanation, SourceRules
from dm_master.task_setup.task_split import split_task
from pkg.config.model import SourceConfig
from pkg.config.rule_names import subtask_rule_names
from pkg.config.task import load_task
from pkg.mysql.schema import Column
from pkg.rules.model import BinlogFilterRule
from pkg.settings.connections import DBConfig

TASK = """\
name: merge
task-mode: all
target-database: {host: h, port: 1, password: ''}
mysql-instances:
- source-id: s1
  block-allow-list: shards
  route-rules: [orders, schemas]
  filter-rules: [no-truncate]
  column-mapping-rules: [ids]
  expression-filters: [no-tests]
- source-id: s2
  route-rules: [schemas, never]
block-allow-list:
  shards:
    do-dbs: ["shop_*", "old"]
    ignore-tables:
    - {db-name: "shop_*", tbl-name: "tmp_*"}
    - {db-name: "mysql", tbl-name: "user"}
    do-tables:
    - {db-name: "shop_*", tbl-name: "orders_*"}
    - {db-name: "~^shop_2$", tbl-name: "log"}
    - {db-name: "crm", tbl-name: "people"}
routes:
  orders:
    schema-pattern: "shop_*"
    table-pattern: "orders_*"
    target-schema: all
    target-table: orders
    extract-schema: {schema-regexp: "shop_(.*)", target-column: shop}
  schemas: {schema-pattern: "shop_*", target-schema: all}
  never: {schema-pattern: "nowhere", target-schema: all}
filters:
  no-truncate:
    schema-pattern: "shop_*"
    events: ["truncate table", "drop table"]
    sql-pattern: ["^drop\\\\s"]
    action: Ignore
column-mappings:
  ids:
    schema-pattern: "shop_*"
    table-pattern: "orders_*"
    expression: partition id
    target-column: id
    arguments: ["1", "shop", "orders", "_"]
expression-filter:
  no-tests: {schema: shop_1, table: ORDERS_3, insert-value-expr: "shop < 0"}
"""
OWN = BinlogFilterRule("*", events=("delete",), action="Ignore")
SOURCES = {name: SourceConfig(name, DBConfig("h", 1), filters=(OWN,) if name == "s1" else ()) for name in ("s1", "s2")}
ID = Column("id", "bigint", "bigint(20)", nullable=False)


def _rules(source: str = "s1", text: str = TASK) -> SourceRules:
    task = load_task(text)
    subtask = next(one for one in split_task(task, SOURCES) if one.source_id == source)
    return SourceRules(subtask, subtask_rule_names(task, SOURCES)[source])


def _lines(explained: Explanation) -> list[str]:
    return [
        f"{one.rule.block}/{one.rule.name} {one.rule.location} {one.pattern}: {one.effect}" for one in explained.applied
    ]


def test_every_rule_of_a_table_is_reported_with_its_location() -> None:
    explained = _rules().explain("shop_1", "orders_3", [ID])
    assert (explained.target, explained.reason, explained.problem) == (("all", "orders"), "", "")
    base = 1 << 59 | 1 << 52 | 3 << 44
    assert _lines(explained) == [
        "block-allow-list/shards: do-tables[0] task.yaml:20:17 shop_*.orders_*: includes it",
        "routes/orders task.yaml:25:21 shop_*.orders_*: goes to `all`.`orders`",
        "routes/orders task.yaml:25:21 shop_*.orders_*: fills `shop` with '1'",
        f"column-mappings/ids task.yaml:40:21 shop_*.orders_*: `id` becomes {base} + `id`"
        " (partition id: instance 1, schema 1, table 3)",
        "filters/no-truncate task.yaml:34:21 shop_*: Ignore: events truncate table, drop table;"
        " sql-pattern '^drop\\\\s'",
        "source s1/filters[0]  *: Ignore: events delete",
        "expression-filter/no-tests task.yaml:46:22 shop_1.ORDERS_3: leaves out inserted rows where shop < 0",
    ]


@pytest.mark.parametrize(
    ("schema", "table", "reason"),
    [
        ("crm", "people", "no entry of do-dbs in 'shards' of block-allow-list matches (task.yaml:15:5)"),
        ("shop_1", "tmp_x", "'shards: ignore-tables[0]' of block-allow-list leaves it out (task.yaml:17:17)"),
        ("shop_1", "log", "no entry of do-tables in 'shards' of block-allow-list matches (task.yaml:15:5)"),
        ("mysql", "user", "system schemas are never migrated"),
        (
            "shop_1",
            "_orders_3_gho",
            "its name is that of an online DDL tool's table (shadow-table-rules, with online-ddl)",
        ),
    ],
)
def test_a_table_that_is_left_out_shows_why(schema: str, table: str, reason: str) -> None:
    explained = _rules().explain(schema, table)
    assert (explained.target, explained.reason, explained.applied) == (None, reason, ())


def test_a_table_that_would_stop_the_task_shows_with_what() -> None:
    missing = _rules().explain("shop_1", "orders_3", [Column("v", "int", "int")])
    assert "code=26004" in missing.problem
    assert missing.target == ("all", "orders")
    unnumbered = _rules().explain("shop_x", "orders_3", [ID])
    assert "neither 'shop' nor 'shop_' and a number" in unnumbered.problem
    twice = TASK.replace(
        'table-pattern: "orders_*"\n    target-schema', "table-pattern: ''\n    target-schema"
    ).replace('schemas: {schema-pattern: "shop_*"', 'schemas: {schema-pattern: "shop_1*"')
    ambiguous = _rules(text=twice).explain("shop_1", "orders_3")
    assert (ambiguous.target, "code=40080" in ambiguous.problem) == (None, True)


def test_without_rules_a_table_keeps_its_name() -> None:
    explained = _rules("s2").explain("crm", "people")
    assert (explained.target, explained.applied) == (("crm", "people"), ())


def _uses(source: str, schemas: dict[str, list[str]]) -> dict[str, RuleUse]:
    return {rule.name: use for rule, use in usage_of(_rules(source), schemas).items()}


def test_what_each_rule_is_good_for() -> None:
    tables = {"shop_1": ["orders_1", "tmp_1", "ORDERS_3"], "crm": ["people"]}
    assert _uses("s1", tables) == {
        "orders": RuleUse.USED,
        "schemas": RuleUse.USED,
        "no-truncate": RuleUse.USED,
        "ids": RuleUse.USED,
        "no-tests": RuleUse.USED,
        "shards: do-dbs[0]": RuleUse.USED,
        "shards: do-dbs[1]": RuleUse.NOTHING,
        "shards: do-tables[0]": RuleUse.USED,
        "shards: do-tables[1]": RuleUse.NOTHING,
        "shards: do-tables[2]": RuleUse.LEFT_OUT,
        "shards: ignore-tables[0]": RuleUse.USED,
    }
    nothing = _uses("s1", {"shop_1": ["log"]})
    assert (nothing["orders"], nothing["ids"], nothing["no-tests"]) == (RuleUse.NOTHING,) * 3
    assert nothing["schemas"] is RuleUse.USED, "statements about the schema go by it"
    left_out = _uses("s1", {"shop_9": ["tmp_1"], "shopping": ["orders_1"]})
    assert (left_out["orders"], left_out["no-truncate"]) == (RuleUse.NOTHING, RuleUse.USED)


def test_a_rule_that_others_always_outrank_does_nothing() -> None:
    broader = """\
  ids: {schema-pattern: "shop_*", expression: add prefix, target-column: id, arguments: [x]}
  finer: {schema-pattern: shop_*, table-pattern: orders_*, expression: add suffix, target-column: id, arguments: [x]}
"""
    start, end = TASK.index("  ids:\n"), TASK.index("expression-filter:\n")
    text = (TASK[:start] + broader + TASK[end:]).replace("[ids]", "[ids, finer]")
    uses = usage_of(_rules(text=text), {"shop_1": ["orders_1"]})
    assert {rule.name: use for rule, use in uses.items() if rule.block == "column-mappings"} == {
        "ids": RuleUse.OUTRANKED,
        "finer": RuleUse.USED,
    }


def test_a_rule_is_used_when_one_of_its_sources_uses_it() -> None:
    names = subtask_rule_names(load_task(TASK), SOURCES)
    first = usage_of(_rules("s1"), {"other": ["t"]})
    second = usage_of(_rules("s2"), {"shop_1": ["t"]})
    both = {rule.name: use for rule, use in known_uses([first, second], names, ["s1", "s2"]).items()}
    assert (both["schemas"], both["orders"], both["never"]) == (RuleUse.USED, RuleUse.NOTHING, RuleUse.NOTHING)
    alone = {rule.name for rule in known_uses([first], names, ["s1"])}
    assert "orders" in alone
    assert "schemas" not in alone, "s2, which was not looked at, may use it"
