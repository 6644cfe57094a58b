"""Hazard: a right value of the target is called wrong, because more than the compared columns decides it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.syncer.rows.computed_samples import question, question_of_any
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.row_shape import NO_RULES, TableRules
from pkg.errors import Code
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.column_mapping import PartitionId, TableMapping
from pkg.rules.column_mapping.transforms import MappedColumn

ID = Column("id", "bigint", "bigint(20)", nullable=False)
N = Column("n", "bigint", "bigint(20)")
TS = Column("ts", "timestamp", "timestamp")
S = Column("s", "varchar", "varchar(9)", charset="utf8mb4", collation="utf8mb4_bin")
F = Column("f", "double", "double")
J = Column("j", "json", "json")
G = Column("g", "date", "date", generated="STORED")
KEY = Index("PRIMARY", (IndexPart("id"),), unique=True)
OPTIONS = PlanOptions()


def table(expression: str | None = "cast(`ts` as date)", column: Column = G, key: Index | None = KEY) -> TableInfo:
    info = TableInfo("d", "t", (ID, N, TS, S, F, J, column), (key,) if key else ())
    return info if expression is None else replace(info, expressions=(("g", expression),))


def sampled(
    upstream: TableInfo, target: TableInfo, options: PlanOptions = OPTIONS, rules: TableRules = NO_RULES
) -> list[tuple[str, tuple[int, ...], bool]]:
    made = build(1, 0, b"", upstream, target, options, rules=rules)
    return [(one.name, one.bases, one.dependent) for one in made.sampled]


@pytest.mark.parametrize(
    ("expression", "bases", "dependent"),
    [
        ("cast(`ts` as date)", (2,), True),
        ("`n` + `id`", (0, 1), False),
        ("`n` / 2", (1,), True),
        ("concat(`S`,'a')", (3,), False),
    ],
)
def test_the_columns_of_the_expression_decide_a_value(expression: str, bases: tuple[int, ...], dependent: bool) -> None:
    assert sampled(table(expression), table(expression)) == [("g", bases, dependent)]


@pytest.mark.parametrize(
    ("upstream", "target"),
    [
        (table(), table(column=replace(G, generated="VIRTUAL"))),
        (table(column=replace(G, generated="VIRTUAL")), table()),
        (table(), table(None, replace(G, generated=""))),
        (table(), table(None)),
        (table("1 + 1"), table("1 + 1")),
        (table(), replace(table("`own`"), columns=(*table().columns, replace(N, name="own")))),
        (table("`f` + 1"), table("`f` + 1")),
        (table("json_extract(`j`,'$.a')"), table("json_extract(`j`,'$.a')")),
        (table(column=replace(G, type_name="double")), table(column=replace(G, type_name="double"))),
        (table("`n` + 1", key=None), table("`n` + 1", key=None)),
    ],
    ids=["virtual", "virtual-here", "plain", "unknown", "constant", "own", "float", "json", "result", "keyless"],
)
def test_what_cannot_be_compared_is_no_sample(upstream: TableInfo, target: TableInfo) -> None:
    assert sampled(upstream, target) == []


def test_what_the_time_zone_decides_is_compared_without_a_key_too() -> None:
    made = build(1, 0, b"", table(key=None), table(key=None), OPTIONS)
    assert [(one.name, one.zoned) for one in made.sampled] == [("g", True)]
    rows = [[b"7", b"NULL", value, b"'x'", b"0", b"NULL", b"'2024-01-01'"] for value in (b"'2024-01-01'", b"NULL")]
    assert question_of_any(made, made.sampled[0], rows) == (
        b"SELECT 1, 1 FROM `d`.`t` WHERE (`ts` <=> '2024-01-01' AND (`g` <=> '2024-01-01') IS NOT TRUE)"
        b" OR (`ts` <=> NULL AND (`g` <=> '2024-01-01') IS NOT TRUE) LIMIT 1"
    )


def test_the_upstreams_expression_need_not_be_known() -> None:
    """It is not among what is stored of a structure."""
    stored = TableInfo.from_json(table().to_json())
    assert sampled(stored, table()) == [("g", (2,), True)]


def test_what_rules_change_is_no_sample() -> None:
    info = table("`n` + 1")
    mapping = TableMapping(
        "d", "t", (PartitionId(1, 1, 1 << 60, MappedColumn("d", "t", "n", Code.SyncerUnitDoColumnMapping)),)
    )
    assert sampled(info, info, rules=TableRules(mapping=mapping)) == []
    assert sampled(info, info, PlanOptions(lossy=True)) == []
    assert sampled(info, info) == [("g", (1,), False)]


def test_a_question_asks_for_the_row_and_for_what_decides_its_value() -> None:
    made = build(1, 0, b"", table(), table(), PlanOptions())
    (column,) = made.sampled
    row = [b"7", b"NULL", b"'2024-01-01 00:00:00'", b"'x'", b"0", b"NULL", b"'2024-01-01'"]
    assert question(made, column, row) == (
        b"SELECT CAST(`g` AS CHAR), CAST('2024-01-01' AS CHAR) FROM `d`.`t` WHERE `id` = 7"
        b" AND `ts` <=> '2024-01-01 00:00:00' AND (`g` <=> '2024-01-01') IS NOT TRUE LIMIT 1"
    )
