"""Hazard: the shared port mistakes gRPC for HTTP, dies of damaged input, or lets an unknown client past TLS."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from starlette.responses import Response

from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc
from pkg.process.metrics import Metrics
from pkg.rpc.channel import normalize, open_channel, split_addresses
from pkg.rpc.server import HttpRequest, HttpRoutes, PortServer, json_response
from pkg.settings.connections import SecurityConfig
from tests.harness.certificates import Authority

#: A slow call has come; it may be answered.
_BEGUN, _GO_ON = threading.Event(), threading.Event()


class _Echo(dmmaster_pb2_grpc.MasterServicer):
    """Answers with what it was asked; to ``slow`` when :data:`_GO_ON` is set."""

    def Encrypt(
        self, request: dmmaster_pb2.EncryptRequest, context: grpc.ServicerContext
    ) -> dmmaster_pb2.EncryptResponse:
        if request.plaintext == "slow":
            _BEGUN.set()
            assert _GO_ON.wait(60)
        return dmmaster_pb2.EncryptResponse(result=True, ciphertext=request.plaintext)


def _routes(ready: bool = True) -> HttpRoutes:
    routes = HttpRoutes(status=lambda: "status text\n", metrics=Metrics(), ready=lambda: ready, hosts=["DM.example"])
    routes.add_route("GET", "/apis/v1alpha1/status/{name}", lambda request: json_response(dict(request.params)))
    routes.add_route("PUT", "/echo", lambda request: Response(request.body))
    routes.add_route("POST", "/echo", lambda request: Response(request.body))
    routes.add_route("GET", "/broken", _broken)
    return routes


def _broken(_: HttpRequest) -> Response:
    raise RuntimeError("out of order")


def _register(server: grpc.Server) -> None:
    dmmaster_pb2_grpc.add_MasterServicer_to_server(_Echo(), server)  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def nothing_slow_yet() -> None:
    _BEGUN.clear()
    _GO_ON.clear()


@pytest.fixture
def server() -> Iterator[PortServer]:
    port = PortServer("127.0.0.1", 0, _register, _routes())
    port.start()
    yield port
    port.stop(0)


@pytest.mark.parametrize("target", ["//[", "//[x]/status", "http://[", "//status", "/%zz?%zz=%", "*", "//"])
def test_an_odd_target_gets_an_answer(server: PortServer, target: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as conn:
        conn.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: conn.recv(4096), b""))
    status = int(answer.split(b" ", 2)[1])
    assert status == {"//status": 200, "http://[": 400}.get(target, 404), answer


def _get(
    server: PortServer,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] = {"Content-Type": "application/json"},
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _echo(channel: grpc.Channel, text: str) -> str:
    stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
    return str(stub.Encrypt(dmmaster_pb2.EncryptRequest(plaintext=text), timeout=60).ciphertext)


def test_grpc_and_http_share_the_port(server: PortServer) -> None:
    with open_channel(f"127.0.0.1:{server.port}") as channel:
        assert _echo(channel, "x" * 10_000_000) == "x" * 10_000_000
        status = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60).status
        assert status == health_pb2.HealthCheckResponse.SERVING
    assert _get(server, "/status") == (200, b"status text\n")
    assert _get(server, "/health") == (200, b'{"health": "true"}')
    assert b"process_cpu_seconds_total" in _get(server, "/metrics")[1]
    assert _get(server, "/livez")[0] == _get(server, "/readyz")[0] == 200


def test_routes_with_parameters_bodies_and_errors(server: PortServer) -> None:
    assert json.loads(_get(server, "/apis/v1alpha1/status/a%20b?x=1")[1]) == {"name": "a b"}
    assert _get(server, "/echo", "POST", b"z" * 300_000) == (200, b"z" * 300_000)
    assert _get(server, "/nowhere")[0] == 404
    assert _get(server, "/status", "DELETE")[0] == 405
    status, body = _get(server, "/broken")
    assert status == 500
    assert b"out of order" in body
    assert _get(server, "/status", "HEAD") == (200, b"")


_JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"Content-Type": "text/plain"}, 415, "JSON, not text/plain: send the header `Content-Type: application/json`"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "curl -H 'Content-Type: application/json'"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415, "not multipart/form-data"),
        ({"Content-Type": "text/plain; application/json"}, 415, "not text/plain"),
        ({}, 415, "not nothing"),
        ({**_JSON, "Origin": "http://evil.example"}, 403, "a page of http://evil.example"),
        ({**_JSON, "Origin": "null"}, 403, "a page of null"),
        ({**_JSON, "Origin": "http://127.0.0.1:1"}, 403, "a page of"),
        ({**_JSON, "Origin": "https://127.0.0.1:PORT"}, 200, ""),
        ({**_JSON, "Origin": "http://127.0.0.1:PORT"}, 200, ""),
        ({**_JSON, "Host": "evil.example:PORT", "Origin": "http://evil.example:PORT"}, 403, "this is not evil.example"),
        ({**_JSON, "Host": "evil.example"}, 403, "`allowed-hosts`"),
        ({**_JSON, "Host": "127.0.0.1.evil.example"}, 403, "this is not"),
        ({**_JSON, "Host": "dm.EXAMPLE.:99", "Origin": "http://dm.example:99"}, 200, ""),
        ({**_JSON, "Host": "dm.example", "Origin": "https://dm.example:443"}, 200, ""),
        ({**_JSON, "Host": "dm.example", "Origin": "ftp://dm.example"}, 403, "a page of"),
        ({**_JSON, "Host": "[::1]:PORT"}, 200, ""),
        ({**_JSON, "Host": "localhost"}, 200, ""),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200, ""),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_only_json_of_no_other_site_changes_anything(
    server: PortServer, method: str, headers: dict[str, str], status: int, words: str
) -> None:
    sent = {name: value.replace("PORT", str(server.port)) for name, value in headers.items()}
    found, body = _get(server, "/echo", method, b'{"a": 1}', sent)
    assert found == status
    assert words in json.loads(body).get("error", "")
    assert (body == b'{"a": 1}') == (status == 200)


def test_what_a_page_may_ask_for_without_a_body(server: PortServer) -> None:
    assert _get(server, "/echo", "POST", None, {})[0] == 415
    assert _get(server, "/echo", "PUT", None, {})[0] == 200, "a browser asks before it sends this, and gets no leave"
    assert _get(server, "/echo", "PUT", None, {"Origin": "http://evil.example"})[0] == 403
    assert _get(server, "/echo", "OPTIONS", None, {"Origin": "http://evil.example"})[0] == 405


def test_a_page_that_took_a_name_for_this_machine_reads_nothing(server: PortServer) -> None:
    named = {"Host": "evil.example"}
    assert _get(server, "/apis/v1alpha1/status/a", headers=named)[0] == 403
    assert _get(server, "/apis/v1alpha1/status/a", headers={"Host": "dm.example"})[0] == 200
    for path in ("/status", "/metrics", "/livez", "/readyz", "/health"):
        assert _get(server, path, headers=named)[0] == 200, "probes call it what they like"


def test_a_program_of_http_1_0_needs_no_host(server: PortServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(b"GET /apis/v1alpha1/status/a HTTP/1.0\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 200")


def _h2_literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _h2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


_CALLED = b"was called"


def _h2_call(server: PortServer, more: list[tuple[bytes, bytes]]) -> bytes:
    """The answer to an HTTP/2 request with the headers ``more``; with :data:`_CALLED` in it once it got through."""
    message = dmmaster_pb2.EncryptRequest(plaintext=_CALLED.decode()).SerializeToString()
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/pb.Master/Encrypt"), (b":authority", b"x")]
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _h2_frame(4, 0, 0, b"")
            + _h2_frame(1, 4, 1, b"".join(_h2_literal(*field) for field in [*fields, *more]))
            + _h2_frame(0, 1, 1, b"\0" + len(message).to_bytes(4, "big") + message)
        )
        with raw.makefile("rb") as reader:
            while head := reader.read(9):
                payload = reader.read(int.from_bytes(head[:3], "big"))
                ours = int.from_bytes(head[5:], "big") == 1
                answer += payload if ours else b""
                if ours and (head[3] == 3 or (head[3] in (0, 1) and head[4] & 1)):
                    return answer
    return answer


@pytest.mark.parametrize("content", [b"text/plain", b"application/grpc"])
def test_a_browser_that_speaks_http_2_calls_nothing(server: PortServer, content: bytes) -> None:
    """To gRPC's library any content type will do, and Firefox sends the header ``te`` that it asks for."""
    kind, trailers = (b"content-type", content), (b"te", b"trailers")
    assert _CALLED in _h2_call(server, [kind, trailers]), "a client of gRPC"
    assert _CALLED not in _h2_call(server, [kind])
    refused = _h2_call(server, [kind, trailers, (b"origin", b"http://evil.example")])
    assert _CALLED not in refused
    assert b"web pages may not call this" in refused


