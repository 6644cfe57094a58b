"""Hazard: a new AUTO_INCREMENT column is refused for a table whose rows both servers number alike."""

from __future__ import annotations

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import running, subtask


def test_a_table_created_without_an_engine_gets_its_numbers(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute(
            "SET SESSION auto_increment_increment = 7, SESSION auto_increment_offset = 3",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO d.t VALUES (9, 1), (1, 2), (4, 3)",
            "ALTER TABLE d.t ADD COLUMN n INT AUTO_INCREMENT UNIQUE",
            "INSERT INTO d.t (id, v) VALUES (2, 4)",
        )
        run.wait_synced(mariadb_upstream)
    numbers = "SELECT id, n FROM d.t ORDER BY n"
    assert [n % 7 for _, n in target.execute(numbers)] == [3, 3, 3, 3]
    assert target.execute(numbers) == mariadb_upstream.execute(numbers)
