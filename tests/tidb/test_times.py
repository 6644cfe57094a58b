"""Hazard: an everyday change of a time column stops a task, because TiDB rounds the fractions that MariaDB cuts off."""

from __future__ import annotations

from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import assert_equal, running, subtask


def test_times_that_lose_no_fraction_change_their_types(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, tidb):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, c DATETIME(6), s TIMESTAMP(3) NULL, e TIME)",
            "INSERT INTO d.t VALUES (1, '2001-02-03 23:59:59.7', '2001-02-03 04:05:06.7', '-12:13:14'),"
            " (2, '2001-02-03 04:05:06', NULL, NULL)",
        )
    with running(subtask(mariadb_upstream, tidb), spark) as run:
        mariadb_upstream.execute(
            "ALTER TABLE d.t MODIFY c DATETIME(1) NOT NULL",
            "ALTER TABLE d.t MODIFY s TIMESTAMP(1) NULL DEFAULT '2001-02-03 04:05:06.7', MODIFY e TIME(3)",
            "DELETE FROM d.t WHERE id = 1",
            "ALTER TABLE d.t MODIFY c DATETIME NOT NULL",
            "INSERT INTO d.t (id, c) VALUES (3, '2001-02-03 04:05:06')",
        )
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, "d.t")
