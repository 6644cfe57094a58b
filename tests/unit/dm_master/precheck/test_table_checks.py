"""Shards that cannot merge, and tables that differ from their target, must be named before anything is copied."""

from __future__ import annotations

import pytest

from dm_master.precheck.table_checks import (
    RoutedTable,
    check_coordination,
    check_merge_rules,
    check_same_names,
    check_shards,
    check_table,
    compare_with_target,
)
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.column_mapping import ColumnMapper, TableMapping
from pkg.rules.model import ColumnMappingRule


def _info(name: str, *columns: Column, key: str = "id", schema: str = "s") -> TableInfo:
    indexes = (Index("PRIMARY", (IndexPart(key),), True),) if key else ()
    return TableInfo(schema, name, columns, indexes)


ID = Column("id", "bigint", "bigint(20)", nullable=False)


V = Column("v", "varchar", "varchar(10)", charset="utf8mb4")


T = ("s", "t")


def _shards(*infos: TableInfo) -> dict[tuple[str, str], list[RoutedTable]]:
    return {T: [RoutedTable("s1", info) for info in infos]}


def test_equal_shards_merge() -> None:
    other_width = Column("id", "bigint", "bigint", nullable=False)
    assert check_shards(_shards(_info("t1", ID, V), _info("t2", V, other_width))) == []


@pytest.mark.parametrize(
    ("other", "severity", "text"),
    [
        (_info("t2", ID), "fail", "columns v"),
        (_info("t2", ID, V, Column("w", "int", "int(11)")), "fail", "columns w"),
        (_info("t2", ID, Column("v", "int", "int(11)")), "fail", "v is varchar(10) utf8mb4 and int"),
        (_info("t2", ID, Column("v", "varchar", "varchar(20)", charset="utf8mb4")), "warn", "varchar(20)"),
        (_info("t2", ID, Column("v", "varchar", "varchar(10)", charset="latin1")), "warn", "latin1"),
        (_info("t2", ID, V, key="v"), "warn", "keys"),
    ],
)
def test_shards_that_differ_are_named(other: TableInfo, severity: str, text: str) -> None:
    (finding,) = check_shards(_shards(_info("t1", ID, V), other))
    assert finding.severity == severity
    assert text in finding.message
    assert (finding.subject, finding.other) == ("s1 `s`.`t2`", "s1 `s`.`t1`")


def test_merged_tables_without_shard_mode_are_named() -> None:
    assert check_coordination({**_shards(_info("t1", ID))}) == []
    (finding,) = check_coordination({**_shards(_info("t1", ID), _info("t2", ID)), ("s", "one"): []})
    assert finding.severity == "warn"
    assert "each of 1 target tables (`s`.`t`)" in finding.message
    assert "shard-mode: pessimistic" in finding.instruction


def test_targets_that_differ_in_case_alone_are_refused() -> None:
    assert check_same_names([("a", "t"), ("a", "u"), ("b", "t")]) == []
    (finding,) = check_same_names([("a", "t"), ("A", "t"), ("b", "t")])
    assert finding.severity == "fail"
    assert "code=26001" in finding.message


@pytest.mark.parametrize(
    ("there", "states"),
    [
        (_info("t", ID, V), []),
        (_info("t", V, ID, Column("x", "int", "int(11)")), []),
        (_info("t", ID), ["fail"]),
        (_info("t", ID, V, Column("x", "int", "int(11)", nullable=False)), ["fail"]),
        (_info("t", ID, V, Column("x", "int", "int(11)", nullable=False, default="1")), []),
        (_info("t", ID, Column("v", "text", "text", charset="utf8mb4")), ["warn"]),
        (_info("t", ID, V, key=""), ["warn"]),
    ],
)
def test_a_table_is_compared_with_its_target(there: TableInfo, states: list[str]) -> None:
    shard = RoutedTable("s1", _info("t", ID, V))
    assert [finding.severity for finding in compare_with_target(shard, there)] == states
    uncertain = compare_with_target(shard, there, certain=False)
    assert [finding.severity for finding in uncertain] == ["warn"] * len(states)


def test_generated_columns_need_no_target() -> None:
    made = Column("g", "int", "int(11)", generated="VIRTUAL")
    assert compare_with_target(RoutedTable("s1", _info("t", ID, made)), _info("t", ID)) == []


def test_tables_without_key_or_with_foreign_keys_warn() -> None:
    assert [f.severity for f in check_table(RoutedTable("s", _info("t", ID, key="")))] == ["warn"]
    linked = TableInfo("s", "t", (ID,), (Index("PRIMARY", (IndexPart("id"),), True),), foreign_keys=(("s", "p"),))
    assert [f.severity for f in check_table(RoutedTable("s", linked))] == ["warn"]


def _mapping(schema: str, table: str, instance: str = "1") -> TableMapping:
    rule = ColumnMappingRule("*", "id", "partition id", "", "", (instance, "", "t"))
    mapping = ColumnMapper([rule], False).compile(schema, table, [ID, V])
    assert mapping is not None
    return mapping


SMALL = Column("id", "int", "int(11)", nullable=False)


ORIGIN = Column("origin", "varchar", "varchar(20)", nullable=False)


@pytest.mark.parametrize(
    ("there", "texts"),
    [
        (_info("t", ID, V, ORIGIN), []),
        (_info("t", ID, V), ["must contain extended columns that it lacks: `origin`"]),
        (_info("t", SMALL, V, ORIGIN), ["does not fit into the target's column, which is int(11)"]),
        (None, ["extended columns `origin` does not exist in downstream table", "does not fit into int(11)"]),
    ],
)
def test_the_target_has_what_the_merge_rules_need(there: TableInfo | None, texts: list[str]) -> None:
    shard = RoutedTable("s1", _info("t1", SMALL, V), (("origin", "s1"),), _mapping("s", "t1"))
    findings = check_merge_rules(shard, there)
    assert [finding.severity for finding in findings] == ["fail"] * len(texts)
    for finding, text in zip(findings, texts, strict=True):
        assert text in finding.message
        assert finding.instruction
    assert {finding.severity for finding in check_merge_rules(shard, there, certain=False)} <= {"warn"}


def test_columns_that_rules_fill_or_map_are_no_difference() -> None:
    there = TableInfo("s", "t", (ID, V, ORIGIN), (Index("PRIMARY", (IndexPart("id"), IndexPart("origin")), True),))
    shard = RoutedTable("s1", _info("t1", SMALL, V), (("Origin", "s1"),), _mapping("s", "t1"))
    assert compare_with_target(shard, there) == []
    assert len(compare_with_target(RoutedTable("s1", shard.info), there)) == 3
