"""Sends large statements, and commands that are not queries, without copying them.

The driver joins, slices and copies a statement several times: a row of 64 MB would take 700 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection
from pymysql.constants import COMMAND

from pkg.mysql import driver

_FULL_PACKET = 0xFFFFFF


def send(conn: Connection[Any], head: bytes, body: memoryview, tail: bytes) -> None:
    """Executes ``head + body + tail``, a statement without a result set; releases ``body``.

    Raises ``pymysql.Error`` as the driver does.
    """
    for piece in packets([bytes([COMMAND.COM_QUERY]) + head, body, tail]):
        driver.write(conn, piece)
    driver.number_next(conn, answer_number(1 + len(head) + len(body) + len(tail)))
    body.release()
    driver.read_result(conn)


@dataclass(frozen=True, slots=True)
class Command:
    """A protocol command other than a query, in ``parts``, which are not copied."""

    code: int
    parts: tuple[bytes, ...]

    def __len__(self) -> int:
        return 1 + sum(map(len, self.parts))


def send_command(conn: Connection[Any], command: Command) -> int:
    """Sends a command; returns the sequence number of its answer's first packet. Raises the driver's exceptions."""
    for piece in packets([bytes([command.code]), *command.parts]):
        driver.write(conn, piece)
    return answer_number(len(command))


def packets(parts: list[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The joined parts as the protocol's packets: views of the parts with the packets' headers between them. Pure."""
    left = sum(map(len, parts))
    views = [memoryview(part) for part in parts if part]
    number, again = 0, True
    while again:
        size = min(left, _FULL_PACKET)
        left, again = left - size, size == _FULL_PACKET  # after a full packet another one follows
        yield size.to_bytes(3, "little") + bytes([number % 256])
        number += 1
        while size:
            piece = views[0][:size]
            size -= len(piece)
            yield piece
            views[0] = views[0][len(piece) :]
            if not views[0]:
                del views[0]


def answer_number(size: int) -> int:
    """The number of the server's first packet in answer to a payload of ``size`` bytes."""
    return (size // _FULL_PACKET + 1) % 256
