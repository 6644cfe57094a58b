"""MySQL's binary JSON as JSON text and as an SQL literal, with the numbers exact. Pure.

As text, types that JSON lacks are written as the server prints them: decimals as numbers, dates and times as strings,
other values as ``"base64:type<n>:…"``.

Malformed bytes raise ``ValueError``, ``IndexError`` or ``struct.error``.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable

from pkg.binlog.constants import (
    TYPE_DATE,
    TYPE_DATETIME,
    TYPE_NEWDECIMAL,
    TYPE_TIME,
    TYPE_TIMESTAMP,
)
from pkg.binlog.rows.decimals import decimal_decoder, decimal_size

#: The types of values in binary JSON.
SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY = 0x00, 0x01, 0x02, 0x03
LITERAL, INT16, UINT16, INT32, UINT32 = 0x04, 0x05, 0x06, 0x07, 0x08
INT64, UINT64, DOUBLE, STRING, OPAQUE = 0x09, 0x0A, 0x0B, 0x0C, 0x0F
_LITERALS = {0: "null", 1: "true", 2: "false"}
_UNSIGNED = (UINT16, UINT32, UINT64)
_NUMBERS = {INT16: "<h", UINT16: "<H", INT32: "<i", UINT32: "<I", INT64: "<q", UINT64: "<Q"}
#: Maximum depth, a little more than the server accepts (100).
_MAX_DEPTH = 128


def to_text(data: bytes) -> str:
    """The document as text. Empty bytes (INSERT IGNORE may store them) are ``null``."""
    return _Text(data).document()


def to_sql(data: bytes) -> bytes:
    """An SQL expression for the document, for a session with charset utf8mb4.

    It is the quoted text, unless that would lose types: inside documents MySQL keeps decimals, dates, times and
    unsigned numbers as such, and only JSON_OBJECT and JSON_ARRAY create them. MariaDB, where JSON is text, makes the
    same text of both.
    """
    plain = _Text(data)
    text = plain.document()
    return _Sql(data).document().encode() if plain.typed else b"'%b'" % _escaped(text).encode()


class _Text:
    """Walks through one document and prints it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        #: Bytes that values may still take. Damaged offsets can make a small document endless, or almost.
        self._left = len(data)
        #: Whether a value has a type that text can't express.
        self.typed = False

    def document(self) -> str:
        return self._value(self._data[0], 1, 0) if self._data else "null"

    def _value(self, kind: int, at: int, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise ValueError("JSON document is nested too deeply")
        self._spend(1)
        if kind <= LARGE_ARRAY:
            return self._container(kind, at, depth)
        if kind == LITERAL:
            return _literal(self._data[at])
        if kind in _NUMBERS:
            return self._integer(struct.unpack_from(_NUMBERS[kind], self._data, at)[0], kind)
        if kind == DOUBLE:
            (number,) = struct.unpack_from("<d", self._data, at)
            if not math.isfinite(number):
                raise ValueError(f"{number} is not a JSON number")
            return self._double(number)
        if kind == STRING:
            length, start = length_at(self._data, at)
            return self._string(self._take(start, length).decode())
        if kind == OPAQUE:
            length, start = length_at(self._data, at + 1)
            return self._opaque(self._data[at], self._take(start, length))
        raise ValueError(f"0x{kind:02x} is not a JSON type")

    def _container(self, kind: int, at: int, depth: int) -> str:
        data = self._data
        width = 4 if kind in (LARGE_OBJECT, LARGE_ARRAY) else 2
        is_object = kind in (SMALL_OBJECT, LARGE_OBJECT)
        count = _uint(data, at, width)
        entry = at + 2 * width
        keys = []
        if is_object:
            for _ in range(count):
                start, length = at + _uint(data, entry, width), _uint(data, entry + width, 2)
                keys.append(self._string(self._take(start, length).decode()))
                entry += width + 2
        values = []
        for _ in range(count):
            values.append(self._entry(at, entry, width, depth))
            entry += 1 + width
        return self._object(keys, values) if is_object else self._array(values)

    def _entry(self, base: int, entry: int, width: int, depth: int) -> str:
        """A value of a container: inside the entry when small enough, otherwise at the entry's offset."""
        kind = self._data[entry]
        inlined = kind in (LITERAL, INT16, UINT16) or (width == 4 and kind in (INT32, UINT32))
        at = entry + 1 if inlined else base + _uint(self._data, entry + 1, width)
        return self._value(kind, at, depth + 1)

    def _opaque(self, kind: int, value: bytes) -> str:
        if kind == TYPE_NEWDECIMAL:
            self.typed = True
            precision, scale = value[0], value[1]
            if scale > precision or len(value) - 2 != decimal_size(precision, scale):
                raise ValueError("JSON decimal is cut off")
            return self._decimal(decimal_decoder(precision, scale)(value[2:]).decode(), precision, scale)
        if kind in _TEMPORAL:
            self.typed = True
            printer, sql_type = _TEMPORAL[kind]
            return self._moment(printer(int.from_bytes(_slice(value, 0, 8), "little", signed=True)), sql_type)
        return self._string(f"base64:type{kind}:{base64.b64encode(value).decode()}")

    def _take(self, at: int, size: int) -> bytes:
        self._spend(size)
        return _slice(self._data, at, size)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("parts of the JSON document overlap")

    # -- how things are written ---------------------------------------------------------------------------------

    def _object(self, keys: list[str], values: list[str]) -> str:
        return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}"

    def _array(self, values: list[str]) -> str:
        return "[" + ", ".join(values) + "]"

    def _integer(self, value: int, kind: int) -> str:
        # A larger number is unsigned even as text.
        self.typed = self.typed or (kind in _UNSIGNED and value < 1 << 63)
        return str(value)

    def _double(self, value: float) -> str:
        return repr(value)

    def _string(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    def _decimal(self, text: str, precision: int, scale: int) -> str:
        return text

    def _moment(self, text: str, sql_type: str) -> str:
        return self._string(text)


class _Sql(_Text):
    """The same walk, printed as calls of SQL functions."""

    def document(self) -> str:
        if self._data[0] <= LARGE_ARRAY:
            return super().document()
        # As for a single value; not all servers have CAST(… AS JSON).
        return f"JSON_EXTRACT(JSON_ARRAY({super().document()}), '$[0]')"

    def _object(self, keys: list[str], values: list[str]) -> str:
        return f"JSON_OBJECT({','.join(f'{key},{value}' for key, value in zip(keys, values, strict=True))})"

    def _array(self, values: list[str]) -> str:
        return f"JSON_ARRAY({','.join(values)})"

    def _integer(self, value: int, kind: int) -> str:
        return f"CAST({value} AS UNSIGNED)" if kind in _UNSIGNED else str(value)

    def _double(self, value: float) -> str:
        text = repr(value)
        return text if "e" in text else text + "e0"

    def _string(self, text: str) -> str:
        return f"'{_escaped(text)}'"

    def _decimal(self, text: str, precision: int, scale: int) -> str:
        return f"CAST({text} AS DECIMAL({precision},{scale}))"

    def _moment(self, text: str, sql_type: str) -> str:
        return f"CAST('{text}' AS {sql_type})"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _literal(code: int) -> str:
    if code not in _LITERALS:
        raise ValueError(f"0x{code:02x} is not a JSON literal")
    return _LITERALS[code]


def _uint(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_slice(data, at, size), "little")


def _slice(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise ValueError("JSON document is cut off")
    return piece


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """A length with seven bits a byte, and the offset after it."""
    length = shift = 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length, at
        shift += 7
        if shift > 28:
            raise ValueError("JSON length is not terminated")


def _clock(packed: int) -> str:
    seconds, micros = packed >> 24, packed & 0xFFFFFF
    return f"{seconds >> 12 & 0x3FF:02d}:{seconds >> 6 & 0x3F:02d}:{seconds & 0x3F:02d}.{micros:06d}"


def _time(packed: int) -> str:
    return "-" + _clock(-packed) if packed < 0 else _clock(packed)


def _date(packed: int) -> str:
    days = packed >> 41
    year_month = days >> 5
    return f"{year_month // 13:04d}-{year_month % 13:02d}-{days & 31:02d}"


def _datetime(packed: int) -> str:
    return f"{_date(packed)} {_clock(packed & ((1 << 41) - 1))}"


#: How a packed time value is printed, and its SQL type.
_TEMPORAL: dict[int, tuple[Callable[[int], str], str]] = {
    TYPE_TIME: (_time, "TIME(6)"),
    TYPE_DATE: (_date, "DATE"),
    TYPE_DATETIME: (_datetime, "DATETIME(6)"),
    TYPE_TIMESTAMP: (_datetime, "DATETIME(6)"),
}
