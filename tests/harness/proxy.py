"""A TCP proxy that counts round trips, and can delay, hold and lose data, like the link to a distant server."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time

from deploy.local.process import free_port


class CountingProxy:
    """Forwards connections from its own port (``at``, if given) to 127.0.0.1:``port``.

    It counts a round trip whenever the client sends after it received something. It adds ``delay`` seconds to the
    server's data, like a link with that round-trip time: data sent back to back arrives back to back.
    """

    def __init__(self, port: int, delay: float = 0.0, at: int = 0) -> None:
        self._target = port
        self.delay = delay
        #: Closes new connections at once, like a load balancer without a server.
        self.refusing = False
        self.round_trips = 0
        self.port = at or free_port()
        self._sockets: list[socket.socket] = []
        self._clients: list[socket.socket] = []
        self._deaf = False
        self._held_text = b""
        #: Set once something is held.
        self.holding = threading.Event()
        self._released = threading.Event()
        self._server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, text: bytes) -> None:
        """Holds client data that contains ``text`` until :meth:`release`."""
        self._held_text = text

    def release(self) -> None:
        """Forwards the held data."""
        self._held_text = b""
        self._released.set()

    def lead_to(self, port: int) -> None:
        """Directs new connections to another server, like a virtual address after a failover."""
        self._target = port

    def lose_clients(self) -> None:
        """Ends the clients' connections; the server does not notice."""
        self._deaf = True
        for client in self._clients:
            _end(client)

    def cut(self) -> None:
        """Ends all connections, on both sides."""
        for sock in list(self._sockets):
            _end(sock)

    def close(self) -> None:
        """Ends the proxy and all of its connections."""
        self.release()
        for sock in [self._server, *self._sockets]:
            _end(sock)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                if self.refusing:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server is not reachable
                client.close()
                continue
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            self._clients.append(client)
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
            if self._held_text and self._held_text in data:
                self.holding.set()
                self._released.wait()
            if not _send(server, data):
                return
        if not self._deaf:
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
    with contextlib.suppress(OSError):  # the other side closed it first
        sock.shutdown(socket.SHUT_RDWR)
