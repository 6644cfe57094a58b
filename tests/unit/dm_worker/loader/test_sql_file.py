"""Hazard: a statement of a dump file ends elsewhere than for the server."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dm_worker.dumper.chunk_writer import HEADER
from dm_worker.loader import sql_file
from dm_worker.table_reads.column_literals import LiteralKind, RowRenderer
from pkg.errors import Code, DMError
from tests.compiled import required
from tests.sweeps import examples
from tests.unit.dm_worker.loader.support import FILL, SQL_TOKENS


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=30)), st.binary(max_size=9)), min_size=1, max_size=9),
    st.booleans(),
)
def test_statements_end_where_they_end_whatever_the_values_hold(
    rows: list[tuple[str | None, bytes]], backslash: bool
) -> None:
    renderer = RowRenderer([LiteralKind.TEXT, LiteralKind.HEX], backslash=backslash)
    values = [v if v is None else v.encode() if isinstance(v, str) else v for row in rows for v in row]
    insert = b"INSERT INTO `a;'b` VALUES\n" + renderer.render(values, len(rows))
    text = HEADER + insert + b";\n-- it's; a comment\n" + insert + b";\n"
    found = [(s.kind, bytes(s.text), s.table, s.end) for s in sql_file.read_statements(io.BytesIO(text), 0, "f")]
    assert [kind for kind, *_ in found] == ["session"] * 3 + ["rows"] * 2
    assert [(data, table) for _, data, table, _ in found[3:]] == [(insert, "a;'b")] * 2
    again = sql_file.read_statements(io.BytesIO(text), found[3][3], "f")
    assert [bytes(s.text) for s in again] == [insert]


@pytest.mark.parametrize(
    "tail", [b"INSERT INTO t VALUES ('a;", b"DROP TABLE t;", b"DELETE FROM t;", b"INSERT INTO t VALUES (1)"]
)
def test_a_file_that_breaks_off_or_holds_other_statements_is_refused(tail: bytes) -> None:
    with pytest.raises(DMError) as caught:
        list(sql_file.read_statements(io.BytesIO(b"INSERT INTO t VALUES (1);\n" + tail), 0, "f"))
    assert caught.value.kind is Code.LoadUnitParseStatement


@given(st.lists(st.one_of(SQL_TOKENS, FILL), max_size=25).map(b"".join), st.integers(0, 40))
@example(b"a--", 0)
@example(b"'x'", 0)
@example(b"/", 0)
@settings(max_examples=examples(500))
def test_statements_end_at_the_same_place_in_c_and_in_python(text: bytes, start: int) -> None:
    native = required("sqlscan").statement_end
    start = min(start, len(text))
    # A semicolon after it makes the end of whatever is open matter.
    for data in (text, text + b";", text + b"\n';"):
        assert native(data, start) == sql_file._python_statement_end(data, start), data


def test_a_string_ends_at_the_same_place_in_c_and_in_python_wherever_an_escape_is() -> None:
    native = required("sqlscan").statement_end
    for size in range(100):
        for at in range(size + 1):
            for literal in (rb"\'", b"''", rb"\\", b'"', b"'"):
                text = b"('" + b"a" * at + literal + b"b;" * (size - at) + b"');"
                assert native(text, 0) == sql_file._python_statement_end(text, 0), text


@given(st.binary(max_size=200), st.integers(-5, 205))
def test_any_bytes_have_an_end_within_them_or_none(data: bytes, start: int) -> None:
    native = required("sqlscan").statement_end
    if 0 <= start <= len(data):
        assert native(bytearray(data), start) == sql_file._python_statement_end(data, start)
    else:
        with pytest.raises(ValueError, match="outside"):
            native(data, start)


def test_a_statement_is_held_in_memory_once() -> None:
    size = 64 << 20
    file = io.BytesIO(b"SET x = 1;\nINSERT INTO `t` VALUES\n('" + b"z" * size + b"');\nINSERT INTO t VALUES (1);\n")
    tracemalloc.start()
    try:
        found = [(s.kind, len(s.text), s.table) for s in sql_file.read_statements(file, 0, "f")]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [("session", 9, ""), ("rows", 27 + size, "t"), ("rows", 24, "t")]
    assert peak < 1.7 * size
