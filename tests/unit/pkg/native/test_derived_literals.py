"""Hazard: mapped or constant literals differ between the compiled kernel and the Python code, or miss the key."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.execution.partition import partition_slice
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.conflict_sets import ConflictKey, ConflictPairs, find_conflict_sets
from dm_worker.syncer.rows.key_normalization import KeyNormalizer
from pkg.binlog.events import event_from_bytes
from pkg.binlog.rows.derived_literals import Derived
from pkg.binlog.rows.row_decoder import KERNEL, RowDecoder
from pkg.binlog.table_map import parse_table_map
from pkg.errors import Code, DMError
from pkg.rules.column_mapping import VALUE_LIMIT, Affix, MappedColumn, PartitionId
from tests.sweeps import examples
from tests.unit.pkg.native.shapes import KINDS, Shape, rows, shapes
from tests.unit.pkg.native.support import event, outcome

BOTH = [None] if KERNEL is None else [None, KERNEL]
PLACE = MappedColumn("d", "t", "c", Code.SyncerUnitDoColumnMapping)
NUMBERS = [kind for kind in KINDS if kind.type_name in ("tinyint", "smallint", "mediumint", "int", "bigint")]
TEXTS = [kind for kind in KINDS if kind.type_name in ("varchar", "char", "text", "varbinary")]


def mapped(source: int, target: int, base: int) -> Derived:
    change = PartitionId(source, target, base, PLACE)
    return Derived(source, change=change, base=base, limit=VALUE_LIMIT)


@st.composite
def derived(draw: st.DrawFn, shape: Shape) -> tuple[Derived, ...]:
    """A few of every form, over any column; errors of a mapping must be the same too."""
    found = []
    for _ in range(draw(st.integers(0, 3))):
        source = draw(st.integers(0, len(shape.kinds) - 1))
        text = draw(st.sampled_from([b"'a'", b"'it\\'s'", b"'01'"]))
        base = draw(st.sampled_from([0, 1 << 44, 15 << 59, (1 << 63) - VALUE_LIMIT]))
        affix = Affix(source, source, "x-", "", "utf8mb4", PLACE)
        found.append(
            draw(st.sampled_from([Derived(text=text), mapped(source, source, base), Derived(source, change=affix)]))
        )
    return tuple(found)


def decoder(shape: Shape, more: tuple[Derived, ...], kernel: ModuleType | None, numbers: tuple[int, ...]) -> RowDecoder:
    table_map = parse_table_map(event_from_bytes(shape.table_map))
    return RowDecoder(table_map, shape.columns, key=numbers[:2], write=numbers, derived=more, kernel=kernel)


@settings(deadline=None)
@given(st.data(), st.integers(0, 2))
def test_both_give_the_same_literals_and_errors(data: st.DataObject, op: int) -> None:
    shape = data.draw(shapes(most=5))
    more = data.draw(derived(shape))
    numbers = tuple(data.draw(st.permutations(range(len(shape.kinds) + len(more)))))
    images = [data.draw(rows(shape)) for _ in range(data.draw(st.integers(0, 3)) * (2 if op == 1 else 1))]
    raw = event(op, 0, shape, b"".join(map(shape.image, images)))
    found = [decoder(shape, more, kernel, numbers) for kernel in BOTH]
    for name in ("changes", "images"):
        assert len({repr(outcome(getattr(one, name), raw, "b.1")) for one in found}) == 1


@pytest.mark.parametrize("kernel", BOTH)
@pytest.mark.parametrize("kind", [*NUMBERS, *TEXTS], ids=lambda kind: f"{kind.column_type}-{kind.charset}")
@settings(max_examples=examples(20))
@given(st.data())
def test_a_derived_literal_is_what_the_mapping_makes_of_the_columns(
    kernel: ModuleType | None, kind: object, data: st.DataObject
) -> None:
    shape = Shape((kind,), (True,), (0,))  # type: ignore[arg-type]
    change = PartitionId(0, 0, 5 << 44, PLACE)
    raw = event(0, 0, shape, shape.image(data.draw(rows(shape))))
    plain = outcome(decoder(shape, (), kernel, (0,)).images, raw)
    made = outcome(decoder(shape, (mapped(0, 0, 5 << 44),), kernel, (1,)).images, raw)
    assert isinstance(plain, list)
    _, _, [literal] = plain[0]
    expected = outcome(change.literal, literal)
    assert made == ([(0, None, [literal, expected])] if isinstance(expected, bytes) else expected)


@pytest.mark.parametrize(("value", "expected"), [(0, 1 << 44), (VALUE_LIMIT - 1, (2 << 44) - 1), (7, (1 << 44) + 7)])
@pytest.mark.parametrize("kernel", BOTH)
def test_the_range_of_partition_id_is_taken_to_its_edges(kernel: ModuleType | None, value: int, expected: int) -> None:
    bigint = next(kind for kind in NUMBERS if kind.column_type == "bigint")
    shape = Shape((bigint,), (False,), (0,))
    read = decoder(shape, (mapped(0, 0, 1 << 44),), kernel, (1,)).changes
    assert read(event(0, 0, shape, shape.image([value.to_bytes(8, "little")]))) == [
        (0, b"%d" % expected, b"(%d)" % expected, b"")
    ]
    for beyond in (VALUE_LIMIT, -1):
        raw = event(0, 0, shape, shape.image([beyond.to_bytes(8, "little", signed=True)]))
        with pytest.raises(DMError, match=str(beyond)) as caught:
            read(raw)
        assert caught.value.kind is Code.SyncerUnitDoColumnMapping


@settings(max_examples=examples(50))
@given(st.data(), st.booleans())
def test_blocks_and_ties_of_mapped_keys_are_the_same(data: st.DataObject, may_conflict: bool) -> None:
    """A key of a constant and a mapped number; conflicts by a mapped column."""
    int_, bigint = (next(kind for kind in NUMBERS if kind.column_type == name) for name in ("int", "bigint"))
    shape = Shape((int_, bigint), (False, True), (0,))
    more = (mapped(0, 0, 3 << 44), Derived(text=b"'01'"), mapped(1, 1, 0))
    plan = replace(shape.plan(1, 0), key=(3, 2), key_names=("s", "id"), write=(2, 4, 3), derived=more)
    plan = replace(plan, normalizers=(KeyNormalizer("exact"), KeyNormalizer("exact")))
    if may_conflict:
        plan = replace(plan, conflict_keys=(ConflictKey(9, (4,), (KeyNormalizer("exact"),)),))
    events, rows = [], [0, 0, 0]
    for _ in range(data.draw(st.integers(1, 4))):
        op = data.draw(st.integers(0, 2))
        rows[op] += 1
        small = st.integers(0, 5)
        images = [
            shape.image(
                [
                    data.draw(small).to_bytes(4, "little"),
                    data.draw(st.none() | small.map(lambda n: n.to_bytes(8, "little"))),
                ]
            )
            for _ in range(2 if op == 1 else 1)
        ]
        events.append(event(op, 0, shape, b"".join(images)))
    part = Slice.pack(0, events, [1] * len(events), list(range(len(events))), "b.1")
    found = []
    for kernel in BOTH:
        pairs, counts = ConflictPairs(), dict[int, tuple[int, ...]]()
        blocks = outcome(partition_slice, part, {1: plan}, 3, pairs=pairs, counts=counts, safe=True, kernel=kernel)
        found.append((blocks, find_conflict_sets([pairs.packed()], kernel=None)))
        assert not isinstance(blocks, list) or counts == {1: tuple(rows)}, "whatever becomes of them, they are counted"
    assert all(one == found[0] for one in found)
