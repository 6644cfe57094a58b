"""Serves an ASGI application over connections whose first bytes the shared port has read.

uvicorn's protocol implements HTTP/1.1: messages, keep-alive, a bounded buffer in both directions. This module adds what
it lacks: limits for clients that send or read slowly, answers to clients that only close their sending side, the
client's certificate, and streams that end when the port closes. Everything here runs in the port's event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from cryptography import x509
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pkg.process.log import get_logger

log = get_logger("rpcserver")

#: Largest head of a request, in bytes.
MAX_HEAD = 64 * 1024
#: Largest request body in bytes; task and source files are far smaller.
MAX_BODY = 16 * 1024 * 1024
#: How often a closing port checks whether its requests have ended, in seconds.
_CLOSE_POLL = 0.02
#: The key of a request's connection in its scope, until the application gets the scope.
_CONNECTION = "dm.connection"
_TLS_VERSIONS = {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}
_DISCONNECT: Message = {"type": "http.disconnect"}


class HttpServer:
    """``timeout`` (seconds) limits each wait for a client: for a head, for more of a body, for the next request, and
    until it reads more of an answer."""

    def __init__(self, app: ASGIApp, timeout: int) -> None:
        self._app = app
        self._timeout = timeout
        # uvicorn logs client errors, which the clients get as answers, and application errors, which are logged here.
        self._config = Config(
            self._answer,
            http=H11Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=timeout,
            h11_max_incomplete_event_size=MAX_HEAD,
        )
        self._state = ServerState()
        self._connections: set[_Connection] = set()

    def adopt(self, transport: asyncio.Transport, first: bytes) -> None:
        """Serves the client of ``transport`` from now on; ``first`` is the data that it has already sent."""
        connection = _Connection(self._config, self._state, self._connections, self._timeout)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.data_received(first)

    def finish(self) -> None:
        """Closes idle connections, ends streams, and makes each running request the last one of its connection."""
        for connection in list(self._connections):
            connection.finish()

    async def close(self, grace: float) -> None:
        """Gives running requests ``grace`` seconds after :meth:`finish`, then ends everything."""
        deadline = asyncio.get_running_loop().time() + grace
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_CLOSE_POLL)
        for connection in list(self._connections):
            connection.abort("the port closes")
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: _Connection = scope["state"].pop(_CONNECTION)
        await _Exchange(connection, receive, send, self._timeout).run(self._app, scope)


class _Connection(asyncio.Protocol):
    """uvicorn's protocol for one connection, with the client's remaining time."""

    def __init__(self, config: Config, state: ServerState, others: set[_Connection], timeout: int) -> None:
        self._protocol = H11Protocol(config, state, {_CONNECTION: self})
        self._others = others
        self._loop = asyncio.get_running_loop()
        self._head = _Countdown(timeout, partial(self.abort, f"no whole request came within {timeout} s"))
        self._write = _Countdown(timeout, partial(self.abort, f"the client read no answer within {timeout} s"))
        self._exchange: _Exchange | None = None
        self._half_closed = self._finished = False
        #: For the scope's extension ``tls``; None without TLS.
        self.tls: dict[str, Any] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._others.add(self)
        self.tls = _tls_extension(transport.get_extra_info("ssl_object"))
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:
            self._head.start()
        self._protocol.data_received(data)

    def eof_received(self) -> bool:
        """A client may close its sending side after its request and wait for the answer. With TLS, both sides close
        together."""
        if self._exchange is None or self.tls is not None or self._protocol.cycle.more_body:
            return False
        self._half_closed = True
        self._exchange.end_stream()
        return True

    def pause_writing(self) -> None:
        self._write.start()
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._write.stop()
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.discard(self)
        self._head.stop()
        self._write.stop()
        self._protocol.connection_lost(exc)
        if self._exchange is not None:
            self._exchange.lose_client()

    def start_request(self, exchange: _Exchange) -> None:
        """The head of a request has arrived."""
        self._head.stop()
        self._exchange = exchange
        if self._finished or self._half_closed:
            exchange.end_stream()

    def complete(self, exchange: _Exchange) -> None:
        """The answer of ``exchange`` is sent; the next request may have arrived already."""
        if self._exchange is exchange:
            self._exchange = None
        if self._half_closed:
            # Runs after the start of a request that arrived together with this one.
            self._loop.call_soon(self._close_if_idle)

    def finish(self) -> None:
        """Makes the running request the last one, and ends a stream."""
        self._finished = True
        if not self._transport.is_closing():
            self._protocol.shutdown()
        if self._exchange is not None:
            self._exchange.end_stream()

    def abort(self, reason: str) -> None:
        log.debug("connection ended early", error=reason)
        self._transport.abort()

    def _close_if_idle(self) -> None:
        if self._exchange is None:
            self._transport.close()


class _Exchange:
    """One request and its answer: everything that the application receives and sends passes here."""

    def __init__(self, connection: _Connection, receive: Receive, send: Send, timeout: int) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._timeout = timeout
        #: Set when no client waits for the answer.
        self._ended = asyncio.Event()
        self._end_stream = self._client_lost = False
        #: An application may wait for a disconnection in one task and answer in another.
        self._receiving = asyncio.Lock()
        self._body_read = False
        self._started = self._complete = self._has_length = False

    def lose_client(self) -> None:
        self._client_lost = True
        self._ended.set()

    def end_stream(self) -> None:
        """The client sends nothing more, or the port closes: an answer of known length is completed, but a stream may
        have no end."""
        self._end_stream = True
        if self._started and not self._has_length:
            self._ended.set()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        self._connection.start_request(self)
        try:
            await (_with_origin_form(scope) or app)(self._scope(scope), self.receive, self.send)
            if self._started and not self._complete and not self._has_length and self._ended.is_set():
                # A stream that was asked to end.
                await self.send({"type": "http.response.body"})
        except ClientDisconnect:
            log.debug("http client left before it had its answer", path=scope["path"])
        except Exception as exc:  # noqa: BLE001 - the process boundary: uvicorn answers, or closes the connection
            log.error("http request failed", path=scope["path"], error=repr(exc))
        if not self._complete:
            self._connection.complete(self)

    async def receive(self) -> Message:
        """The next part of the body. After the last part: waits until :meth:`end`, as ASGI requires."""
        async with self._receiving:
            if not self._body_read:
                return await self._receive_body()
        await self._ended.wait()
        return _DISCONNECT

    async def _receive_body(self) -> Message:
        try:
            message = await asyncio.wait_for(self._receive(), self._timeout)
        except TimeoutError:
            self._connection.abort(f"no more of a body came within {self._timeout} s")
            message = _DISCONNECT
        if message["type"] == "http.disconnect":
            self.lose_client()
        self._body_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Raises ``ClientDisconnect`` when the client is gone: an application that only sends must end, too."""
        # Other connections get their turn between two parts of a stream that never waits.
        await asyncio.sleep(0)
        if self._client_lost:
            raise ClientDisconnect
        if message["type"] == "http.response.start":
            if not self._body_read and not await self._discard_body(message["status"]):
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            self._started = True
            self._has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            if self._end_stream:
                self.end_stream()
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)
        if last:
            self._complete = True
            self._ended.set()
            self._connection.complete(self)

    async def _discard_body(self, status: int) -> bool:
        """Reads the rest of a body that the application did not read: many clients send all of it before they read.

        False if it is too large for that.
        """
        size = 0
        async with self._receiving:
            while status != 413 and not self._body_read and size <= MAX_BODY:
                size += len((await self._receive_body()).get("body", b""))
        return self._body_read

    def _scope(self, scope: Scope) -> Scope:
        tls = self._connection.tls
        return {**scope, "extensions": {"tls": tls} if tls is not None else {}}


