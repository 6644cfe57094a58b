"""Hazard: the Python reader, the reference of the compiled kernel, misreads an image itself, and both agree on it."""

from __future__ import annotations

import struct

import pytest

from pkg.binlog.rows.derived_literals import Derived
from pkg.binlog.rows.literals import Codec
from pkg.binlog.rows.row_reader import PythonReaders

INT = Codec(fixed="i", form=b"%d")
TEXT = Codec(prefix=1, form=b"'%b'", escape=True)
DOUBLED = Codec(fixed="h", render=lambda value: b"%d" % (2 * value))


def image(nulls: int, *values: bytes, columns: int) -> bytes:
    return nulls.to_bytes((columns + 7) // 8, "little") + b"".join(values)


def test_values_of_every_kind_become_literals_in_the_order_that_is_asked_for() -> None:
    readers = PythonReaders([INT, TEXT, DOUBLED], [False, True, False], key=[0], write=[2, 1, 0])
    row = image(0, struct.pack("<i", -7), b"\x03it'", struct.pack("<h", 5), columns=3)
    rows: list[object] = []
    assert readers.insert(b"??" + row + row, 2, 2 + 2 * len(row), rows.append) == 2 + 2 * len(row)
    assert rows == [(0, b"-7", b"(10,'it\\'',-7)", b"")] * 2


def test_nulls_take_no_bytes_and_are_found_in_every_byte_of_the_bitmap() -> None:
    count = 10
    readers = PythonReaders([INT] * count, [True] * count, key=[9], write=[0, 8])
    row = image(1 << 0 | 1 << 9, *(struct.pack("<i", n) for n in range(1, 9)), columns=count)
    rows: list[object] = []
    readers.delete(row, 0, len(row), rows.append)
    readers.image(row, 0, len(row), rows.append)
    literals = [b"NULL", *(b"%d" % n for n in range(1, 9)), b"NULL"]
    assert rows == [(2, b"NULL", b"", b""), literals]


def test_a_bit_of_a_column_that_cannot_be_null_means_nothing() -> None:
    readers = PythonReaders([INT], [False], key=[], write=[0])
    rows: list[object] = []
    readers.insert(image(1, struct.pack("<i", 3), columns=1), 0, 5, rows.append)
    assert rows == [(0, b"", b"(3)", b"")]


def test_an_update_has_the_key_before_and_after() -> None:
    readers = PythonReaders([INT, INT], [False, False], key=[0, 1], write=[1])
    before, after = (image(0, *map(struct.Struct("<i").pack, values), columns=2) for values in ((1, 2), (3, 4)))
    rows: list[object] = []
    readers.update(before + after, 0, len(before + after), rows.append)
    readers.image_pair(before + after, 0, len(before + after), rows.append)
    assert rows == [(1, b"3,4", b"(4)", b"1,2"), ([b"1", b"2"], [b"3", b"4"])]


def test_values_of_columns_that_nobody_asks_for_are_not_looked_at() -> None:
    def refuse(_: object) -> bytes:
        raise ValueError("no such value")

    readers = PythonReaders([INT, Codec(fixed="B", render=refuse)], [False, False], key=[0], write=[0])
    row = image(0, struct.pack("<i", 3), b"\x09", columns=2)
    rows: list[object] = []
    readers.insert(row, 0, len(row), rows.append)
    assert rows == [(0, b"3", b"(3)", b"")]
    with pytest.raises(ValueError, match="no such value"):
        readers.image(row, 0, len(row), rows.append)


def test_constants_stand_after_the_columns() -> None:
    readers = PythonReaders([INT], [False], key=[1], write=[0, 1], derived=[Derived(text=b"'shard'")])
    rows: list[object] = []
    readers.insert(image(0, struct.pack("<i", 3), columns=1), 0, 5, rows.append)
    assert rows == [(0, b"'shard'", b"(3,'shard')", b"")]


@pytest.mark.parametrize("end", range(1, 8))
def test_an_image_that_ends_beyond_its_event_is_an_error(end: int) -> None:
    readers = PythonReaders([INT, TEXT], [False, False], key=[0], write=[0, 1])
    row = image(0, struct.pack("<i", 3), b"\x02ab", columns=2)
    with pytest.raises(ValueError, match="ends beyond its event"):
        readers.insert(row, 0, end, [].append)


def test_images_without_columns_are_an_error() -> None:
    with pytest.raises(ValueError, match="without columns"):
        PythonReaders([], [], key=[], write=[]).insert(b"x", 0, 1, [].append)
