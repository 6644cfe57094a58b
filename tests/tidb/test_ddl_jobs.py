"""Hazard: TiDB goes on with a DDL alone when its connection or its server has gone, and the statement runs twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from tests.harness.proxy import CountingProxy
from tests.integration.syncer.support import Running, assert_equal, read_by_somebody, running, subtask

pytestmark = [pytest.mark.timeout(600, func_only=True)]

#: A second one would be called `v_2`.
ADD_INDEX = "ALTER TABLE d.t ADD INDEX (v)"
#: Makes the filling of an index slow.
SLOWLY = (
    "tidb_enable_dist_task = 0",
    "tidb_ddl_enable_fast_reorg = 0",
    "tidb_ddl_reorg_batch_size = 32",
    "tidb_ddl_reorg_worker_cnt = 1",
)
_JOB = "SELECT STATE, QUERY FROM information_schema.DDL_JOBS WHERE STATE IN ('queueing', 'running', 'none', 'paused')"


def prepared(upstream: SQLServer, tidb: TiDBServer, rows: int = 2) -> SubTaskConfig:
    values = ", ".join(f"({i}, {i})" for i in range(rows))
    for server in (upstream, tidb):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO d.t VALUES {values}",
        )
    return subtask(upstream, tidb)


@contextmanager
def slowly(tidb: TiDBServer) -> Iterator[None]:
    """While the block runs, TiDB takes seconds to fill an index."""
    for setting in SLOWLY:
        tidb.execute(f"SET GLOBAL {setting}")
    try:
        yield
    finally:
        for setting in reversed(SLOWLY):
            tidb.execute(f"SET GLOBAL {setting.partition(' ')[0]} = DEFAULT")


def wait_for_job(tidb: TiDBServer, text: str = "ADD INDEX") -> None:
    wait_until(lambda: any(text in str(query) for _, query in tidb.execute(_JOB)), "TiDB has begun the DDL")


def _shown(run: Running, pattern: str) -> bool:
    """Whether query-status shows such a DDL of the target."""
    return re.search(pattern, run.unit.status().targetDDL) is not None


def indexes(tidb: TiDBServer) -> list[str]:
    return sorted(str(row[2]) for row in tidb.execute("SHOW INDEX FROM d.t"))


def test_a_job_that_outlives_its_connection_is_waited_for(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    cfg = prepared(mariadb_upstream, tidb)
    with closing(CountingProxy(tidb.port)) as proxy:
        through = replace(cfg, to=replace(tidb.db_config, port=proxy.port))
        with running(through, spark) as run:
            with read_by_somebody(tidb):
                mariadb_upstream.execute(ADD_INDEX, "INSERT INTO d.t VALUES (9, 9)")
                wait_for_job(tidb)
                wait_until(lambda: _shown(run, r"ADD INDEX `v` .* \(for \d+ s\): job \d+ \(run"), "the job is shown")
                proxy.close()
                # The next connection goes to the same port again.
                again = CountingProxy(tidb.port, at=proxy.port)
                wait_until(lambda: again.round_trips > 10, "the run has looked at the target again")
                assert indexes(tidb) == ["PRIMARY"]
                wait_until(lambda: _shown(run, r"earlier DDL \(for \d+ s\): job \d+ \(run"), "the job is waited for")
            run.wait_synced(mariadb_upstream)
            again.close()
    assert indexes(tidb) == ["PRIMARY", "v"]
    assert_equal(mariadb_upstream, tidb, "d.t")


@pytest.mark.core
def test_a_job_that_outlives_its_server_is_waited_for(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    """The server dies in the middle of the job, and goes on with it for seconds when it is back."""
    cfg = prepared(mariadb_upstream, tidb, 20_000)
    with slowly(tidb), running(cfg, spark) as run:
        mariadb_upstream.execute(ADD_INDEX, "INSERT INTO d.t VALUES (20001, 9)")
        with read_by_somebody(tidb):
            wait_for_job(tidb)
            tidb.kill()
        tidb.start()
        run.wait_synced(mariadb_upstream)
        assert not run.unit.status().targetDDL
    assert indexes(tidb) == ["PRIMARY", "v"]
    assert_equal(mariadb_upstream, tidb, "d.t")
    tidb.execute("ADMIN CHECK TABLE d.t")


def test_the_rows_of_a_running_job_are_shown(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    """TiDB counts them every 5 s."""
    prepared(mariadb_upstream, tidb, 20_000)
    for power in range(5):
        for server in (mariadb_upstream, tidb):
            server.execute(f"INSERT INTO d.t SELECT id + {20_000 << power}, v FROM d.t")
    with slowly(tidb), running(subtask(mariadb_upstream, tidb), spark) as run:
        mariadb_upstream.execute(ADD_INDEX)
        wait_until(lambda: _shown(run, r"job \d+ \(running, [1-9]\d* rows\)"), "the job's rows are shown")
        run.wait_synced(mariadb_upstream)
        assert not run.unit.status().targetDDL


@pytest.mark.parametrize("way", ["goes on", "cancelled"])
def test_a_task_that_was_stopped_at_once_takes_over_its_job(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, way: str
) -> None:
    cfg = prepared(mariadb_upstream, tidb)
    with read_by_somebody(tidb):
        with running(cfg, spark) as run:
            mariadb_upstream.execute(ADD_INDEX, "INSERT INTO d.t VALUES (9, 9)")
            wait_for_job(tidb)
            run.stop(graceful=False)
        if way == "cancelled":
            for number, *_ in tidb.execute("SELECT JOB_ID FROM information_schema.DDL_JOBS WHERE STATE = 'running'"):
                tidb.execute(f"ADMIN CANCEL DDL JOBS {number}")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
    assert indexes(tidb) == ["PRIMARY", "v"]
    assert_equal(mariadb_upstream, tidb, "d.t")
