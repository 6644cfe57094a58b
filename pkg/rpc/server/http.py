"""The HTTP/1.1 side of the shared port: routes, and one connection's conversation.

Handlers are plain blocking functions; they run in threads, so that a slow one never holds up other connections.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from pkg.process.log import get_logger
from pkg.process.metrics import CONTENT_TYPE, Metrics
from pkg.rpc.server.cross_site import host_name, refused_host, refused_origin, refused_type

log = get_logger("rpcserver")

#: Seconds that a connection may take to send a request, or stay idle between two.
REQUEST_TIMEOUT = 60.0
#: Largest request body in bytes; task and source files are far smaller.
MAX_BODY = 16 * 1024 * 1024
READ_SIZE = 64 * 1024

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; ``params`` are the path's named segments, ``query`` holds all values of each key."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int = 200
    body: bytes = b""
    content_type: str = TEXT_TYPE

    @classmethod
    def text(cls, text: str, status: int = 200) -> HttpResponse:
        return cls(status, text.encode())

    @classmethod
    def json(cls, value: Any, status: int = 200) -> HttpResponse:
        return cls(status, json.dumps(value, ensure_ascii=False).encode(), JSON_TYPE)


HttpHandler = Callable[[HttpRequest], HttpResponse]


class HttpRoutes:
    """What is served under which method and path.

    ``status`` gives the text of ``/status``; ``ready`` says whether this process can do its work (``/health`` and
    ``/readyz``). ``/livez`` only says that the process answers. These are for whoever asks; everything that is added is
    guarded by :mod:`pkg.rpc.server.cross_site`, where ``hosts`` are the names that mean this port.
    """

    def __init__(
        self, *, status: Callable[[], str], metrics: Metrics, ready: Callable[[], bool], hosts: Collection[str] = ()
    ) -> None:
        self._routes: list[tuple[str, tuple[str, ...], HttpHandler]] = []
        self._hosts = frozenset(map(host_name, hosts))
        self._public: set[tuple[str, ...]] = set()
        self.publish("/status", lambda _: HttpResponse.text(status()))
        self.publish("/metrics", lambda _: HttpResponse(200, metrics.render(), CONTENT_TYPE))
        self.publish("/livez", lambda _: HttpResponse.text("ok\n"))
        self.publish("/readyz", lambda _: _readiness(ready()))
        self.publish("/health", lambda _: _health(ready()))

    def add(self, method: str, pattern: str, handler: HttpHandler) -> None:
        """Serves ``pattern``, a path whose ``{name}`` segments match anything and arrive in ``params``.

        GET must not change anything.
        """
        self._routes.append((method, _segments(pattern), handler))

    def publish(self, pattern: str, handler: HttpHandler) -> None:
        """GET of ``pattern`` under every name of this port: for what changes nothing and shows no secret."""
        self.add("GET", pattern, handler)
        self._public.add(_segments(pattern))

    def dispatch(self, request: HttpRequest) -> HttpResponse:
        """The answer to ``request``; 404 and 405 where there is no route, 403 and 415 for what may come of a web page,
        500 for a handler that raises."""
        path_known = False
        for method, pattern, handler in self._routes:
            params = _match(pattern, _segments(request.path))
            if params is None:
                continue
            path_known = True
            if method == request.method or (request.method, method) == ("HEAD", "GET"):
                refusal = None if pattern in self._public else self._refusal(request)
                return refusal or _guarded(handler, request, params)
        if path_known:
            return HttpResponse.json({"error": f"method {request.method} is not allowed here"}, 405)
        return HttpResponse.json({"error": f"no such path: {request.path}"}, 404)

    def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        wrong = refused_host(request.headers, self._hosts) or refused_origin(request.method, request.headers)
        if wrong:
            return HttpResponse.json({"error": wrong}, 403)
        wrong = refused_type(request.method, request.headers, bool(request.body))
        return HttpResponse.json({"error": wrong}, 415) if wrong else None


def _guarded(handler: HttpHandler, request: HttpRequest, params: Mapping[str, str]) -> HttpResponse:
    matched = HttpRequest(request.method, request.path, params, request.query, request.headers, request.body)
    try:
        return handler(matched)
    except Exception as exc:  # noqa: BLE001 - the border of the process: every error becomes an answer
        log.error("http handler failed", path=request.path, error=str(exc))
        return HttpResponse.json({"error": str(exc)}, 500)


def _readiness(ready: bool) -> HttpResponse:
    return HttpResponse.text("ok\n") if ready else HttpResponse.text("not ready\n", 503)


def _health(ready: bool) -> HttpResponse:
    """The form of etcd's own ``/health``, which DM's port answers with."""
    return HttpResponse.json({"health": "true" if ready else "false"}, 200 if ready else 503)


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _match(pattern: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(path):
        return None
    params: dict[str, str] = {}
    for expected, given in zip(pattern, path, strict=True):
        if expected.startswith("{"):
            params[expected.strip("{}")] = unquote(given)
        elif expected != given:
            return None
    return params


async def converse(
    routes: HttpRoutes, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answers requests on one connection until it closes; ``first`` is what was already read from it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=READ_SIZE)

    async def read() -> bytes:
        return await asyncio.wait_for(reader.read(READ_SIZE), REQUEST_TIMEOUT)

    async def feed() -> None:
        connection.receive_data(await read())

    # Empty lines before a request are noise: port checkers like to send one.
    while not (first := first.lstrip(b"\r\n")):
        if not (first := await read()):
            return
    connection.receive_data(first)
    try:
        while await _one_request(routes, connection, feed, writer):
            connection.start_next_cycle()
    except h11.RemoteProtocolError as exc:
        await _refuse(connection, writer, exc)


async def _one_request(
    routes: HttpRoutes,
    connection: h11.Connection,
    feed: Callable[[], Awaitable[None]],
    writer: asyncio.StreamWriter,
) -> bool:
    """Serves one request; whether the connection may carry another."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                writer.write(_send(connection, h11.InformationalResponse(status_code=100, headers=[])))
            await feed()
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BODY:
                raise h11.RemoteProtocolError("the request's body is too large", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            break
        else:
            return False
    request = _request(head, bytes(body))
    response = await asyncio.get_running_loop().run_in_executor(None, routes.dispatch, request)
    await _answer(connection, writer, response, with_body=request.method != "HEAD")
    return connection.our_state is h11.DONE and connection.their_state is h11.DONE


def _origin_form(target: str) -> str:
    """Only a proxy is sent a scheme and a host: what begins with slashes is a path, however many there are."""
    return f"/{target.lstrip('/')}" if target.startswith("/") else target


def _request(head: h11.Request, body: bytes) -> HttpRequest:
    try:
        target = urlsplit(_origin_form(head.target.decode("ascii")))
    except ValueError as exc:
        raise h11.RemoteProtocolError(f"the request's target is malformed: {exc}") from exc
    headers = {name.decode("ascii").lower(): value.decode("latin-1") for name, value in head.headers}
    method = head.method.decode("ascii")
    return HttpRequest(method, target.path, query=parse_qs(target.query), headers=headers, body=body)


async def _answer(
    connection: h11.Connection, writer: asyncio.StreamWriter, response: HttpResponse, *, with_body: bool
) -> None:
    headers = [("content-type", response.content_type), ("content-length", str(len(response.body)))]
    writer.write(_send(connection, h11.Response(status_code=response.status, headers=headers)))
    if with_body:
        writer.write(_send(connection, h11.Data(data=response.body)))
    writer.write(_send(connection, h11.EndOfMessage()))
    await writer.drain()


async def _refuse(connection: h11.Connection, writer: asyncio.StreamWriter, exc: h11.RemoteProtocolError) -> None:
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    body = f"{exc}\n".encode()
    headers = [("content-type", TEXT_TYPE), ("content-length", str(len(body))), ("connection", "close")]
    writer.write(_send(connection, h11.Response(status_code=exc.error_status_hint, headers=headers)))
    writer.write(_send(connection, h11.Data(data=body)))
    writer.write(_send(connection, h11.EndOfMessage()))
    await writer.drain()


def _send(connection: h11.Connection, event: h11.Event) -> bytes:
    return connection.send(event) or b""
