"""MySQL's binary JSON as JSON text, with the numbers exact. Pure.

Types that JSON text lacks are written the way the server prints them: decimals as numbers, dates and times as
strings, other values as ``"base64:type<n>:…"``.

Malformed bytes raise ``ValueError``, ``IndexError`` or ``struct.error``.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable

from pkg.binlog.constants import (
    TYPE_DATE,
    TYPE_DATETIME,
    TYPE_NEWDECIMAL,
    TYPE_TIME,
    TYPE_TIMESTAMP,
)
from pkg.binlog.decimals import decimal_decoder, decimal_size

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = 0x00, 0x01, 0x02, 0x03
_LITERAL, _INT16, _UINT16, _INT32, _UINT32 = 0x04, 0x05, 0x06, 0x07, 0x08
_INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 0x09, 0x0A, 0x0B, 0x0C, 0x0F
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {_INT16: "<h", _UINT16: "<H", _INT32: "<i", _UINT32: "<I", _INT64: "<q", _UINT64: "<Q"}
#: Deeper documents than the server accepts (it stops at 100).
_MAX_DEPTH = 128


def to_text(data: bytes) -> str:
    """The document as text. No bytes at all (what INSERT IGNORE may store) are ``null``."""
    return _value(data[0], data, 1, 0) if data else "null"


def _value(kind: int, data: bytes, at: int, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise ValueError("JSON document is nested too deeply")
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, at, depth)
    if kind == _LITERAL:
        return _literal(data[at])
    if kind in _NUMBERS:
        return str(struct.unpack_from(_NUMBERS[kind], data, at)[0])
    if kind == _DOUBLE:
        return repr(struct.unpack_from("<d", data, at)[0])
    if kind == _STRING:
        length, start = _length(data, at)
        return _quoted(_slice(data, start, length).decode())
    if kind == _OPAQUE:
        length, start = _length(data, at + 1)
        return _opaque(data[at], _slice(data, start, length))
    raise ValueError(f"0x{kind:02x} is no JSON type")


def _literal(code: int) -> str:
    if code not in _LITERALS:
        raise ValueError(f"0x{code:02x} is no JSON literal")
    return _LITERALS[code]


def _container(kind: int, data: bytes, at: int, depth: int) -> str:
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    width = 4 if large else 2
    count = _uint(data, at, width)
    entry = at + 2 * width
    keys = []
    if is_object:
        for _ in range(count):
            start, length = at + _uint(data, entry, width), _uint(data, entry + width, 2)
            keys.append(_quoted(_slice(data, start, length).decode()))
            entry += width + 2
    values = []
    for _ in range(count):
        values.append(_entry(data, at, entry, width, depth))
        entry += 1 + width
    if is_object:
        return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}"
    return "[" + ", ".join(values) + "]"


def _entry(data: bytes, base: int, entry: int, width: int, depth: int) -> str:
    """A value of a container: in the entry itself when it is small enough, otherwise at the offset it gives."""
    kind = data[entry]
    inlined = kind in (_LITERAL, _INT16, _UINT16) or (width == 4 and kind in (_INT32, _UINT32))
    at = entry + 1 if inlined else base + _uint(data, entry + 1, width)
    return _value(kind, data, at, depth + 1)


def _uint(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_slice(data, at, size), "little")


def _slice(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise ValueError("JSON document is cut off")
    return piece


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length of seven bits a byte, and where the bytes after it begin."""
    length = shift = 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length, at
        shift += 7
        if shift > 28:
            raise ValueError("JSON length has no end")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _opaque(kind: int, value: bytes) -> str:
    if kind == TYPE_NEWDECIMAL:
        precision, scale = value[0], value[1]
        body = value[2:]
        if len(body) != decimal_size(precision, scale):
            raise ValueError("JSON decimal is cut off")
        return decimal_decoder(precision, scale)(body).decode()
    printer = _TEMPORAL.get(kind)
    if printer is not None:
        return _quoted(printer(int.from_bytes(_slice(value, 0, 8), "little", signed=True)))
    return _quoted(f"base64:type{kind}:{base64.b64encode(value).decode()}")


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


_TEMPORAL: dict[int, Callable[[int], str]] = {
    TYPE_TIME: _time,
    TYPE_DATE: _date,
    TYPE_DATETIME: _datetime,
    TYPE_TIMESTAMP: _datetime,
}
