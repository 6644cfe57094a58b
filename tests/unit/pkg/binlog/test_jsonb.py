"""Hazard: a document of MySQL's binary JSON becomes another one, or its numbers lose digits."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.binlog.rows.jsonb import to_sql, to_text
from pkg.binlog.rows.literals import escape
from tests.unit.pkg.binlog.support import TYPED, TYPED_SCALAR, encoded_document, keys, opaque, pack_decimal

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
)
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
    assert _bits(json.loads(to_text(encoded_document(value, large)))) == _bits(value)


@given(documents, st.data())
def test_cut_documents_raise_plain_errors(value: Any, data: st.DataObject) -> None:
    whole = encoded_document(value, False)
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


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"", "null"),
        (opaque(246, bytes([10, 2]) + pack_decimal("-00000123.40", 10, 2)), "-123.40"),
        (opaque(12, struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41 | (23 << 12 | 59 << 6 | 58) << 24 | 5)),
         '"2024-02-29 23:59:58.000005"'),
        (opaque(10, struct.pack("<q", ((2024 * 13 + 12) << 5 | 31) << 41)), '"2024-12-31"'),
        (opaque(11, struct.pack("<q", -((8 << 12 | 7 << 6 | 6) << 24 | 500000))), '"-08:07:06.500000"'),
        (opaque(252, b"\0\xff"), '"base64:type252:AP8="'),
    ],
)  # fmt: skip
def test_types_that_json_lacks_are_written_as_the_server_does(document: bytes, text: str) -> None:
    assert to_text(document) == text


def test_deep_nesting_is_refused() -> None:
    document: Any = 1
    for _ in range(100):
        document = [document]
    assert to_text(encoded_document(document, False)).count("[") == 100
    for _ in range(40):
        document = [document]
    with pytest.raises(ValueError, match="deep"):
        to_text(encoded_document(document, False))


def test_offsets_that_meet_do_not_make_a_small_document_huge() -> None:
    # An array whose only element is itself; then arrays whose two elements are both the next array.
    itself = bytes([2]) + struct.pack("<HH", 1, 7) + bytes([2]) + struct.pack("<H", 0)
    twice = bytes([2]) + struct.pack("<HHBHBH", 2, 10, 2, 10, 2, 10) * 60 + struct.pack("<HH", 0, 4)
    for document in (itself, twice):
        with pytest.raises(ValueError, match="overlap"):
            to_text(document)


@given(documents, st.booleans())
def test_documents_without_sql_types_are_quoted_text(value: Any, large: bool) -> None:
    document = encoded_document(value, large)
    assert to_sql(document) == b"'%b'" % escape(to_text(document).encode())


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
