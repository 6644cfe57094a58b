"""Hazard: after a password has changed, a task cannot go on, or only from the beginning (docs/runbooks.md)."""

from __future__ import annotations

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.harness.certified import certify, validated

TASK = """\
name: secret
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: dm, password: '{password}'}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [secret]}}}}
"""


def test_a_task_goes_on_with_new_passwords(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    mariadb_upstream.execute("CREATE DATABASE secret", "CREATE TABLE secret.t (id INT PRIMARY KEY)")
    mariadb_upstream.execute("INSERT INTO secret.t VALUES (1)")
    for server in (mariadb_upstream, target):
        server.execute("CREATE USER dm@'%' IDENTIFIED BY 'old'", "GRANT ALL ON *.* TO dm@'%'")
    free_cluster.ok("operate-source", "create", _source(free_cluster, mariadb_upstream, "old"))
    free_cluster.ok("start-task", _task(free_cluster, target, "old"))
    free_cluster.wait_stage("secret", "Running", unit="Sync")

    free_cluster.ok("pause-task", "secret")
    free_cluster.wait_stage("secret", "Paused")
    for server in (mariadb_upstream, target):
        server.execute("ALTER USER dm@'%' IDENTIFIED BY 'new'")
    mariadb_upstream.execute("INSERT INTO secret.t VALUES (2)")
    free_cluster.ok("operate-source", "update", _source(free_cluster, mariadb_upstream, "new"))
    update = ("config", "task", "update", _task(free_cluster, target, "new"))
    # The worker binds the source anew: for a moment it does not have the task.
    wait_until(lambda: bool(free_cluster.dmctl(*update)["result"]), "the task's new file", WAIT_TIMEOUT)
    free_cluster.ok("resume-task", "secret")

    free_cluster.wait_synced("secret")
    assert target.execute("SELECT id FROM secret.t ORDER BY id") == [(1,), (2,)]
    certify(free_cluster, "secret")


def _source(cluster: Cluster, server: SQLServer, password: str) -> str:
    path = cluster.dir / "s1.yaml"
    path.write_text(
        f"source-id: s1\nfrom: {{host: 127.0.0.1, port: {server.port}, user: dm, password: '{password}'}}\n"
    )
    return str(path)


def _task(cluster: Cluster, target: SQLServer, password: str) -> str:
    return cluster.write_task(validated(TASK.format(port=target.port, password=password)), "secret.yaml")
