"""Hazard: values in a JSON document get the types of others, or a document is written that was not read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.dumper.insert_statements import PythonStatements, Statements
from dm_worker.dumper.json_types import TypedDocuments, expression
from dm_worker.table_reads.column_literals import JSON_MARK, ODD, LiteralKind
from tests.compiled import required

_HEAD = b"INSERT INTO `t` VALUES\n"
_DOCUMENT = (
    '{"a": 12.50, "b": [1, "x\\n\'", "2024-01-01", {"q": 1.5, "n": null}, []], "c": "-10:11:12.000000", "\\\\": true,'
    ' "u": 5, "e": {}}'
)
_TYPES = ["OBJECT", "DECIMAL", "ARRAY", "TIME", "BOOLEAN", "UNSIGNED INTEGER", "OBJECT", "DOUBLE", "NULL",
          "INTEGER", "STRING", "DATE", "OBJECT", "ARRAY"]  # fmt: skip


def told(types: list[str], text: str) -> bytes:
    return json.dumps(types).encode() + b"\0" + text.encode()


def test_every_value_has_the_type_that_the_upstream_reports() -> None:
    made = (
        "JSON_OBJECT('a',CAST(12.50 AS DECIMAL(4,2)),'b',JSON_ARRAY(1,{},CAST('2024-01-01' AS DATE),"
        "JSON_OBJECT('q',1.5e0,'n',null),JSON_ARRAY()),'c',CAST('-10:11:12.000000' AS TIME(6)),{},true,"
        "'u',CAST(5 AS UNSIGNED),'e',JSON_OBJECT())"
    )
    assert expression(told(_TYPES, _DOCUMENT), backslash=True).decode() == made.format("'x\\n\\''", "'\\\\'")
    plain = made.format("_utf8mb4 x'780a27'", "_utf8mb4 x'5c'")
    assert expression(told(_TYPES, _DOCUMENT), backslash=False).decode() == plain


@pytest.mark.parametrize(
    ("kind", "text", "made"),
    [
        ("DECIMAL", "-0.50", "CAST(-0.50 AS DECIMAL(2,2))"),
        ("DECIMAL", "0", "CAST(0 AS DECIMAL(1,0))"),
        ("DECIMAL", "123456789012345678901234567890", "CAST(123456789012345678901234567890 AS DECIMAL(30,0))"),
        ("DATETIME", '"2024-02-29 01:02:03.000004"', "CAST('2024-02-29 01:02:03.000004' AS DATETIME(6))"),
        ("DOUBLE", "-0.0", "-0.0e0"),
        ("DOUBLE", "1e300", "1e300"),
    ],
)
def test_a_single_value_has_its_type(kind: str, text: str, made: str) -> None:
    assert expression(told([kind], text), backslash=True).decode() == f"JSON_EXTRACT(JSON_ARRAY({made}), '$[0]')"


@pytest.mark.parametrize(
    "types",
    [
        _TYPES[:-1],
        [*_TYPES, "INTEGER"],
        ["ARRAY", *_TYPES[1:]],
        [*_TYPES[:1], "STRING", *_TYPES[2:]],
        [*_TYPES[:3], "INTEGER", *_TYPES[4:]],
        [*_TYPES[:4], "NULL", *_TYPES[5:]],
        [*_TYPES[:-1], "OBJECT"],
    ],
)
def test_types_of_another_document_are_refused(types: list[str]) -> None:
    with pytest.raises(ValueError, match="JSON document"):
        expression(told(types, _DOCUMENT), backslash=True)


def _packets(rows: list[list[bytes]]) -> bytes:
    stream = b""
    for number, row in enumerate([*rows, None]):
        values = (b"\xfd" + len(value).to_bytes(3, "little") + value for value in row or ())
        body = b"\xfe\0\0\2\0" if row is None else b"".join(values)
        stream += len(body).to_bytes(3, "little") + bytes([number & 255]) + body
    return stream


def _statements(compiled: bool, limit: int) -> Statements:
    introducers = (b"", JSON_MARK)
    if compiled:
        made: Statements = required("dump").Statements(b"tc", introducers, _HEAD, limit, True)
        return made
    return PythonStatements([LiteralKind.TEXT, LiteralKind.FOREIGN], introducers, _HEAD, limit, backslash=True)


@pytest.mark.parametrize("compiled", [False, True])
@given(data=st.data())
def test_documents_become_expressions_wherever_a_statement_is_cut(compiled: bool, data: st.DataObject) -> None:
    typed = ODD + told(_TYPES, _DOCUMENT)
    rows = data.draw(st.lists(st.tuples(st.binary(max_size=40), st.sampled_from([typed, b"[1]", b"{}"])), max_size=8))
    stream = _packets([list(row) for row in rows])
    consumer = TypedDocuments(_statements(compiled, data.draw(st.integers(40, 3000))), backslash=True)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        pieces += consumer.feed(stream[start:end])
    pieces += consumer.finish()
    assert consumer.done
    assert consumer.rows == len(rows)
    assert consumer.error is None
    text = b"".join(piece for _, piece in pieces).replace(b";\n" + _HEAD, b",\n")
    made = expression(typed[1:], backslash=True)
    assert b"\0" not in text
    assert text.count(b"," + made + b")") == sum(document is typed for _, document in rows)
    assert text.count(b",'[1]')") + text.count(b",'{}')") >= sum(document is not typed for _, document in rows)
    assert all(starts == piece.startswith(_HEAD) for starts, piece in pieces)
