"""Hazard: a number of a length that recorded events do not have is misread."""

from __future__ import annotations

import pytest

from pkg.binlog.cursor import Cursor
from pkg.binlog.variable_length import signed_variable_length, variable_length, with_variable_length


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("00", 0),
        ("fe", 127),
        ("0102", 128),
        ("fdff", (1 << 14) - 1),
        ("030002", 1 << 14),
        ("7f00000000000001", 1 << 48),
        ("ff0000000000000080", 1 << 63),
        ("ffffffffffffffffff", (1 << 64) - 1),
    ],
)
def test_all_lengths(raw: str, value: int) -> None:
    cursor = Cursor(bytes.fromhex(raw) + b"rest")
    assert variable_length(cursor) == value
    assert cursor.take(4) == b"rest"


@pytest.mark.parametrize(("raw", "value"), [("04", 1), ("02", -1), ("6109", 300), ("00", 0), ("06", -2)])
def test_the_sign_is_the_lowest_bit(raw: str, value: int) -> None:
    assert signed_variable_length(Cursor(bytes.fromhex(raw))) == value


def test_torn_numbers_are_errors() -> None:
    for raw in (b"", b"\x01", b"\xff" + bytes(7)):
        with pytest.raises(ValueError):
            variable_length(Cursor(raw))


def test_text_after_its_length() -> None:
    cursor = Cursor(with_variable_length(b"my_tag"))
    assert cursor.take(variable_length(cursor)) == b"my_tag"
