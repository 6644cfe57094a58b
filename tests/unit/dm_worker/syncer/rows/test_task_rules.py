"""Hazards: a key is taken from the value before its mapping; a filter touches half of what it names."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE
from dm_worker.syncer.execution.partition import partition_slice
from dm_worker.syncer.execution.row_statements import StatementForm, for_ordered
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.conflict_sets import key_hash
from dm_worker.syncer.rows.plan_builder import PlanOptions, build, incomparable_columns
from dm_worker.syncer.rows.row_filter import RowFilter, zone_of
from dm_worker.syncer.rows.row_shape import NO_RULES, TableRules
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED, TablePlan
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.binlog.rows.row_decoder import KERNEL
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.binlog_filter import BinlogEventFilter
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
)
from pkg.settings.connections import DBConfig
from tests.harness import binlog_bytes as bytes_of

BOTH = [None] if KERNEL is None else [None, KERNEL]
ID = Column("id", "int", "int(11)", nullable=False)
BIG = Column("id", "bigint", "bigint(20)", nullable=False)
OTHER = Column("other", "int", "int(11)", nullable=False)
V = Column("v", "int", "int(11)")
SHARD = Column("c", "varchar", "varchar(9)", False, False, "utf8mb4", "utf8mb4_bin")


def index(*columns: str, name: str = "PRIMARY") -> Index:
    return Index(name, tuple(map(IndexPart, columns)), unique=True)


def table(*columns: Column, keys: tuple[Index, ...] = (index("id"),)) -> TableInfo:
    return TableInfo("d", "t_7", columns, keys)


UPSTREAM = table(ID, OTHER, V)
TARGET = table(BIG, OTHER, V)


def mapping(*rules: ColumnMappingRule, of: TableInfo = UPSTREAM) -> TableRules:
    return TableRules(mapping=ColumnMapper(rules, True, "sync").compile(of.schema, of.name, of.columns))


def partition(target: str = "id", source: str = "") -> ColumnMappingRule:
    return ColumnMappingRule("d", target, "partition id", "t_*", source, ("1", "", "t_"))


def plan(rules: TableRules, upstream: TableInfo = UPSTREAM, target: TableInfo = TARGET) -> TablePlan:
    return build(1, 0, TABLE_MAP, upstream, target, PlanOptions(), rules=rules)


#: INT, INT, INT NULL.
TABLE_MAP = bytes_of.table_map(bytes([3, 3, 3]), b"", 4).data


# -- plans ---------------------------------------------------------------------------------------------------------


def test_the_mapped_value_is_the_key_and_the_column() -> None:
    made = plan(mapping(partition()))
    assert (made.key, made.write, made.write_names) == ((3,), (3, 1, 2), ("id", "other", "v"))
    assert (made.mode, made.spread, made.loadable, made.extra_columns) == (COMPACT, True, True, False)
    assert made.derived[0].literal(b"5") == b"%d" % (1 << 59 | 7 << 51 | 5)
    assert pickle.loads(pickle.dumps(made)) == made
    other_base = mapping(replace(partition(), arguments=("2", "", "t_")))
    assert len({plan(rules).fingerprint() for rules in (NO_RULES, mapping(partition()), other_base)}) == 3


def test_a_key_made_of_another_column_identifies_rows_only_if_that_one_does() -> None:
    by_other = mapping(partition("id", "other"))
    assert plan(by_other).key == ()
    upstream = table(ID, OTHER, V, keys=(index("id"), index("other", name="o")))
    assert plan(by_other, upstream).key == (3,)
    assert plan(mapping(partition()), table(ID, OTHER, V, keys=(index("other"),))).key == ()


def test_a_number_that_the_target_can_hold_or_not() -> None:
    with pytest.raises(DMError, match=r"a number up to \d+, does not fit") as caught:
        plan(mapping(partition()), target=table(ID, OTHER, V))
    assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch
    unsigned = replace(BIG, unsigned=True)
    short, text = (replace(SHARD, name="id", column_type=f"varchar({length})") for length in (17, 18))
    for there in (BIG, unsigned, text):
        plan(mapping(partition()), target=table(there, OTHER, V))
    with pytest.raises(DMError, match="does not fit"):
        plan(mapping(partition()), target=table(short, OTHER, V))
    # A base of 0 leaves the values as they are.
    zero = ColumnMappingRule("d", "id", "partition id", "t_*", "", ("0", "", ""))
    plan(mapping(zero), target=table(ID, OTHER, V))


def test_a_constant_belongs_to_the_key_with_the_upstreams_columns() -> None:
    target = table(ID, OTHER, V, SHARD, keys=(index("c", "id"),))
    made = plan(TableRules(extracts=(("C", "it's \\"),)), target=target)
    assert (made.key, made.key_names, made.write_names) == ((3, 0), ("c", "id"), ("id", "other", "v", "c"))
    assert (made.mode, made.spread, made.extra_columns, made.derived[0].text) == (COMPACT, True, False, rb"'it\'s \\'")
    # Of this collation only its name is known, which says binary: the rows of shards are different.
    assert key_hash(made.normalizers, 0)(b"'1',5") != key_hash(made.normalizers, 0)(b"'2',5")
    assert plan(NO_RULES, target=target).key == ()


def test_a_constant_that_can_not_be_compared_leaves_the_rest_of_the_key() -> None:
    target = table(ID, OTHER, V, replace(V, name="c", nullable=False), keys=(index("c", "id"),))
    rules = TableRules(extracts=(("c", "01"),))
    assert incomparable_columns(UPSTREAM, target, PlanOptions(), None, rules) == {"c"}
    assert plan(rules, target=target).spread


# -- rows ----------------------------------------------------------------------------------------------------------


def kinds(events: tuple[str, ...], action: str = "Ignore") -> RowFilter:
    rule = BinlogFilterRule("d", "t_*", events, (), action)
    return RowFilter(BinlogEventFilter([rule], True).rows("d", "t_7"))


def image(*values: int) -> bytes:
    return b"\xf8" + b"".join(value.to_bytes(4, "little") for value in values)


def the_slice() -> Slice:
    events = [
        bytes_of.rows(30, 3, image(1, 1, 1) + image(2, 1, 11)),
        bytes_of.rows(31, 3, image(1, 1, 1) + image(1, 1, 2)),
        bytes_of.rows(32, 3, image(2, 1, 11)),
    ]
    return Slice.pack(0, events, [1, 1, 1], [100, 200, 300], "b.1")


@pytest.mark.parametrize("kernel", BOTH)
@pytest.mark.parametrize(
    ("left_out", "changes"), [(("insert",), 2), (("update", "delete"), 2), (("delete",), 3), (("all dml",), 0)]
)
def test_events_of_an_ignored_kind_are_not_even_decoded(
    kernel: ModuleType | None, left_out: tuple[str, ...], changes: int
) -> None:
    made = plan(TableRules(filter=kinds(left_out)))
    part = the_slice()
    blocks = partition_slice(part, {1: made}, 1, kernel=kernel)
    assert sum(int.from_bytes(data[:4], "little") for _, data in blocks) == changes
    if "all dml" in left_out:
        torn = Slice.pack(0, [data[:-2] for data, _, _ in part.events()], [1, 1, 1], [1, 2, 3], "b.1")
        assert partition_slice(torn, {1: made}, 1, kernel=kernel) == blocks == []


@pytest.mark.parametrize("kernel", BOTH)
def test_a_refused_kind_names_rule_table_and_location(kernel: ModuleType | None) -> None:
    made = plan(TableRules(filter=kinds(("update",), "Error")))
    with pytest.raises(
        DMError, match=r"'d\.t_\*: Error'.*`d`\.`t_7`: update \(rows event that ends at \(b.1, 200\)"
    ) as e:
        partition_slice(the_slice(), {1: made}, 1, kernel=kernel)
    assert e.value.kind is Code.SyncerUnitBinlogEventFilter
    other = plan(TableRules(filter=kinds(("delete",), "Error")))
    part = Slice.pack(0, [next(the_slice().events())[0]], [1], [100], "b.1")
    assert partition_slice(part, {1: other}, 1, kernel=kernel)


def test_rows_that_may_be_missing_are_changed_in_order_and_never_made_up() -> None:
    for found, gaps in (
        (kinds(("insert",)), True),
        (kinds(("update",)), True),
        (kinds(("delete",)), False),
        (kinds(("insert",), "Error"), False),
        (RowFilter(delete=("v = 1",)), True),
        (RowFilter(), False),
    ):
        made = plan(TableRules(filter=found))
        assert (made.filter.leaves_gaps, made.mode, made.key_changes_conflict) == (
            gaps,
            ORDERED if gaps else COMPACT,
            gaps,
        )
        rows = [
            (1, UPDATE, 1, 9, [b"1", b"1", b"1"], [b"2", b"1", b"1"]),
            (2, DELETE, 1, 9, [b"2", b"1", b"1"], None),
        ]
        assert [sql.expect for sql in for_ordered({1: made}, rows, StatementForm())] == (
            [None, None] if gaps else [1, 1]
        )


def test_an_update_is_left_out_when_both_of_its_expressions_are_true() -> None:
    columns = UPSTREAM.columns
    keep = RowFilter(
        insert=("v > 10", "id = 5"), update=(("v = 1", "v = 2"), ("", "id = 77")), delete=("id = 3",)
    ).compiled(columns)

    def row(id_: int, v: bytes) -> list[bytes]:
        return [b"%d" % id_, b"0", v]

    kept: list[Any] = [
        (INSERT, None, row(1, b"10")),
        (INSERT, None, row(1, b"NULL")),
        (UPDATE, row(1, b"1"), row(1, b"3")),
        (UPDATE, row(1, b"3"), row(1, b"2")),
        (UPDATE, row(77, b"3"), row(1, b"3")),
        (DELETE, row(4, b"1"), None),
    ]
    out: list[Any] = [
        (INSERT, None, row(1, b"11")),
        (INSERT, None, row(5, b"1")),
        (UPDATE, row(1, b"1"), row(1, b"2")),
        (UPDATE, row(1, b"3"), row(77, b"3")),
        (DELETE, row(3, b"1"), None),
    ]
    assert keep([*out, *kept, *out], 0) == kept


def test_time_zones_of_tasks() -> None:
    assert zone_of("") is UTC
    assert zone_of("-03:30") == timezone(-timedelta(hours=3, minutes=30))
    assert zone_of("Asia/Tokyo") == ZoneInfo("Asia/Tokyo")


# -- a task's rules ------------------------------------------------------------------------------------------------


def config(**rules: Any) -> SubTaskConfig:
    server = DBConfig("h", 1)
    return SubTaskConfig("t", "s-9", "all", server, server, **rules)


def test_rows_of_a_table_whose_changes_are_all_ignored_are_not_looked_at() -> None:
    rules = TaskRules(config(filters=(BinlogFilterRule("d", "a", ("all dml",), (), "Ignore"),)))
    assert [rules.takes_rows("d", name) for name in ("a", "b")] == [False, True]
    assert rules.allows("d", "a")
    assert not rules.allows("dm_meta", "x")
    refused = TaskRules(config(filters=(BinlogFilterRule("d", "a", ("all dml",), (), "Error"),)))
    assert refused.takes_rows("d", "a")


def test_the_first_table_that_is_not_to_be_changed_decides() -> None:
    rules = TaskRules(config(filters=(BinlogFilterRule("d", "b", ("rename table",), (), "Error"),)))
    decision, *name = rules.decide([("d", "a"), ("d", "b")], ("rename table",), "RENAME …")
    assert (decision.action, name) == ("error", ["d", "b"])
    assert rules.decide([], (), "x")[0].action == "do"


def test_a_tables_rules_depend_on_its_structure() -> None:
    rules = TaskRules(
        config(
            routes=(RouteRule("d", "m", "t_*", "t", extract_source=ExtractRule("s-(.)", "c")),),
            column_mappings=(partition(),),
            expression_filters=(
                ExpressionFilter("D", "T_7", insert_value_expr="v = 1"),
                ExpressionFilter("d", "t_7", update_old_value_expr="v = 1", update_new_value_expr="later = 2"),
                ExpressionFilter("d", "other", delete_value_expr="v = 1"),
            ),
            timezone="+01:00",
        )
    )
    found = rules.of_table(UPSTREAM)
    assert found.mapping is not None
    assert (found.extracts, found.filter.insert, found.filter.update) == ((("c", "9"),), ("v = 1",), ())
    later = rules.of_table(table(ID, OTHER, V, replace(V, name="later"))).filter
    assert (later.update, later.delete, later.zone) == ((("v = 1", "later = 2"),), (), "+01:00")
    assert rules.of_table(table(ID).renamed("d", "plain")).filter.takes_all
    with pytest.raises(DMError) as caught:
        rules.of_table(table(ID, OTHER, replace(V, type_name="json", column_type="json")))
    assert caught.value.kind is Code.ConfigExprFilterWrongGrammar


@pytest.mark.parametrize(
    "rules",
    [
        {"filters": (BinlogFilterRule("d", "a", ("insert",), (), "Ignore"),)},
        {"expression_filters": (ExpressionFilter("d", "a", insert_value_expr="v"),)},
        {"column_mappings": (partition(),)},
        {"routes": (RouteRule("d", "m"),)},
        {"block_allow_list": BlockAllowList(do_dbs=("d",))},
        {"case_sensitive": True},
        {"timezone": "+01:00"},
    ],
    ids=lambda rules: next(iter(rules)),
)
def test_every_rule_counts_for_an_unfinished_range(rules: dict[str, Any]) -> None:
    assert repr(TaskRules(config(**rules)).settings) != repr(TaskRules(config()).settings)
    assert repr(TaskRules(config(**rules)).settings) == repr(TaskRules(config(**rules)).settings)
