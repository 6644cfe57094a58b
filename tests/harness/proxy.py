"""A TCP proxy that counts round trips and can delay them, as a distant server would."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time

from tests.harness.process import free_port


class CountingProxy:
    """Passes connections on to 127.0.0.1:``port``.

    A round trip is counted whenever the client speaks after it heard something. ``delay`` seconds are added to all that
    the server says, as a link of that round trip time does: what is sent back to back arrives back to back.
    """

    def __init__(self, port: int, delay: float = 0.0) -> None:
        self._target = port
        self.delay = delay
        self.round_trips = 0
        self.port = free_port()
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends it and all of its connections."""
        for sock in [self._server, *self._sockets]:
            _end(sock)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            heard = threading.Event()
            late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            for work, args in (
                (self._upward, (client, server, heard)),
                (self._downward, (server, late)),
                (self._deliver, (client, heard, late)),
            ):
                threading.Thread(target=work, args=args, daemon=True).start()

    def _upward(self, client: socket.socket, server: socket.socket, heard: threading.Event) -> None:
        while data := _receive(client):
            if heard.is_set():
                heard.clear()
                self.round_trips += 1
            if not _send(server, data):
                return
        _end(server)

    def _downward(self, server: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while data := _receive(server):
            late.put((time.monotonic() + self.delay, data))
        late.put((0.0, b""))

    def _deliver(
        self, client: socket.socket, heard: threading.Event, late: queue.SimpleQueue[tuple[float, bytes]]
    ) -> None:
        while True:
            due, data = late.get()
            if not data:
                _end(client)
                return
            time.sleep(max(0.0, due - time.monotonic()))
            heard.set()
            if not _send(client, data):
                return


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 16)
    except OSError:
        return b""


def _send(sock: socket.socket, data: bytes) -> bool:
    try:
        sock.sendall(data)
    except OSError:
        return False
    return True


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was quicker
        sock.shutdown(socket.SHUT_RDWR)
