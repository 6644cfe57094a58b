"""Integers of MySQL's serialization library, which events and sets with tagged GTIDs use (since 8.3). Pure.

The number of ones at the low end of the first byte is the number of following bytes; after them and a zero bit, which
nine bytes do without, comes the value, little-endian:
https://dev.mysql.com/doc/dev/mysql-server/latest/PageLibsMysqlSerialization.html
"""

from __future__ import annotations

from pkg.binlog.cursor import Cursor

_MOST_MORE = 8


def variable_length(cursor: Cursor) -> int:
    """The next unsigned integer. Raises ``ValueError`` when the bytes end in it."""
    first = cursor.uint(1)
    more = (~first & first + 1).bit_length() - 1
    whole = first | int.from_bytes(cursor.take(more), "little") << 8
    return whole >> min(more + 1, _MOST_MORE)


def signed_variable_length(cursor: Cursor) -> int:
    """The next signed integer: the lowest bit is its sign."""
    value = variable_length(cursor)
    return value >> 1 ^ -(value & 1)


def with_variable_length(text: bytes) -> bytes:
    """``text`` of less than 128 bytes after its length."""
    return bytes([len(text) << 1]) + text
