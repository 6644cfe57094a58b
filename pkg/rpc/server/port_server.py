"""The shared port: reads a connection's first bytes and passes the connection to gRPC or to HTTP/1.1.

gRPC's library cannot share its listening socket, so it listens on a unix socket in a private folder, and connections
that begin with HTTP/2's preface are piped to it. TLS ends here and covers both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from pkg.process.log import get_logger
from pkg.process.process_folder import ProcessFolder
from pkg.rpc.server.http_server import HttpServer
from pkg.rpc.server.routes import HttpRoutes
from pkg.settings.connections import SecurityConfig
from pkg.tls.renewal import renewing_server_context
from pkg.tls.server import name_allowed

log = get_logger("rpcserver")

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Largest gRPC message in bytes: statuses of thousands of subtasks fit.
MAX_MESSAGE = 256 * 1024 * 1024
READ_SIZE = 64 * 1024
START_TIMEOUT = 20.0
SHUTDOWN_TIMEOUT = 2.0
#: Seconds that an HTTP client may take for each of its steps.
REQUEST_TIMEOUT = 60
#: The maximum length of the folder's name: the socket in the private folder inside it must fit an address of 107 bytes.
MAX_FOLDER = 80

T = TypeVar("T")

_GRPC_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # Go clients ping idle connections; by default gRPC would close the connection.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
)


class PortServer:
    """gRPC and HTTP/1.1 on one address.

    ``host`` empty means all interfaces; ``port`` 0 uses a free one (see :attr:`port`). ``grpc_registrar`` adds the
    services; ``grpc.health.v1`` is added here. ``workers`` bounds the gRPC calls handled at once;
    ``request_timeout`` applies to HTTP.
    """

    def __init__(
        self,
        host: str,
        port: int,
        grpc_registrar: Callable[[grpc.Server], None],
        http: HttpRoutes,
        tls: SecurityConfig | None = None,
        *,
        workers: int = 32,
        request_timeout: int = REQUEST_TIMEOUT,
    ) -> None:
        self._host = host
        self._requested_port = port
        self._registrar = grpc_registrar
        self._http = HttpServer(http.app, request_timeout)
        self._request_timeout = request_timeout
        self._allowed_names = tls.cert_allowed_cn if tls else ()
        wanted = tls and (tls.ssl_cert or tls.ssl_cert_bytes)
        self._tls = renewing_server_context(tls, _log_unusable) if tls and wanted else None
        self._workers = workers
        self._folder: ProcessFolder | None = None
        self._socket = ""
        self._health = health.HealthServicer()
        self._grpc: grpc.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._listener: asyncio.Server | None = None
        self._new: set[asyncio.Transport] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self.port = 0

    def start(self) -> None:
        """Starts to serve; returns once the port is open. Raises ``OSError`` when the port is not available."""
        # Bind the port first: if another process has it, nothing else has been started yet.
        self._thread = threading.Thread(target=self._run_loop, name="port", daemon=True)
        self._thread.start()
        try:
            self._listener = self._in_loop(self._listen())
            self._start_grpc()
            self._in_loop(self._listener.start_serving())
        except BaseException:
            self.stop(0)
            raise
        self.port = self._listener.sockets[0].getsockname()[1]

    def set_serving(self, serving: bool) -> None:
        """The answer of ``grpc.health.v1`` for the whole server."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        self._health.set("", status)

    def stop(self, grace: float = 5.0) -> None:
        """Accepts no more connections, gives running calls ``grace`` seconds, then closes everything. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._health.enter_graceful_shutdown()
        deadline = time.monotonic() + grace
        self._in_loop(self._take_no_more())
        if self._grpc is not None:
            self._grpc.stop(grace).wait()
        closing = self._close_connections(max(0.0, deadline - time.monotonic()))
        asyncio.run_coroutine_threadsafe(closing, self._loop).result()
        self._loop.call_soon_threadsafe(self._ended.set)
        thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        if self._folder is not None:
            self._folder.remove()

    def _start_grpc(self) -> None:
        # Only this user may enter the folder: the unix socket must not bypass TLS.
        self._folder = ProcessFolder("dm-port-", _socket_base())
        self._socket = str(self._folder.path / "grpc.sock")
        threads = ThreadPoolExecutor(self._workers, thread_name_prefix="rpc")
        server = grpc.server(threads, interceptors=[_NoPages()], options=_GRPC_OPTIONS)
        self._registrar(server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        server.add_insecure_port(f"unix:{quote(self._socket)}")
        server.start()
        self._grpc = server
        self.set_serving(True)

    def _run_loop(self) -> None:
        # One task from start to end: Starlette's threads for blocking handlers live as long as this task.
        self._loop.run_until_complete(self._ended.wait())

    def _in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_TIMEOUT)

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: _NewConnection(self._admit, self._begin, self._new, self._request_timeout),
            self._host or None,
            self._requested_port,
            ssl=self._tls,
            # A peer that never answers TLS' close notification must not keep its connection for long.
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT if self._tls else None,
            backlog=512,
            start_serving=False,
        )

    async def _take_no_more(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for transport in list(self._new):
            transport.abort()
        self._http.finish()

    async def _close_connections(self, grace: float) -> None:
        await self._http.close(grace)
        for task in self._pipes:
            task.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def _admit(self, transport: asyncio.Transport) -> bool:
        """Whether this client may use the port at all."""
        if self._tls is None or name_allowed(transport.get_extra_info("peercert"), self._allowed_names):
            return True
        peer = str(transport.get_extra_info("peername"))
        log.warning("client certificate's common name is not allowed", peer=peer)
        return False

    def _begin(self, transport: asyncio.Transport, first: bytes) -> None:
        """Passes a connection to gRPC or HTTP by its first bytes."""
        if not first.startswith(HTTP2_PREFACE):
            self._http.adopt(transport, first)
            return
        reader = asyncio.StreamReader(READ_SIZE, self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        reader.feed_data(first)
        task = self._loop.create_task(
            _pipe(self._socket, reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))
        )
        self._pipes.add(task)
        task.add_done_callback(self._pipes.discard)


class _NewConnection(asyncio.Protocol):
    """A connection that is not yet known as gRPC or HTTP."""

    def __init__(
        self,
        admit: Callable[[asyncio.Transport], bool],
        begin: Callable[[asyncio.Transport, bytes], None],
        others: set[asyncio.Transport],
        timeout: float,
    ) -> None:
        self._admit = admit
        self._begin = begin
        self._others = others
        self._timeout = timeout
        self._first = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(self._timeout, transport.abort)
        if self._admit(transport):
            self._others.add(transport)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        # Empty lines before a request are ignored: port checkers like to send one.
        self._first = (self._first + data).lstrip(b"\r\n")
        if len(self._first) >= len(HTTP2_PREFACE) or not HTTP2_PREFACE.startswith(self._first):
            self._leave()
            self._begin(self._transport, self._first)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def _leave(self) -> None:
        self._timer.cancel()
        self._others.discard(self._transport)


async def _pipe(socket: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pipes one gRPC connection to the library and back."""
    try:
        backend_reader, backend_writer = await asyncio.open_unix_connection(socket, limit=READ_SIZE)
        pumps = [
            asyncio.ensure_future(_pump(reader, backend_writer)),
            asyncio.ensure_future(_pump(backend_reader, writer)),
        ]
        try:
            # HTTP/2 needs both directions: when one ends, so does the connection.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            backend_writer.close()
    except OSError as exc:
        log.debug("connection ended early", error=str(exc))
    finally:
        writer.close()


class _NoPages(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic only for the type checker
    """Refuses calls of web pages: see :mod:`pkg.rpc.server.cross_site`."""

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Any], details: grpc.HandlerCallDetails
    ) -> Any:
        if any(name == "origin" for name, _ in details.invocation_metadata):
            return grpc.unary_unary_rpc_method_handler(_refuse_page)
        return continuation(details)


def _refuse_page(_: Any, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.PERMISSION_DENIED, "web pages may not call this")


def _log_unusable(exc: Exception) -> None:
    log.error("renewed TLS files cannot be used; the former ones stay in use until the files change", error=str(exc))


def _socket_base() -> Path:
    """The parent of the private folder: the system's temporary folder, or ``/tmp`` when its name is too long."""
    base = tempfile.gettempdir()
    return Path(base if len(os.fsencode(base)) <= MAX_FOLDER else "/tmp")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(READ_SIZE):
            writer.write(data)
            await writer.drain()
