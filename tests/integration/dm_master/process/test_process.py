"""The process: it must end in order on every signal, keep what was stored, and name wrong settings."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from deploy.local.cluster import DMMaster, environment, program
from deploy.local.mysql import MariaDBServer
from deploy.local.process import free_port, wait_until
from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc
from pkg.rpc.channel import open_channel
from pkg.settings.connections import SecurityConfig
from tests.harness.certificates import Authority, context, flags, settings
from tests.integration.dm_master.process.support import (
    KEY,
    Dmctl,
    call,
    refused,
    source_file,
)


def test_a_raw_newline_does_no_harm(master: DMMaster, dmctl: Dmctl) -> None:
    with socket.create_connection(("127.0.0.1", master.port)) as raw:
        raw.sendall(b"\n")
    assert dmctl("list-member", "--leader")["result"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_it_in_order(own_master: DMMaster, number: signal.Signals) -> None:
    os.kill(own_master.pid, number)
    wait_until(lambda: not own_master.running(), "the master ended")
    assert own_master.stop() == 0
    wait_until(lambda: refused(own_master.etcd_port), "its etcd ended")


def test_a_master_that_waits_for_the_others_of_a_new_cluster_can_be_ended(tmp_path: Path) -> None:
    nobody = free_port()
    waiting = DMMaster(tmp_path)
    own = f"http://127.0.0.1:{waiting.peer_port}"
    with waiting.config.open("a") as config:
        config.write(f'initial-cluster = "master1={own},master2=http://127.0.0.1:{nobody}"\n')
    waiting.start(wait=False)
    try:
        wait_until(lambda: not refused(waiting.etcd_port) or not refused(waiting.peer_port), "its etcd runs")
        # Killed after that time, it would end with another code.
        assert waiting.stop(seconds=60) == 0
        wait_until(lambda: refused(waiting.peer_port), "its etcd ended")
    finally:
        waiting.kill()


def test_what_was_stored_survives_a_hard_kill(own_master: DMMaster, upstream: MariaDBServer, tmp_path: Path) -> None:
    assert json.loads(call(own_master, "operate-source", "create", source_file(tmp_path, upstream, "s1")))["result"]
    own_master.kill()
    wait_until(lambda: refused(own_master.etcd_port), "etcd died with it")
    own_master.start()

    def shown() -> bool:
        answer = json.loads(call(own_master, "operate-source", "show"))
        return bool(answer["result"] and [one["source"] for one in answer["sources"]] == ["s1"])

    # The dead master's lease must run out first.
    wait_until(shown, "the source is back", 90, step=0.5)


def _serial(port: int, client: SecurityConfig) -> str:
    """The number of the certificate that a new connection to ``port`` gets."""
    with (
        socket.create_connection(("localhost", port), timeout=30) as raw,
        context(client).wrap_socket(raw, server_hostname="localhost") as conn,
    ):
        found = conn.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_tls_covers_the_master_its_etcd_and_dmctl(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, client = authority.issue("master"), authority.issue("dmctl")

    (tmp_path / "key").write_text(KEY)
    extra = settings(own) + f'secret-key-path = "{tmp_path}/key"\n'
    server = DMMaster(tmp_path, extra=extra)
    config = server.config.read_text()
    server.config.write_text(config.replace("http://", "https://"))
    server.start(wait=False)
    try:

        def leads() -> bool:
            done = subprocess.run(
                program("dmctl.cli", "--master-addr", server.address, "list-member", *flags(client)),
                capture_output=True,
                text=True,
                env=environment(),
                check=False,
                timeout=60,
            )
            return '"name": "master1"' in done.stdout and '"alive": true' in done.stdout

        wait_until(leads, "the master answers over TLS", 90, step=0.3)
        with open_channel(f"localhost:{server.port}", client) as channel:
            stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
            joined = stub.RegisterWorker(dmmaster_pb2.RegisterWorkerRequest(name="w1", address="w1:8262"), timeout=60)
        assert joined.secretKey == bytes.fromhex(KEY), "both sides have shown certificates"
        with urllib.request.urlopen(f"https://localhost:{server.port}/metrics", context=context(client)) as answer:
            assert b"\netcd_server_has_leader 1\n" in answer.read(), "etcd was asked with the master's certificate"
        former = [_serial(port, client) for port in (server.port, server.etcd_port)]
        authority.issue("master")
        renewed = [_serial(port, client) for port in (server.port, server.etcd_port)]
        assert not set(former) & set(renewed), "a renewed certificate counts without a restart"
        assert leads()
        plain = subprocess.run(
            program("dmctl.cli", "--master-addr", server.address, "--rpc-timeout", "3s", "list-member"),
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
            timeout=60,
        )
        assert (plain.returncode, plain.stdout) == (1, "")
    finally:
        server.stop(seconds=15)


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["--nonsense"], 2, "38010"),
        (["-master-addr"], 2, "38010"),
        (["--config", "absent.toml"], 2, "absent.toml"),
        (["-master-addr", "nonsense"], 2, "38035"),
    ],
)
def test_bad_settings_arerefused(argv: list[str], code: int, text: str) -> None:
    done = subprocess.run(
        program("dm_master.cli", *argv), capture_output=True, text=True, env=environment(), check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr


def test_texts_instead_of_running() -> None:
    def text(flag: str) -> str:
        done = subprocess.run(
            program("dm_master.cli", flag), capture_output=True, text=True, env=environment(), check=True, timeout=60
        )
        return done.stdout

    assert text("-V").startswith("Release Version: v")
    assert "master-addr" in text("--print-sample-config")
    assert "-master-addr" in text("-h")


def test_a_port_in_use_ends_the_start_with_its_code(master: DMMaster, tmp_path: Path) -> None:
    second = DMMaster(tmp_path)
    config = second.config.read_text().replace(f":{second.port}", f":{master.port}")
    second.config.write_text(config)
    done = subprocess.run(
        second.command(), capture_output=True, text=True, env=environment(), check=False, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "code=38017" in done.stderr
    assert refused(second.etcd_port)
