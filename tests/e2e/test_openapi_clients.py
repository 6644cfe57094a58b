"""Hazard: a generator makes no working client of the served contract, so that automation must write its own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.local.cache import once
from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, binary, wait_until
from tests.harness.commands import run_in
from tests.harness.openapi import ApiClient

PROGRAMS = Path(__file__).with_name("generated_clients")


@pytest.fixture
def api_cluster() -> Iterator[Cluster]:
    with Cluster(1, master_extra="openapi = true") as cluster:
        yield cluster


def test_a_python_client_does_a_whole_migration(
    api_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    run_in(
        tmp_path,
        *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"),
        *("--url", f"{_url(api_cluster)}/dm.json", "--config", "config.yaml"),
        *("--output-path", "dm_open_api_client"),
    )
    shutil.copy(PROGRAMS / "migrate.py", tmp_path)
    _migrate((sys.executable, "migrate.py"), tmp_path, api_cluster, mariadb_upstream, target)


def test_a_typescript_client_does_a_whole_migration(
    api_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer, tmp_path: Path
) -> None:
    for name in ("migrate.ts", "package.json", "tsconfig.json"):
        shutil.copy(PROGRAMS / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(_node_modules())
    (tmp_path / "dm.json").write_bytes(ApiClient(api_cluster.master.port).send("GET", "dm.json")[1])
    run_in(tmp_path, "node_modules/.bin/openapi-typescript", "dm.json", "-o", "dm.ts")
    run_in(tmp_path, "node_modules/.bin/tsc", "-p", ".")
    _migrate((binary("node"), "migrate.js"), tmp_path, api_cluster, mariadb_upstream, target)


def _migrate(
    program: Sequence[str], folder: Path, cluster: Cluster, upstream: MariaDBServer, target: SQLServer
) -> None:
    upstream.execute(
        "CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.a VALUES (1, 1)"
    )
    command = (*program, _url(cluster), str(upstream.port), str(target.port))
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        if running.stdout.readline() == "replicating\n":
            upstream.execute("INSERT INTO shop.a VALUES (2, 2)", "UPDATE shop.a SET v = 7 WHERE id = 1")
            wait_until(
                lambda: target.execute("SELECT id, v FROM shop.a ORDER BY id") == [(1, 7), (2, 2)],
                "the changes are in the target",
                WAIT_TIMEOUT,
                step=0.3,
            )
        said, problem = running.communicate("stop\n", timeout=WAIT_TIMEOUT)
    assert (running.returncode, said) == (0, "Stopped\n"), problem
    upstream.execute("INSERT INTO shop.a VALUES (3, 3)")
    assert [one["stage"] for one in ApiClient(cluster.master.port).ok("GET", "tasks/t1/status")["data"]] == ["Stopped"]
    assert target.execute("SELECT id FROM shop.a ORDER BY id") == [(1,), (2,)]


def _node_modules() -> Path:
    """The packages of npm; fetched once per set of their versions."""
    wanted = PROGRAMS / "package.json"
    version = hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]

    def install(folder: Path) -> None:
        shutil.copy(wanted, folder)
        run_in(folder, binary("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent")

    return once(f"typescript-client-{version}", install) / "node_modules"


def _url(cluster: Cluster) -> str:
    return f"http://127.0.0.1:{cluster.master.port}/api/v1"
