"""Hazard: a table that is dropped upstream just now looks like a key that the target alone has, and the task stops."""

from __future__ import annotations

from dm_worker.syncer.ddl.foreign_key_watch import ServersKeys
from dm_worker.syncer.rows.task_rules import TaskRules
from tests.harness.mysql import MariaDBServer, SQLServer
from tests.integration.syncer.support import subtask

_TABLES = (
    "CREATE DATABASE d",
    "CREATE TABLE d.p (id INT PRIMARY KEY)",
    "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
)
_ASKED = "SELECT COUNT(*) FROM mysql.general_log WHERE argument = 'SHOW CREATE TABLE `d`.`c`'"


def test_a_table_that_is_gone_is_asked_for_so_that_its_drop_has_ended(
    mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    """A DROP holds the lock of the table's name until it is in the binlog, and the question needs this lock."""
    for server in (mariadb_upstream, target):
        server.execute(*_TABLES)
    cfg = subtask(mariadb_upstream, target)
    asked = ServersKeys(cfg, TaskRules(cfg), lambda: False)
    assert asked.problems() == []
    mariadb_upstream.execute("DROP TABLE d.c", "SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1")
    (problem,) = asked.problems()
    mariadb_upstream.execute("SET GLOBAL general_log = 0")
    assert "no migrated key of the upstream has the same action" in problem.what
    assert mariadb_upstream.execute(_ASKED) == [(1,)]
    asked.close()
