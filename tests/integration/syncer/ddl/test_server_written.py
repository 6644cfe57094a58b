"""Hazard: a CREATE TABLE that the upstream wrote itself, in UTF-8, is read in the charset of its session: members of an
ENUM and defaults become other texts, and rows have other values, without an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import running, subtask

_TABLE = (
    "CREATE DATABASE d CHARACTER SET utf8mb4",
    "CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('é','中') CHARACTER SET utf8mb4 DEFAULT '中', c CHAR(9) DEFAULT 'ü')",
    "INSERT INTO d.t VALUES (1, 'é', 'x'), (2, '中', 'y')",
)
_ROWS = "SELECT id, HEX(e), HEX(c) FROM d.u ORDER BY id"
_SHOWN = "SHOW COLUMNS FROM d.u"


@pytest.fixture(scope="module")
def mysql() -> Iterator[MySQLServer]:
    """With GTIDs, MySQL 8.0.12 refuses CREATE TABLE … SELECT."""
    with up(server := MySQLServer()):
        yield server


@pytest.mark.parametrize(
    "session",
    [
        ("SET NAMES latin1",),
        ("SET NAMES gbk",),
        ("SET NAMES latin1", "SET sql_mode = 'ANSI_QUOTES'"),
        ("SET NAMES latin1", "SET sql_quote_show_create = 0"),
    ],
    ids=["latin1", "gbk", "names in double quotes", "names without quotes"],
)
def test_create_table_select_keeps_its_strings(
    mariadb_upstream: MariaDBServer, target: SQLServer, spark: SparkEngine, session: tuple[str, ...]
) -> None:
    target.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute(
            *_TABLE, *session, "CREATE TABLE d.u SELECT * FROM d.t", "INSERT INTO d.u (id) VALUES (3)"
        )
        run.wait_synced(mariadb_upstream)
    assert target.execute(_ROWS) == mariadb_upstream.execute(_ROWS)
    assert target.execute(_SHOWN) == mariadb_upstream.execute(_SHOWN)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE d.u SELECT * FROM d.t",),
        ("CREATE TEMPORARY TABLE d.tmp LIKE d.t", "CREATE TABLE d.u LIKE d.tmp"),
        ("SET sql_mode = 'ANSI_QUOTES'", "CREATE TABLE d.u SELECT * FROM d.t"),
    ],
    ids=["CREATE … SELECT", "LIKE a temporary table", "names in double quotes"],
)
def test_one_that_the_client_may_have_sent_stops_the_task(
    mysql: MySQLServer, target: SQLServer, spark: SparkEngine, statements: tuple[str, ...]
) -> None:
    for server in (mysql, target):
        server.execute("DROP DATABASE IF EXISTS d")
    target.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    with running(subtask(mysql, target), spark) as run:
        mysql.execute(*_TABLE, "SET NAMES latin1", *statements)
        [error] = run.wait_ended().errors
    assert error.code == 11054
    assert "does not show who wrote it" in error.message
    assert "dmctl binlog replace" in error.workaround
    assert target.execute("SHOW TABLES FROM d") == [("t",)]
