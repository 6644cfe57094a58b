"""Hazards: rows that fall into another bucket after a restart, that lose their order, or that are written twice."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.execution import compaction, merge, partition, row_block, row_statements
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.conflict_sets import ConflictPairs, find_conflict_sets
from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.plan_builder import build as build_plan
from dm_worker.syncer.rows.table_plan import ORDERED, TablePlan
from pkg.errors import Code, DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from tests.compiled import kernels
from tests.harness import binlog_bytes

ID = Column("id", "int", "int(11)", nullable=False)
NOTE = Column("note", "varchar", "varchar(20)", charset="utf8mb4")
TABLE = TableInfo("s", "t", (ID, NOTE), (Index("PRIMARY", (IndexPart("id"),), unique=True),))
INSERT_EVENT, UPDATE_EVENT, DELETE_EVENT = 30, 31, 32


def plan_of(number: int = 1, *, target: int = 1, mode: str = "", keyless: bool = False) -> TablePlan:
    table = replace(TABLE, indexes=() if keyless else TABLE.indexes)
    into = table.renamed("d", f"t{target}")
    table_map = binlog_bytes.table_map(bytes([3, 15]), struct.pack("<H", 80), 0b10)
    plan = build_plan(number, target, table_map.data, table, into, PlanOptions())
    return replace(plan, mode=mode) if mode else plan


def image(number: int, text: str | None = "a") -> bytes:
    if text is None:
        return b"\xfe" + struct.pack("<i", number)
    return b"\xfc" + struct.pack("<i", number) + bytes([len(text.encode())]) + text.encode()


def slice_of(events: list[tuple[int, bytes]], *, order: int = 0) -> Slice:
    """Events as (plan number, bytes)."""
    positions = [100 * (n + 1) for n in range(len(events))]
    return Slice.pack(order, [data for _, data in events], [plan for plan, _ in events], positions, "b.000007")


def contents(
    slices: list[Slice], plans: dict[int, TablePlan], buckets: int, form: StatementForm | None = None
) -> dict[int, merge.BucketContent]:
    form = form or StatementForm()
    packed: dict[int, list[tuple[int, bytes]]] = {}
    for part in slices:
        for bucket, data in partition.partition_slice(part, plans, buckets, safe=form.safe):
            packed.setdefault(bucket, []).append((part.order, data))
    rules = {number: row_statements.write_rule_of(plan, form) for number, plan in plans.items()}
    return {
        bucket: merge.merge_blocks(reversed(blocks), rules, safe=form.safe) for bucket, blocks in sorted(packed.items())
    }


def texts(content: merge.BucketContent, plans: dict[int, TablePlan], form: StatementForm | None = None) -> list[bytes]:
    return [row_statements.for_group(plans[g.plan], g, form or StatementForm()).text for g in content.groups]


def test_bucket_of_a_key_is_stable_across_processes() -> None:
    # An intent that is done again by another process must find every row in its old bucket.
    plan = plan_of()
    assert [partition.row_hash(plan, b"%d" % i) % 16 for i in range(6)] == [2, 4, 14, 8, 11, 13]


def test_slices_fold_into_statements_in_the_order_delete_upsert_insert() -> None:
    plans = {1: plan_of()}
    first = [
        (1, binlog_bytes.rows(INSERT_EVENT, 2, image(1) + image(2))),
        (1, binlog_bytes.rows(DELETE_EVENT, 2, image(3))),
    ]
    second = [(1, binlog_bytes.rows(UPDATE_EVENT, 2, image(1) + image(1, "b") + image(7) + image(8, "it's")))]
    parts = [slice_of(first, order=0), slice_of(second, order=1)]
    (content,) = contents(parts, plans, 1).values()
    assert content.changes == 5
    assert texts(content, plans) == [
        b"DELETE FROM `d`.`t1` WHERE `id` IN (3,7)",
        b"INSERT INTO `d`.`t1` (`id`,`note`) VALUES (1,'b'),(2,'a'),(8,'it\\'s')",
    ]


def test_two_tables_share_a_bucket_without_mixing() -> None:
    plans = {1: plan_of(1, target=4), 2: plan_of(2, target=3)}
    events = [(number, binlog_bytes.rows(INSERT_EVENT, 2, image(5))) for number in (1, 2)]
    (content,) = contents([slice_of(events)], plans, 1).values()
    assert texts(content, plans) == [
        b"INSERT INTO `d`.`t3` (`id`,`note`) VALUES (5,'a')",
        b"INSERT INTO `d`.`t4` (`id`,`note`) VALUES (5,'a')",
    ]


def test_rows_without_a_key_keep_their_order_across_slices() -> None:
    plans = {1: plan_of(keyless=True), 2: plan_of(2, target=2)}
    assert plans[1].mode == ORDERED
    parts = [
        slice_of(
            [
                (1, binlog_bytes.rows(INSERT_EVENT, 2, image(order) + image(order + 10))),
                (2, binlog_bytes.rows(INSERT_EVENT, 2, image(order))),
                (1, binlog_bytes.rows(DELETE_EVENT, 2, image(order))),
            ],
            order=order,
        )
        for order in range(3)
    ]
    found = contents(parts, plans, 4)
    (rows,) = [content.ordered[1] for content in found.values() if content.ordered]
    assert [(op, (before or after or [b""])[0]) for _, op, _, _, before, after in rows] == [
        entry for n in range(3) for entry in ((0, b"%d" % n), (0, b"%d" % (n + 10)), (2, b"%d" % n))
    ]
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    assert {row[3] for row in rows} == {100, 300}
    assert sum(content.changes for content in found.values()) == 12


def test_an_ordered_row_that_changes_its_bucket_is_deleted_and_inserted() -> None:
    plans = {1: plan_of(mode=ORDERED)}
    there = {partition.row_hash(plans[1], b"%d" % n) % 4: n for n in range(50)}
    old, new = there[0], there[1]
    found = contents([slice_of([(1, binlog_bytes.rows(UPDATE_EVENT, 2, image(old) + image(new)))])], plans, 4)
    assert [(bucket, content.ordered[1][0][1]) for bucket, content in found.items()] == [(0, 2), (1, 0)]


@pytest.mark.parametrize("kernel", kernels())
def test_a_row_that_changes_its_key_is_not_deleted_where_the_target_has_more_of_it(kernel: ModuleType | None) -> None:
    there = {partition.row_hash(plan_of(), b"%d" % n) % 4: n for n in range(50)}
    old, new = image(there[0]), image(there[1])
    stays, moves = (
        slice_of([(1, binlog_bytes.rows(UPDATE_EVENT, 2, old + other))]) for other in (old[:-1] + b"b", new)
    )
    plain, more = plan_of(), replace(plan_of(target=5), extra_columns=True)
    for part, plan, safe in ((moves, plain, False), (stays, more, False), (moves, more, True)):
        assert partition.partition_slice(part, {1: plan}, 4, safe=safe, kernel=kernel)
    with pytest.raises(partition.KeysMoved) as caught:
        partition.partition_slice(moves, {1: more}, 4, kernel=kernel)
    assert caught.value.targets == {5}
    # In order, the row is one update, and its two keys conflict.
    ordered, pairs = replace(more, mode=ORDERED), ConflictPairs()
    ((home, data),) = partition.partition_slice(moves, {1: ordered}, 4, pairs=pairs, kernel=kernel)
    rows = [rows for _, _, rows in row_block.sections(data) if rows]
    assert [[row[1] for row in found] for found in rows] == [[1]]
    hashes = {partition.row_hash(more, b"%d" % there[n]) for n in (0, 1)}
    assert find_conflict_sets([pairs.packed()]) == dict.fromkeys(hashes, min(hashes))
    assert ordered.may_conflict
    assert home in (0, 1)


def test_a_torn_event_names_table_and_position() -> None:
    part = slice_of(
        [(1, binlog_bytes.rows(INSERT_EVENT, 2, image(1))), (1, binlog_bytes.rows(INSERT_EVENT, 2, image(1)[:-1]))]
    )
    with pytest.raises(DMError) as caught:
        partition.partition_slice(part, {1: plan_of()}, 4)
    assert caught.value.kind is Code.BinlogParseSingleEv
    assert "(b.000007, 200)" in caught.value.message
    assert "`s`.`t`" in caught.value.message


def test_contradicting_changes_name_table_and_position() -> None:
    part = slice_of([(1, binlog_bytes.rows(INSERT_EVENT, 2, image(1) + image(2) + image(1)))])
    with pytest.raises(DMError, match=r"Duplicate entry \(1\).*b.000007, 100"):
        partition.partition_slice(part, {1: plan_of()}, 4)
    halves = [slice_of([(1, binlog_bytes.rows(INSERT_EVENT, 2, image(1)))], order=n) for n in range(2)]
    with pytest.raises(compaction.ImpossibleChange) as caught:
        contents(halves, {1: plan_of()}, 1)
    assert (caught.value.key, caught.value.before, caught.value.op, caught.value.plan) == (b"1", 0, 0, 1)


@given(
    st.lists(st.binary(min_size=1, max_size=9), max_size=30), st.integers(-5, 40), st.integers(1, 7), st.integers(0, 2)
)
def test_groups_hold_all_rows_once_within_the_limits(rows: list[bytes], limit: int, most: int, kind: int) -> None:
    groups = list(merge.cut(3, kind, rows, limit, most))
    assert [row for group in groups for row in group.rows()] == rows
    assert all(group.count == len(group.rows()) <= most for group in groups)
    # One comma may be beyond the limit: a group's size counts none for its first row.
    assert all(len(group.body) <= limit for group in groups if group.count > 1)


@settings(deadline=None)
@given(st.binary(max_size=60), st.data(), st.sampled_from(["", ORDERED]))
def test_torn_blocks_are_errors(junk: bytes, draw: st.DataObject, mode: str) -> None:
    plans = {1: plan_of(mode=mode)}
    ((_, data),) = partition.partition_slice(
        slice_of([(1, binlog_bytes.rows(INSERT_EVENT, 2, image(1) + image(2)))]), plans, 1
    )
    rules = {1: row_statements.write_rule_of(plans[1], StatementForm())}
    cut = draw.draw(st.integers(0, len(data) - 1).filter(lambda n: n != row_block.HEADER.size))
    for torn in (data[:cut], data + b"\0"):
        with pytest.raises(ValueError):
            merge.merge_blocks([(0, torn)], rules)
    if not mode:
        with contextlib.suppress(ValueError, KeyError, compaction.ImpossibleChange):
            merge.merge_blocks([(0, data[:cut] + junk)], rules)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=20), st.integers(1, 7))
def test_reassigned_blocks_hold_every_record_once_where_it_belongs(rows: list[tuple[int, int]], buckets: int) -> None:
    records = [row_block.state_record(1, 0, place, b"k%d" % place, b"(%d)" % value) for place, value in rows]
    ordered = [row_block.row_record((n, 0, 2, 9, None, [b"%d" % n]), place) for n, (place, _) in enumerate(rows)]
    data = (
        row_block.HEADER.pack(50)
        + row_block.section(3, row_block.STATES, records, len(records))
        + row_block.section(4, row_block.ROWS, ordered, len(ordered))
    )
    moved = {0: 5, 5: 5, 3: 8}
    home = 2 % buckets
    made = row_block.reassign(data, home, moved, buckets)
    assert sum(row_block.changes_of(part) for _, part in made) == 50
    states: dict[int, list[bytes]] = {}
    for bucket, part in made:
        for target, found, kept in row_block.sections(part):
            assert target == (3 if found else 4)
            states.setdefault(bucket, []).extend(key for key, *_ in found)
            assert [row[0] for row in kept] == sorted(row[0] for row in kept)
    expected: dict[int, list[bytes]] = {}
    for place, _ in rows:
        expected.setdefault(moved[place] % buckets if place in moved else home, []).append(b"k%d" % place)
    assert states == expected
