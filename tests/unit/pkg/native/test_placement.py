"""Hazard: the compiled kernel places a row elsewhere than the Python code, or misses that two rows conflict."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.execution import partition, row_block
from dm_worker.syncer.execution.compaction import REPLACED, UPDATED
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows import key_normalization
from dm_worker.syncer.rows.conflict_sets import CONFLICT_PAIR, ConflictKey, ConflictPairs, find_conflict_sets
from dm_worker.syncer.rows.kernel_layout import placement_of
from dm_worker.syncer.rows.key_normalization import KeyNormalizer
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.collation_weights import NEAR, TAGS, CollationWeights
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.pkg.native.shapes import KINDS, Shape
from tests.unit.pkg.native.support import KERNEL, assert_reassigned_alike, event, outcome

INT = next(kind for kind in KINDS if kind.column_type == "int")
TEXT = next(kind for kind in KINDS if kind.type_name == "varchar" and kind.charset == "utf8mb4")
LATIN = next(kind for kind in KINDS if kind.type_name == "varchar" and kind.charset == "latin1")
SHAPE = Shape((INT, TEXT, INT, LATIN, TEXT), (False, False, True, False, True), (0,))
CHARACTERS = bytes(range(256)).decode("latin-1")


def collation_weights(points: int, far: bytes = b"") -> CollationWeights:
    """Letters without their case; a space weighs two bytes; every seventh character weighs nothing."""
    table = [b"" if point % 7 == 6 else zlib.crc32(chr(point).lower().encode("utf-8", "replace")).to_bytes(4, "big")[:3]
             for point in range(points)]  # fmt: skip
    table[0x20] = b"\0\x20"
    return CollationWeights.of(f"folded_{points}", table, far)


WEIGHTS = (None, collation_weights(0x3000), collation_weights(0x3000, b"\xff\xfd"), collation_weights(NEAR + len(TAGS)))
TEXTS = [
    KeyNormalizer(key_normalization.TEXT, 0, prefix, (), "utf8", "", fold) for fold in WEIGHTS for prefix in (0, 2)
]
LATINS = [replace(form, charset="latin1", characters=CHARACTERS) for form in TEXTS]
INTS = [
    KeyNormalizer(key_normalization.EXACT),
    KeyNormalizer(key_normalization.BLOCK),
    KeyNormalizer(key_normalization.INCOMPARABLE),
    KeyNormalizer(key_normalization.DECIMAL, 0),
]
words = st.text("aAbßé \\',\U0001f600\U000e0041\u3001~", max_size=6).map(str.encode) | st.binary(max_size=3)


@st.composite
def plans(draw: st.DrawFn) -> TablePlan:
    key = draw(st.sampled_from([(0,), (1,), (3,), (1, 0), (0, 3, 1)]))
    forms = {0: st.sampled_from(INTS), 1: st.sampled_from(TEXTS), 2: st.sampled_from(INTS), 3: st.sampled_from(LATINS)}
    forms[4] = forms[1]
    conflict_keys = [
        ConflictKey(seed, columns, tuple(draw(forms[i]) for i in columns), draw(st.sampled_from([(), (*columns, 0)])))
        for seed, columns in enumerate(draw(st.lists(st.sampled_from([(4,), (2,), (2, 1), (3, 4)]), max_size=2)))
    ]
    plan = replace(SHAPE, key=key).plan(1, 1)
    return replace(
        plan, normalizers=tuple(draw(forms[i]) for i in key), conflict_keys=tuple(conflict_keys), mode="compact"
    )


@st.composite
def images(draw: st.DrawFn) -> bytes:
    number = draw(st.none() | st.integers(0, 3))
    texts = [draw(words), draw(words), draw(st.none() | words)]
    text, latin, note = (None if value is None else bytes([len(value)]) + value for value in texts)
    key = struct.pack("<i", draw(st.integers(0, 5) | st.sampled_from([-5, 998, 1000, 1999, -1000, 2**31 - 1])))
    return SHAPE.image([key, text, None if number is None else struct.pack("<i", number), latin, note])


@settings(max_examples=examples(300))
@given(plans(), st.lists(st.tuples(st.integers(0, 2), images(), images()), max_size=8), st.booleans())
def test_rows_fall_into_the_same_buckets_and_have_the_same_ties(
    plan: TablePlan, changes: list[tuple[int, bytes, bytes]], safe: bool
) -> None:
    events = [event(op, 0, SHAPE, one + other if op == 1 else one) for op, one, other in changes]
    part = Slice.pack(0, events, [1] * len(events), [7] * len(events), "b.000001")
    found = []
    for kernel in (KERNEL, None):
        pairs = ConflictPairs()
        blocks = outcome(partition.partition_slice, part, {1: plan}, 5, safe=safe, pairs=pairs, kernel=kernel)
        # After an error the pairs are of no use; Python binds a whole event before it folds it.
        found.append((blocks, sorted(CONFLICT_PAIR.iter_unpack(pairs.packed())) if isinstance(blocks, list) else []))
    assert found[0] == found[1]


@settings(max_examples=examples(300))
@given(st.sampled_from(TEXTS + LATINS), st.lists(words, min_size=1, max_size=5))
def test_texts_have_the_same_canonical_form(form: KeyNormalizer, texts: list[bytes]) -> None:
    kind = LATIN if form.charset == "latin1" else TEXT
    shape = Shape((kind,), (False,), (0,))
    plan = replace(shape.plan(1, 1), normalizers=(form,))
    raw = [binlog_bytes.rows(23, 1, shape.image([bytes([len(text)]) + text])) for text in dict.fromkeys(texts)]
    part = Slice.pack(0, raw, [1] * len(raw), [1] * len(raw), "b")
    hashes = [
        [row_block.STATE.unpack_from(data, row_block.HEADER.size + row_block.SECTION.size)[2]
         for _, data in partition.partition_slice(part, {1: plan}, 1, kernel=kernel)]
        for kernel in (KERNEL, None)
    ]  # fmt: skip
    assert hashes[0] == hashes[1]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40), st.integers(1, 3))
def test_components_are_the_same(pairs: list[tuple[int, int]], parts: int) -> None:
    packed = [
        b"".join(CONFLICT_PAIR.pack(row * 7919 % 13, conflict_key) for row, conflict_key in pairs[i::parts])
        for i in range(parts)
    ]
    assert find_conflict_sets(packed, KERNEL) == find_conflict_sets(packed, None)


def test_long_chains_are_one_component() -> None:
    random_ = random.Random(3)
    order = random_.sample(range(50000), 50000)
    packed = [b"".join(CONFLICT_PAIR.pack(n, n) + CONFLICT_PAIR.pack(n + 1, n) for n in order)]
    assert find_conflict_sets(packed, KERNEL) == dict.fromkeys(range(50001), 0)


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 40), st.integers(0, 2**32 - 1)), st.integers(1, 6), st.data())
def test_tied_rows_move_to_the_same_buckets(moved: dict[int, int], buckets: int, data: st.DataObject) -> None:
    sections = []
    for target in data.draw(st.lists(st.integers(0, 3), max_size=4)):
        rows = data.draw(st.lists(st.integers(0, 40), max_size=6))
        if data.draw(st.booleans()):
            records = [row_block.state_record(1, 0, row, b"%d" % row, b"(v)") for row in rows]
            sections.append(row_block.section(target, row_block.STATES, records, len(records)))
        else:
            records = [row_block.row_record((n, 0, 1, 9, None, [b"1"]), row) for n, row in enumerate(rows)]
            sections.append(row_block.section(target, row_block.ROWS, records, len(records)))
    whole = row_block.HEADER.pack(77) + b"".join(sections)
    home = data.draw(st.integers(0, buckets - 1))
    reassigned = row_block.reassign(whole, home, moved, buckets, KERNEL)
    assert reassigned == row_block.reassign(whole, home, moved, buckets, None)
    for cut in range(len(whole)):
        assert_reassigned_alike(whole[:cut], home, moved, buckets)
    damaged = bytearray(whole)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        damaged[at] = value
    assert_reassigned_alike(bytes(damaged), home, moved, buckets)
    assert_reassigned_alike(whole, buckets, moved, buckets)


def test_placements_that_do_not_fit_are_refused() -> None:
    exact = KERNEL.KeyNormalizer(0, 0, None, b"", None)
    decoder = partition.decoder_of(SHAPE.plan(1, 1))
    beyond = KERNEL.Placement(1, True, (exact,), ((1, (5,), (exact,), (5,)),))
    with pytest.raises(ValueError):
        KERNEL.partition(b"", b"", {1: (decoder.readers, decoder.prepare, 1, 1, beyond)}, 1, False)
    for wrong in ((9, 0, None, b"", None), (2, -1, None, b"", None)):
        with pytest.raises(ValueError):
            KERNEL.KeyNormalizer(*wrong)
    ones = bytes([1] * 0x40)
    tables = ((b"", b""), (ones[:0x20], ones[:0x20]), (ones, ones[1:]), (ones, ones + b"a"),
              (bytes(0x31001), b""))  # fmt: skip
    for table in tables:
        with pytest.raises(ValueError):
            KERNEL.KeyNormalizer(3, 0, table, b"", None)
    for other in ((b"a",), (b"a", "a"), "a"):
        with pytest.raises((TypeError, ValueError)):
            KERNEL.KeyNormalizer(3, 0, other, b"", None)
    with pytest.raises(ValueError):
        KERNEL.Placement(1, True, (exact,), ((1, (1, 2), (exact,), (1,)),))
    with pytest.raises(TypeError):
        KERNEL.Placement(1, True, (None,), ())
    with pytest.raises(ValueError):
        KERNEL.components(b"123")
    assert placement_of(KERNEL, SHAPE.plan(1, 1)) is placement_of(KERNEL, SHAPE.plan(1, 1))


@pytest.mark.parametrize("kernel", [KERNEL, None], ids=["compiled", "python"])
def test_an_update_that_changes_a_tied_value_gives_up_the_old_one_first(kernel: ModuleType | None) -> None:
    plan = replace(
        SHAPE.plan(1, 1),
        conflict_keys=(ConflictKey(5, (2,), (KeyNormalizer(key_normalization.EXACT),)),),
        mode="compact",
    )

    def state_of(before: int, after: int) -> tuple[int, int]:
        both = b"".join(
            SHAPE.image([struct.pack("<i", 1), b"\1a", struct.pack("<i", value), b"\1b", None])
            for value in (before, after)
        )
        pairs = ConflictPairs()
        part = Slice.pack(0, [binlog_bytes.rows(24, 5, both)], [1], [1], "b")
        ((_, data),) = partition.partition_slice(part, {1: plan}, 1, pairs=pairs, kernel=kernel)
        return row_block.STATE.unpack_from(data, row_block.HEADER.size + row_block.SECTION.size)[1], len(pairs.packed())

    assert state_of(7, 8) == (REPLACED, 2 * CONFLICT_PAIR.size)
    assert state_of(7, 7) == (UPDATED, 0)
