"""Reads a result set from the socket in large pieces.

The driver's own reader needs two reads and several objects for each packet. This one uses the driver's connection
(authentication, TLS, uncompressed framing) and maintains its state: after the last row the connection can execute the
next statement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND, CR

from dm_worker.table_reads.column_literals import FieldValue
from dm_worker.table_reads.row_splitter import RowSplitter
from pkg.mysql import driver

#: Bytes per read from the socket.
PIECE = 256 * 1024
_SPEED_BYTES = 1 << 20
R = TypeVar("R", covariant=True)
A = TypeVar("A")
D = TypeVar("D", bytes, int)


class Consumer(Protocol[R]):
    """Takes the packets of a result set's rows, split anywhere, and detects their end."""

    @property
    def done(self) -> bool:
        """Whether all rows have arrived."""

    @property
    def error(self) -> bytes | None:
        """The server's error packet, if an error ended the rows."""

    def feed(self, data: memoryview, /) -> R:
        """Takes the bytes, which are overwritten afterwards. Raises ``ValueError`` for an invalid packet."""


def send(conn: Connection[Any], sql: str | bytes) -> None:
    """Sends a statement ahead of :func:`stream`, so that several servers work at the same time."""
    driver.command(conn, COMMAND.COM_QUERY, sql)


def stream(
    conn: Connection[Any], sql: str, begin: Callable[[int], Consumer[R]], *, sent: bool = False, optional: bool = False
) -> Iterator[tuple[R, int]]:
    """Yields the consumer's result for each read, and the bytes read. ``begin`` receives the number of columns;
    ``sent``: by :func:`send`, as the connection's last statement. ``optional``: the answer may have no result set
    (as that of MariaDB's DELETE … RETURNING whose condition can't be true), which counts as one without rows.

    A caller that stops early must close the connection. Raises ``pymysql.Error`` as the driver does.
    """
    if not sent:
        send(conn, sql)
    columns = _columns(conn)
    if columns == 0 and optional:
        return
    if columns == 0:
        raise pymysql.err.InternalError(CR.CR_MALFORMED_PACKET, f"statement has no result: {sql[:80]}")
    consumer = begin(columns)
    rfile = driver.reader(conn)
    view = memoryview(bytearray(PIECE))
    # The content of the driver's buffer is read separately: readinto1 would wait for more after it.
    data = memoryview(_read(conn, rfile.read1, PIECE))
    while True:
        size = len(data)
        try:
            result = consumer.feed(data)
        except ValueError as exc:
            driver.drop(conn)
            raise pymysql.err.InternalError(CR.CR_MALFORMED_PACKET, f"{exc}; statement: {sql[:80]}") from exc
        if consumer.error is not None:
            pymysql.err.raise_mysql_exception(consumer.error)
        yield result, size
        if consumer.done:
            return
        data = view[: _read(conn, rfile.readinto1, view)]


def measured_speed(conn: Connection[Any]) -> float:
    """The bytes per second that arrive from the server, measured with a text of one MiB; 0 if it can't send that."""
    begun = time.monotonic()
    (text,) = read_values(conn, f"SELECT REPEAT('x',{_SPEED_BYTES})")
    return _SPEED_BYTES / (time.monotonic() - begun) if text is not None else 0.0


def read_values(conn: Connection[Any], sql: str) -> list[FieldValue]:
    """All values of a small result set, row after row, as the server's text."""
    return [value for (values, _), _ in stream(conn, sql, RowSplitter) for value in values]


def _columns(conn: Connection[Any]) -> int:
    """Reads the columns' descriptions; returns their number, 0 for an answer without a result set."""
    first = driver.read_packet(conn)
    if first.is_ok_packet():
        return 0
    width = first.read_length_encoded_integer()
    for _ in range(width + 1):  # and the EOF packet after them
        driver.read_packet(conn)
    return width


def _read(conn: Connection[Any], read: Callable[[A], D], argument: A) -> D:
    """``read(argument)``; an empty answer is the end of the connection."""
    try:
        data = read(argument)
    except OSError as exc:
        driver.drop(conn)
        raise pymysql.err.OperationalError(
            CR.CR_SERVER_LOST, f"Lost connection to server during query ({exc})"
        ) from exc
    if not data:
        driver.drop(conn)
        raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection to server during query")
    return data
