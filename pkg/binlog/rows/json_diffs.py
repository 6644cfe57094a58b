"""MySQL's partial updates of JSON: applies a list of differences to a document. Pure.

Documents are MySQL's binary JSON. Only the containers on a difference's path are decoded; everything else is copied as
bytes, whatever its type. A decoded container is written in the format's large form, with its keys in MySQL's order.

Malformed bytes, and differences that do not fit the document, raise ``ValueError`` or ``IndexError``.
"""

from __future__ import annotations

import json
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from pkg.binlog.cursor import Cursor
from pkg.binlog.rows.jsonb import (
    DOUBLE,
    INT16,
    INT32,
    INT64,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    OPAQUE,
    SMALL_OBJECT,
    STRING,
    UINT16,
    UINT32,
    UINT64,
    length_at,
)

_REPLACE, _INSERT, _REMOVE = 0, 1, 2
_FIXED = {LITERAL: 1, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8, UINT64: 8, DOUBLE: 8}
#: Types that the large form stores inside a container's entry, in four bytes.
_INLINED = frozenset({LITERAL, INT16, UINT16, INT32, UINT32})
_OBJECTS, _LARGE = (SMALL_OBJECT, LARGE_OBJECT), (LARGE_OBJECT, LARGE_ARRAY)
_LEG = re.compile(r'\s*(?:\.\s*(?:"((?:[^"\\]|\\.)*)"|([^\s."\[\]]+))|\[\s*(?:(\d+)|last\s*(?:-\s*(\d+))?)\s*\])')

#: Key order: MySQL sorts the keys of an object by length first.
_SortKey = tuple[int, bytes]


@dataclass(slots=True)
class _Raw:
    """A value as it is in a document: its type and its bytes."""

    kind: int
    data: bytes


@dataclass(slots=True)
class _Object:
    keys: list[_SortKey] = field(default_factory=list)
    values: list[_Node] = field(default_factory=list)


@dataclass(slots=True)
class _Array:
    values: list[_Node] = field(default_factory=list)


_Node = _Raw | _Object | _Array
#: A key, or a cell: its number, from the end when ``from_end``.
_Leg = bytes | tuple[int, bool]


def apply_diffs(document: bytes, diffs: bytes) -> bytes:
    """The document after the differences, which have the form of a partial update's value."""
    if not diffs:
        return document
    root = _Array([_raw(document[0], document, 1)])
    for operation, legs, value in _read_diffs(diffs):
        _apply(root, operation, [(0, False), *legs], value)
    return _encode(root.values[0])


def _read_diffs(diffs: bytes) -> Iterator[tuple[int, list[_Leg], _Raw]]:
    cursor = Cursor(diffs)
    while cursor.left:
        operation = cursor.uint(1)
        if operation > _REMOVE:
            raise ValueError(f"{operation} is not an operation on JSON")
        legs = parse_path(cursor.take(cursor.packed_int()).decode())
        if not legs:
            raise ValueError("a difference that replaces the whole JSON document")
        value = b"" if operation == _REMOVE else cursor.take(cursor.packed_int())
        if operation != _REMOVE and not value:
            raise ValueError("a difference without a JSON value")
        yield operation, legs, _Raw(value[0], value[1:]) if value else _Raw(LITERAL, b"\0")


def parse_path(text: str) -> list[_Leg]:
    """The legs of a path without wildcards, such as ``$.a[3]."b c"``."""
    if not text.startswith("$"):
        raise ValueError(f"{text!r} is not a JSON path")
    legs: list[_Leg] = []
    at = 1
    while at < len(text):
        match = _LEG.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is not a JSON path")
        quoted, key, cell, from_end = match.groups()
        if quoted is not None:
            legs.append(str(json.loads(f'"{quoted}"', strict=False)).encode())
        elif key is not None:
            legs.append(key.encode())
        else:
            legs.append((int(cell), False) if cell is not None else (int(from_end or 0), True))
        at = match.end()
    return legs


# -- differences -----------------------------------------------------------------------------------------------------


def _apply(root: _Array, operation: int, legs: list[_Leg], value: _Raw) -> None:
    parent: _Node = root
    for leg in legs[:-1]:
        parent = _opened(parent, leg)
    if isinstance(parent, _Object):
        _change_member(parent, operation, legs[-1], value)
    elif isinstance(parent, _Array):
        _change_cell(parent, operation, legs[-1], value)
    else:
        raise _misfit(legs[-1])


def _opened(parent: _Node, leg: _Leg) -> _Node:
    """The container that a leg leads to, decoded in its parent."""
    at = _place(parent, leg)
    if at is None or isinstance(parent, _Raw):
        raise _misfit(leg)
    child = parent.values[at]
    if isinstance(child, _Raw):
        child = parent.values[at] = _taken_apart(child)
    return child


