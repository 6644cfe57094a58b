"""Hazard: TiDB finds its own name for a key without one, so DROP INDEX with the upstream's name leaves it there."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import assert_equal, running, subtask

_MADE = (
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, n INT, KEY v (v), UNIQUE v_2 (v, id), KEY v_3 (v, n))",
    "INSERT INTO d.t VALUES (1, 1, 1)",
)
#: TiDB calls none of these keys as the upstreams do, if it finds the names itself.
_STATEMENTS = (
    "INSERT INTO d.t VALUES (2, 2, 2)",
    "ALTER TABLE d.t DROP INDEX v_2, ADD UNIQUE (v, n)",
    "ALTER TABLE d.t ADD INDEX (N)",
    "CREATE TABLE d.k (A INT NOT NULL, b VARCHAR(20), KEY (a), KEY B_2 (B), KEY (b), KEY (b))",
    "INSERT INTO d.k VALUES (1, 'x')",
)


def _keys(server: SQLServer) -> list[tuple[str, ...]]:
    columns = "TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE"
    rows = server.execute(f"SELECT {columns} FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'd'")
    return sorted(tuple(map(str, row)) for row in rows)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_keys_without_a_name_can_be_dropped_by_the_upstreams(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine, flavor: str
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    with running(subtask(upstream, tidb), spark) as run:
        upstream.execute(*_STATEMENTS)
        run.wait_synced(upstream)
        assert _keys(tidb) == _keys(upstream)
        made = {(table, name) for table, name, *_ in _keys(upstream) if name != "PRIMARY"}
        upstream.execute(*(f"DROP INDEX `{name}` ON d.{table}" for table, name in sorted(made)))
        run.wait_synced(upstream)
        assert {name for _, name, *_ in _keys(tidb)} == {"PRIMARY"}
    assert_equal(upstream, tidb, "d.t", "d.k")
