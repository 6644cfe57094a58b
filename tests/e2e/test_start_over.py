"""--remove-meta starts a task from the beginning, even if a worker still has the files of its earlier run."""

from __future__ import annotations

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from tests.harness.certified import certify, validated

TASK = """\
name: again
task-mode: all
clean-dump-file: {clean}
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine}}
block-allow-list:
  mine: {{do-dbs: [again]}}
"""


@pytest.mark.parametrize("clean", ["true", "false"])
def test_a_task_started_over_copies_anew(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, clean: str
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE again", "CREATE TABLE again.t (id INT PRIMARY KEY)", "INSERT INTO again.t VALUES (1)"
    )
    free_cluster.add_source(mariadb_upstream, "s1")
    task = free_cluster.write_task(validated(TASK.format(port=target.port, clean=clean)))
    free_cluster.ok("start-task", task)
    free_cluster.wait_stage("again", "Running", unit="Sync")
    free_cluster.ok("stop-task", "again")
    target.execute("DROP DATABASE again")
    # The old dump cannot be the source of this row: its binlog is purged.
    mariadb_upstream.execute("INSERT INTO again.t VALUES (2)", "FLUSH BINARY LOGS")
    mariadb_upstream.purge_binlogs()
    free_cluster.ok("start-task", task, "--remove-meta")
    free_cluster.wait_stage("again", "Running", unit="Sync")
    mariadb_upstream.execute("INSERT INTO again.t VALUES (3)")
    free_cluster.wait_synced("again")
    assert target.execute("SELECT id FROM again.t ORDER BY id") == [(1,), (2,), (3,)]
    certify(free_cluster, "again")
