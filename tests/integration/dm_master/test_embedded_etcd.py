"""The master's own etcd member: it starts, joins, comes back, and never outlives its master."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.process import free_port, wait_until
from dm_master.election.embedded_etcd import EmbeddedEtcd
from pkg.config.master import MasterConfig, load_master_config
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient


def config(folder: Path, name: str, *extra: str) -> MasterConfig:
    return load_master_config(
        [
            f"--name={name}",
            f"--master-addr=127.0.0.1:{free_port()}",
            f"--data-dir={folder / name}",
            f"--peer-urls=http://127.0.0.1:{free_port()}",
            f"--etcd-client-urls=http://127.0.0.1:{free_port()}",
            *extra,
        ]
    )


@pytest.fixture
def member() -> Iterator[Callable[[MasterConfig], EmbeddedEtcd]]:
    made: list[EmbeddedEtcd] = []

    def make(settings: MasterConfig) -> EmbeddedEtcd:
        made.append(EmbeddedEtcd(settings))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def master_of() -> Iterator[Callable[[EmbeddedEtcd], str]]:
    """A stand-in for a running master's HTTP port, which lists etcd's endpoints."""
    servers: list[http.server.HTTPServer] = []

    def serve(etcd: EmbeddedEtcd) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/apis/v1alpha1/etcd-endpoints" else 404)
                self.end_headers()
                self.wfile.write(json.dumps(etcd.client_endpoints).encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        servers.append(http.server.HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def names(client: EtcdClient) -> set[str]:
    return {found.name for found in client.member_list()}


MemberFactory = Callable[[MasterConfig], EmbeddedEtcd]


def test_data_outlives_a_stop(tmp_path: Path, member: MemberFactory) -> None:
    settings = config(tmp_path, "m1")
    etcd = member(settings)
    pid = etcd.pid
    assert pid is not None
    with EtcdClient(etcd.client_endpoints) as client:
        client.put("/k", "v")
    etcd.stop()
    assert gone(pid)
    with EtcdClient(member(settings).client_endpoints) as client:
        stored = client.get("/k")
        assert stored is not None
        assert stored.value == "v"


def test_a_web_page_writes_nothing_into_etcd(tmp_path: Path, member: MemberFactory) -> None:
    """Its JSON gateway would take what a browser sends to another site without asking."""
    etcd = member(config(tmp_path, "m1"))
    body = b'{"key": "L2s=", "value": "dg=="}'
    page = {"Content-Type": "text/plain", "Origin": "http://evil.example"}
    request = urllib.request.Request(f"{etcd.client_endpoints[0]}/v3/kv/put", data=body, headers=page)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    refused.value.close()
    assert refused.value.code == 404
    with EtcdClient(etcd.client_endpoints) as client:
        assert client.get("/k") is None


def test_a_killed_member_comes_back_with_its_data(tmp_path: Path, member: MemberFactory) -> None:
    etcd = member(config(tmp_path, "m1"))
    with EtcdClient(etcd.client_endpoints, timeout=60) as client:
        client.put("/k", "v")
        pid = etcd.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: etcd.pid not in (None, pid), "etcd runs again")
        assert client.get("/k") is not None


def test_a_member_dies_with_a_killed_master(tmp_path: Path) -> None:
    settings = config(tmp_path, "m1")
    script = (
        "import sys, time\n"
        "from dm_master.election.embedded_etcd import EmbeddedEtcd\n"
        "from pkg.config.master import load_master_config\n"
        "etcd = EmbeddedEtcd(load_master_config(sys.argv[1:]))\n"
        "etcd.start()\n"
        "print(etcd.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    arguments = [
        f"--name={settings.name}",
        f"--master-addr={settings.master_addr}",
        f"--data-dir={settings.data_dir}",
        f"--peer-urls={settings.peer_urls}",
        f"--etcd-client-urls={settings.etcd_client_urls}",
    ]
    master = subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert master.stdout is not None
        pid = int(master.stdout.readline())
        assert not gone(pid)
    finally:
        master.kill()
        master.wait()
    wait_until(lambda: gone(pid), "etcd died with its master")


def test_a_taken_port_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        etcd = EmbeddedEtcd(config(tmp_path, "m1", f"--peer-urls={url}"))
        with pytest.raises(DMError) as caught:
            etcd.start()
    assert caught.value.kind is Code.MasterStartEmbedEtcdFail
    assert "address already in use" in caught.value.raw_cause
    assert etcd.pid is None


def test_the_cause_of_an_early_end_outlives_the_next_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try shows a cause and ends; the next one shows nothing, while a question to its port has no answer."""
    tried = tmp_path / "tried"
    program = tmp_path / "bin" / "etcd"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ -e {tried} ] && exec sleep 60\ntouch {tried}\necho the cause\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DMError) as caught:
            EmbeddedEtcd(config(tmp_path, "m1", f"--etcd-client-urls={url}")).start()
    assert caught.value.raw_cause == "the cause"


