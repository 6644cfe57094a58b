"""Hazard: clients that send or read slowly, or disappear silently, block the console for others."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from deploy.local.process import wait_until
from dm_master.console import pages
from dm_master.console.app import add_console
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer
from tests.harness.canned_cluster import CannedCluster
from tests.unit.dm_master.console.support import FORM

_LOGIN = f"POST /console/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: 90\r\n\r\nuser="
_STREAM = "GET /console/live?page=overview HTTP/1.1\r\nHost: localhost\r\n\r\n"
_STALLED = [_LOGIN, "GET /console/ HTTP/1.1\r\nHost: lo", ""]


@contextmanager
def _serve(cluster: CannedCluster, users: Path, request_timeout: int) -> Iterator[PortServer]:
    routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True)
    add_console(routes, cluster.call, str(users), lambda: None, interval=0.05)
    port = PortServer("127.0.0.1", 0, lambda _: None, routes, request_timeout=request_timeout)
    port.start()
    try:
        yield port
    finally:
        port.stop(0)


def _client(port: PortServer, sent: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port.port), timeout=60)
    client.sendall(sent.encode())
    return client


def _status(port: PortServer, page: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=60)
    try:
        connection.request("GET", f"/console/{page}")
        return connection.getresponse().status
    finally:
        connection.close()


def test_stalled_requests_delay_no_other_and_are_cut_off(cluster: CannedCluster, users: Path) -> None:
    with ExitStack() as stack:
        # No stalled client is cut off before the others have their answers.
        patient = stack.enter_context(_serve(cluster, users, request_timeout=3600))
        for number in range(120):
            stack.enter_context(_client(patient, _STALLED[number % 3]))
        assert [_status(patient, page) for page in ("", "sources", "login")] == [200, 200, 200]
        strict = stack.enter_context(_serve(cluster, users, request_timeout=1))
        for sent in _STALLED:
            client = stack.enter_context(_client(strict, sent))
            try:
                assert client.recv(1) == b""
            except ConnectionResetError:
                continue


def test_watchers_that_read_nothing_delay_no_other(cluster: CannedCluster, users: Path) -> None:
    with _serve(cluster, users, request_timeout=60) as port, ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(_client(port, _STREAM))
        reader = stack.enter_context(_client(port, _STREAM))
        received = b""
        while received.count(b"event: at") < 5:
            received += reader.recv(65536)
        assert _status(port, "") == 200


def test_a_watcher_that_disappears_frees_its_place(
    cluster: CannedCluster, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_STREAMS", 2)
    with _serve(cluster, users, request_timeout=60) as port:
        with _client(port, _STREAM) as one, _client(port, _STREAM) as other:
            assert (one.recv(12), other.recv(12)) == (b"HTTP/1.1 200", b"HTTP/1.1 200")
            wait_until(lambda: _status(port, "live?page=overview") == 503, "all places are taken")
        wait_until(lambda: _status(port, "live?page=overview") == 200, "places are free again")
