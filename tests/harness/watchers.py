"""Browsers that watch a page of the console: connections with server-sent events, some of them slow or dead."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: The bytes that a socket of a slow client takes before its server has to wait.
_SMALL_BUFFER = 2048
#: Seconds between two visits of a client that leaves at once.
_REVISIT = 0.5


@dataclass
class Watchers:
    """``events``: how many events each client that reads has received."""

    events: list[int] = field(default_factory=list)

    def least(self) -> int:
        return min(self.events, default=0)


@contextmanager
def watching(port: int, page: str, *, reading: int, deaf: int, leaving: int) -> Iterator[Watchers]:
    """Clients of ``page`` of the master at ``port``: some read, some never read, some leave again and again."""
    watchers = Watchers([0] * reading)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    request = f"GET /console/live?page={page} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    clients = [
        *(_read(port, request, watchers, number) for number in range(reading)),
        *(_stay(port, request) for _ in range(deaf)),
        *(_leave(port, request) for _ in range(leaving)),
    ]
    running = [asyncio.run_coroutine_threadsafe(client, loop) for client in clients]
    try:
        yield watchers
        failed = [one.exception() for one in running if one.done()]
        assert not failed, f"clients that ended: {failed}"
    finally:
        for one in running:
            one.cancel()
        asyncio.run_coroutine_threadsafe(_settle(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _settle() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.gather(*others, return_exceptions=True)


async def _read(port: int, request: bytes, watchers: Watchers, number: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        assert b" 200 " in await reader.readline()
        while line := await reader.readline():
            watchers.events[number] += line.startswith(b"event: at")
    finally:
        writer.close()


async def _stay(port: int, request: bytes) -> None:
    """Its server sees a client that is there and takes nothing."""
    with contextlib.closing(_connected(port)) as client:
        client.sendall(request)
        await asyncio.Event().wait()


async def _leave(port: int, request: bytes) -> None:
    while True:
        with contextlib.closing(_connected(port)) as client:
            # Its end is a reset: it does not wait for what was sent.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(request)
            await asyncio.sleep(_REVISIT)


def _connected(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
    client.connect(("127.0.0.1", port))
    return client