def _place(parent: _Node, leg: _Leg) -> int | None:
    """The target of a leg; None when there is none."""
    if isinstance(parent, _Object) and isinstance(leg, bytes):
        at = bisect_left(parent.keys, (len(leg), leg))
        return at if at < len(parent.keys) and parent.keys[at][1] == leg else None
    if isinstance(parent, _Array) and not isinstance(leg, bytes):
        at = len(parent.values) - 1 - leg[0] if leg[1] else leg[0]
        return at if 0 <= at < len(parent.values) else None
    return None


def _change_member(parent: _Object, operation: int, leg: _Leg, value: _Raw) -> None:
    at = _place(parent, leg)
    if not isinstance(leg, bytes) or (at is None) != (operation == _INSERT):
        raise _misfit(leg)
    if at is None:
        key = (len(leg), leg)
        at = bisect_left(parent.keys, key)
        parent.keys.insert(at, key)
        parent.values.insert(at, value)
    elif operation == _REPLACE:
        parent.values[at] = value
    else:
        del parent.keys[at], parent.values[at]


def _change_cell(parent: _Array, operation: int, leg: _Leg, value: _Raw) -> None:
    if operation == _INSERT and not isinstance(leg, bytes):
        number, from_end = leg
        # After the last cell there is none to shift.
        parent.values.insert(max(0, len(parent.values) - 1 - number) if from_end else number, value)
        return
    at = _place(parent, leg)
    if at is None or operation == _INSERT:
        raise _misfit(leg)
    if operation == _REPLACE:
        parent.values[at] = value
    else:
        del parent.values[at]


def _misfit(leg: _Leg) -> ValueError:
    return ValueError(f"a difference at {leg!r} does not fit the JSON document before it")


# -- from bytes ------------------------------------------------------------------------------------------------------


def _raw(kind: int, data: bytes, at: int) -> _Raw:
    """The value at an offset, with only its own bytes."""
    if kind <= LARGE_ARRAY:
        width = 4 if kind in _LARGE else 2
        size = int.from_bytes(_slice(data, at + width, width), "little")
    elif kind == STRING:
        length, start = length_at(data, at)
        size = start - at + length
    elif kind == OPAQUE:
        length, start = length_at(data, at + 1)
        size = start - at + length
    elif kind in _FIXED:
        size = _FIXED[kind]
    else:
        raise ValueError(f"0x{kind:02x} is not a JSON type")
    return _Raw(kind, _slice(data, at, size))


def _taken_apart(value: _Raw) -> _Node:
    kind, data = value.kind, value.data
    if kind > LARGE_ARRAY:
        return value
    width = 4 if kind in _LARGE else 2
    count = int.from_bytes(_slice(data, 0, width), "little")
    keys: list[_SortKey] = []
    entry = 2 * width
    if kind in _OBJECTS:
        for _ in range(count):
            type_and_offset = _slice(data, entry, width + 2)
            key = _slice(data, *_unpacked("<IH" if width == 4 else "<HH", type_and_offset))
            keys.append((len(key), key))
            entry += width + 2
    values: list[_Node] = []
    for _ in range(count):
        type_and_offset = _slice(data, entry, 1 + width)
        inlined = type_and_offset[0] in _INLINED and (width == 4 or _FIXED[type_and_offset[0]] < 4)
        values.append(
            _raw(type_and_offset[0], data, entry + 1 if inlined else int.from_bytes(type_and_offset[1:], "little"))
        )
        entry += 1 + width
    if kind not in _OBJECTS:
        return _Array(values)
    if any(one >= other for one, other in pairwise(keys)):
        raise ValueError("the keys of a JSON object are not in order")
    return _Object(keys, values)


def _unpacked(form: str, data: bytes) -> tuple[int, int]:
    first, second = struct.unpack(form, data)
    return first, second


def _slice(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise ValueError("JSON document is cut off")
    return piece


# -- to bytes --------------------------------------------------------------------------------------------------------


def _encode(node: _Node) -> bytes:
    kind, data = _packed(node)
    return bytes([kind]) + data


def _packed(node: _Node) -> tuple[int, bytes]:
    """Type and bytes of a value."""
    if isinstance(node, _Raw):
        return node.kind, node.data
    keys = [key for _, key in node.keys] if isinstance(node, _Object) else []
    children = [_packed(child) for child in node.values]
    offset = 8 + 6 * len(keys) + 5 * len(children)
    heads, tails = [], []
    for key in keys:
        heads.append(struct.pack("<IH", offset, len(key)))
        tails.append(key)
        offset += len(key)
    for kind, data in children:
        if kind in _INLINED:
            # Small numbers are sign-extended.
            fill = b"\xff" if kind == INT16 and data[1] & 0x80 else b"\0"
            heads.append(bytes([kind]) + data.ljust(4, fill))
            continue
        heads.append(struct.pack("<BI", kind, offset))
        tails.append(data)
        offset += len(data)
    body = b"".join([struct.pack("<II", len(children), offset), *heads, *tails])
    return (LARGE_OBJECT if isinstance(node, _Object) else LARGE_ARRAY), body
