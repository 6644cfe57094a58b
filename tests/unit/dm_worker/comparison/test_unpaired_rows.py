"""Hazard: a row that only one side has is lost, or the compiled code and Python disagree about one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.unpaired_rows import (
    ALONE,
    PARTLY,
    TARGET,
    WHOLE,
    PythonUnpairedRows,
    UnpairedBlock,
    UnpairedRows,
)
from tests.compiled import required
from tests.unit.dm_worker.comparison.model import Row, result_set

Make = Callable[[int, Sequence[int]], UnpairedRows]
VALUES = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"\xfb", b"x" * 251, b"x" * 300]))
#: Three values that are compared and one more, which follows from them.
ROWS = st.lists(st.tuples(st.sampled_from([b"1", b"2", b"3", None]), VALUES, VALUES), max_size=8)
#: Which side comes next, and how many bytes of it.
PIECES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 200)), max_size=30)


def native(forms: int, keys: Sequence[int], share: int = 0, shares: int = 1) -> UnpairedRows:
    made: UnpairedRows = required("compare").UnpairedRows(forms, tuple(keys), share, shares)
    return made


MAKERS = pytest.mark.parametrize("make", [PythonUnpairedRows, native], ids=["python", "native"])


def wide(rows: Sequence[Row], width: int) -> list[Row]:
    """The rows with values behind those that are compared."""
    return [(*row, *[b"%d" % hash(row)] * (width - 3)) for row in rows]


def fed(table: UnpairedRows, sets: Sequence[tuple[int, int, Sequence[Row]]], pieces: Sequence[tuple[int, int]]) -> None:
    """``sets``: source, width, rows; they are fed as ``pieces`` say, then to their ends."""
    waiting = [(table.rows_of(source, width), result_set(wide(rows, width))) for source, width, rows in sets]
    for number, size in [*pieces, *((number, 1 << 20) for number in range(len(sets)))]:
        if number < len(waiting):
            consumer, data = waiting[number]
            consumer.feed(memoryview(data[:size]))
            waiting[number] = consumer, data[size:]
    assert all(consumer.done and consumer.error is None for consumer, _ in waiting)


def rows_in(table: UnpairedRows) -> list[tuple[int, int, int, Row]]:
    """Source, times, state and values of each row."""
    blocks = [UnpairedBlock(*one) for one in table.take()]
    assert [one.source for one in blocks] == sorted({one.source for one in blocks})
    return [
        (source, often, state, row)
        for source, states, times, columns in blocks
        for often, state, row in zip(times, states, zip(*columns, strict=True), strict=True)
    ]


def true_unpaired(sets: Sequence[tuple[int, int, Sequence[Row]]]) -> dict[Row, int]:
    """How much more often the upstream has each row; below 0 for the target."""
    counts: Counter[Row] = Counter()
    for source, _, rows in sets:
        for row in rows:
            counts[row] += -1 if source == TARGET else 1
    return {row: count for row, count in counts.items() if count}


@MAKERS
@pytest.mark.parametrize("keys", [(), (0,), (1, 0)])
@given(ROWS, ROWS, ROWS, PIECES)
def test_rows_are_unpaired_exactly_as_often_as_one_side_has_them_more_often(
    make: Make, keys: Sequence[int], first: list[Row], second: list[Row], target: list[Row], pieces: Any
) -> None:
    sets = [(0, 3, first), (1, 5, second), (TARGET, 4, [*target, *first[::2], *second[1::2]])]
    table = make(3, keys)
    fed(table, sets, pieces)
    found = rows_in(table)
    assert {row[:3]: -times if source == TARGET else times for source, times, _, row in found} == true_unpaired(sets)
    everything: Counter[Row] = Counter()
    unpaired: Counter[Row] = Counter()
    for _, _, rows in sets:
        everything.update(tuple(row[key] for key in keys or range(3)) for row in rows)
    for _, times, _, row in found:
        unpaired[tuple(row[key] for key in keys or range(3))] += times
    for source, _, state, row in found:
        identity = tuple(row[key] for key in keys or range(3))
        whole = WHOLE if unpaired[identity] == everything[identity] else PARTLY
        assert state == (ALONE if everything[identity] == 1 else whole)
        assert len(row) == {0: 3, 1: 5, TARGET: 4}[source]
    assert table.take() == []


@pytest.mark.parametrize("keys", [(), (0,), (2, 0)])
@given(ROWS, ROWS, ROWS, PIECES)
def test_the_compiled_code_gives_the_same_rows_in_the_same_order(
    keys: Sequence[int], first: list[Row], second: list[Row], target: list[Row], pieces: Any
) -> None:
    found = []
    for make in (PythonUnpairedRows, native):
        table = make(3, keys)
        fed(table, [(0, 3, first), (1, 5, second), (TARGET, 4, target)], pieces)
        found.append(rows_in(table))
    assert found[0] == found[1]


@MAKERS
@given(ROWS, ROWS)
def test_the_shares_of_rows_are_all_rows(make: Any, upstream: list[Row], target: list[Row]) -> None:
    sets = [(0, 3, upstream), (TARGET, 3, target)]
    found: list[object] = []
    for share in range(3):
        table = make(3, (0,), share, 3)
        fed(table, sets, [])
        found += rows_in(table)
    whole = make(3, (0,))
    fed(whole, sets, [])
    assert Counter(found) == Counter(rows_in(whole))


@MAKERS
def test_many_rows_in_other_orders_are_paired_and_take_no_memory(make: Make) -> None:
    rows: list[Row] = [(b"%d" % number, b"a" * (number % 9), None) for number in range(5000)]
    table = make(3, (0,))
    fed(table, [(0, 3, rows), (TARGET, 3, [*rows[::-1], (b"5000", b"", b"")])], [])
    assert table.held > 0
    assert rows_in(table) == [(TARGET, 1, ALONE, (b"5000", b"", b""))]
    assert table.held == 0


@MAKERS
def test_after_discarding_rows_are_only_counted(make: Make) -> None:
    table = make(3, (0,))
    consumer = table.rows_of(0, 3)
    data = result_set([(b"1", b"a", b"b")] * 3)
    consumer.feed(memoryview(data[:20]))
    table.discard()
    counted = consumer.feed(memoryview(data[20:]))
    assert (counted, consumer.done, table.held, table.take()) == (1, True, 0, [])


@MAKERS
def test_a_row_of_several_packets_is_one_row(make: Make) -> None:
    size = 0xFFFFFF + 20
    value = b"\xfe" + size.to_bytes(8, "little") + b"y" * size
    row = value + b"\1b\xfb"
    full, rest = row[:0xFFFFFF], row[0xFFFFFF:]
    data = b"\xff\xff\xff\1" + full + len(rest).to_bytes(3, "little") + b"\2" + rest + b"\x05\0\0\3\xfe\0\0\2\0"
    table = make(3, (1,))
    consumer = table.rows_of(0, 3)
    for start in range(0, len(data), 1 << 20):
        consumer.feed(memoryview(data[start : start + (1 << 20)]))
    assert rows_in(table) == [(0, 1, ALONE, (b"y" * size, b"b", None))]


@MAKERS
def test_an_error_ends_the_rows(make: Make) -> None:
    error = b"\xff\x86\x04#42S02gone"
    table = make(1, ())
    consumer = table.rows_of(0, 1)
    assert consumer.feed(memoryview(result_set([(b"a",)])[:-9] + bytes([len(error), 0, 0, 9]) + error)) == 1
    assert (consumer.done, consumer.error) == (True, error)


@MAKERS
@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\1\0",
        b"\1\0\0\1\xff",
        b"\x09\0\0\1\xfe" + bytes(8),
        b"\2\0\0\1\5a",
        b"\2\0\0\1\1a",
        b"\6\0\0\1\1a\1b\1c",
        b"\4\0\0\1\1a\xfc\1",
        b"\4\0\0\1\1a\xff\1",
        result_set([]) + b"more!",
    ],
)
def test_what_no_server_sends_is_refused(make: Make, data: bytes) -> None:
    consumer = make(1, ()).rows_of(0, 2)
    with pytest.raises(ValueError, match="malformed"):
        consumer.feed(memoryview(data))


@MAKERS
@given(ROWS, st.lists(st.integers(0, 400), min_size=1, max_size=3), st.integers(0, 255))
def test_damaged_packets_are_refused_or_read_alike(make: Make, rows: list[Row], places: list[int], byte: int) -> None:
    data = bytearray(result_set(rows))
    for place in places:
        data[place % len(data)] = byte
    found: list[object] = []
    for one in (PythonUnpairedRows, make):
        table = one(3, (0,))
        try:
            table.rows_of(0, 3).feed(memoryview(bytes(data)))
            found.append(rows_in(table))
        except ValueError:
            found.append("refused")
    assert found[0] == found[1]


def test_wrong_arguments_are_refused() -> None:
    made = required("compare").UnpairedRows
    for wrong in ((0, (), 0, 1), (2, (2,), 0, 1), (2, (-1,), 0, 1), (2, (), 1, 1), (2, (), -1, 1)):
        with pytest.raises(ValueError, match=r"given|compared"):
            made(*wrong)
    for source, width in ((0, 2), (-2, 3)):
        with pytest.raises(ValueError, match="fewer values"):
            native(3, ()).rows_of(source, width)
