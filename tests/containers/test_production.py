"""Hazard: the Compose file for production starts programs that etcd refuses, or an etcd that needs no password."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.local.cluster import ROOT
from deploy.local.process import HarnessError, wait_until
from tests.containers.compose import new_folder
from tests.containers.driven import LIMIT
from tests.containers.engine import docker
from tests.containers.images import PRESENT

pytestmark = pytest.mark.timeout(900, func_only=True)
MASTERS, WORKERS, ETCDS = ([f"{kind}{number}" for number in (1, 2, 3)] for kind in ("dm-master", "dm-worker", "etcd"))
Compose = Callable[..., str]


@contextmanager
def _production(*files: str, names: Sequence[str]) -> Iterator[Compose]:
    """``docker compose`` with ``files`` of a copy of the folder, secrets for ``names``, and no port on this machine."""
    base = new_folder()
    folder = Path(shutil.copytree(ROOT / "deploy" / "production", base / "production"))
    subprocess.run([str(folder / "secrets.sh"), *names], check=True)
    (folder / "ports.yml").write_text("services:\n  dm-master1: { ports: !reset [] }\n")
    options = ["--project-name", f"dm-{base.name[-8:].lower().strip('_-')}"]
    options += [word for name in (*files, "ports.yml") for word in ("--file", str(folder / name))]
    os.environ["DM_VERSION"] = PRESENT

    def run(*arguments: str) -> str:
        return docker("compose", *options, *arguments)

    try:
        yield run
    finally:
        run("down", "--volumes", "--remove-orphans")
        del os.environ["DM_VERSION"]
        shutil.rmtree(base)


def _up(compose: Compose, *services: str) -> None:
    try:
        compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "300", *services)
    except HarnessError as exc:
        raise HarnessError(f"{exc}\n{compose('logs', '--tail', '15', '--no-color')[-8000:]}") from None


def _members(compose: Compose) -> dict[str, str]:
    """Of each master and worker whether it is there, as dmctl shows it with a master's certificate."""
    answer = json.loads(compose("exec", "-T", "dm-master1", "dmctl", "--config", "/etc/dm/dmctl.toml", "list-member"))
    found: dict[str, str] = {}
    for part in answer["members"]:
        found |= {one["name"]: str(one["alive"]) for one in part.get("master", {}).get("masters") or []}
        found |= {one["name"]: one["stage"] for one in part.get("worker", {}).get("workers") or []}
    return found


def _check(compose: Compose, etcd: str) -> None:
    """All are members of the cluster, and ``etcd`` refuses who has a certificate and no password."""
    wanted = {**dict.fromkeys(MASTERS, "True"), **dict.fromkeys(WORKERS, "free")}
    wait_until(lambda: _members(compose) == wanted, "all are members", LIMIT, step=2)
    files = [f"--{option}=/run/secrets/{file}" for option, file in
             (("cacert", "ca"), ("cert", "certificate"), ("key", "key"))]  # fmt: skip
    with pytest.raises(HarnessError, match=r"user name is empty|permission denied|user name not found"):
        compose("exec", "-T", "dm-master1", "etcdctl", f"--endpoints={etcd}", *files, "get", "/", "--prefix")


@pytest.mark.usefixtures("images")
def test_all_are_members_and_a_certificate_alone_does_not_open_etcd() -> None:
    with _production("compose.yml", names=[*MASTERS, *WORKERS]) as compose:
        _up(compose)
        _check(compose, "https://dm-master1:9261")


@pytest.mark.usefixtures("images")
def test_etcds_in_containers_of_their_own() -> None:
    """The commands of ``external-etcd.yml``; the script for users may run twice."""
    with _production("compose.yml", "external-etcd.yml", names=[*ETCDS, *MASTERS, *WORKERS]) as compose:
        _up(compose, *ETCDS)
        for _ in range(2):
            compose("run", "--rm", "etcd-users")
        _up(compose)
        _check(compose, "https://etcd1:2379")
