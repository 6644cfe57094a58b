"""Hazard: a program that etcd refuses seems to run, or its log does not say which setting is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import DMMaster, DMWorker, environment
from deploy.local.process import Process
from pkg.etcd import EtcdClient
from pkg.settings.etcd_user import EtcdUser
from tests.harness.etcd import EtcdServer


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """An etcd of the operator's own, with the password ``right``."""
    server = EtcdServer()
    server.start()
    root = EtcdUser("root", str(tmp_path / "right"))
    for password in ("right", "wrong"):
        (tmp_path / password).write_text(password)
    with EtcdClient([server.endpoint], user=root, timeout=60) as client:
        client.require_password(root)
    yield server
    server.cleanup()


def _login(folder: Path, password: str) -> str:
    return f'etcd-username = "root"\netcd-password-path = "{folder / password}"\n' if password else ""


def _refusal(process: Process) -> str:
    """What the program said when it ended; it must not run."""
    done = subprocess.run(
        process.command(), capture_output=True, text=True, env=environment(), check=False, timeout=120
    )
    assert done.returncode != 0
    return done.stderr + process.log.read_text()


def test_only_programs_with_the_password_run(etcd: EtcdServer, tmp_path: Path) -> None:
    external = f'etcd-endpoints = ["http://{etcd.endpoint}"]\n'
    for password in ("", "wrong"):
        said = _refusal(DMMaster(tmp_path, extra=external + _login(tmp_path, password)))
        assert "code=42501" in said
        assert "etcd-password-path" in said
    master = DMMaster(tmp_path, extra=external + _login(tmp_path, "right"))
    master.start()
    try:
        # Without a login etcd still grants the lease, and refuses the first key.
        for password, code in (("", "code=42501"), ("wrong", "code=42504")):
            name = f"worker-{password}"
            said = _refusal(DMWorker(tmp_path, member=name, join=master.address, extra=_login(tmp_path, password)))
            assert code in said
            assert "etcd-password-path" in said
        worker = DMWorker(tmp_path, member="w1", join=master.address, extra=_login(tmp_path, "right"))
        worker.start()
        worker.stop(seconds=15)
    finally:
        master.stop(seconds=15)