class _Countdown:
    """Calls ``expire`` once, ``seconds`` after the first of several starts, unless it is stopped before."""

    def __init__(self, seconds: float, expire: Callable[[], None]) -> None:
        self._seconds = seconds
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _with_origin_form(scope: Scope) -> ASGIApp | None:
    """Removes scheme and host, which only a proxy receives, from the path; returns the answer to a malformed path."""
    target = scope["raw_path"].decode("ascii")
    if target.startswith("/"):
        return None
    try:
        path = urlsplit(target).path
    except ValueError as exc:
        return PlainTextResponse(f"the request's target is malformed: {exc}\n", 400)
    scope["raw_path"] = path.encode("ascii")
    scope["path"] = unquote(path)
    return None


def _tls_extension(connection: ssl.SSLObject | None) -> dict[str, Any] | None:
    """ASGI's extension ``tls``: the client's certificate. Python does not provide the number of the cipher suite."""
    if connection is None:
        return None
    certificate = connection.getpeercert(binary_form=True)
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(certificate)] if certificate else [],
        "client_cert_name": _subject(certificate) if certificate else None,
        "client_cert_error": None,
        "tls_version": _TLS_VERSIONS.get(connection.version() or ""),
        "cipher_suite": None,
    }


def _subject(certificate: bytes) -> str | None:
    try:
        return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError:
        # OpenSSL accepted a name that this parser calls malformed: the client is verified, but its name can't be
        # printed.
        return None
