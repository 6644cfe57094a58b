"""Hazard: a statement that is sent in parts differs from what the driver would send, or is copied on its way."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from typing import Any

import pytest
from pymysql.connections import Connection
from pymysql.constants import COMMAND

from pkg.mysql import wire

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
