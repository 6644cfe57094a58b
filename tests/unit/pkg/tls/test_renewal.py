"""Hazards: a renewed certificate that counts only after a restart, or renewed files that end a running cluster."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dm_master.workers.worker_client import WorkerClients
from pkg.errors import DMError
from pkg.pb import dmworker_pb2, dmworker_pb2_grpc
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer
from pkg.settings.connections import SecurityConfig
from pkg.tls.renewal import files_state
from tests.harness.certificates import Authority


class _Worker(dmworker_pb2_grpc.WorkerServicer):
    def QueryStatus(
        self, request: dmworker_pb2.QueryStatusRequest, context: grpc.ServicerContext
    ) -> dmworker_pb2.QueryStatusResponse:
        return dmworker_pb2.QueryStatusResponse(result=True)


def _register(server: grpc.Server) -> None:
    dmworker_pb2_grpc.add_WorkerServicer_to_server(_Worker(), server)  # type: ignore[no-untyped-call]


def authority(folder: Path) -> Authority:
    folder.mkdir(exist_ok=True)
    return Authority(folder)


@pytest.fixture
def security(tmp_path: Path) -> SecurityConfig:
    """The files that the server and its clients share, as in a cluster."""
    return authority(tmp_path / "files").issue("dm")


@pytest.fixture
def server(security: SecurityConfig) -> Iterator[PortServer]:
    routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True)
    port = PortServer("127.0.0.1", 0, _register, routes, security)
    port.start()
    yield port
    port.stop(0)


def renew(security: SecurityConfig, by: SecurityConfig, *, key: bool = True) -> None:
    """Overwrites the files, as renewal does."""
    pairs = [(security.ssl_ca, by.ssl_ca), (security.ssl_cert, by.ssl_cert), (security.ssl_key, by.ssl_key)]
    for old, new in pairs if key else pairs[:2]:
        Path(old).write_bytes(Path(new).read_bytes())


def beside(security: SecurityConfig) -> SecurityConfig:
    """Other files, for a copy of what is renewed."""
    return SecurityConfig(
        ssl_ca=f"{security.ssl_ca}.former", ssl_cert=f"{security.ssl_cert}.former", ssl_key=f"{security.ssl_key}.former"
    )


def connection(server: PortServer, security: SecurityConfig) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=security.ssl_ca)
    context.load_cert_chain(security.ssl_cert, security.ssl_key)
    conn = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30)
    conn.connect()
    return conn


def serial(conn: http.client.HTTPSConnection) -> str:
    assert isinstance(conn.sock, ssl.SSLSocket)
    found = conn.sock.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def answers(conn: http.client.HTTPSConnection) -> bool:
    conn.request("GET", "/readyz")
    response = conn.getresponse()
    response.read()
    return response.status == http.client.OK


def test_new_connections_get_the_renewed_certificate_and_old_ones_stay(
    server: PortServer, security: SecurityConfig, tmp_path: Path
) -> None:
    before = connection(server, security)
    assert serial(connection(server, security)) == serial(before)
    renew(security, authority(tmp_path / "renewed").issue("dm"))
    assert serial(connection(server, security)) != serial(before)
    assert answers(before)


def test_a_client_of_the_former_authority_is_refused(
    server: PortServer, security: SecurityConfig, tmp_path: Path
) -> None:
    former = beside(security)
    renew(former, security)
    renewed = authority(tmp_path / "renewed").issue("dm")
    renew(security, renewed)
    context = ssl.create_default_context(cafile=renewed.ssl_ca)
    context.load_cert_chain(former.ssl_cert, former.ssl_key)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # there the client learns of it in the handshake
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw, server_hostname="127.0.0.1")
    assert answers(connection(server, security))


def test_files_that_do_not_fit_leave_the_former_certificate_in_use_until_they_do(
    server: PortServer, security: SecurityConfig, tmp_path: Path
) -> None:
    former = beside(security)
    renew(former, security)
    before = serial(connection(server, former))
    renewed = authority(tmp_path / "renewed").issue("dm")
    renew(security, renewed, key=False)
    assert serial(connection(server, former)) == before
    Path(security.ssl_key).write_bytes(Path(renewed.ssl_key).read_bytes())
    assert serial(connection(server, security)) != before


def test_calls_to_a_worker_use_the_renewed_certificate(
    server: PortServer, security: SecurityConfig, tmp_path: Path
) -> None:
    clients = WorkerClients(timeout=30, rate=100, burst=100, security=security)
    call = (f"127.0.0.1:{server.port}", "QueryStatus", dmworker_pb2.QueryStatusRequest())
    assert clients.call(*call).result
    renew(security, authority(tmp_path / "renewed").issue("dm"))
    # Every connection is new, as after a restart of the worker: the former certificate would be refused.
    port = server.port
    server.stop(0)
    routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True)
    again = PortServer("127.0.0.1", port, _register, routes, security)
    again.start()
    try:
        assert clients.call(*call).result
        Path(security.ssl_key).unlink()
        # Half of a renewal: what runs continues.
        assert clients.call(*call).result
    finally:
        clients.close()
        again.stop(0)


def test_a_link_to_renewed_files_counts_as_renewed(security: SecurityConfig, tmp_path: Path) -> None:
    """As Kubernetes renews a mounted Secret."""
    link = tmp_path / "link"
    link.symlink_to(Path(security.ssl_cert).parent)
    linked = SecurityConfig(ssl_cert=str(link / Path(security.ssl_cert).name))
    before = files_state(linked)
    assert files_state(linked) == before
    authority(tmp_path / "renewed").issue("dm")
    link.unlink()
    link.symlink_to(tmp_path / "renewed")
    assert files_state(linked) != before


def test_without_files_nothing_is_asked() -> None:
    assert files_state(None) == files_state(SecurityConfig(ssl_ca_bytes=b"pem")) == ()


def test_files_that_are_unusable_from_the_beginning_are_an_error(security: SecurityConfig) -> None:
    Path(security.ssl_key).write_text("no key")
    with pytest.raises((OSError, DMError)):
        PortServer("127.0.0.1", 0, _register, HttpRoutes(status=str, metrics=Metrics(), ready=bool), security)
