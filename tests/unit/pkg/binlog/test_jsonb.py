"""MySQL's binary JSON becomes the same document, numbers exact."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.binlog.jsonb import to_sql, to_text
from pkg.binlog.literals import escape
from tests.unit.pkg.binlog.test_row_decoder import _pack

_INLINE_SMALL, _INLINE_LARGE = (4, 5, 6), (4, 5, 6, 7, 8)


def _length(number: int) -> bytes:
    out = b""
    while True:
        low, number = number & 0x7F, number >> 7
        if not number:
            return out + bytes([low])
        out += bytes([low | 0x80])


def _scalar(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, str):
        return 12, _length(len(value.encode())) + value.encode()
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    for kind, form, low, high in (
        (5, "<h", -(1 << 15), (1 << 15) - 1), (7, "<i", -(1 << 31), (1 << 31) - 1), (9, "<q", -(1 << 63), (1 << 63) - 1)
    ):  # fmt: skip
        if low <= value <= high:
            return kind, struct.pack(form, value)
    return 10, struct.pack("<Q", value)


def _encode(value: Any, large: bool) -> tuple[int, bytes]:
    """The server's encoding, written from its description; ``large`` uses 4-byte offsets."""
    if not isinstance(value, (dict, list)):
        return _scalar(value)
    width, form = (4, "<I") if large else (2, "<H")
    keys = sorted(value, key=lambda key: (len(key.encode()), key.encode())) if isinstance(value, dict) else []
    items = [value[key] for key in keys] if isinstance(value, dict) else value
    head = 2 * width + len(keys) * (width + 2) + len(items) * (1 + width)
    heap, key_part, value_part = b"", b"", b""
    for key in keys:
        key_part += struct.pack(form, head + len(heap)) + struct.pack("<H", len(key.encode()))
        heap += key.encode()
    for item in items:
        kind, body = _encode(item, large)
        if kind in (_INLINE_LARGE if large else _INLINE_SMALL):
            value_part += bytes([kind]) + body.ljust(width, b"\0")
        else:
            value_part += bytes([kind]) + struct.pack(form, head + len(heap))
            heap += body
    size = head + len(heap)
    kind = (1 if large else 0) if isinstance(value, dict) else (3 if large else 2)
    return kind, struct.pack(form, len(items)) + struct.pack(form, size) + key_part + value_part + heap


def _document(value: Any, large: bool) -> bytes:
    kind, body = _encode(value, large)
    return bytes([kind]) + body


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def _bits(value: Any) -> Any:
    """Tells 1 from 1.0 and 0.0 from -0.0, which Python calls equal."""
    if isinstance(value, dict):
        return {key: _bits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bits(item) for item in value]
    return struct.pack("<d", value) if isinstance(value, float) else (type(value), value)


@given(documents, st.booleans())
def test_documents_survive(value: Any, large: bool) -> None:
    assert _bits(json.loads(to_text(_document(value, large)))) == _bits(value)


@given(documents, st.data())
def test_cut_documents_raise_plain_errors(value: Any, data: st.DataObject) -> None:
    whole = _document(value, False)
    cut = data.draw(st.integers(1, len(whole)))
    try:
        to_text(whole[:cut])
    except (ValueError, IndexError, struct.error):
        return
    assert cut == len(whole) or isinstance(value, (dict, list))


@given(st.binary(max_size=60))
def test_random_bytes_raise_plain_errors(data: bytes) -> None:
    try:
        to_text(data)
    except (ValueError, IndexError, struct.error):
        return


def _opaque(kind: int, value: bytes) -> bytes:
    return bytes([15, kind]) + _length(len(value)) + value


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"", "null"),
        (_opaque(246, bytes([10, 2]) + _pack("-00000123.40", 10, 2)), "-123.40"),
        (_opaque(12, struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41 | (23 << 12 | 59 << 6 | 58) << 24 | 5)),
         '"2024-02-29 23:59:58.000005"'),
        (_opaque(10, struct.pack("<q", ((2024 * 13 + 12) << 5 | 31) << 41)), '"2024-12-31"'),
        (_opaque(11, struct.pack("<q", -((8 << 12 | 7 << 6 | 6) << 24 | 500000))), '"-08:07:06.500000"'),
        (_opaque(252, b"\0\xff"), '"base64:type252:AP8="'),
    ],
)  # fmt: skip
def test_types_that_json_lacks_are_written_as_the_server_does(document: bytes, text: str) -> None:
    assert to_text(document) == text


def test_deep_nesting_is_refused() -> None:
    document: Any = 1
    for _ in range(100):
        document = [document]
    assert to_text(_document(document, False)).count("[") == 100
    for _ in range(40):
        document = [document]
    with pytest.raises(ValueError, match="deep"):
        to_text(_document(document, False))


def test_offsets_that_meet_do_not_make_a_small_document_huge() -> None:
    # An array whose only element is itself; then arrays whose two elements are both the next array.
    itself = bytes([2]) + struct.pack("<HH", 1, 7) + bytes([2]) + struct.pack("<H", 0)
    twice = bytes([2]) + struct.pack("<HHBHBH", 2, 10, 2, 10, 2, 10) * 60 + struct.pack("<HH", 0, 4)
    for document in (itself, twice):
        with pytest.raises(ValueError, match="overlap"):
            to_text(document)


@given(documents, st.booleans())
def test_documents_without_sql_types_are_quoted_text(value: Any, large: bool) -> None:
    document = _document(value, large)
    assert to_sql(document) == b"'%b'" % escape(to_text(document).encode())


def _array_of(values: list[bytes]) -> bytes:
    """Values that are kept behind the entries."""
    at, entries, heap = 4 + 3 * len(values), b"", b""
    for value in values:
        entries += value[:1] + struct.pack("<H", at + len(heap))
        heap += value[1:]
    return bytes([2]) + struct.pack("<HH", len(values), at + len(heap)) + entries + heap


TYPED = _array_of(
    [
        _opaque(246, bytes([10, 2]) + _pack("-00000123.40", 10, 2)),
        _opaque(246, bytes([3, 0]) + _pack("007", 3, 0)),
        _opaque(12, struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41 | (23 << 12 | 59 << 6 | 58) << 24 | 5)),
        _opaque(10, struct.pack("<q", ((2024 * 13 + 12) << 5 | 31) << 41)),
        _opaque(11, struct.pack("<q", -((8 << 12 | 7 << 6 | 6) << 24 | 500000))),
        bytes([12, 7]) + b"it's \\\"",
        bytes([11]) + struct.pack("<d", 2.0),
        _document({"ä'": None, "t": True}, False),
    ]
)
TYPED_SCALAR = _opaque(246, bytes([3, 1]) + _pack("01.5", 3, 1))


def test_sql_types_inside_documents_are_kept() -> None:
    assert to_sql(TYPED).decode() == (
        "JSON_ARRAY(CAST(-123.40 AS DECIMAL(10,2)),CAST(7 AS DECIMAL(3,0)),"
        "CAST('2024-02-29 23:59:58.000005' AS DATETIME(6)),CAST('2024-12-31' AS DATE),"
        "CAST('-08:07:06.500000' AS TIME(6)),'it\\'s \\\\\"',2.0e0,JSON_OBJECT('t',true,'ä\\'',null))"
    )
    assert to_sql(TYPED_SCALAR) == b"JSON_EXTRACT(JSON_ARRAY(CAST(1.5 AS DECIMAL(3,1))), '$[0]')"
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError):
            to_text(bytes([11]) + struct.pack("<d", value))
