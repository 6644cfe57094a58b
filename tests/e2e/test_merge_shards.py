"""Shards of a MariaDB and a MySQL merge into one table while writers change them: the product's main use."""

from __future__ import annotations

import time

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer
from tests.harness.certified import NotAsked, certify
from tests.harness.migration import Migration


@pytest.mark.parametrize("gtid", [False, True], ids=["position", "gtid"])
def test_merged_shards_stay_equal_through_copy_ddl_pause_and_restart(
    free_cluster: Cluster,
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: MariaDBServer,
    gtid: bool,
) -> None:
    upstreams = [mariadb_upstream, mysql_upstream]
    migration = Migration(free_cluster, upstreams, target, rows=5000, extra="shard-mode: pessimistic\n")
    migration.create(seed=1 + gtid)
    migration.add_sources(gtid=gtid)
    migration.start_writers()
    try:
        migration.start_task()
        free_cluster.wait_stage("task", "Running", unit="Sync")

        migration.alter("ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web'")
        time.sleep(1)
        free_cluster.dmctl("pause-task", "task")  # the pause may take longer than the answer
        free_cluster.wait_stage("task", "Paused")
        time.sleep(1)
        free_cluster.ok("resume-task", "task")
        free_cluster.wait_stage("task", "Running", unit="Sync")

        migration.alter("MODIFY COLUMN channel VARCHAR(40) NOT NULL DEFAULT 'shop', ADD INDEX (customer)")
        free_cluster.ok("stop-task", "task")
        time.sleep(1)
        migration.start_task()
        free_cluster.wait_stage("task", "Running", unit="Sync")
        time.sleep(1)
        migration.stop_writers()
        free_cluster.wait_synced("task")
    finally:
        migration.abandon()
    migration.compare(", channel")

    summary = free_cluster.dmctl("query-status")
    assert summary["tasks"] == [{"taskName": "task", "taskStatus": "Running", "sources": ["source-1", "source-2"]}]
    for status in free_cluster.subtasks("task").values():
        assert status["sync"]["secondsBehindMaster"] == "0"
        assert status["sync"]["syncerBinlog"] == status["sync"]["masterBinlog"]


def test_full_mode_copies_and_finishes(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer
) -> None:
    migration = Migration(free_cluster, [mariadb_upstream, mysql_upstream], target, mode="full", rows=3000)
    migration.create(seed=5)
    migration.add_sources(gtid=False)
    migration.start_task()
    free_cluster.wait_stage("task", "Finished")
    migration.compare(not_asked=NotAsked.COPY_ONLY)


def test_ddl_of_every_kind_is_replicated(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer
) -> None:
    migration = Migration(free_cluster, [mariadb_upstream, mysql_upstream], target, rows=100)
    migration.create(seed=6)
    migration.add_sources(gtid=True)
    migration.start_task()
    free_cluster.wait_stage("task", "Running", unit="Sync")
    for i, server in enumerate((mariadb_upstream, mysql_upstream)):
        db = f"task_{i + 1}"
        server.execute(
            f"CREATE TABLE {db}.plain_{i} (a INT, b CHAR(3), PRIMARY KEY (a, b))",
            f"INSERT INTO {db}.plain_{i} VALUES (1,'x'),(2,'y')",
            f"RENAME TABLE {db}.plain_{i} TO {db}.renamed_{i}",
            f"UPDATE {db}.renamed_{i} SET b = 'z' WHERE a = 1",
            f"CREATE TABLE {db}.gone (a INT PRIMARY KEY)",
            f"INSERT INTO {db}.gone VALUES (1)",
            f"DROP TABLE {db}.gone",
            f"CREATE TABLE {db}.emptied (a INT PRIMARY KEY)",
            f"INSERT INTO {db}.emptied VALUES (1),(2)",
            f"TRUNCATE TABLE {db}.emptied",
            f"INSERT INTO {db}.emptied VALUES (3)",
            f"CREATE DATABASE task_new{i}",
            f"CREATE TABLE task_new{i}.t (a INT PRIMARY KEY)",
            f"DROP DATABASE task_new{i}",
        )
    free_cluster.wait_synced("task")
    for i in range(2):
        assert target.execute(f"SELECT a, b FROM task_{i + 1}.renamed_{i} ORDER BY a") == [(1, "z"), (2, "y")]
        assert target.execute(f"SELECT a FROM task_{i + 1}.emptied") == [(3,)]
        tables = {row[0] for row in target.execute(f"SHOW TABLES FROM task_{i + 1}")}
        assert tables == {f"renamed_{i}", "emptied"}
    certify(free_cluster, "task")
    assert not [name for (name,) in target.execute("SHOW DATABASES") if name.startswith("task_new")]
