"""The slow target must be as slow as it says, and no slower for many bytes on the way at once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.bench.proxy import SlowProxy

#: Long beside what a busy machine adds.
DELAY = 0.2


@pytest.fixture(scope="module")
def far() -> Iterator[SlowProxy]:
    """An echo server behind the proxy."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo(conn: socket.socket) -> None:
        with conn:
            while data := conn.recv(1 << 16):
                conn.sendall(data)

    def accept() -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    proxy = SlowProxy(listener.getsockname()[1], DELAY)
    proxy.start()
    yield proxy
    proxy.cleanup()
    listener.close()


def _receive(conn: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = conn.recv(1 << 16)
        assert piece
        data += piece
    return data


def test_each_round_trip_takes_the_delay_longer(far: SlowProxy) -> None:
    with socket.create_connection(("127.0.0.1", far.port)) as conn:
        took = []
        for n in range(3):
            start = time.monotonic()
            conn.sendall(b"%d" % n)
            assert _receive(conn, 1) == b"%d" % n
            took.append(time.monotonic() - start)
        assert min(took) >= DELAY * 0.98
        assert min(took) < DELAY * 2


def test_bytes_on_the_way_do_not_wait_for_each_other(far: SlowProxy) -> None:
    with socket.create_connection(("127.0.0.1", far.port)) as conn:
        start = time.monotonic()
        for n in range(20):
            conn.sendall(b"%02d" % n)
            time.sleep(0.002)
        assert _receive(conn, 40) == b"".join(b"%02d" % n for n in range(20))
        assert time.monotonic() - start < 20 * DELAY / 2


def test_many_bytes_come_through_whole_and_the_end_too(far: SlowProxy) -> None:
    sent = bytes(range(256)) * 16384
    with socket.create_connection(("127.0.0.1", far.port)) as conn:
        threading.Thread(target=conn.sendall, args=(sent,), daemon=True).start()
        assert _receive(conn, len(sent)) == sent
        conn.shutdown(socket.SHUT_WR)
        assert conn.recv(1) == b""
