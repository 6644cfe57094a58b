"""Hazards: shards whose keys meet in the target, and warnings where something keeps them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_master.precheck.key_checks import check_unique_keys
from dm_master.precheck.result import CheckFinding
from dm_master.precheck.table_checks import RoutedTable, compare_with_target
from pkg.errors import Code
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.column_mapping import Affix, MappedColumn, PartitionId, TableMapping

T = ("all", "t")
AUTO = Column("id", "bigint", "bigint(20)", nullable=False, auto_increment=True)
CODE = Column("code", "varchar", "varchar(10)", charset="utf8mb4")
SHARD = Column("shard", "varchar", "varchar(64)", nullable=False)
PLACE = MappedColumn("s", "t", "id", Code.LoadUnitDoColumnMapping)


def _key(name: str, *columns: str) -> Index:
    return Index(name, tuple(IndexPart(column) for column in columns), True)


def _info(name: str, *keys: Index, schema: str = "s") -> TableInfo:
    return TableInfo(schema, name, (AUTO, CODE), keys or (_key("PRIMARY", "id"),))


def _shards(*keys: Index) -> list[RoutedTable]:
    return [
        RoutedTable("s1", _info("t1", *keys)),
        RoutedTable("s1", _info("t2", *keys)),
        RoutedTable("s2", _info("t1", *keys)),
    ]


def _mapped(shard: RoutedTable, base: int, column: int = 0) -> RoutedTable:
    return replace(shard, mapping=TableMapping("s", shard.info.name, (PartitionId(column, column, base, PLACE),)))


def _check(shards: list[RoutedTable], there: TableInfo | None = None, proposal: str = "") -> list[CheckFinding]:
    present = {} if there is None else {T: there}
    return check_unique_keys({T: shards}, present, lambda target, column, found: proposal)


def test_keys_matter_only_where_tables_merge() -> None:
    assert _check(_shards()[:1]) == []
    (finding,) = _check(_shards())
    assert (finding.severity, finding.subject) == ("warn", "s1 `s`.`t1`")
    assert finding.message == (
        "the auto-increment primary key `PRIMARY` (id) may repeat in the 3 tables that merge into `all`.`t`"
    )


def test_each_unique_key_is_reported() -> None:
    found = _check(_shards(_key("PRIMARY", "id"), _key("by_code", "code")))
    assert [finding.message.partition(" may")[0] for finding in found] == [
        "the auto-increment primary key `PRIMARY` (id)",
        "the unique key `by_code` (code)",
    ]


def test_the_proposal_is_in_the_instruction_of_the_key_that_can_take_it() -> None:
    first, second = _check(_shards(_key("PRIMARY", "id"), _key("by_code", "code")), proposal="column-mappings: {…}")
    assert "or add column-mappings: {…} (and make `id` BIGINT in the target)" in first.instruction
    assert "column-mappings" not in second.instruction
    assert "extract-table" in second.instruction


def test_partition_ids_keep_apart_the_key_that_has_them() -> None:
    keys = (_key("PRIMARY", "id"), _key("by_code", "code"))
    mapped = [_mapped(shard, i << 44) for i, shard in enumerate(_shards(*keys))]
    assert [finding.message.split("`")[1] for finding in _check(mapped, proposal="no more")] == ["by_code"]
    assert "no more" not in _check(mapped, proposal="no more")[0].instruction


def test_shards_that_a_mapping_leaves_out_are_reported() -> None:
    one, two, three = _shards()
    assert _check([_mapped(one, 1 << 44), two]) == []
    (finding,) = _check([_mapped(one, 1 << 44), two, three])
    assert "in the 2 tables" in finding.message


def test_affixes_keep_apart_only_where_they_differ() -> None:
    key = _key("PRIMARY", "code")

    def prefixed(shard: RoutedTable, prefix: str) -> RoutedTable:
        return replace(shard, mapping=TableMapping("s", "t", (Affix(1, 1, prefix, "", "utf8mb4", PLACE),)))

    one, two, _ = _shards(key)
    assert _check([prefixed(one, "a-"), prefixed(two, "b-")]) == []
    assert len(_check([prefixed(one, "a-"), prefixed(two, "a-")])) == 1


@pytest.mark.parametrize(
    ("key", "values", "count"),
    [
        (("id", "shard"), ("1", "2", "3"), 0),
        (("id", "shard"), ("1", "2", "1"), 1),
        (("id",), ("1", "2", "3"), 1),
    ],
)
def test_filled_columns_keep_apart_when_the_targets_key_has_them(
    key: tuple[str, ...], values: tuple[str, ...], count: int
) -> None:
    shards = [replace(shard, filled=(("Shard", value),)) for shard, value in zip(_shards(), values, strict=True)]
    there = TableInfo("all", "t", (AUTO, CODE, SHARD), (_key("PRIMARY", *key),))
    assert len(_check(shards, there)) == count


def test_a_target_is_compared_with_what_the_route_fills_in_mind() -> None:
    shard = replace(_shards()[0], filled=(("shard", "1"),))
    fitting = TableInfo("all", "t", (AUTO, CODE, SHARD), (_key("PRIMARY", "id", "SHARD"),))
    assert compare_with_target(shard, fitting) == []
    without = replace(shard, filled=())
    assert any("NOT NULL columns" in finding.message for finding in compare_with_target(without, fitting))
