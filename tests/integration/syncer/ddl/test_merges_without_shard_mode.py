"""Hazard: tables merge without shard-mode, and one table's DDL silently changes what another one's rows get."""

from __future__ import annotations

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from pkg.rules.model import RouteRule
from tests.integration.syncer.support import Running, rows, run_until_synced, running, subtask


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    server.execute("CREATE DATABASE d")
    for table, first in (("t_1", 100), ("t_2", 200)):
        server.execute(f"CREATE TABLE d.{table} (id INT PRIMARY KEY)", f"INSERT INTO d.{table} VALUES ({first})")
    return server


def merging(upstream: SQLServer, target: SQLServer) -> SubTaskConfig:
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (100), (200)")
    rule = RouteRule("d", "d", "t_*", "t")
    return subtask(upstream, target, routes=(rule,))


def stopped(run: Running) -> str:
    """The error that stops the task."""
    error = run.wait_ended().errors[0]
    assert error.code == 36068
    assert "shard-mode: pessimistic" in error.workaround
    return error.message


def run_ddl(run: Running, upstream: SQLServer, first: list[str], second: str) -> None:
    """One table runs its DDL, then the other one gets a row and runs its own."""
    upstream.execute("INSERT INTO d.t_1 VALUES (101)", "INSERT INTO d.t_2 VALUES (201)")
    run.wait_synced(upstream)  # the structures are known
    upstream.execute(
        *[f"ALTER TABLE d.t_1 {one}" for one in first],
        "INSERT INTO d.t_2 VALUES (202)",
        f"ALTER TABLE d.t_2 {second}",
    )


ADD = "ADD COLUMN c VARCHAR(20) NOT NULL DEFAULT 'web'"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([ADD, "MODIFY COLUMN c VARCHAR(20) NOT NULL DEFAULT 'shop'"], ADD),
        ([ADD, "ALTER COLUMN c DROP DEFAULT", "ALTER COLUMN c SET DEFAULT 'shop'"], f"{ADD}, ADD COLUMN e INT"),
        (["ADD COLUMN c INT NOT NULL DEFAULT 1", "MODIFY COLUMN c INT"], "ADD COLUMN c INT NOT NULL DEFAULT 1"),
        (["ADD COLUMN c DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP"],
         "ADD COLUMN c DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP"),
        (["ADD COLUMN c DATETIME NULL ON UPDATE CURRENT_TIMESTAMP"],
         "ADD COLUMN c DATETIME NULL ON UPDATE CURRENT_TIMESTAMP"),
    ],
    ids=["modified", "altered", "NULL", "now", "ON UPDATE"],
)  # fmt: skip
def test_a_column_that_rows_got_with_another_value_stops_the_task(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, first: list[str], second: str
) -> None:
    with running(merging(upstream, target), spark) as run:
        run_ddl(run, upstream, first, second)
        assert "`c`" in stopped(run)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([ADD], ADD),
        ([ADD, "MODIFY COLUMN c VARCHAR(40) NOT NULL DEFAULT 'web'"], f"{ADD}, ADD COLUMN e INT"),
        (["ADD COLUMN c INT NOT NULL DEFAULT 1"], "ADD COLUMN c INT NOT NULL DEFAULT '1'"),
        (["ADD COLUMN c INT"], "ADD COLUMN c INT DEFAULT NULL"),
        (["ADD COLUMN c DECIMAL(8,2) NOT NULL DEFAULT 0"], "ADD COLUMN c DECIMAL(8,2) NOT NULL DEFAULT 0.0"),
    ],
    ids=["equal", "wider", "quoted", "NULL", "decimal"],
)  # fmt: skip
def test_a_column_with_the_same_value_does_not(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, first: list[str], second: str
) -> None:
    with running(merging(upstream, target), spark) as run:
        run_ddl(run, upstream, first, second)
        run.wait_synced(upstream)
    expected = upstream.execute("SELECT id, c FROM d.t_1 UNION ALL SELECT id, c FROM d.t_2 ORDER BY id")
    assert target.execute("SELECT id, c FROM d.t ORDER BY id") == expected


