"""Statements of dump files: found alike in C and in Python, and sent as the driver would."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pymysql.connections import Connection

from dm_worker.loader import sqlfile
from pkg.mysql import wire

_TOKENS = st.sampled_from(
    [b"'", b'"', b"`", b"\\", b";", b"-", b"--", b"-- ", b"--\0", b"#", b"/", b"/*", b"*/", b"*", b"\n", b"''", b"\xff"]
)
_FILL = st.integers(0, 70).map(lambda n: b"x" * n)


@given(st.lists(st.one_of(_TOKENS, _FILL), max_size=25).map(b"".join), st.integers(0, 40))
@example(b"a--", 0)
@example(b"'x'", 0)
@example(b"/", 0)
@settings(max_examples=500, deadline=None)
def test_statements_end_at_the_same_place_in_c_and_in_python(text: bytes, start: int) -> None:
    native = pytest.importorskip("pkg.native._sqlscan").statement_end
    start = min(start, len(text))
    # A semicolon behind it makes the end of whatever is open matter.
    for data in (text, text + b";", text + b"\n';"):
        assert native(data, start) == sqlfile._python_statement_end(data, start), data


@given(st.binary(max_size=200), st.integers(-5, 205))
def test_any_bytes_have_an_end_within_them_or_none(data: bytes, start: int) -> None:
    native = pytest.importorskip("pkg.native._sqlscan").statement_end
    if 0 <= start <= len(data):
        assert native(bytearray(data), start) == sqlfile._python_statement_end(data, start)
    else:
        with pytest.raises(ValueError, match="outside"):
            native(data, start)


def test_a_statement_is_held_in_memory_once() -> None:
    size = 64 << 20
    file = io.BytesIO(b"SET x = 1;\nINSERT INTO `t` VALUES\n('" + b"z" * size + b"');\nINSERT INTO t VALUES (1);\n")
    tracemalloc.start()
    try:
        found = [(s.kind, len(s.text), s.table) for s in sqlfile.read_statements(file, 0, "f")]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [("session", 9, ""), ("rows", 27 + size, "t"), ("rows", 24, "t")]
    assert peak < 1.7 * size


class _Wire:
    """The packets that a driver's connection would write."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.number = 0
        conn: Any = Connection(defer_connect=True)
        conn._sock = conn._closed = True
        conn._write_bytes = lambda data: self.sent.append(bytes(data))
        conn._read_query_result = self._answered
        self.conn = conn

    def _answered(self, unbuffered: bool = False) -> int:
        self.number = self.conn._next_seq_id
        return 0


@pytest.mark.parametrize(
    "size", [0, 1, 100, (1 << 24) - 20, (1 << 24) - 19, (1 << 24) - 18, (1 << 25) - 20, (1 << 25) + 5]
)
def test_a_statement_sent_in_parts_is_what_the_driver_would_send(size: int) -> None:
    head, body, tail = b"INSERT INTO t", b"v" * size, b" ON"
    ours, drivers = _Wire(), _Wire()
    wire.send(ours.conn, head, memoryview(body), tail)
    drivers.conn.query(head + body + tail)
    assert b"".join(ours.sent) == b"".join(drivers.sent)
    assert ours.number == drivers.number


def test_a_statement_is_not_copied_on_its_way() -> None:
    body = b"v" * (64 << 20)
    tracemalloc.start()
    try:
        sent = sum(map(len, wire.packets([b"\3INSERT", memoryview(body), b"tail"])))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent == 7 + len(body) + 4 + 4 * 5
    assert peak < 1 << 20
