"""Reads a result set's rows as the server's text, from the socket in large pieces.

The driver's own reader takes two reads and several objects a packet; this one takes about 0.3 µs a value. It uses the
driver's connection (authentication, TLS, compression-free framing) and keeps its framing whole: after the last row the
connection serves the next statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND, CR

from dm_worker.dumper.literals import Value

#: How much is asked of the socket at once, in bytes.
PIECE = 256 * 1024
_FULL_PACKET = 0xFFFFFF


def stream_rows(conn: Connection[Any], sql: str) -> Iterator[tuple[list[Value], int, int]]:
    """Yields ``(values, rows, bytes)``: the values of some rows one after the other.

    A consumer that stops early must close the connection. Raises ``pymysql.Error`` as the driver does.
    """
    width = _send(conn, sql)
    rfile: Any = conn._rfile  # type: ignore[attr-defined]
    buffer = b""
    while True:
        buffer += _read(conn, rfile.read1, PIECE)
        values: list[Value] = []
        pos = _parse(buffer, values)
        head = buffer[pos : pos + 5]
        buffer = buffer[pos:]
        if len(head) == 5 and _size(head) == _FULL_PACKET:
            row, buffer = _long_row(conn, rfile, buffer)
            _split_row(row, 0, len(row), values)
        if values:
            yield values, len(values) // width, pos
        size = _size(head) if len(head) == 5 else 0
        if size == 0 or len(buffer) < 5 or size == _FULL_PACKET:
            continue
        missing = 4 + size - len(buffer)
        if missing > 0 and (missing > PIECE or head[4] >= 0xFE):
            buffer += _read(conn, rfile.read, missing)
        if head[4] == 0xFF:
            pymysql.err.raise_mysql_exception(buffer[4:])
        if head[4] == 0xFE:
            return  # a value above 16 MB starts with 0xFE too, but never in a packet that is not full


def _send(conn: Connection[Any], sql: str) -> int:
    """Sends the statement and reads the columns' descriptions; how many there are."""
    raw: Any = conn
    raw._execute_command(COMMAND.COM_QUERY, sql)
    first = raw._read_packet()
    if first.is_ok_packet():
        raise pymysql.err.InternalError(CR.CR_MALFORMED_PACKET, f"statement has no result: {sql[:80]}")
    width: int = first.read_length_encoded_integer()
    for _ in range(width + 1):  # and the EOF packet behind them
        raw._read_packet()
    return width


def _read(conn: Connection[Any], read: Any, size: int) -> bytes:
    try:
        data: bytes = read(size)
    except OSError as exc:
        conn._force_close()  # type: ignore[attr-defined]
        raise pymysql.err.OperationalError(
            CR.CR_SERVER_LOST, f"Lost connection to server during query ({exc})"
        ) from exc
    if not data:
        conn._force_close()  # type: ignore[attr-defined]
        raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection to server during query")
    return data


def _size(head: bytes) -> int:
    return head[0] | head[1] << 8 | head[2] << 16


def _parse(buffer: bytes, values: list[Value]) -> int:
    """Splits the whole rows in ``buffer``; returns where the first packet begins that is not a whole row."""
    pos, end = 0, len(buffer)
    append = values.append
    while end - pos > 4:
        size = buffer[pos] | buffer[pos + 1] << 8 | buffer[pos + 2] << 16
        p = pos + 4
        stop = p + size
        if stop > end or size == _FULL_PACKET or buffer[p] >= 0xFE:
            break
        # The loop of _split_row, here once more: a call per row would cost as much as the row.
        while p < stop:
            length = buffer[p]
            if length < 251:
                p += 1
            elif length == 251:
                append(None)
                p += 1
                continue
            else:
                length, p = _long_length(buffer, p)
            append(buffer[p : p + length])
            p += length
        pos = stop
    return pos


def _split_row(row: bytes, p: int, stop: int, values: list[Value]) -> None:
    while p < stop:
        if row[p] == 251:
            values.append(None)
            p += 1
            continue
        length, p = (row[p], p + 1) if row[p] < 251 else _long_length(row, p)
        values.append(row[p : p + length])
        p += length


def _long_length(buffer: bytes, p: int) -> tuple[int, int]:
    """A length above 250 at ``p``, and where its value begins."""
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[buffer[p]]
    return int.from_bytes(buffer[p + 1 : p + 1 + width], "little"), p + 1 + width


def _long_row(conn: Connection[Any], rfile: Any, buffer: bytes) -> tuple[bytes, bytes]:
    """A row that takes more than one packet (16 MB and above): its bytes, and what is left behind it."""
    parts: list[bytes] = []
    while True:
        while len(buffer) < 4:
            buffer += _read(conn, rfile.read, 4 - len(buffer))
        size = _size(buffer)
        missing = 4 + size - len(buffer)
        if missing > 0:
            buffer += _read(conn, rfile.read, missing)
        parts.append(buffer[4 : 4 + size])
        buffer = buffer[4 + size :]
        if size < _FULL_PACKET:
            return b"".join(parts), buffer
