"""Hazard: upstream and target read the same keywords, and only one of them makes a constraint of them."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import assert_equal, running, subtask

_CONSTRAINTS = (
    "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE"
    " WHERE TABLE_SCHEMA = 'd'"
)
_KEYS = (
    "CREATE TABLE d.p (id INT PRIMARY KEY)",
    "CREATE TABLE d.c (id INT PRIMARY KEY, a INT REFERENCES d.p (id), b INT REFERENCES d.p (id) ON DELETE CASCADE)",
    "INSERT INTO d.p VALUES (1), (2)",
    "INSERT INTO d.c VALUES (1, 1, 2)",
    # MariaDB does not find a free name for such a key without foreign_key_checks.
    "ALTER TABLE d.c ADD x INT DEFAULT 1 REFERENCES d.p (id), ADD y INT",
    "ALTER TABLE d.c DROP y, ADD FOREIGN KEY (a) REFERENCES d.p (id)",
    "DELETE FROM d.p WHERE id = 2",
)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_columns_own_reference_makes_a_key_where_the_upstream_has_one(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, flavor: str
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    for server in (upstream, target):
        server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    with running(subtask(upstream, target), spark) as run:
        for statement in _KEYS:
            upstream.execute(statement)
            run.wait_synced(upstream)
            assert set(target.execute(_CONSTRAINTS)) == set(upstream.execute(_CONSTRAINTS)), statement
    assert_equal(upstream, target, "d.p", "d.c")


def test_checks_that_the_upstream_does_not_keep_refuse_no_row(target: SQLServer, spark: SparkEngine) -> None:
    with up(upstream := MySQLServer(version="8.0")):
        for server in (upstream, target):
            server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        with running(subtask(upstream, target), spark) as run:
            upstream.execute(
                "CREATE TABLE d.t (id INT PRIMARY KEY, a INT CHECK (a > 0), CONSTRAINT one CHECK (a < 9))",
                "INSERT INTO d.t VALUES (1, -1), (2, 100)",
                "ALTER TABLE d.t ADD CONSTRAINT one CHECK (a < 9), ADD b INT",
                "ALTER TABLE d.t ADD CONSTRAINT one CHECK (a < 9)",
                "INSERT INTO d.t VALUES (3, -3, 3)",
            )
            run.wait_synced(upstream)
        assert_equal(upstream, target, "d.t")
