"""Hazard: an operator's order for a statement leads nowhere, or its statements run twice, on real servers."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.ordered_task import OrderedTask
from tests.integration.syncer.support import assert_equal, subtask


@pytest.fixture(params=["mariadb-position", "mysql-gtid"])
def upstream(request: pytest.FixtureRequest) -> tuple[SQLServer, bool]:
    kind, way = request.param.split("-")
    return request.getfixturevalue(f"{kind}_upstream"), way == "gtid"


def indexes(server: SQLServer, table: str) -> list[str]:
    return sorted({row[2] for row in server.execute(f"SHOW INDEX FROM {table}")})


def test_statements_are_skipped_replaced_and_injected(
    upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    for each in (server, target):
        each.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, w INT)")
    task = OrderedTask(subtask(server, target, enable_gtid=gtid), server, spark)
    server.execute("INSERT INTO d.t VALUES (1, 1, 1), (2, 2, 2)")
    task.go_on("INSERT INTO d.t VALUES (3, 3, 3)")

    # Not understood, in a form that the parser does not take.
    server.execute("CREATE TABLE d.x (id INT PRIMARY KEY)", "ALTER TABLE d.x DISCARD TABLESPACE")
    server.execute("INSERT INTO d.t VALUES (4, 4, 4)")
    task.stop_at(36067)
    task.give("skip")
    task.go_on("INSERT INTO d.t VALUES (5, 5, 5)")
    assert_equal(server, target, "d.t")

    # The target refuses it; the second of two in its place, too. The first must not run again.
    target.execute("UPDATE d.t SET v = 1 WHERE id < 3")
    server.execute("ALTER TABLE d.t ADD COLUMN c INT DEFAULT 7, ADD INDEX (w), ADD UNIQUE uq (v)")
    server.execute("INSERT INTO d.t VALUES (6, 6, 6, 6)")
    task.stop_at(36061)
    task.give("replace", "ALTER TABLE d.t ADD COLUMN c INT DEFAULT 7, ADD INDEX (w)", "ALTER TABLE d.t ADD UNIQUE (v)")
    for _ in range(2):
        error = task.stop_at(36061)
        assert "1062" in str(error)
    task.give("replace", "ALTER TABLE d.t ADD UNIQUE uq (v, id)")
    task.go_on("UPDATE d.t SET w = 0 WHERE id = 1", "INSERT INTO d.t VALUES (7, 7, 7, 7)")
    assert indexes(target, "d.t") == ["PRIMARY", "uq", "w"]
    target.execute("UPDATE d.t SET v = id")
    assert_equal(server, target, "d.t")

    # The statement needs what the target lacks.
    server.execute("CREATE TABLE d.u (id INT PRIMARY KEY)")
    task.go_on()
    target.execute("DROP TABLE d.u")
    server.execute("ALTER TABLE d.u ADD COLUMN n INT, ADD INDEX (n)", "INSERT INTO d.u VALUES (1, 1)")
    task.stop_at(36061)
    task.give("inject", "CREATE TABLE d.u (id INT PRIMARY KEY)")
    task.go_on("INSERT INTO d.u VALUES (2, 2)")
    assert_equal(server, target, "d.t", "d.u")
    assert indexes(target, "d.u") == ["PRIMARY", "n"]

    _skip_rows_that_are_logged_as_a_statement(task, server, target)


def _skip_rows_that_are_logged_as_a_statement(task: OrderedTask, server: SQLServer, target: MariaDBServer) -> None:
    """They are lost, which is what an operator who skips asks for."""
    server.execute("SET binlog_format = STATEMENT", "INSERT INTO d.u VALUES (3, 3)")
    server.execute("INSERT INTO d.u VALUES (4, 4)")
    task.stop_at(36014)
    task.give("skip")
    task.go_on()
    assert target.execute("SELECT id FROM d.u ORDER BY id") == [(1,), (2,), (4,)]
