"""The embedded member must join the cluster that the master means, with its TLS, and keep its keys to itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.local.cluster import environment, program
from deploy.local.process import free_port
from dm_master.election.etcd_arguments import etcd_arguments, etcd_environment, initial_cluster_of, listen_url
from pkg.config.master import MasterConfig
from pkg.errors import Code, DMError
from pkg.etcd import Member
from pkg.settings.connections import SecurityConfig
from tests.harness.certificates import Authority


def master(folder: Path, security: SecurityConfig | None = None) -> MasterConfig:
    return MasterConfig(
        name="m1",
        data_dir=str(folder),
        peer_urls="http://127.0.0.1:8291",
        advertise_peer_urls="http://m1:8291",
        etcd_client_urls="http://m1:9261",
        security=security,
    )


def test_the_member_gets_the_masters_settings(tmp_path: Path) -> None:
    arguments = etcd_arguments(master(tmp_path), "m1=http://m1:8291", "new")
    for expected in (
        "--name=m1",
        f"--data-dir={tmp_path}",
        "--listen-peer-urls=http://127.0.0.1:8291",
        "--initial-advertise-peer-urls=http://m1:8291",
        "--listen-client-urls=http://0.0.0.0:9261",
        "--advertise-client-urls=http://m1:9261",
        "--initial-cluster=m1=http://m1:8291",
        "--initial-cluster-state=new",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=1h",
        "--max-txn-ops=2048",
    ):
        assert expected in arguments
    assert not any("cert" in argument for argument in arguments)


def test_tls_covers_clients_and_peers(tmp_path: Path) -> None:
    security = SecurityConfig(
        ssl_ca="/ca.pem", ssl_cert="/cert.pem", ssl_key_bytes=b"key text", cert_allowed_cn=("dm",)
    )
    arguments = etcd_arguments(master(tmp_path, security), "", "new")
    key = tmp_path / "tls" / "key.pem"
    assert key.read_bytes() == b"key text"
    assert key.stat().st_mode & 0o077 == 0
    for expected in (
        "--cert-file=/cert.pem",
        f"--key-file={key}",
        "--trusted-ca-file=/ca.pem",
        "--client-cert-auth=true",
        "--peer-cert-file=/cert.pem",
        f"--peer-key-file={key}",
        "--peer-trusted-ca-file=/ca.pem",
        "--peer-client-cert-auth=true",
        "--peer-cert-allowed-cn=dm",
    ):
        assert expected in arguments


def test_several_allowed_names_are_refused_rather_than_ignored(tmp_path: Path) -> None:
    security = SecurityConfig(ssl_ca="/ca.pem", ssl_cert="/c.pem", ssl_key="/k.pem", cert_allowed_cn=("a", "b"))
    with pytest.raises(DMError) as caught:
        etcd_arguments(master(tmp_path, security), "", "new")
    assert caught.value.kind is Code.MasterTLSConfigNotValid


def test_a_master_ends_as_for_a_wrong_flag_then(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("a")
    argv = ("--name=m1", f"--data-dir={tmp_path / 'data'}", f"--master-addr=127.0.0.1:{free_port()}")
    keys = (f"--ssl-ca={tls.ssl_ca}", f"--ssl-cert={tls.ssl_cert}", f"--ssl-key={tls.ssl_key}", "--cert-allowed-cn=a,b")
    done = subprocess.run(
        program("dm_master.cli", *argv, *keys),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # Nothing that runs the program starts it again with the same settings.
    assert (done.returncode, "code=38051" in done.stderr) == (2, True), done.stderr


def test_a_joining_member_starts_with_the_cluster_as_it_is() -> None:
    members = [
        Member(1, "m1", ("http://m1:8291", "http://m1:8292"), ()),
        Member(2, "", ("http://m2:8291",), ()),
        Member(3, "", ("http://m3:8291",), ()),
    ]
    cluster = initial_cluster_of(members, "m2", ("http://m2:8291",))
    assert cluster == "m1=http://m1:8291,m1=http://m1:8292,m2=http://m2:8291"


@pytest.mark.parametrize(
    ("advertised", "bound"),
    [
        ("http://127.0.0.1:9261", "http://127.0.0.1:9261"),
        ("http://[::1]:9261", "http://[::1]:9261"),
        ("http://localhost:9261", "http://localhost:9261"),
        ("https://dm-master-0.dm:9261", "https://0.0.0.0:9261"),
    ],
)
def test_host_names_are_bound_as_every_interface(advertised: str, bound: str) -> None:
    assert listen_url(advertised) == bound


def test_the_command_line_of_etcd_names_no_member() -> None:
    """Its settings are in its environment: who ends a member by its name must not end another member's etcd."""
    arguments = ["--name=m1", "--initial-cluster=m1=http://a:1,m2=http://b:2", "--pre-vote=true"]
    assert etcd_environment(arguments) == {
        "ETCD_NAME": "m1",
        "ETCD_INITIAL_CLUSTER": "m1=http://a:1,m2=http://b:2",
        "ETCD_PRE_VOTE": "true",
    }
