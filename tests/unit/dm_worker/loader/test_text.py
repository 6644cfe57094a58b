"""Statements of dump files: found alike in C and in Python, and sent as the driver would."""

from __future__ import annotations

import io
import socket
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pymysql.connections import Connection
from pymysql.constants import COMMAND

from dm_worker.loader import sql_file
from pkg.mysql import wire
from tests.compiled import required

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
    native = required("sqlscan").statement_end
    start = min(start, len(text))
    # A semicolon behind it makes the end of whatever is open matter.
    for data in (text, text + b";", text + b"\n';"):
        assert native(data, start) == sql_file._python_statement_end(data, start), data


@given(st.binary(max_size=200), st.integers(-5, 205))
def test_any_bytes_have_an_end_within_them_or_none(data: bytes, start: int) -> None:
    native = required("sqlscan").statement_end
    if 0 <= start <= len(data):
        assert native(bytearray(data), start) == sql_file._python_statement_end(data, start)
    else:
        with pytest.raises(ValueError, match="outside"):
            native(data, start)


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
@settings(max_examples=200, deadline=None)
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


@given(st.lists(st.one_of(_TOKENS, _FILL, st.sampled_from([literal for literal, _ in _VALUES] + [b"(", b",", b")"]))))
@settings(max_examples=500, deadline=None)
def test_any_text_is_rows_or_left_to_the_server(tokens: list[bytes]) -> None:
    native = required("sqlscan").bulk_rows
    for text in (b"".join(tokens), b"(" + b",".join(tokens) + b")"):
        for columns in (1, 2, max(1, len(tokens))):
            found = native(bytearray(text), 0, columns)
            if found is not None:
                assert len(_parameters(found[2])) == found[0] * columns


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


_GREETING = b"\x0a10.6.0-MariaDB\0" + bytes(4) + b"saltsalt\0" + b"\0\x82\x21\2\0" + bytes(13) + b"saltsaltsalt\0"
_OK = b"\0\0\0\2\0\0\0"


class _Peer(threading.Thread):
    """A server that takes whatever a connection of the driver sends, and says OK to it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        ours, self._socket = socket.socketpair()
        self.sent: list[bytes] = []
        self.start()
        self.conn: Any = Connection(defer_connect=True, ssl_disabled=True)
        self.conn.connect(ours)

    def run(self) -> None:
        with self._socket, self._socket.makefile("rb") as reader:
            self._answer(0, _GREETING)
            while head := reader.read(4):
                size, number = int.from_bytes(head[:3], "little"), head[3]
                self.sent.append(head + reader.read(size))
                if self.sent[-1][4:] == bytes([COMMAND.COM_QUIT]):
                    return
                if size < (1 << 24) - 1:
                    self._answer((number + 1) % 256, _OK)

    def _answer(self, number: int, payload: bytes) -> None:
        self._socket.sendall(len(payload).to_bytes(3, "little") + bytes([number]) + payload)


@pytest.mark.parametrize(
    "size", [0, 1, 100, (1 << 24) - 20, (1 << 24) - 19, (1 << 24) - 18, (1 << 25) - 20, (1 << 25) + 5]
)
def test_a_statement_sent_in_parts_is_what_the_driver_would_send(size: int) -> None:
    head, body, tail = b"INSERT INTO t", b"v" * size, b" ON"
    ours, drivers = _Peer(), _Peer()
    with ours.conn, drivers.conn:
        wire.send(ours.conn, head, memoryview(body), tail)
        drivers.conn.query(head + body + tail)
        for peer in (ours, drivers):
            peer.conn.ping(reconnect=False)  # the answers' numbers fit those that are expected, or this fails
    for peer in (ours, drivers):
        peer.join()
    assert ours.sent == drivers.sent


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