#: Defaults that a server shows in another form.
SHOWN_OTHERWISE = (
    "a TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'",
    "b DECIMAL(5,2) NOT NULL DEFAULT 1.555",
    "c SET('a','it''s') DEFAULT 'it''s,a'",
    "e ENUM('a','b') NOT NULL DEFAULT 'A'",
    "f BINARY(4) DEFAULT 'a'",
    "g CHAR(4) DEFAULT 'a '",
    "h TIME DEFAULT '1:2:3'",
    "i YEAR DEFAULT 99",
    "j DATE DEFAULT '20200102'",
    "k DATETIME(3) DEFAULT '2020-1-2T10:00'",
    "l INT UNSIGNED DEFAULT 5.6",
    "m FLOAT DEFAULT 1.23456789",
    "n VARCHAR(9) DEFAULT _latin1 x'E4'",
)


def test_a_default_that_the_target_shows_in_another_form_does_not(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    added = ", ".join(f"ADD COLUMN {column}" for column in SHOWN_OTHERWISE)
    with running(merging(upstream, target), spark) as run:
        upstream.execute("INSERT INTO d.t_1 VALUES (101)", "INSERT INTO d.t_2 VALUES (201)")
        run.wait_synced(upstream)
        upstream.execute("SET SESSION time_zone = '+08:00'", f"ALTER TABLE d.t_1 {added}", f"ALTER TABLE d.t_2 {added}")
        run.wait_synced(upstream)
        other = SHOWN_OTHERWISE[1].replace("1.555", "1.565")
        upstream.execute(
            "ALTER TABLE d.t_1 ADD COLUMN z DECIMAL(5,2) NOT NULL DEFAULT 1.555",
            f"ALTER TABLE d.t_2 ADD COLUMN z {other.removeprefix('b ')}",
        )
        assert "`z`" in stopped(run)


def test_a_column_without_rows_of_the_other_value_does_not(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, c INT DEFAULT 5)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("ALTER TABLE d.t ADD c INT DEFAULT 7", "INSERT INTO d.t VALUES (1, 5), (2, DEFAULT)")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert target.execute("SELECT c FROM d.t ORDER BY id") == [(5,), (7,)]


def test_if_not_exists_counts_only_where_it_added_the_column(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, c INT DEFAULT 5)", "INSERT INTO d.t VALUES (1, 5)"
    )
    target.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, c INT DEFAULT 5, e INT DEFAULT 5)",
        "INSERT INTO d.t VALUES (1, 5, 5)",
    )
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (2, 6)")
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("ALTER TABLE d.t ADD IF NOT EXISTS c INT DEFAULT 7", "INSERT INTO d.t VALUES (3, 6)")
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("ALTER TABLE d.t ADD IF NOT EXISTS e INT DEFAULT 7")
        assert "`e`" in stopped(run)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE d.t_1",
        "TRUNCATE TABLE d.t_1",
        "RENAME TABLE d.t_1 TO d.old",
        "ALTER TABLE d.t_1 RENAME TO d.old",
    ],
)
def test_a_statement_that_takes_other_tables_rows_stops_the_task(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, statement: str
) -> None:
    with running(merging(upstream, target), spark) as run:
        upstream.execute(statement)
        assert "`d`.`t_2`" in stopped(run)
    assert rows(target, "d.t") == [(100,), (200,)]


def test_the_schema_of_merged_tables_is_not_dropped(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute(
        *[f"CREATE DATABASE d_{i}" for i in (1, 2)], *[f"CREATE TABLE d_{i}.t (id INT PRIMARY KEY)" for i in (1, 2)]
    )
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    cfg = subtask(mariadb_upstream, target, routes=(RouteRule("d_*", "d"),))
    with running(cfg, spark) as run:
        mariadb_upstream.execute("DROP DATABASE d_1")
        assert "`d_2`" in stopped(run)
    assert rows(target, "d.t") == [(1,)]


def test_the_last_table_may_go(mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t_1 (id INT PRIMARY KEY)")
    cfg = merging(mariadb_upstream, target)
    mariadb_upstream.execute("TRUNCATE TABLE d.t_1")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert rows(target, "d.t") == []
