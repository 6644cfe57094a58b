"""Hazard: a driver killed between the intent of a statement and its record runs it twice, or not at all."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.ddl.variables import UpstreamSession
from pkg.binlog.events import QueryEvent
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from tests.integration.syncer.driver_process import start_driver, wait_for
from tests.integration.syncer.killed_runs import Faults, kill_again_and_again
from tests.integration.syncer.support import assert_equal, location, read_by_somebody, running, subtask

pytestmark = pytest.mark.timeout(900)

_WAITING = "SELECT id FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE `d`.`t`%'"


def prepared(upstream: MariaDBServer, target: MariaDBServer) -> SubTaskConfig:
    """A subtask with one table, which is on both sides."""
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    return subtask(upstream, target)


@pytest.mark.target_with("statements that end with their connection")
@pytest.mark.parametrize("executed", [False, True], ids=["before it ran", "after it ran"])
def test_statement_runs_once_though_its_driver_was_killed(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, executed: bool
) -> None:
    cfg = prepared(mariadb_upstream, target)
    # A second run would make an index `v_2`.
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 1)", "ALTER TABLE d.t ADD INDEX (v)")
    with read_by_somebody(target):
        driver = start_driver(cfg)
        try:
            wait_for(lambda: bool(target.execute(_WAITING)), WAIT_TIMEOUT)
        finally:
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait(WAIT_TIMEOUT)
        # The server itself ends a statement that waits for a table when its client has gone.
        wait_for(lambda: not target.execute(_WAITING), WAIT_TIMEOUT)
    ((text, state),) = target.execute("SELECT statement, state FROM dm_meta.t_syncer_ddl")
    assert state == "intent"
    if executed:
        target.execute(text)
    mariadb_upstream.execute("INSERT INTO d.t VALUES (2, 2)")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    assert_equal(mariadb_upstream, target, "d.t")
    assert [row[2] for row in target.execute("SHOW INDEX FROM d.t")] == ["PRIMARY", "v"]


def test_lag_grows_while_a_statement_runs_and_is_none_when_idle(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = prepared(mariadb_upstream, target)
    with running(cfg, spark) as run:
        with read_by_somebody(target):
            mariadb_upstream.execute("ALTER TABLE d.t ADD INDEX (v)")
            wait_for(lambda: bool(target.execute(_WAITING)), WAIT_TIMEOUT)
            wait_for(lambda: run.unit.status().secondsBehindMaster >= 2, WAIT_TIMEOUT)
        run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
        wait_for(lambda: run.unit.status().secondsBehindMaster == 0, WAIT_TIMEOUT)


@pytest.mark.target_with("statements that end with their connection")
def test_stop_at_once_ends_a_statement_that_waits_and_the_next_run_does_it(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = prepared(mariadb_upstream, target)
    with read_by_somebody(target):
        with running(cfg, spark) as run:
            mariadb_upstream.execute("ALTER TABLE d.t ADD INDEX (v)")
            wait_for(lambda: bool(target.execute(_WAITING)), WAIT_TIMEOUT)
            assert run.stop(graceful=False).errors == []
        # The server answers a killed statement a moment before it takes it off the list.
        wait_for(lambda: not target.execute(_WAITING), WAIT_TIMEOUT)
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    assert [row[2] for row in target.execute("SHOW INDEX FROM d.t")] == ["PRIMARY", "v"]


def test_no_statement_begins_after_a_stop_at_once(target: MariaDBServer) -> None:
    """The stop may come before the connection is there: the statement could wait for a lock for hours."""
    target.execute("CREATE DATABASE d")
    with closing(DDLSession(target.db_config, foreign_keys=False)) as session:
        session.abort()
        with pytest.raises(DMError, match="stopped") as refused:
            session.execute(
                "CREATE TABLE d.t (id INT)", "create table", QueryEvent(0, 0, 0, "d", b""), 1, UpstreamSession("mysql")
            )
    assert refused.value.retryable
    assert target.execute("SHOW TABLES FROM d") == []


def test_a_table_is_shown_in_one_zone_whatever_statement_ran_before(target: MariaDBServer) -> None:
    """A run compares what it sees with what an earlier one, on another connection, has stored."""
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (a TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00')")
    with closing(DDLSession(target.db_config, foreign_keys=False)) as session:
        before = session.shown([("d", "t")]).definitions
        event = QueryEvent(0, 0, 0, "d", b"", time_zone="+08:00")
        session.execute("CREATE TABLE d.u (id INT)", "create table", event, 1, UpstreamSession("mariadb"))
        assert session.shown([("d", "t")]).definitions == before


def test_a_table_that_its_statement_fills_is_killed_anywhere(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement is a part of a transaction, which starts over when the run died after it."""
    cfg = prepared(mariadb_upstream, target)
    mariadb_upstream.execute(
        "INSERT INTO d.t VALUES (1, 1), (2, 2)",
        "CREATE TABLE d.s (PRIMARY KEY (id)) AS SELECT * FROM d.t",
        "UPDATE d.s SET v = 5",
        "CREATE OR REPLACE TABLE d.s (PRIMARY KEY (id)) AS SELECT id, v, 1 AS w FROM d.t",
        "INSERT INTO d.s VALUES (3, 3, 3)",
    )
    end = location(mariadb_upstream).position
    for seed in range(3):
        target.execute("DROP DATABASE IF EXISTS dm_meta", "DROP TABLE IF EXISTS d.s", "DELETE FROM d.t")
        kill_again_and_again(cfg, spark, None, Faults(monkeypatch, seed, longest=4), end)
        assert_equal(mariadb_upstream, target, "d.t", "d.s")
