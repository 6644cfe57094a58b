"""A cluster of etcd members must lose no write, write nothing without a majority, and refuse strangers."""

from __future__ import annotations

import http.server
import os
import signal
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.process import free_port, wait_until
from dm_master.election.embedded_etcd import EmbeddedEtcd
from pkg.config.master import MasterConfig, load_master_config
from pkg.errors import DMError
from pkg.etcd import EtcdClient, PrefixMirror, Put, missing
from pkg.etcd.discovery import fetch_endpoints
from pkg.settings.connections import SecurityConfig
from tests.harness.certificates import Authority


def configs(folder: Path, count: int) -> list[MasterConfig]:
    peers = [f"http://127.0.0.1:{free_port()}" for _ in range(count)]
    cluster = ",".join(f"m{number}={peer}" for number, peer in enumerate(peers))
    return [
        load_master_config(
            [
                f"--name=m{number}",
                f"--master-addr=127.0.0.1:{free_port()}",
                f"--data-dir={folder}/m{number}",
                f"--peer-urls={peer}",
                f"--etcd-client-urls=http://127.0.0.1:{free_port()}",
                f"--initial-cluster={cluster}",
            ]
        )
        for number, peer in enumerate(peers)
    ]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[EmbeddedEtcd]]:
    members = [EmbeddedEtcd(config) for config in configs(tmp_path, 3)]
    with ThreadPoolExecutor(3) as pool:
        # None is ready before a majority is.
        list(pool.map(lambda member: member.start(), members))
    yield members
    for member in members:
        member.stop()


def leader_of(members: list[EmbeddedEtcd]) -> EmbeddedEtcd:
    """The member that leads, once one does; one that was killed may not be back yet."""
    found: list[EmbeddedEtcd] = []

    def known() -> bool:
        found[:] = [member for member in members if leads(member)]
        return bool(found)

    wait_until(known, "a member leads")
    return found[0]


def leads(member: EmbeddedEtcd) -> bool:
    with EtcdClient(member.client_endpoints) as client:
        try:
            status = client.status()
        except DMError:
            return False
    return status.leader == status.member_id


def test_the_loss_of_the_leading_member_costs_no_write_and_no_event(three: list[EmbeddedEtcd]) -> None:
    endpoints = [url for member in three for url in member.client_endpoints]
    seen: list[tuple[str, str]] = []
    failures: list[BaseException] = []
    with EtcdClient(endpoints, timeout=90) as client:
        mirror = PrefixMirror(
            client,
            "/k/",
            lambda events: seen.extend((event.key, event.value) for event in events),
            on_error=failures.append,
        ).start()
        assert mirror.wait_synced(60)
        for number in range(20):
            if number in (5, 12):
                pid = leader_of(three).pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            client.put(f"/k/{number:02}", str(number))
        expected = [(f"/k/{number:02}", str(number)) for number in range(20)]
        wait_until(lambda: len(set(seen)) == len(expected), "every event came")
        # A put in doubt is sent again, so a value may come twice, but never out of order.
        assert sorted(seen, key=lambda event: event[0]) == seen
        assert list(dict.fromkeys(seen)) == expected
        mirror.stop()
    assert not failures


def test_without_a_majority_nothing_is_written(three: list[EmbeddedEtcd]) -> None:
    three[1].stop()
    three[2].stop()
    with EtcdClient(three[0].client_endpoints, timeout=3) as client:
        with pytest.raises(DMError) as caught:
            client.txn([missing("/k")], [Put("/k", "v")])
        assert caught.value.retryable
        with pytest.raises(DMError):
            client.get("/k")


# --- TLS ---


def as_bytes(security: SecurityConfig) -> SecurityConfig:
    return replace(
        security,
        ssl_ca="",
        ssl_cert="",
        ssl_key="",
        ssl_ca_bytes=Path(security.ssl_ca).read_bytes(),
        ssl_cert_bytes=Path(security.ssl_cert).read_bytes(),
        ssl_key_bytes=Path(security.ssl_key).read_bytes(),
    )


def tls_config(tmp_path: Path, security: SecurityConfig) -> MasterConfig:
    return replace(
        configs(tmp_path, 1)[0],
        peer_urls=f"https://localhost:{(peer := free_port())}",
        advertise_peer_urls=f"https://localhost:{peer}",
        initial_cluster=f"m0=https://localhost:{peer}",
        etcd_client_urls=f"https://localhost:{free_port()}",
        security=security,
    )


def test_a_client_and_its_watch_follow_renewed_certificates(tmp_path: Path) -> None:
    """Also of another authority, whose certificates the former one would not make believable."""
    config = tls_config(tmp_path, own := Authority(tmp_path).issue("dm"))
    member = EmbeddedEtcd(config)
    member.start()
    stop = threading.Event()
    seen: list[str] = []
    try:
        with EtcdClient(member.client_endpoints, tls=own) as client:
            revision = client.put("/k", "before")

            def watch() -> None:
                for batch in client.watch_prefix("/k", revision, stop):
                    seen.extend(event.value for event in batch.events)

            watching = threading.Thread(target=watch, daemon=True)
            watching.start()
            wait_until(lambda: seen == ["before"], "the watch began")
            assert Authority(tmp_path).issue("dm") == own
            member.stop()
            member = EmbeddedEtcd(config)
            member.start()
            client.put("/k", "after")
            wait_until(lambda: seen[-1] == "after", "the watch resumed")
            stop.set()
        watching.join(30)
        assert not watching.is_alive()
    finally:
        stop.set()
        member.stop()


@pytest.mark.parametrize("inline", [False, True], ids=["files", "bytes"])
def test_only_holders_of_a_certificate_reach_a_tls_member(tmp_path: Path, inline: bool) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("dm", allowed=("dm",))
    own_ca = own.ssl_ca
    own = as_bytes(own) if inline else own
    member = EmbeddedEtcd(tls_config(tmp_path, own))
    member.start()
    try:
        with EtcdClient(member.client_endpoints, tls=own) as client:
            client.put("/k", "v")
        (tmp_path / "other").mkdir()
        for stranger in (Authority(tmp_path / "other").issue("dm"), SecurityConfig(ssl_ca=own_ca), None):
            with EtcdClient(member.client_endpoints, tls=stranger, timeout=1) as client, pytest.raises(DMError):
                client.get("/k")
    finally:
        member.stop()


@pytest.mark.parametrize("inline", [False, True], ids=["files", "bytes"])
def test_endpoints_are_learned_over_tls(tmp_path: Path, inline: bool) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'["https://localhost:9261"]')

        def log_message(self, format: str, *args: object) -> None:
            pass

    own = Authority(tmp_path).issue("dm")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=own.ssl_ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(own.ssl_cert, own.ssl_key)
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"localhost:{server.server_port}"
        assert fetch_endpoints([address], as_bytes(own) if inline else own) == ["https://localhost:9261"]
        with pytest.raises(DMError):
            fetch_endpoints([address], SecurityConfig(ssl_ca=own.ssl_ca), timeout=2)
    finally:
        server.shutdown()
        server.server_close()
