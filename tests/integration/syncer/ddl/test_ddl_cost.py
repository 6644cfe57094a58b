"""Hazard: what a statement costs the servers grows with the number of tables that they have."""

from __future__ import annotations

import pytest

from dm_worker.engine.engine import SparkEngine
from tests.harness.mysql import MariaDBServer, SQLServer
from tests.integration.syncer.support import running, subtask

pytestmark = [pytest.mark.timeout(600)]

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
