"""Hazard: a literal becomes a parameter that stands for another value."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiled import required
from tests.sweeps import examples
from tests.unit.dm_worker.loader.support import FILL, SQL_TOKENS

_VALUES = [
    (b"NULL", None),
    (b"-12", b"-12"),
    (b"2024", b"2024"),
    (b"1.50", b"1.50"),
    (b"-0e0", b"-0e0"),
    (b"''", b""),
    (rb"'a\'b''c\\\0\n\r\t\Z\b\"'", b"a'b'c\\\0\n\r\t\x1a\b\""),
    (b'"x""y\'"', b"x\"y'"),
    (b"x'00fF'", b"\0\xff"),
    (b"0x4142", b"AB"),
    (b"_binary '\xff),('", b"\xff),("),
    *((b"'%b'" % (b"z" * n), b"z" * n) for n in (31, 32, 33, 250, 251, 65535, 65536)),
    (b"'%b'" % (b"\\'" * 200), b"'" * 200),
]


def _parameters(body: bytes) -> list[bytes | None]:
    """The values of a bulk execution, read as the protocol says."""
    found: list[bytes | None] = []
    at = 0
    while at < len(body):
        if body[at] == 1:
            found.append(None)
            at += 1
            continue
        assert body[at] == 0
        width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(body[at + 1], 0)
        size = int.from_bytes(body[at + 2 : at + 2 + width], "little") if width else body[at + 1]
        at += 2 + width
        found.append(body[at : at + size])
        assert len(body) >= at + size
        at += size
    return found


@given(st.integers(1, 4), st.lists(st.sampled_from(_VALUES), min_size=4, max_size=24), st.sampled_from([b",", b" ,\n"]))
@settings(max_examples=examples(200))
def test_literals_become_the_parameters_that_they_stand_for(
    columns: int, values: list[tuple[bytes, bytes | None]], comma: bytes
) -> None:
    native = required("sqlscan").bulk_rows
    values = values[: len(values) // columns * columns]
    rows = [values[n : n + columns] for n in range(0, len(values), columns)]
    text = b"VALUES" + comma.join(b"(" + b", ".join(literal for literal, _ in row) + b")" for row in rows) + b"\n"
    count, forms, body = native(text, 6, columns)
    assert (count, len(forms)) == (len(rows), columns)
    assert _parameters(body) == [value for _, value in values]
    assert native(text, 6, columns + 1) is None


def test_a_string_is_read_alike_wherever_an_escape_is() -> None:
    """Plain text is copied in one piece, other text in blocks: the borders of blocks are at any place."""
    native = required("sqlscan").bulk_rows
    for size in range(100):
        for at in range(size + 1):
            for literal, value in ((rb"\'", b"'"), (b"''", b"'"), (rb"\\", b"\\"), (b"", b"")):
                text = b"('" + b"a" * at + literal + b"b" * (size - at) + b"',1)"
                _, _, body = native(text, 0, 2)
                assert _parameters(body) == [b"a" * at + value + b"b" * (size - at), b"1"]


@given(st.lists(st.one_of(SQL_TOKENS, FILL, st.sampled_from([literal for literal, _ in _VALUES] + [b"(", b",", b")"]))))
@settings(max_examples=examples(500))
def test_any_sql_is_rows_or_left_to_the_server(tokens: list[bytes]) -> None:
    native = required("sqlscan").bulk_rows
    for text in (b"".join(tokens), b"(" + b",".join(tokens) + b")"):
        for columns in (1, 2, max(1, len(tokens))):
            found = native(bytearray(text), 0, columns)
            if found is not None:
                assert len(_parameters(found[2])) == found[0] * columns
