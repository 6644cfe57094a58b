"""Hazard: a statement of a worker that was stopped, cut off or killed runs behind its successor's back, or twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT
from dm_worker.dumper import DumpUnit
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from dm_worker.loader.schema_creation import create_schema
from dm_worker.meta.ddl_fence import DDLFence
from dm_worker.subtask.unit import UnitOutcome
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.ddl.variables import UpstreamSession
from pkg.binlog.events import QueryEvent
from pkg.config.model import LoaderConfig, SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query
from pkg.settings.connections import DBConfig
from tests.harness.proxy import CountingProxy
from tests.integration.syncer.driver_process import start_driver, wait_for
from tests.integration.syncer.support import assert_equal, running, subtask

pytestmark = [pytest.mark.timeout(900)]

ALTER = "ALTER TABLE `d`.`t` ADD INDEX (v)"
_UNDER_WAY = "SELECT id FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE `d`.`t`%'"
_WAITING = "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK(%'"


@pytest.fixture(params=["target", "mysql_upstream"])
def server(request: pytest.FixtureRequest, target: SQLServer) -> SQLServer:
    """The target, of both families."""
    found: SQLServer = request.getfixturevalue(request.param)
    return found


@contextmanager
def through_a_proxy(server: SQLServer) -> Iterator[tuple[CountingProxy, DBConfig]]:
    with closing(CountingProxy(server.db_config.port)) as proxy:
        yield proxy, replace(server.db_config, port=proxy.port)


@contextmanager
def read_by_somebody(server: SQLServer) -> Iterator[None]:
    """Whoever reads the table in a transaction makes DDL wait for its end."""
    with closing(server.connect(autocommit=False)) as reader:
        with reader.cursor() as cursor:
            cursor.execute("SELECT * FROM d.t")
        yield


def fence_of(server: SQLServer, timeout: float = WAIT_TIMEOUT) -> DDLFence:
    return DDLFence(SubTaskConfig("t", "s", "all", server.db_config, server.db_config), timeout=timeout)


def nobody(conn: Connection[Any]) -> None:
    """No later run has taken over."""


def made(*servers: SQLServer) -> None:
    for each in servers:
        each.execute(
            "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)"
        )


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE d.t", "DROP TABLE d.t"])
def test_a_stopped_workers_statement_does_not_begin_once_another_has_taken_over(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, statement: str
) -> None:
    """It is on its way when the worker is stopped, and arrives after rows that the successor has written."""
    made(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    with through_a_proxy(target) as (proxy, address):
        # The command and its text: the record of the statement holds the text alone.
        proxy.hold(b"\x03" + statement.split()[0].encode())
        driver = start_driver(replace(cfg, to=address))
        try:
            mariadb_upstream.execute(statement)
            wait_for(proxy.holding.is_set)
            os.kill(driver.pid, signal.SIGSTOP)
            with running(cfg, spark) as run:
                if "DROP" in statement:
                    mariadb_upstream.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
                mariadb_upstream.execute("INSERT INTO d.t VALUES (2, 2)")
                run.wait_synced(mariadb_upstream)
                proxy.release()
                os.kill(driver.pid, signal.SIGCONT)
                assert driver.wait(WAIT_TIMEOUT) == 1
                assert driver.stdout is not None
                assert "may not write any more" in driver.stdout.read()
                mariadb_upstream.execute("INSERT INTO d.t VALUES (3, 3)")
                run.wait_synced(mariadb_upstream)
        finally:
            driver.kill()
            driver.wait(WAIT_TIMEOUT)
    assert_equal(mariadb_upstream, target, "d.t")


def test_a_statement_that_outlives_its_connection_runs_once(
    mariadb_upstream: MariaDBServer, server: SQLServer, spark: SparkEngine
) -> None:
    made(mariadb_upstream, server)
    cfg = subtask(mariadb_upstream, server)
    with through_a_proxy(server) as (proxy, address), running(replace(cfg, to=address), spark) as run:
        with read_by_somebody(server):
            mariadb_upstream.execute("ALTER TABLE d.t ADD INDEX (v)")
            wait_for(lambda: bool(server.execute(_UNDER_WAY)))
            proxy.lose_clients()
            wait_for(lambda: bool(server.execute(_WAITING)) or len(server.execute(_UNDER_WAY)) > 1)
        mariadb_upstream.execute("INSERT INTO d.t VALUES (2, 2)")
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, server, "d.t")
    assert [row[2] for row in server.execute("SHOW INDEX FROM d.t")] == ["PRIMARY", "v"]


def test_who_takes_over_waits_for_a_statement_and_ends_an_idle_connection(server: SQLServer) -> None:
    made(server)
    first = DDLSession(server.db_config, True, fence_of(server))
    first.take_over(nobody)
    with closing(DDLSession(server.db_config, True, fence_of(server))) as second, closing(first):
        with read_by_somebody(server):
            event = QueryEvent(0, 0, 0, "d", b"")
            work = threading.Thread(
                target=first.execute, args=(ALTER, "alter table", event, 1, UpstreamSession("mysql"))
            )
            work.start()
            wait_for(lambda: bool(server.execute(_UNDER_WAY)))
            takeover = threading.Thread(target=second.take_over, args=(nobody,))
            takeover.start()
            wait_for(lambda: bool(server.execute(_WAITING)))
            assert server.execute(_UNDER_WAY), "it goes on"
        work.join(WAIT_TIMEOUT)
        takeover.join(WAIT_TIMEOUT)
        assert not takeover.is_alive()
        assert [row[2] for row in server.execute("SHOW INDEX FROM d.t")] == ["PRIMARY", "v"]
        with pytest.raises(DMError) as lost:
            first.execute("DROP TABLE d.t", "drop table", event, 1, UpstreamSession("mysql"))
        assert lost.value.retryable
        with pytest.raises(DMError, match="connection was lost"):
            first.execute("DROP TABLE d.t", "drop table", event, 1, UpstreamSession("mysql"))
        assert server.execute("SHOW TABLES FROM d") == [("t",)]


def test_a_statement_that_never_ends_is_an_error_with_the_way_out(server: SQLServer) -> None:
    with closing(connect(server.db_config, scope="downstream")) as holder:
        fence_of(server).take(holder, nobody)
        number = holder.thread_id()  # type: ignore[no-untyped-call]
        work = threading.Thread(target=_quietly, args=(holder, "SELECT SLEEP(1000)"), daemon=True)
        work.start()
        sleeping = "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"
        wait_for(lambda: bool(server.execute(sleeping)))
        with closing(connect(server.db_config, scope="downstream")) as conn:
            with pytest.raises(DMError, match="SLEEP") as stays:
                fence_of(server, 0.5).take(conn, nobody)
            assert f"KILL {number}" in stays.value.workaround
            server.execute(f"KILL {number}")
            work.join(WAIT_TIMEOUT)
            fence_of(server).take(conn, nobody)


def test_a_stopped_loads_tables_are_not_made_once_they_were_dropped(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    spark: SparkEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made(mariadb_upstream)
    cfg = replace(
        subtask(mariadb_upstream, target), task_mode="all", meta=None, loader=LoaderConfig(dir=str(tmp_path / "dump"))
    )
    assert DumpUnit(cfg, spark).run().finished
    reached, go_on = threading.Event(), threading.Event()

    def create_late(*args: Any) -> None:
        reached.set()
        go_on.wait()
        create_schema(*args)

    outcomes: list[UnitOutcome] = []
    stopped = threading.Thread(target=lambda: outcomes.append(LoadUnit(cfg, spark).run()))
    with monkeypatch.context() as patches:
        patches.setattr("dm_worker.loader.load_unit.create_schema", create_late)
        stopped.start()
        wait_for(reached.is_set)
    try:
        assert LoadUnit(cfg, spark).run().finished
        mariadb_upstream.execute("DROP TABLE d.t")
        with running(cfg, spark) as run:
            run.wait_synced(mariadb_upstream)
            go_on.set()
            stopped.join(WAIT_TIMEOUT)
            assert target.execute("SHOW TABLES FROM d") == []
    finally:
        go_on.set()
        stopped.join(WAIT_TIMEOUT)
    assert len(outcomes) == 1


def _quietly(conn: Connection[Any], sql: str) -> None:
    with suppress(pymysql.Error):
        query(conn, sql)