def test_not_ready_is_reported() -> None:
    port = PortServer("127.0.0.1", 0, _register, _routes(ready=False))
    port.start()
    try:
        assert _get(port, "/readyz")[0] == 503
        assert _get(port, "/health") == (503, b'{"health": "false"}')
        assert _get(port, "/livez")[0] == 200
    finally:
        port.stop(0)


def test_one_connection_carries_many_requests(server: PortServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(3):
        connection.request("GET", "/status")
        assert connection.getresponse().read() == b"status text\n"
    connection.close()


@pytest.mark.parametrize(
    "noise",
    [b"\n", b"", b"\r\n\r\n", b"PRI * HT", b"\x16\x03\x01\x02\x00\x01", random.Random(1).randbytes(3000)],
)
def test_noise_does_no_harm(server: PortServer, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(noise)
    assert _get(server, "/status")[0] == 200


def test_a_request_after_a_lone_newline_is_answered(server: PortServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(b"\n")
        time.sleep(0.05)
        raw.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 200")


def test_a_malformed_request_gets_an_error_and_the_connection_ends(server: PortServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(b"NOT HTTP AT ALL\r\n\r\n")
        answer = b""
        while data := raw.recv(1000):
            answer += data
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_slow_handler_delays_no_other(server: PortServer) -> None:
    with open_channel(f"127.0.0.1:{server.port}") as channel:
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(_echo(channel, "slow")))
        thread.start()
        assert _BEGUN.wait(60)
        assert _echo(channel, "quick") == "quick"
        assert _get(server, "/status")[0] == 200
        assert thread.is_alive()
        _GO_ON.set()
        thread.join(60)
    assert answers == ["slow"]


def test_running_calls_end_in_peace_when_the_server_stops() -> None:
    port = PortServer("127.0.0.1", 0, _register, _routes())
    port.start()
    answers: list[str] = []
    with open_channel(f"127.0.0.1:{port.port}") as channel:
        thread = threading.Thread(target=lambda: answers.append(_echo(channel, "slow")))
        thread.start()
        assert _BEGUN.wait(60)
        threading.Timer(0.3, _GO_ON.set).start()
        port.stop(60)
        thread.join(60)
    assert answers == ["slow"]
    with pytest.raises(ConnectionRefusedError):
        _get(port, "/status")
    port.stop(0)


def test_a_port_in_use_is_an_error_at_start(server: PortServer) -> None:
    second = PortServer("127.0.0.1", server.port, _register, _routes())
    with pytest.raises(OSError, match="address already in use"):
        second.start()


@pytest.mark.parametrize("folder", ["x" * 120, "a folder at 100%41"])
def test_any_temporary_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    (tmp_path / folder).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
    port = PortServer("127.0.0.1", 0, _register, _routes())
    port.start()
    try:
        with open_channel(f"127.0.0.1:{port.port}") as channel:
            assert _echo(channel, "hello") == "hello"
    finally:
        port.stop(0)


def test_a_killed_servers_socket_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import os; from pkg.process.metrics import Metrics; from pkg.rpc.server import HttpRoutes, PortServer\n"
        "routes = HttpRoutes(status=str, metrics=Metrics(), ready=bool)\n"
        "PortServer('127.0.0.1', 0, lambda _: None, routes).start(); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[4], env=environment)
    [left] = tmp_path.iterdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    port = PortServer("127.0.0.1", 0, _register, _routes())
    port.start()
    assert not left.exists()
    port.stop(0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "address"),
    [(":8261", "127.0.0.1:8261"), ("http://h:1/", "h:1"), ("https://h:1", "h:1"), (" h:1 ", "h:1")],
)
def test_address_forms(text: str, address: str) -> None:
    assert normalize(text) == address
    assert split_addresses(f"{text},,other:2") == [address, "other:2"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def tls_server(authority: Authority) -> Iterator[PortServer]:
    port = PortServer("127.0.0.1", 0, _register, _routes(), authority.issue("server", allowed=("dm",)))
    port.start()
    yield port
    port.stop(0)


def test_tls_covers_grpc_and_http(tls_server: PortServer, authority: Authority) -> None:
    client = authority.issue("dm")
    with open_channel(f"localhost:{tls_server.port}", client) as channel:
        assert _echo(channel, "hello") == "hello"
    context = ssl.create_default_context(cafile=authority.path)
    context.load_cert_chain(client.ssl_cert, client.ssl_key)
    connection = http.client.HTTPSConnection("localhost", tls_server.port, context=context, timeout=60)
    connection.request("GET", "/status")
    assert connection.getresponse().read() == b"status text\n"
    connection.close()


def test_tls_refuses_clients_that_it_does_not_know(tls_server: PortServer, authority: Authority) -> None:
    refused = [None, SecurityConfig(ssl_ca=authority.path), authority.issue("somebody-else")]
    for client in refused:
        with open_channel(f"localhost:{tls_server.port}", client) as channel, pytest.raises(grpc.RpcError) as caught:
            _echo(channel, "hello")
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_certificates_may_be_given_as_bytes(authority: Authority) -> None:
    files = authority.issue("dm")
    inline = SecurityConfig(
        ssl_ca_bytes=Path(files.ssl_ca).read_bytes(),
        ssl_cert_bytes=Path(files.ssl_cert).read_bytes(),
        ssl_key_bytes=Path(files.ssl_key).read_bytes(),
    )
    port = PortServer("127.0.0.1", 0, _register, _routes(), inline)
    port.start()
    try:
        with open_channel(f"localhost:{port.port}", inline) as channel:
            assert _echo(channel, "hello") == "hello"
    finally:
        port.stop(0)
