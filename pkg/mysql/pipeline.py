"""Sends statements before the answers of earlier ones: many in one round trip to a distant server.

A server reads the next command after it has answered the one before, so the answers come in order. All sent statements
run, also those after a failed one: so only statements of an open transaction are allowed here, and its COMMIT only when
every answer has arrived.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND

from pkg.mysql import driver
from pkg.mysql.connection import is_lost, is_retryable
from pkg.mysql.driver import ServerAnswer, answer_of
from pkg.mysql.wire import Command, send_command

T = TypeVar("T")

#: Maximum statements, and bytes of statements, that are sent without an answer. They limit the useless work after a
#: failed statement.
AHEAD = 64
BYTES_AHEAD = 4 * 1024 * 1024
#: One packet of the protocol holds less than this; longer commands need several packets.
_PACKET = (1 << 24) - 1


class Refused(Exception, Generic[T]):
    """The server refused ``statement``; ``cause`` is the driver's exception."""

    def __init__(self, statement: T, cause: Exception) -> None:
        super().__init__(statement, cause)
        self.statement = statement
        self.cause = cause


@dataclass(frozen=True, slots=True)
class _Sent(Generic[T]):
    statement: T
    size: int
    sequence: int


def send_ahead(
    conn: Connection[Any], statements: Iterable[T], text: Callable[[T], bytes | Command], *, ahead: int = AHEAD
) -> Generator[tuple[T, ServerAnswer], None, None]:
    """Runs statements that return no rows; yields each with its answer, in order. ``ahead`` 1 waits for each answer.

    Raises :class:`Refused` with the first failed statement. The connection can be used afterwards unless the failure
    needs a retry on a new connection. Closing the iterator early reads the remaining answers.
    """
    waiting: deque[_Sent[T]] = deque()
    size = 0
    usable = True
    try:
        for statement in statements:
            data = text(statement)
            while waiting and (len(waiting) >= ahead or size + len(data) > BYTES_AHEAD):
                size -= waiting[0].size
                yield _next(conn, waiting)
            try:
                waiting.append(_Sent(statement, len(data), send(conn, data)))
            except (pymysql.Error, OSError) as exc:
                raise Refused(statement, exc) from exc
            size += len(data)
        while waiting:
            yield _next(conn, waiting)
    except Refused as exc:
        usable = not is_retryable(exc.cause)
        raise
    finally:
        if usable:
            _drain(conn, waiting)


def _next(conn: Connection[Any], waiting: deque[_Sent[T]]) -> tuple[T, ServerAnswer]:
    sent = waiting.popleft()
    try:
        return sent.statement, receive(conn, sent.sequence)
    except (pymysql.Error, OSError) as exc:
        raise Refused(sent.statement, exc) from exc


def _drain(conn: Connection[Any], waiting: Iterable[_Sent[T]]) -> None:
    """Reads answers that are no longer needed: the transaction is rolled back in any case."""
    for sent in waiting:
        try:
            receive(conn, sent.sequence)
        except (pymysql.Error, OSError) as exc:
            if is_lost(exc):
                return


def send(conn: Connection[Any], data: bytes | Command) -> int:
    """Sends a statement; returns the sequence number of its answer's first packet. Raises the driver's exceptions."""
    if isinstance(data, Command):
        return send_command(conn, data)
    if len(data) + 1 < _PACKET:
        driver.write(conn, struct.pack("<iB", len(data) + 1, COMMAND.COM_QUERY) + data)
        return 1
    return send_command(conn, Command(COMMAND.COM_QUERY, (data,)))


def receive(conn: Connection[Any], sequence: int) -> ServerAnswer:
    """The answer to the oldest unanswered statement. Raises the driver's exceptions."""
    driver.number_next(conn, sequence)
    return answer_of(driver.read_packet(conn))
