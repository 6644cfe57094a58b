"""Hazards: a table that is dropped upstream just now looks like a key that the target alone has, and the task stops;
it stops for what was put right meanwhile, or goes on with a key that was made by hand."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.syncer.ddl import known_keys
from dm_worker.syncer.ddl.servers_keys import ServersKeys
from dm_worker.syncer.rows.task_rules import TaskRules
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
    asked.changed([("d", "c")], [])
    (problem,) = asked.problems()
    mariadb_upstream.execute("SET GLOBAL general_log = 0")
    assert "no migrated key of the upstream has the same action" in problem.what
    assert mariadb_upstream.execute(_ASKED) == [(1,)]
    asked.close()


def test_a_key_made_by_hand_is_found_and_one_removed_by_hand_does_not_stop(
    mariadb_upstream: MariaDBServer, target: SQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for server in (mariadb_upstream, target):
        server.execute(*_TABLES, "CREATE TABLE d.other (id INT PRIMARY KEY, p INT)")
    cfg = subtask(mariadb_upstream, target)
    asked = ServersKeys(cfg, TaskRules(cfg), lambda: False)
    assert asked.problems() == []
    monkeypatch.setattr(known_keys, "SHARE", 0.0)
    target.execute("ALTER TABLE d.other ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE")
    # A statement about another table: nothing is asked of this one.
    asked.changed([("d", "c")], [("d", "c")])
    assert asked.problems() == []
    # Nor of all tables, before that takes a small share of the time.
    monkeypatch.setattr(known_keys, "SHARE", 1e9)
    asked.changed([("d", "c")], [("d", "c")])
    (problem,) = asked.problems()
    assert "`d`.`other`" in problem.what
    monkeypatch.setattr(known_keys, "SHARE", 0.0)
    target.execute("ALTER TABLE d.other DROP FOREIGN KEY k")
    assert asked.problems() == []
    asked.close()
