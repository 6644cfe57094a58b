"""A TCP relay that simulates a distant server, in its own process: every answer arrives ``delay`` seconds later.

The way back has the whole added round trip: event loops sleep in whole milliseconds, so that two halves of 5 ms would
take 6.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.local.process import Process, free_port, port_open

_PIECE = 1 << 18
#: Pieces in flight in one direction before the sender has to wait.
_ON_THE_WAY = 256
_ROOT = Path(__file__).resolve().parents[2]


class SlowProxy(Process):
    """Relays a free local port to ``to_port``; ``delay`` is the added round trip in seconds."""

    name = "proxy"

    def __init__(self, to_port: int, delay: float) -> None:
        super().__init__()
        self.port = free_port()
        self._to_port = to_port
        self._delay = delay

    def command(self) -> Sequence[str]:
        run = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.bench.proxy import main; main()"
        return [sys.executable, "-c", run, str(_ROOT), str(self.port), str(self._to_port), str(self._delay)]

    def ready(self) -> bool:
        return port_open(self.port)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Forwards bytes ``delay`` seconds after their arrival; later bytes do not wait longer."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_ON_THE_WAY)

    async def receive() -> None:
        data = b"-"
        while data:
            try:
                data = await reader.read(_PIECE)
            except ConnectionError:
                data = b""
            await pieces.put((loop.time() + delay, data))

    receiver = asyncio.create_task(receive())
    try:
        while True:
            due, data = await pieces.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if not data:
                return
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        receiver.cancel()
        writer.close()


async def serve(port: int, to_port: int, delay: float) -> None:
    """Relays until cancelled."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_relay(reader, far_writer, 0.0), _relay(far_reader, writer, delay))

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("to_port", type=int)
    parser.add_argument("delay", type=float)
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(args.port, args.to_port, args.delay))
