"""A worker frozen in a task's transaction: its successor continues, and the worker changes nothing after it wakes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CLIENT

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, await_stopped, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import IDLE, BatchProgress
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.connection import set_session
from tests.harness.proctree import descendants, spark_pythons
from tests.integration.syncer.driver_process import start_driver
from tests.integration.syncer.support import assert_equal, running, subtask

#: One second, because a quick statement about the table does not wait for the row.
_WAITING = (
    "SELECT 1 FROM information_schema.processlist"
    " WHERE command = 'Query' AND time >= 1 AND info LIKE '%`d`.`t`%' AND info NOT LIKE '%processlist%'"
)

pytestmark = [pytest.mark.timeout(900)]


#: The driver's processes to stop: all, or only Spark's Python.
FREEZES: dict[str, Callable[[int], list[int]]] = {
    "worker": lambda pid: [pid, *descendants(pid)],
    "task": spark_pythons,
}


def signalled(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    if number == signal.SIGSTOP:
        for pid in pids:
            await_stopped(pid)


@contextmanager
def frozen_in_a_transaction(
    cfg: SubTaskConfig, upstream: SQLServer, server: SQLServer, what: str
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A driver whose processes are stopped after a task has changed a row: its transaction is open, and holds the row
    with the bucket's marker."""
    with closing(server.connect(autocommit=False)) as blocker:
        with blocker.cursor() as cursor:
            cursor.execute("SELECT * FROM d.t WHERE id = 1 FOR UPDATE")
        driver = start_driver(cfg)
        frozen: list[int] = []
        try:
            upstream.execute("UPDATE d.t SET v = 2 WHERE id = 1")
            wait_until(lambda: bool(server.execute(_WAITING)), "a task waits for the row", WAIT_TIMEOUT)
            frozen = FREEZES[what](driver.pid)
            signalled(frozen, signal.SIGSTOP)
            blocker.rollback()
            wait_until(lambda: not server.execute(_WAITING), "the row is changed", WAIT_TIMEOUT)
            assert server.execute("SELECT v FROM d.t WHERE id = 1") == [(1,)], "not committed"
            yield driver, frozen
        finally:
            signalled([*FREEZES["worker"](driver.pid), *frozen], signal.SIGKILL)
            driver.wait(WAIT_TIMEOUT)


@pytest.mark.target_with("rows held by open transactions")
@pytest.mark.parametrize(
    ("what", "family", "tiny"), [("task", "target", "-1"), ("worker", "mysql", "-1"), ("worker", "target", "10000")]
)
def test_a_takeover_goes_on_past_a_frozen_transaction_and_a_ddl(
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: SQLServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    family: str,
    tiny: str,
) -> None:
    """The frozen batch is a Spark job, or the driver applies it itself."""
    monkeypatch.setenv("DM_TINY_BATCH", tiny)
    server = {"target": target, "mysql": mysql_upstream}[family]
    for each in (mariadb_upstream, server):
        each.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
        each.execute("INSERT INTO d.t VALUES (1, 1)")
    cfg = subtask(mariadb_upstream, server)
    with frozen_in_a_transaction(cfg, mariadb_upstream, server, what) as (driver, frozen):
        mariadb_upstream.execute("ALTER TABLE d.t ADD COLUMN n INT", "INSERT INTO d.t VALUES (2, 2, 2)")
        with running(cfg, spark) as run:
            run.wait_synced(mariadb_upstream)
            signalled(frozen, signal.SIGCONT)
            assert driver.wait(WAIT_TIMEOUT) == 1
            assert driver.stdout is not None
            assert "may not write" in driver.stdout.read()
            mariadb_upstream.execute("UPDATE d.t SET v = v + 1")
            run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, server, "d.t")


@pytest.mark.parametrize("family", ["target", "mysql"])
def test_a_takeover_goes_on_past_a_checkpoint_that_is_not_committed(
    mysql_upstream: MySQLServer, target: SQLServer, family: str
) -> None:
    server = {"target": target, "mysql": mysql_upstream}[family]
    config = server.db_config
    cfg = SubTaskConfig("t", "s", "all", config, config)
    here = Location(Position("bin.000001", 4))
    with closing(MetaStore(cfg)) as first, closing(MetaStore(cfg)) as second:
        first.prepare()
        epoch = first.take_over(2).epoch
        progress = BatchProgress(1, epoch, IDLE, here, here)
        first.write(progress)
        frozen = server.connect(autocommit=False, client_flag=CLIENT.FOUND_ROWS)
        set_session(frozen, dict(config.session))

        def left_open(put: Callable[[Connection[Any]], None]) -> None:
            put(frozen)

        first.write(progress, through=left_open)
        assert second.take_over(2).epoch > epoch
        with pytest.raises(pymysql.Error):
            frozen.commit()
        frozen.close()
        with pytest.raises(DMError, match="may not write"):
            first.write(progress)
