"""Hazard: a statement about a temporary table reaches the real table of the same name at the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from tests.integration.syncer.support import assert_equal, running, subtask

pytestmark = [pytest.mark.timeout(600)]

_REAL = (
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE d.other (id INT PRIMARY KEY)",
    "INSERT INTO d.t VALUES (1, 1), (2, 2)",
    "INSERT INTO d.other VALUES (1)",
)
#: All on the temporary table.
_ON_TEMPORARY = (
    "TRUNCATE TABLE t",
    "ALTER TABLE t ADD COLUMN x INT",
    "CREATE INDEX i ON t (x)",
    "DROP INDEX i ON t",
    "ALTER TABLE t DROP COLUMN v",
    "ALTER TABLE t RENAME TO renamed",
    "TRUNCATE TABLE renamed",
    "ALTER TABLE renamed RENAME TO t",
)
_KINDS: dict[str, Callable[[], SQLServer]] = {
    "mariadb": MariaDBServer,
    "mysql 5.7": lambda: MySQLServer(version="5.7"),
    "mysql 8.0": lambda: MySQLServer(version="8.0"),
}


@pytest.fixture(scope="module", params=list(_KINDS))
def upstream_server(request: pytest.FixtureRequest) -> Iterator[SQLServer]:
    with up(server := _KINDS[request.param]()):
        yield server


@pytest.fixture
def upstream(upstream_server: SQLServer, target: SQLServer) -> SQLServer:
    for server in (upstream_server, target):
        server.wipe()
        server.execute(*_REAL)
    return upstream_server


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED"])
def test_statements_on_a_temporary_table_leave_the_real_one_alone(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, binlog_format: str
) -> None:
    cfg = subtask(upstream, target)
    with closing(upstream.connect(database="d")) as conn, conn.cursor() as cursor:
        cursor.execute(f"SET binlog_format = {binlog_format}")
        with running(cfg, spark) as run:
            cursor.execute("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v INT)")
            run.wait_synced(upstream)
        # What is known of the session is kept with the checkpoint.
        with running(cfg, spark) as run:
            for statement in _ON_TEMPORARY:
                cursor.execute(statement)
            if upstream.flavor == "mariadb":
                # Only MariaDB renames temporary tables so, one and a real one in one statement too.
                cursor.execute("RENAME TABLE other TO another, t TO moved")
                cursor.execute("RENAME TABLE moved TO t, another TO other")
            cursor.execute("DROP TABLE t")
            cursor.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
            upstream.execute("INSERT INTO d.t VALUES (3, 3, 3)")
            run.wait_synced(upstream)
    assert_equal(upstream, target, "d.t", "d.other")


def test_a_procedure_that_also_uses_a_temporary_table_changes_real_ones(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    """Servers mark each statement of a call as one of its session, once the call has used a temporary table."""
    upstream.execute(
        "CREATE PROCEDURE d.p() BEGIN CREATE TEMPORARY TABLE d.tmp (a INT); TRUNCATE TABLE d.t;"
        " ALTER TABLE d.other ADD COLUMN z INT; TRUNCATE TABLE d.tmp; DROP TEMPORARY TABLE d.tmp; END"
    )
    with running(subtask(upstream, target), spark) as run:
        upstream.execute("CALL d.p()")
        upstream.execute("SET binlog_format = STATEMENT", "TRUNCATE TABLE d.t")
        run.wait_synced(upstream)
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    assert_equal(upstream, target, "d.t", "d.other")


def test_a_table_made_like_a_temporary_one_stops(upstream: SQLServer, target: SQLServer, spark: SparkEngine) -> None:
    with running(subtask(upstream, target), spark) as run:
        upstream.execute(
            "USE d", "SET binlog_format = STATEMENT", "CREATE TEMPORARY TABLE t (a INT)", "CREATE TABLE copy LIKE t"
        )
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncerUnsupportedStmt
    assert "`d`.`t`" in error.message
    assert "dmctl binlog replace" in error.workaround


def test_a_temporary_table_from_before_another_binlog_file_stops(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    """A server that restarted has none of its temporary tables left, and gives their sessions' numbers again."""
    with closing(upstream.connect(database="d")) as conn, conn.cursor() as cursor:
        cursor.execute("SET binlog_format = STATEMENT")
        with running(subtask(upstream, target), spark) as run:
            cursor.execute("CREATE TEMPORARY TABLE t (id INT)")
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("TRUNCATE TABLE t")
            (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncerUnsupportedStmt
    assert "dmctl binlog skip" in error.workaround
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(2,)]


def test_a_temporary_table_filled_by_a_query_stops(upstream: SQLServer, target: SQLServer, spark: SparkEngine) -> None:
    """A function in the query may change rows, of which the binlog then has nothing but this statement."""
    upstream.execute(
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "CREATE FUNCTION d.f() RETURNS INT BEGIN INSERT INTO d.other VALUES (9); RETURN 1; END",
    )
    cfg = subtask(upstream, target)
    statements = ("USE d", "SET binlog_format = STATEMENT", "CREATE TEMPORARY TABLE filled AS SELECT f() AS a")
    if upstream.flavor == "mysql":
        with pytest.raises(pymysql.OperationalError, match="1746"):
            upstream.execute(*statements)
        return
    upstream.execute(*statements)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncUnitDMLStatementFound
