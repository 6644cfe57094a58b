"""Hazard: an ASGI application behind the shared port hangs, loses an answer, or keeps a client forever."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer, json_response
from pkg.rpc.server.http_server import MAX_BODY
from pkg.settings.connections import SecurityConfig
from tests.harness.certificates import Authority

#: More than any socket's buffers hold.
LARGE = 64 * 1024 * 1024

_PART_OF_A_BODY = (
    b"PUT /size HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n12"
)


class _Serve(Protocol):
    def __call__(
        self, app: ASGIApp | None = None, *, request_timeout: int = 60, tls: SecurityConfig | None = None
    ) -> PortServer: ...


@pytest.fixture
def serve() -> Iterator[_Serve]:
    """Starts a port with an application under ``/app``; it is stopped at the end, if it is not yet."""
    with ExitStack() as running:

        def start(
            app: ASGIApp | None = None, *, request_timeout: int = 60, tls: SecurityConfig | None = None
        ) -> PortServer:
            routes = HttpRoutes(status=lambda: "fine\n", metrics=Metrics(), ready=lambda: True)
            routes.add_route("PUT", "/size", lambda request: json_response(len(request.body)))
            if app is not None:
                routes.mount("/app", app)
            port = PortServer("127.0.0.1", 0, lambda _: None, routes, tls, request_timeout=request_timeout)
            port.start()
            running.callback(port.stop, 0)
            return port

        yield start


def _open(port: PortServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port.port), timeout=60)


def _until_closed(client: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    answer = bytearray()
    try:
        while data := client.recv(1024 * 1024):
            answer += data
    except ConnectionResetError:
        pass
    return bytes(answer)


def _get(path: str, *more: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


class _Events:
    """A stream with one event that never ends by itself; ``closed`` is set when it ends."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.app = Starlette(routes=[Route("/events", self._answer)])

    async def _answer(self, _: Request) -> Response:
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        try:
            yield "data: first\n\n"
            await asyncio.Event().wait()
        finally:
            self.closed.set()


def test_static_files_are_served(serve: _Serve, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>hello</p>")
    (tmp_path / "large file.bin").write_bytes(bytes(3_000_000))
    port = serve(StaticFiles(directory=tmp_path, html=True))
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=60)
    for path, size in (("/app/", 12), ("/app/large%20file.bin", 3_000_000)):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, len(answer.read())) == (200, size)
    connection.request("GET", "/app/nothing")
    assert connection.getresponse().read() == b'{"error": "no such path: /app/nothing"}'
    connection.request("GET", "/app/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 403
    connection.close()


def test_an_event_stream_ends_when_its_client_leaves(serve: _Serve) -> None:
    events = _Events()
    with _open(serve(events.app)) as client:
        client.sendall(_get("/app/events"))
        received = b""
        while b"data: first\n\n" not in received:
            received += client.recv(4096)
        assert not events.closed.is_set()
    assert events.closed.wait(60)


def test_an_event_stream_ends_in_order_when_the_port_stops(serve: _Serve) -> None:
    events = _Events()
    port = serve(events.app)
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=60)
    connection.request("GET", "/app/events")
    answer = connection.getresponse()
    assert answer.readline() == b"data: first\n"
    port.stop(60)
    assert answer.read() == b"\n", "with the mark of a whole answer"
    connection.close()
    assert events.closed.is_set()


def test_a_stream_sends_no_faster_than_its_client_reads(serve: _Serve) -> None:
    sent = [0]
    ended = threading.Event()

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield bytes(65536)
            sent[0] += 65536

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await StreamingResponse(chunks())(scope, receive, send)
        finally:
            ended.set()

    with _open(serve(app, request_timeout=1)) as client:
        client.sendall(_get("/app/"))
        assert ended.wait(60), "a client that reads nothing is not kept"
        assert 0 < sent[0] < LARGE


def test_a_slow_reader_gets_everything(serve: _Serve) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(bytes(LARGE))(scope, receive, send)

    with _open(serve(app)) as client:
        client.sendall(_get("/app/", "Connection: close"))
        assert len(_until_closed(client)) > LARGE


@pytest.mark.parametrize("length", [f"Content-Length: {MAX_BODY + 1}", "Transfer-Encoding: chunked"])
def test_a_body_that_is_too_large_is_refused(serve: _Serve, length: str) -> None:
    with _open(serve()) as client:
        head = ["PUT /size HTTP/1.1", "Host: localhost", "Content-Type: application/json", length, "", ""]
        client.sendall("\r\n".join(head).encode())
        if "chunked" in length:
            client.sendall(f"{MAX_BODY + 1:x}\r\n".encode() + bytes(MAX_BODY + 1))
        assert b" 413 " in client.recv(4096).split(b"\r\n")[0]


def test_the_largest_body_is_taken(serve: _Serve) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", serve().port, timeout=60)
    connection.request("PUT", "/size", body=bytes(MAX_BODY), headers={"Content-Type": "application/json"})
    assert connection.getresponse().read() == str(MAX_BODY).encode()
    connection.close()


def test_a_client_that_sends_before_it_reads_sees_the_refusal(serve: _Serve) -> None:
    """The answer does not need the body, and the connection goes on after it."""
    connection = http.client.HTTPConnection("127.0.0.1", serve().port, timeout=60)
    for _ in range(2):
        connection.request("PUT", "/nowhere", body=bytes(5_000_000))
        answer = connection.getresponse()
        assert (answer.status, answer.will_close) == (404, False)
        answer.read()
    connection.close()


