"""Hazard: TIMESTAMP without NULL means something else in TiDB than in the upstream, or stops the task there (1238)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import assert_equal, running, subtask

_STATEMENTS = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMP COMMENT 'x', c TIMESTAMP NULL,"
    " e TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, f DATETIME)",
    "CREATE TABLE d.u (id INT PRIMARY KEY, a TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), b TIMESTAMP(2) NOT NULL)",
    "CREATE TABLE d.v (id INT PRIMARY KEY, a TIMESTAMP NULL, b TIMESTAMP)",
    "CREATE TABLE d.w (id INT PRIMARY KEY, a TIMESTAMP(6), b TIMESTAMP DEFAULT '2001-02-03 04:05:06')",
    "INSERT INTO d.t (id) VALUES (1), (2)",
    "INSERT INTO d.w (id) VALUES (1)",
    "ALTER TABLE d.t ADD g TIMESTAMP, ADD h TIMESTAMP NOT NULL FIRST",
    "ALTER TABLE d.v MODIFY a TIMESTAMP, ADD x INT, ADD INDEX (x), CHANGE b bb TIMESTAMP AFTER id",
    "ALTER TABLE d.w ADD (y TIMESTAMP NULL, z TIMESTAMP)",
    "INSERT INTO d.t (id) VALUES (3)",
)
_EXPLICIT = "explicit_defaults_for_timestamp = 0, "
_NOW = re.compile(r"current_timestamp(?:\(\))?(?!\()", re.IGNORECASE)


@pytest.fixture(params=["mysql 5.7", "mysql 8.0", "mariadb"])
def upstream(request: pytest.FixtureRequest, mariadb_upstream: MariaDBServer) -> Iterator[SQLServer]:
    """A server whose sessions have explicit_defaults_for_timestamp off."""
    if request.param == "mariadb":
        yield mariadb_upstream
        return
    with up(server := MySQLServer(version=request.param.split()[1])):
        yield server


def _columns(server: SQLServer) -> list[tuple[str, ...]]:
    rows = server.execute(
        "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd' AND DATA_TYPE = 'timestamp' ORDER BY 1, 2"
    )
    return [
        (table, column, kind, nullable, *(_plain(str(text)) for text in (default, extra)))
        for table, column, kind, nullable, default, extra in rows
    ]


def _plain(text: str) -> str:
    """A default without the words in which the servers differ."""
    text = _NOW.sub("now", text.replace("DEFAULT_GENERATED", "").strip("' ").lower())
    return "NULL" if text in ("none", "null") else re.sub(r"\.0+$", "", text.replace("current_timestamp", "now"))


def test_timestamps_mean_what_they_mean_upstream(upstream: SQLServer, tidb: TiDBServer, spark: SparkEngine) -> None:
    for server in (upstream, tidb):
        server.execute("CREATE DATABASE d")
    # 5.7 has it off, and lets no session choose.
    explicit = "" if str(upstream.execute("SELECT VERSION()")[0][0]).startswith("5.7") else _EXPLICIT
    session = f"SET SESSION {explicit}sql_mode = 'STRICT_TRANS_TABLES'"
    with running(subtask(upstream, tidb), spark) as run:
        for statement in _STATEMENTS:
            upstream.execute(session, statement)
            run.wait_synced(upstream)
            assert _columns(tidb) == _columns(upstream), statement
        assert_equal(upstream, tidb, "d.t", "d.u", "d.v", "d.w")
    assert ("t", "h", "timestamp", "NO", "now", "on update now") in _columns(upstream)