def test_a_master_joins_a_running_cluster_once(
    tmp_path: Path, member: MemberFactory, master_of: Callable[[EmbeddedEtcd], str]
) -> None:
    first = member(config(tmp_path, "m1"))
    with EtcdClient(first.client_endpoints) as client:
        client.put("/k", "v")
        settings = config(tmp_path, "m2", f"--join={master_of(first)}")
        second = member(settings)
        wait_until(lambda: names(client) == {"m1", "m2"}, "the first member knows the other one's name")
        with EtcdClient(second.client_endpoints) as other:
            stored = other.get("/k")
            assert stored is not None
        second.stop()
        # A restart finds its own log and asks nobody.
        again = member(settings)
        assert again.pid is not None
        assert len(client.member_list()) == 2


def test_masters_join_one_directly_after_the_other(
    tmp_path: Path, member: MemberFactory, master_of: Callable[[EmbeddedEtcd], str]
) -> None:
    """Some seconds after a member has joined, etcd still refuses the next one."""
    first = member(config(tmp_path, "m1"))
    for name in ("m2", "m3"):
        member(config(tmp_path, name, f"--join={master_of(first)}"))
    with EtcdClient(first.client_endpoints) as client:
        assert names(client) == {"m1", "m2", "m3"}


def test_a_name_that_is_taken_changes_nothing(
    tmp_path: Path, member: MemberFactory, master_of: Callable[[EmbeddedEtcd], str]
) -> None:
    first = member(config(tmp_path, "m1"))
    twin = EmbeddedEtcd(config(tmp_path / "other", "m1", f"--join={master_of(first)}"))
    with pytest.raises(DMError) as caught:
        twin.start()
    assert caught.value.kind is Code.MasterJoinEmbedEtcdFail
    with EtcdClient(first.client_endpoints) as client:
        assert len(client.member_list()) == 1


def test_a_join_that_ended_half_way_is_taken_up_again(
    tmp_path: Path, member: MemberFactory, master_of: Callable[[EmbeddedEtcd], str]
) -> None:
    first = member(config(tmp_path, "m1"))
    settings = config(tmp_path, "m2", f"--join={master_of(first)}")
    stranger = EmbeddedEtcd(config(tmp_path, "m3", f"--join={master_of(first)}"))
    with EtcdClient(first.client_endpoints, timeout=60) as client:
        client.member_add([settings.advertise_peer_urls])
        with pytest.raises(DMError, match="never started") as caught:
            # Linearizable calls wait for the added member now, so only the refusal is of interest.
            stranger.start()
        assert caught.value.kind is Code.MasterJoinEmbedEtcdFail
        member(settings)
        wait_until(lambda: names(client) == {"m1", "m2"}, "the first member knows the other one's name")


def _with_password(folder: Path, password: str, name: str = "m1", *extra: str) -> MasterConfig:
    file = folder / "password"
    file.write_text(password)
    return config(folder, name, "--etcd-username=root", f"--etcd-password-path={file}", *extra)


def test_a_new_etcd_asks_for_the_password_from_its_first_start_on(
    tmp_path: Path, member: MemberFactory, master_of: Callable[[EmbeddedEtcd], str]
) -> None:
    settings = _with_password(tmp_path, "hush")
    first = member(settings)
    with (
        EtcdClient(first.client_endpoints, user=settings.etcd_user) as client,
        EtcdClient(first.client_endpoints) as stranger,
    ):
        client.put("/k", "v")
        with pytest.raises(DMError, match="user name is empty"):
            stranger.get("/k")
        # A master that joins adds itself, which needs the right to.
        member(_with_password(tmp_path, "hush", "m2", f"--join={master_of(first)}"))
        assert names(client) == {"m1", "m2"}
    with pytest.raises(DMError) as caught:
        member(_with_password(tmp_path, "wrong", "m3", f"--join={master_of(first)}"))
    assert "etcd-password-path" in caught.value.workaround
    assert "wrong" not in str(caught.value)


def test_a_wrong_password_ends_the_start(tmp_path: Path, member: MemberFactory) -> None:
    settings = _with_password(tmp_path, "hush")
    member(settings).stop()
    _with_password(tmp_path, "wrong")
    with pytest.raises(DMError) as caught:
        member(settings)
    assert caught.value.code == 42501
    assert "etcd-password-path" in caught.value.workaround
    _with_password(tmp_path, "hush")
    etcd = member(settings)
    with EtcdClient(etcd.client_endpoints, user=settings.etcd_user) as client:
        assert client.asks_for_password()


def test_an_etcd_with_data_still_asks_for_no_password(tmp_path: Path, member: MemberFactory) -> None:
    """Other programs may know none yet: docs/runbooks.md says how to switch."""
    plain = config(tmp_path, "m1")
    first = member(plain)
    with EtcdClient(first.client_endpoints) as client:
        client.put("/dm-master/k", "v")
    first.stop()
    settings = replace(
        _with_password(tmp_path, "hush"),
        **{
            key: getattr(plain, key)
            for key in ("peer_urls", "advertise_peer_urls", "initial_cluster", "etcd_client_urls")
        },
    )
    second = member(settings)
    with EtcdClient(second.client_endpoints, user=settings.etcd_user) as client:
        assert not client.asks_for_password()
    with EtcdClient(second.client_endpoints) as stranger:
        assert stranger.get("/dm-master/k") is not None