def test_an_unwanted_body_without_an_end_is_not_read_forever(serve: _Serve) -> None:
    with _open(serve()) as client:
        client.sendall(b"PUT /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(f"{MAX_BODY + 1:x}\r\n".encode() + bytes(MAX_BODY + 1))
        answer = _until_closed(client)
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"connection: close" in answer


def test_an_application_that_only_sends_ends_with_its_client(serve: _Serve) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                begun.set()
        finally:
            ended.set()

    with _open(serve(app)) as client:
        client.sendall(_get("/app/"))
        assert begun.wait(60)
    assert ended.wait(60)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"PRI * HT", id="part of a preface"),
        pytest.param(b"GET /status HTTP/1.1\r\nHost: lo", id="part of a head"),
        pytest.param(_get("/status") + b"GET /st", id="part of a second head"),
        pytest.param(_get("/status"), id="no second request"),
        pytest.param(
            _PART_OF_A_BODY,
            id="part of a body",
        ),
    ],
)
def test_a_client_that_falls_silent_is_not_kept(serve: _Serve, sent: bytes) -> None:
    with _open(serve(request_timeout=1)) as client:
        client.sendall(sent)
        answer = _until_closed(client)
        assert answer.startswith(b"HTTP/1.1 200" if b"/status HTTP/1.1\r\nHost: localhost" in sent else b"")


def test_a_head_that_never_ends_is_cut_off(serve: _Serve) -> None:
    """One byte now and then must not keep a connection."""
    with _open(serve(request_timeout=1)) as client:
        client.sendall(b"GET /status HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            _send_slowly(client, b"X: y\r\n")


def _send_slowly(client: socket.socket, line: bytes) -> None:
    """Sends ``line`` until the server closes the connection, which raises ``ConnectionError``."""
    client.settimeout(0.05)
    while True:
        client.sendall(line)
        try:
            if not client.recv(1):
                raise ConnectionResetError
        except TimeoutError:
            continue


def test_a_client_that_closes_its_sending_side_gets_its_answers(serve: _Serve) -> None:
    with _open(serve()) as client:
        client.sendall(_get("/status") + _get("/status") + _get("/livez"))
        client.shutdown(socket.SHUT_WR)
        answer = _until_closed(client)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.endswith(b"ok\n")


def test_a_client_that_ends_within_a_body_is_not_waited_for(serve: _Serve) -> None:
    with _open(serve(request_timeout=600)) as client:
        client.sendall(_PART_OF_A_BODY)
        client.shutdown(socket.SHUT_WR)
        assert _until_closed(client) == b""


def test_a_running_request_ends_in_peace_when_the_port_stops(serve: _Serve) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(_: Request) -> Response:
        begun.set()
        assert go_on.wait(60)
        return PlainTextResponse("done")

    port = serve(Starlette(routes=[Route("/slow", slow)]))
    with _open(port) as client:
        client.sendall(_get("/app/slow"))
        assert begun.wait(60)
        threading.Timer(0.3, go_on.set).start()
        port.stop(60)
        assert _until_closed(client).endswith(b"\r\n\r\ndone")
    with pytest.raises(ConnectionRefusedError):
        _open(port)


def test_a_stop_waits_no_longer_than_its_limit(serve: _Serve) -> None:
    begun = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    port = serve(endless)
    with _open(port) as client:
        client.sendall(_get("/app/"))
        assert begun.wait(60)
        port.stop(0.1)
        assert _until_closed(client) == b""


def _fails_at_once(_: Request) -> Response:
    raise RuntimeError("out of order")


async def _fails_halfway(_: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"some"
        raise RuntimeError("out of order")

    return StreamingResponse(chunks())


def test_an_application_that_fails(serve: _Serve, caplog: pytest.LogCaptureFixture) -> None:
    app = Starlette(routes=[Route("/now", _fails_at_once), Route("/halfway", _fails_halfway)])
    port = serve(app)
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=60)
    connection.request("GET", "/app/now")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (500, b"Internal Server Error")
    connection.request("GET", "/app/halfway")
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()
    connection.close()
    assert [record.getMessage() for record in caplog.records if record.name.startswith("dm")] == [
        "http request failed"
    ] * 2


def test_a_quoted_slash_belongs_to_the_name(serve: _Serve) -> None:
    routes = HttpRoutes(status=str, metrics=Metrics(), ready=bool)
    routes.add_route("GET", "/named/{name}/", lambda request: json_response(dict(request.params)))
    port = PortServer("127.0.0.1", 0, lambda _: None, routes)
    port.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=60)
        connection.request("GET", "/named/a%2Fb")
        assert connection.getresponse().read() == b'{"name": "a/b"}'
        connection.close()
    finally:
        port.stop(0)


async def _who(request: Request) -> Response:
    return JSONResponse(request.scope["extensions"])


def test_an_application_knows_the_clients_certificate(serve: _Serve, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    client = authority.issue("somebody")
    port = serve(Starlette(routes=[Route("/who", _who)]), tls=authority.issue("server"))
    context = ssl.create_default_context(cafile=authority.path)
    context.load_cert_chain(client.ssl_cert, client.ssl_key)
    connection = http.client.HTTPSConnection("localhost", port.port, context=context, timeout=60)
    connection.request("GET", "/app/who")
    tls = json.loads(connection.getresponse().read())["tls"]
    connection.close()
    assert tls["client_cert_name"] == "CN=somebody"
    assert tls["client_cert_chain"] == [Path(client.ssl_cert).read_text()]
    assert tls["tls_version"] == 0x0304


def test_without_tls_there_is_no_certificate(serve: _Serve) -> None:
    connection = http.client.HTTPConnection(
        "127.0.0.1", serve(Starlette(routes=[Route("/who", _who)])).port, timeout=60
    )
    connection.request("GET", "/app/who")
    assert json.loads(connection.getresponse().read()) == {}
    connection.close()
