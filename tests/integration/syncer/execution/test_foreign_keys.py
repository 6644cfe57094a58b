"""Hazard: foreign keys that act change rows upstream without a trace in the binlog, and the target does not act alike,
or does it where the upstream did not."""

from __future__ import annotations

import os
import random
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig, SyncerConfig
from pkg.errors import Code
from pkg.rules.model import BinlogFilterRule
from tests.integration.syncer.replay import Replay, attempt
from tests.integration.syncer.support import assert_equal, running, subtask

SEED = int(os.environ.get("DM_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("DM_TEST_ROUNDS", "8"))

FAMILY = (
    "CREATE TABLE d.p (id INT PRIMARY KEY, code VARCHAR(9), v INT, UNIQUE KEY (code))",
    "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, code VARCHAR(9), v INT,"
    " FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE ON UPDATE CASCADE,"
    " FOREIGN KEY (code) REFERENCES d.p (code) ON DELETE SET NULL ON UPDATE CASCADE)",
    "CREATE TABLE d.g (id INT PRIMARY KEY, c INT, boss INT,"
    " FOREIGN KEY (c) REFERENCES d.c (id) ON DELETE CASCADE ON UPDATE CASCADE,"
    " FOREIGN KEY (boss) REFERENCES d.g (id) ON DELETE CASCADE)",
)
ROWS = (
    "INSERT INTO d.p VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)",
    "INSERT INTO d.c VALUES (1, 1, 'b', 0), (2, 1, NULL, 0), (3, 2, 'c', 0), (4, 3, 'c', 0)",
    "INSERT INTO d.g VALUES (1, 1, NULL), (2, 2, 1), (3, 3, 2), (4, NULL, 3), (5, 4, NULL)",
)
ALL = ("d.p", "d.c", "d.g")


@pytest.fixture(params=["mariadb_upstream", "mysql_upstream"], ids=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    return found


def checking(cfg: SubTaskConfig, value: str) -> SubTaskConfig:
    return replace(cfg, to=replace(cfg.to, session=(*cfg.to.session, ("foreign_key_checks", value))))


def make(*servers: SQLServer) -> None:
    for server in servers:
        server.execute("CREATE DATABASE d", *FAMILY, *ROWS)


@pytest.mark.parametrize("safe", [False, True], ids=["exact", "safe"])
def test_what_the_upstreams_foreign_keys_did_is_done_at_the_target(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, safe: bool
) -> None:
    make(upstream, target)
    cfg = subtask(upstream, target, syncer=SyncerConfig(safe_mode=safe))
    with running(cfg, spark) as run:
        upstream.execute(
            "UPDATE d.p SET v = 1 WHERE id = 1",
            "DELETE FROM d.p WHERE id = 2",
            "UPDATE d.p SET id = 30, code = 'z' WHERE id = 3",
            "BEGIN",
            "INSERT INTO d.p VALUES (7, 'x', 0)",
            "INSERT INTO d.c VALUES (7, 7, 'x', 0)",
            "DELETE FROM d.p WHERE id = 7",
            "INSERT INTO d.p VALUES (7, 'x', 1)",
            "COMMIT",
        )
        run.wait_synced(upstream)
    assert upstream.execute("SELECT p, code FROM d.c WHERE id = 4") == [(30, "z")]
    assert_equal(upstream, target, *ALL)


@pytest.mark.parametrize("safe", [False, True], ids=["exact", "safe"])
def test_an_update_of_a_parent_keeps_its_children_while_the_target_checks(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, safe: bool
) -> None:
    make(upstream, target)
    cfg = checking(subtask(upstream, target, syncer=SyncerConfig(safe_mode=safe)), "1")
    with running(cfg, spark) as run:
        upstream.execute("UPDATE d.p SET v = 1", "UPDATE d.c SET v = 2", "DELETE FROM d.c WHERE id = 2")
        run.wait_synced(upstream)
    assert_equal(upstream, target, *ALL)


@pytest.mark.parametrize("safe", [False, True], ids=["exact", "safe"])
def test_keys_do_not_act_where_the_upstreams_session_did_not_check(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, safe: bool
) -> None:
    make(upstream, target)
    cfg = checking(subtask(upstream, target, syncer=SyncerConfig(safe_mode=safe)), "1")
    with running(cfg, spark) as run:
        upstream.execute(
            "SET foreign_key_checks = 0",
            "DELETE FROM d.p WHERE id = 1",
            "UPDATE d.p SET id = 20 WHERE id = 2",
            "INSERT INTO d.c VALUES (9, 99, NULL, 0)",
            "SET foreign_key_checks = 1",
            "DELETE FROM d.p WHERE id = 3",
        )
        run.wait_synced(upstream)
    assert len(upstream.execute("SELECT id FROM d.c")) == 4
    assert_equal(upstream, target, *ALL)


class Changes:
    """Random changes. ``again``: they may be applied over what they led to.

    Then no key that foreign keys may change or remove comes back: which rows referred to it in its former life is in no
    binlog. And no row that has a parent, which may be gone by then, changes the key that others refer to.
    """

    def __init__(self, chance: random.Random, conn: Any, *, again: bool) -> None:
        self._chance = chance
        self._conn = conn
        self._again = again
        self._fresh = 1000

    def some(self) -> int:
        return self._chance.randint(1, 12)

    def known(self, of: str) -> str:
        with self._conn.cursor() as cursor:
            cursor.execute(f"SELECT id FROM d.{of}")
            found = [row[0] for row in cursor.fetchall()]
        return str(self._chance.choice(found)) if found and self._chance.random() < 0.9 else "NULL"

    def key(self) -> int:
        """A value for a key that foreign keys change or remove."""
        self._fresh += 1
        return self._fresh if self._again else self.some()

    def __call__(self) -> None:
        id_, some, parent, child = self.some(), self.some(), self.known("p"), self.known("c")
        changes = [
            f"INSERT INTO d.p VALUES ({id_}, 'c{self.key()}', {some})",
            f"INSERT INTO d.c VALUES ({self.key()}, {parent}, (SELECT code FROM d.p WHERE id = {parent}), {some})",
            f"INSERT INTO d.g VALUES ({self.key()}, {child}, {self.known('g')})",
            f"DELETE FROM d.p WHERE id = {parent}",
            f"DELETE FROM d.c WHERE id = {child}",
            f"DELETE FROM d.g WHERE id = {self.known('g')}",
            f"UPDATE d.p SET v = {some} WHERE id = {parent}",
            f"UPDATE d.p SET code = 'c{self.key()}' WHERE id = {parent}",
            f"UPDATE d.p SET id = {self.key()} WHERE id = {parent}",
            f"UPDATE d.c SET p = {parent}, v = {some} WHERE id = {child}",
            f"UPDATE d.c SET {'v' if self._again else 'id'} = {self.key()} WHERE id = {child}",
            f"UPDATE d.g SET boss = {self.known('g')} WHERE id = {self.known('g')}",
            f"REPLACE INTO d.c VALUES ({self.key()}, {parent}, NULL, {some})",
            f"REPLACE INTO d.p VALUES ({id_}, 'c{self.key()}', {some})",
        ]
        unchecked = self._chance.random() < 0.1
        attempt(self._conn, f"SET foreign_key_checks = {int(not unchecked)}", self._chance.choice(changes))


def churn(conn: Any, chance: random.Random, change: Changes) -> None:
    for _ in range(chance.randint(5, 25)):
        attempt(conn, "BEGIN")
        for _ in range(chance.randint(1, 8)):
            change()
        attempt(conn, "ROLLBACK" if chance.random() < 0.1 else "COMMIT")


@pytest.mark.parametrize("checks", [None, True], ids=["unset", "on"])
@pytest.mark.parametrize("safe", [False, True], ids=["exact", "safe"])
def test_random_families_come_out_equal(
    mariadb_upstream: SQLServer, target: SQLServer, checks: bool | None, safe: bool
) -> None:
    make(mariadb_upstream, target)
    chance = random.Random(SEED)
    replay = Replay(mariadb_upstream, target, seed=SEED, foreign_keys=checks, safe=safe)
    with closing(mariadb_upstream.connect(autocommit=True)) as conn:
        change = Changes(chance, conn, again=False)
        for _ in range(ROUNDS):
            churn(conn, chance, change)
            replay.catch_up()
            assert_equal(mariadb_upstream, target, *ALL)


def test_safe_mode_over_what_is_applied_already_ends_equal(mariadb_upstream: SQLServer, target: SQLServer) -> None:
    make(mariadb_upstream, target)
    chance = random.Random(SEED)
    with closing(mariadb_upstream.connect(autocommit=True)) as conn:
        change = Changes(chance, conn, again=True)
        for _ in range(ROUNDS):
            exact = Replay(mariadb_upstream, target, seed=SEED, foreign_keys=None)
            again = Replay(mariadb_upstream, target, seed=SEED, foreign_keys=None, safe=True)
            churn(conn, chance, change)
            exact.catch_up()
            again.catch_up()
            # Of a grandchild whose parent was there before and went with its own, the binlog says nothing any more.
            assert_equal(mariadb_upstream, target, "d.p", "d.c")
            target.execute("DELETE FROM d.g WHERE c IS NOT NULL AND c NOT IN (SELECT id FROM d.c)")


def test_a_key_that_the_target_lacks_stops_the_task_before_rows_differ(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    make(mariadb_upstream, target)
    ((name,),) = target.execute(
        "SELECT CONSTRAINT_NAME FROM information_schema.KEY_COLUMN_USAGE"
        " WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 'c' AND REFERENCED_COLUMN_NAME = 'id'"
    )
    target.execute(f"ALTER TABLE d.c DROP FOREIGN KEY `{name}`")
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.ConfigUnsupportedForeignKeyChecksOption
    assert "`d`.`c` (p) to `d`.`p` (id)" in error.message
    assert "foreign_keys" in error.workaround
    answered = replace(cfg, ignore_checking_items=("foreign_keys",))
    with running(answered, spark) as run:
        mariadb_upstream.execute("UPDATE d.p SET v = 1")
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, *ALL)


def test_keys_that_come_with_a_statement_act_or_stop_the_task(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    tables = ("CREATE TABLE d.p (id INT PRIMARY KEY)", "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, KEY (p))")
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", *tables, "INSERT INTO d.p VALUES (1), (2)")
    cfg = subtask(mariadb_upstream, target)
    add = "ALTER TABLE d.c ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE"
    # The target is asked how it is while the statement is still to come.
    mariadb_upstream.execute("INSERT INTO d.c VALUES (1, 1), (2, 2)", add, "DELETE FROM d.p WHERE id = 1")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("ALTER TABLE d.c DROP FOREIGN KEY k", "DELETE FROM d.p WHERE id = 2")
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.p", "d.c")
    assert mariadb_upstream.execute("SELECT id FROM d.c") == [(2,)]
    left_out = BinlogFilterRule("d", "c", sql_pattern=("ADD CONSTRAINT",), action="Ignore")
    with running(replace(cfg, filters=(left_out,)), spark) as run:
        mariadb_upstream.execute("INSERT INTO d.p VALUES (2)", add, "INSERT INTO d.p VALUES (3)")
        (error,) = run.wait_ended().errors
    assert error.kind is Code.ConfigUnsupportedForeignKeyChecksOption
