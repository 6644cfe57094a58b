"""Hazard: rows that are cut at a wrong byte, so that an end is missed or a row is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.row_packets import PacketCutter
from tests.unit.dm_worker.comparison.model import Row, result_set

ROWS = st.lists(st.tuples(st.one_of(st.none(), st.binary(max_size=300)), st.binary(max_size=5)), max_size=8)


def fed(data: bytes, pieces: int) -> tuple[PacketCutter, bytes, int]:
    cutter, packets, rows = PacketCutter(2), b"", 0
    for start in range(0, len(data), pieces):
        more, count = cutter.feed(memoryview(data[start : start + pieces]))
        packets, rows = packets + more, rows + count
    return cutter, packets, rows


@given(ROWS, st.integers(1, 400))
def test_rows_are_whole_however_they_arrive(rows: list[Row], pieces: int) -> None:
    data = result_set(rows)
    cutter, packets, count = fed(data, pieces)
    assert (packets, count, cutter.done, cutter.error) == (data[:-9], len(rows), True, None)


@pytest.mark.parametrize("pieces", [1 << 20, 1 << 26])
def test_a_row_of_several_packets_is_one_row(pieces: int) -> None:
    full = b"\xff\xff\xff\x01" + b"\xfe" + b"x" * 0xFFFFFE
    rest = b"\x03\x00\x00\x02\xfeyy"
    empty = b"\x00\x00\x00\x03"
    end = b"\x05\x00\x00\x04\xfe\x00\x00\x02\x00"
    for last in (rest, empty):
        cutter, packets, count = fed(full + last + end, pieces)
        assert (len(packets), count, cutter.done) == (len(full + last), 1, True)


def test_an_error_ends_the_rows() -> None:
    error = b"\xff\x86\x04#42S02gone"
    cutter, _, count = fed(result_set([(b"a", b"b")])[:-9] + bytes([len(error), 0, 0, 9]) + error, 5)
    assert (count, cutter.done, cutter.error) == (1, True, error)


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x01\x00", result_set([]) + b"more!"])
def test_malformed_packets_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        fed(data, 100)
