"""Hazard: the compiled row kernel gives other bytes, other buckets or other errors than the Python code."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.execution import merge, partition, row_block, row_statements
from dm_worker.syncer.execution.compaction import JOINED
from dm_worker.syncer.execution.family_rows import UNCHECKED
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.table_plan import ORDERED, TablePlan
from pkg.binlog.constants import FLAG_NO_FOREIGN_KEY_CHECKS, ROWS_FLAGS
from pkg.binlog.events import event_from_bytes
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import parse_table_map
from pkg.errors import Code, DMError
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.pkg.native.shapes import KINDS, Kind, Shape, rows, shapes
from tests.unit.pkg.native.support import event, outcome

KERNEL = required("rows")


def decoder(shape: Shape, write: tuple[int, ...], kernel: ModuleType | None) -> RowDecoder:
    table_map = parse_table_map(event_from_bytes(shape.table_map))
    return RowDecoder(table_map, shape.columns, key=shape.key, write=write, kernel=kernel)


@settings(deadline=None)
@given(st.data(), st.integers(0, 2), st.integers(0, 1))
def test_rows_of_any_table_have_the_same_literals(data: st.DataObject, op: int, version: int) -> None:
    shape = data.draw(shapes())
    write = tuple(data.draw(st.lists(st.integers(0, len(shape.kinds) - 1), unique=True)))
    images = [data.draw(rows(shape)) for _ in range(data.draw(st.integers(0, 3)) * (2 if op == 1 else 1))]
    raw = event(op, version, shape, b"".join(map(shape.image, images)))
    one, other = (decoder(shape, write, kernel) for kernel in (KERNEL, None))
    for name in ("changes", "images"):
        assert outcome(getattr(one, name), raw, "b.1") == outcome(getattr(other, name), raw, "b.1")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.column_type}-{kind.charset}"[:30])
@settings(max_examples=examples(25))
@given(st.data())
def test_every_type_alone(kind: Kind, data: st.DataObject) -> None:
    shape = Shape((kind,), (False,), (0,))
    values = data.draw(st.lists(kind.values, min_size=1, max_size=3))
    for value in values:
        raw = event(0, 0, shape, shape.image([value]))
        one, other = (outcome(decoder(shape, (0,), kernel).changes, raw) for kernel in (KERNEL, None))
        assert one == other


@settings(deadline=None)
@given(st.data())
def test_torn_and_mutated_events_have_the_same_outcome(data: st.DataObject) -> None:
    shape = data.draw(shapes(most=5))
    op = data.draw(st.integers(0, 2))
    images = [shape.image(data.draw(rows(shape))) for _ in range(2)]
    raw = bytearray(event(op, data.draw(st.integers(0, 1)), shape, b"".join(images)))
    for _ in range(data.draw(st.integers(0, 2))):
        raw[data.draw(st.integers(19, len(raw) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(raw[: data.draw(st.integers(20, len(raw)))])
    one, other = (decoder(shape, (0,), kernel) for kernel in (KERNEL, None))
    for name in ("changes", "images"):
        found, expected = (outcome(getattr(of, name), whole) for of in (one, other))
        # Python knows how far a torn row went; what counts is that both refuse it.
        if isinstance(expected, tuple) and expected[0] == 11071:
            assert isinstance(found, tuple)
            assert found[0] == 11071
        else:
            assert found == expected


# -- slices and blocks ---------------------------------------------------------------------------------------------

SMALL = Shape(tuple(kind for kind in KINDS if kind.type_name in ("int", "varchar"))[:3], (False, False, True), (0,))


@st.composite
def slices(draw: st.DrawFn) -> tuple[list[Slice], dict[int, TablePlan]]:
    """Slices of a few tables with few keys, so that changes meet; two plans share a target. One may keep its order."""
    wide = Shape((KINDS[0], KINDS[6], KINDS[20]), (False, True, False), tuple(draw(st.sampled_from([(0,), (0, 1)]))))
    tables = {
        3: (wide, wide.plan(3, 2, spread=draw(st.booleans()))),
        9: (SMALL, SMALL.plan(9, 5)),
        4: (SMALL, replace(SMALL.plan(4, 5), source_number=draw(st.integers(0, 1)))),
        7: (SMALL, SMALL.plan(7, 1, spread=draw(st.booleans()))),
    }
    if draw(st.booleans()):
        tables[7] = (SMALL, replace(tables[7][1], mode="ordered"))
    parts = []
    for order in range(draw(st.integers(1, 3))):
        events = []
        for _ in range(draw(st.integers(0, 8))):
            number = draw(st.sampled_from(sorted(tables)))
            shape = tables[number][0]
            op = draw(st.integers(0, 2))
            images = [
                shape.image(_few_keys(draw, shape)) for _ in range(draw(st.integers(1, 3)) * (2 if op == 1 else 1))
            ]
            events.append((number, event(op, draw(st.integers(0, 1)), shape, b"".join(images))))
        positions = [1000 * order + n for n in range(len(events))]
        parts.append(Slice.pack(order, [raw for _, raw in events], [n for n, _ in events], positions, "b.000001"))
    return parts, {number: plan for number, (_, plan) in tables.items()}


def _few_keys(draw: st.DrawFn, shape: Shape) -> list[bytes | None]:
    row = draw(rows(shape))
    first = row[0] or b""
    return [bytes([draw(st.integers(0, 9))]) + bytes(len(first) - 1), *row[1:]]


@settings(deadline=None)
@given(
    slices(),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([StatementForm(), StatementForm(limit=150), StatementForm(multiple=False)]),
)
def test_blocks_and_groups_are_the_same_byte_for_byte(
    made: tuple[list[Slice], dict[int, TablePlan]], buckets: int, safe: bool, form: StatementForm
) -> None:
    parts, plans = made
    form = replace(form, safe=safe)
    packed: dict[int, list[tuple[int, bytes]]] = {}
    for part in parts:
        one, other = (
            outcome(partition.partition_slice, part, plans, buckets, safe=safe, kernel=kernel)
            for kernel in (KERNEL, None)
        )
        assert one == other
        if isinstance(other, list):
            for bucket, data in other:
                packed.setdefault(bucket, []).append((part.order, data))
    rules = {
        number: row_statements.write_rule_of(replace(plan, rewrite_existing=True, in_place=True), form)
        for number, plan in plans.items()
    }
    for bucket, blocks in packed.items():
        for found in (blocks, [(order, _half_joined(data, bucket, buckets, plans)) for order, data in blocks]):
            one, other = (
                outcome(merge.merge_blocks, found, rules, safe=safe, kernel=kernel) for kernel in (KERNEL, None)
            )
            assert one == other


def _half_joined(data: bytes, bucket: int, buckets: int, plans: Mapping[int, TablePlan]) -> bytes:
    """A block in which every other row is in a conflict set of its bucket."""
    states = [state for _, found, _ in row_block.sections(data) for state in found]
    hashes = {partition.row_hash(plans[number], key) for key, _, number, _ in states}
    joined = {place: place for place in hashes if place // buckets % 2}
    ((where, made),) = row_block.reassign(data, bucket, joined, buckets, KERNEL) or [(bucket, data)]
    assert where == bucket
    marked = [state & JOINED for _, found, _ in row_block.sections(made) for _, state, _, _ in found]
    assert marked == [JOINED * (partition.row_hash(plans[number], key) in joined) for key, _, number, _ in states]
    return made


def test_an_event_is_named_when_it_is_torn_or_contradicts() -> None:
    plan = SMALL.plan(1, 1)
    good = event(0, 0, SMALL, SMALL.image([struct.pack("<i", 1), struct.pack("<i", 2), None]))
    for bad, code in ((good[:-1], 11071), (good, 10006)):
        part = Slice.pack(0, [good, bad], [1, 1], [100, 200], "b.000009")
        for kernel in (KERNEL, None):
            with pytest.raises(DMError, match=r"b.000009, 200") as caught:
                partition.partition_slice(part, {1: plan}, 2, kernel=kernel)
            assert caught.value.code == code


def test_compressed_events_and_extra_data_take_the_long_way_to_the_same_rows() -> None:
    plan = SMALL.plan(1, 1)
    images = SMALL.image([struct.pack("<i", 1), struct.pack("<i", 2), None])
    plain = binlog_bytes.rows(23, 3, images)
    others = [
        binlog_bytes.rows(166, 3, bytes([0x81, len(images)]) + zlib.compress(images)),
        binlog_bytes.rows(30, 3, images, extra=b"\0\5abc"),
    ]
    expected = partition.partition_slice(Slice.pack(0, [plain], [1], [1], "b"), {1: plan}, 2)
    for other in others:
        for kernel in (KERNEL, None):
            assert (
                partition.partition_slice(Slice.pack(0, [other], [1], [1], "b"), {1: plan}, 2, kernel=kernel)
                == expected
            )


@pytest.mark.parametrize("position", [0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("op", [0, 1, 2])
def test_rows_in_their_order_are_packed_alike_at_any_position(op: int, position: int) -> None:
    shape = replace(SMALL, key=())
    plan = shape.plan(1, 1)
    image = shape.image([struct.pack("<i", 1), struct.pack("<i", 2), None])
    data = event(op, 1, shape, image * 4)
    part = Slice.pack(3, [data, data], [1, 1], [5, position], "b")
    found = [partition.partition_slice(part, {1: plan}, 2, kernel=kernel) for kernel in (KERNEL, None)]
    assert found[0] == found[1]
    rows = [rows for _, block in found[0] for _, _, rows in row_block.sections(block)]
    half = 2 if op == 1 else 4
    assert [row[3] for row in rows[0]] == [5] * half + [position] * half


def test_images_without_all_columns_are_refused_in_slices() -> None:
    plan = SMALL.plan(1, 1)
    part = Slice.pack(0, [binlog_bytes.rows(31, 3, b"", present=0b011)], [1], [1], "b")
    for kernel in (KERNEL, None):
        with pytest.raises(DMError) as caught:
            partition.partition_slice(part, {1: plan}, 2, kernel=kernel)
        assert caught.value.kind is Code.BinlogNotLogColumn


@pytest.mark.parametrize("count", [249, 250, 251, 256, 4096])
def test_wide_tables(count: int) -> None:
    shape = Shape((KINDS[6],) * count, (False, True) * (count // 2) + (True,) * (count % 2), (count - 2,))
    columns, key, write = shape.columns, shape.key, tuple(range(count))
    size = b"\xfc" + struct.pack("<H", count)
    packed = bytes([count]) if count < 251 else size
    head = struct.pack("<IHH", 42, 0, 1)
    types, nulls = bytes([3]) * count, sum(1 << i for i in range(count) if shape.nullable[i])
    bitmap = (count + 7) // 8
    table_map = binlog_bytes.event(19, head + b"\1s\0\1t\0" + packed + types + b"\0" + nulls.to_bytes(bitmap, "little"))
    values: list[bytes | None] = [struct.pack("<i", -i) if i % 3 else None for i in range(count)]
    values = [value or b"\1\0\0\0" if not null else value for value, null in zip(values, shape.nullable, strict=True)]
    raw = binlog_bytes.raw(23, head + packed + b"\xff" * bitmap + shape.image(values))
    found = [
        RowDecoder(parse_table_map(table_map), columns, key=key, write=write, kernel=kernel).changes(raw)
        for kernel in (KERNEL, None)
    ]
    assert found[0] == found[1]
    assert found[0][0][2].count(b",") == count - 1
    plan = replace(shape.plan(1, 1), table_map=table_map.data) if count < 251 else None
    if plan is not None:
        part = Slice.pack(0, [raw], [1], [1], "b")
        assert partition.partition_slice(part, {1: plan}, 3) == partition.partition_slice(
            part, {1: plan}, 3, kernel=None
        )


def test_rows_that_stay_in_one_bucket_are_packed_alike() -> None:
    shape = Shape((next(kind for kind in KINDS if kind.column_type == "int"),), (False,), (0,))

    def whole(number: int, target: int) -> TablePlan:
        return replace(shape.plan(number, target), mode=ORDERED, spread=False, normalizers=(), family="d.t")

    # The first two have one target; the last one is spread, and so packed in Python.
    plans = {
        1: whole(1, 1),
        2: whole(2, 1),
        3: whole(3, 2),
        4: replace(shape.plan(4, 3), mode=ORDERED),
    }
    events, numbers = [], []
    for n in range(24):
        images = b"".join(shape.image([struct.pack("<i", n + i)]) for i in range(2))
        raw = bytearray(event(n % 3, n % 2, shape, images))
        raw[ROWS_FLAGS] |= FLAG_NO_FOREIGN_KEY_CHECKS * (n % 4 == 1)
        events.append(bytes(raw))
        numbers.append(1 + n % 4)
    part = Slice.pack(0, events, numbers, [1 << n for n in range(24, 48)], "b.000001")
    found = []
    for kernel in (KERNEL, None):
        counts: dict[int, tuple[int, int, int]] = {}
        blocks = partition.partition_slice(part, plans, 5, counts=counts, kernel=kernel)
        rows_of = [
            (bucket, target, sorted(ordered))
            for bucket, block in blocks
            for target, _, ordered in row_block.sections(block)
        ]
        found.append((sorted(rows_of), counts))
    assert found[0] == found[1]
    assert sum(map(sum, found[0][1].values())) == 40
    assert {row[1] & UNCHECKED for *_, ordered in found[0][0] for row in ordered} == {0, UNCHECKED}
