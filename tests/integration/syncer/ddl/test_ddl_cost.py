"""Hazard: what a statement costs the servers grows with the number of tables that they have."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.ddl import known_keys
from tests.integration.syncer.support import running, subtask

pytestmark = [pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _nothing_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what reads all keys now and then: with few tables, that is at nearly every statement."""
    monkeypatch.setattr(known_keys, "SHARE", 0.0)


_STATEMENTS = (
    "ALTER TABLE d.c0 ADD COLUMN x INT, ADD CONSTRAINT u UNIQUE (x)",
    "ALTER TABLE d.c0 DROP KEY u",
    "RENAME TABLE d.c0 TO d.c",
    "RENAME TABLE d.c TO d.c0",
    "ALTER TABLE d.c0 CHANGE x y INT",
)
#: What watches the servers by time asks other questions.
_ASKED = (
    "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Query'"
    " AND argument REGEXP '^SHOW CREATE|^SELECT .*information_schema'"
)


def cost(upstream: SQLServer, target: SQLServer, spark: SparkEngine, tables: int) -> int:
    """How often both servers were asked for structures while the statements ran."""
    servers = (upstream, target)
    for server in servers:
        server.wipe()
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.p (id INT PRIMARY KEY)",
            *(f"CREATE TABLE d.t{n} (id INT PRIMARY KEY)" for n in range(tables)),
            "CREATE TABLE d.c0 (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
            "SET GLOBAL log_output = 'TABLE'",
        )
    with running(subtask(upstream, target), spark) as run:
        upstream.execute(*(f"INSERT INTO d.t{n} VALUES (1)" for n in range(tables)), "INSERT INTO d.p VALUES (1)")
        run.wait_synced(upstream)
        for server in servers:
            server.execute("TRUNCATE mysql.general_log", "SET GLOBAL general_log = 1")
        for step, statement in enumerate(_STATEMENTS, 2):
            upstream.execute(statement)
            run.wait_synced(upstream)
            # Rows of all tables: none but those that a statement is about have to be looked at again.
            upstream.execute(*(f"INSERT INTO d.t{n} VALUES ({step})" for n in range(tables)))
            run.wait_synced(upstream)
        for server in servers:
            server.execute("SET GLOBAL general_log = 0")
    asked = sum(int(server.execute(_ASKED)[0][0]) for server in servers)
    for server in servers:
        server.execute("TRUNCATE mysql.general_log")
    return asked


def test_a_statement_costs_the_same_with_many_tables(
    mariadb_upstream: MariaDBServer, target: SQLServer, spark: SparkEngine
) -> None:
    few = cost(mariadb_upstream, target, spark, 5)
    many = cost(mariadb_upstream, target, spark, 150)
    assert abs(many - few) <= few // 5, (few, many)


def opened(upstream: SQLServer, target: SQLServer, spark: SparkEngine, tables: int) -> int:
    """How many tables both servers opened while the statements ran, each with a row after it."""
    servers = (upstream, target)
    for server in servers:
        server.wipe()
        server.execute(
            # A file of its own for each table would take most of the time.
            "SET GLOBAL innodb_file_per_table = 0",
            "CREATE DATABASE d",
            "CREATE TABLE d.p (id INT PRIMARY KEY)",
            *(f"CREATE TABLE d.t{n} (id INT PRIMARY KEY)" for n in range(tables)),
            "CREATE TABLE d.c0 (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
            "SET GLOBAL innodb_file_per_table = 1",
        )
    with running(subtask(upstream, target), spark) as run:
        upstream.execute("INSERT INTO d.p VALUES (1)")
        run.wait_synced(upstream)
        before = sum(map(_opened, servers))
        for step, statement in enumerate(_STATEMENTS, 2):
            upstream.execute(statement, f"INSERT INTO d.p VALUES ({step})")
            run.wait_synced(upstream)
        return sum(map(_opened, servers)) - before


def _opened(server: SQLServer) -> int:
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Opened_tables'")[0][1])


@pytest.mark.target_with("MariaDB's words")
def test_a_statement_opens_as_few_tables_where_there_are_many(
    mariadb_upstream: MariaDBServer, target: SQLServer, spark: SparkEngine
) -> None:
    """What a server opens is not in what it is asked: one question about its foreign keys opens all tables."""
    servers = (mariadb_upstream, target)
    caches = [int(server.execute("SELECT @@GLOBAL.table_open_cache")[0][0]) for server in servers]
    for server in servers:
        # With few tables kept open, each use of a table opens it.
        server.execute("SET GLOBAL table_open_cache = 10")
    try:
        few = opened(mariadb_upstream, target, spark, 10)
        many = opened(mariadb_upstream, target, spark, 400)
    finally:
        for server, cache in zip(servers, caches, strict=True):
            server.execute(f"SET GLOBAL table_open_cache = {cache}")
    assert many <= few + 100, (few, many)
