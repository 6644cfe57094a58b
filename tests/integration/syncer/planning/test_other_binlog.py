"""Hazard: the upstream has another binlog under the same names (RESET MASTER, a failover by position, reused GTIDs).

The task goes on in it at its old position, and the rows before that position are missing silently.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.dumper import DumpUnit
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from pkg.config.model import LoaderConfig, Meta, SubTaskConfig, SyncerConfig
from pkg.errors import Code, DMError
from tests.harness.proxy import CountingProxy
from tests.integration.relay_routes import relayed
from tests.integration.syncer.support import Running, assert_equal, run_until_synced, running, subtask

pytestmark = pytest.mark.timeout(900)

#: So many rows are written before the reset, and more after it: the new file is longer than the old position.
BEFORE, AFTER = 5, 40


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


def reset(server: SQLServer) -> None:
    """The first file again, whose FORMAT_DESCRIPTION has another second than the one before."""
    (before,) = server.execute("SELECT UNIX_TIMESTAMP()")
    wait_until(lambda: server.execute("SELECT UNIX_TIMESTAMP()") > [before], "the clock stands still", WAIT_TIMEOUT)
    server.execute("RESET MASTER")


def write(server: SQLServer, first: int, count: int) -> None:
    # Events of one size: an old position is at the end of an event of the new file too.
    server.execute(*(f"INSERT INTO d.t VALUES ({i}, 'row {i:+04}')" for i in range(first, first + count)))


def started(upstream: SQLServer, target: MariaDBServer, *, gtid: bool) -> SubTaskConfig:
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100))")
    upstream.execute("RESET MASTER")
    for server in (upstream, target):
        write(server, -1, 1)
    return subtask(upstream, target, enable_gtid=gtid, syncer=SyncerConfig(worker_count=2))


def rows_of(server: SQLServer) -> int:
    return int(server.execute("SELECT COUNT(*) FROM d.t")[0][0])


def noted(target: MariaDBServer) -> bool:
    """Whether the checkpoint says which file it is in."""
    if not target.execute("SHOW COLUMNS FROM dm_meta.t_syncer_batch LIKE 'end_file'"):
        return False
    return target.execute("SELECT end_file FROM dm_meta.t_syncer_batch") != [("",)]


def refused(run: Running, target: MariaDBServer) -> DMError:
    """The error of a run that must not go on."""
    wait_until(lambda: run.outcome is not None or rows_of(target) > BEFORE + 1, "nothing happens", WAIT_TIMEOUT)
    assert run.outcome is not None, "it goes on in another binlog"
    (error,) = run.outcome.errors
    assert error.kind is Code.SyncerGetEvent, error
    assert "another binlog than the one that was read before" in error.message
    assert "`dmctl resume-task t -s source-1`" in error.workaround
    assert "`dmctl stop-task t`" in error.workaround
    return error


@pytest.mark.parametrize("gtid", [False, True])
def test_a_reset_while_the_task_is_stopped_stops_it(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, gtid: bool
) -> None:
    cfg = started(upstream, target, gtid=gtid)
    write(upstream, 0, BEFORE)
    run_until_synced(cfg, spark, upstream)
    reset(upstream)
    write(upstream, BEFORE, AFTER)
    with running(cfg, spark) as run:
        refused(run, target)
    assert rows_of(target) == BEFORE + 1
    if not gtid:
        # The way out that the error names: from the beginning of the new binlog.
        run.unit.remove_meta()
        run_until_synced(replace(cfg, meta=Meta("mysql-bin.000001", 4, "")), spark, upstream)
        assert_equal(upstream, target, "d.t")


@pytest.mark.parametrize("gtid", [False, True])
def test_a_reset_while_the_task_runs_stops_it(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, gtid: bool
) -> None:
    proxy = CountingProxy(upstream.port)
    cfg = started(upstream, target, gtid=gtid)
    cfg = replace(cfg, from_=replace(cfg.from_, port=proxy.port))
    with closing(proxy), running(cfg, spark) as run:
        write(upstream, 0, BEFORE)
        run.wait_synced(upstream)
        proxy.refusing = True
        proxy.cut()
        reset(upstream)
        write(upstream, BEFORE, AFTER)
        proxy.refusing = False
        refused(run, target)


@pytest.mark.parametrize("gtid", [False, True])
def test_a_reset_is_noticed_in_a_relay_log_that_was_fetched_again(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, gtid: bool
) -> None:
    upstream = mariadb_upstream
    cfg = started(upstream, target, gtid=gtid)
    write(upstream, 0, BEFORE)
    with relayed(upstream, tmp_path / "first", gtid=gtid) as relay, running(cfg, spark, relay=relay.reader()) as run:
        run.wait_synced(upstream)
    reset(upstream)
    write(upstream, BEFORE, AFTER)
    with relayed(upstream, tmp_path / "second", gtid=gtid) as relay:
        wait_until(relay.caught_up, "the relay is behind", WAIT_TIMEOUT)
        with running(cfg, spark, relay=relay.reader()) as run:
            refused(run, target)


def test_another_server_behind_the_same_address_stops_the_task(
    new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer, spark: SparkEngine
) -> None:
    first, second = new_mariadb(gtid=True), new_mariadb(gtid=True)
    cfg = started(first, target, gtid=False)
    proxy = CountingProxy(first.port)
    cfg = replace(cfg, from_=replace(cfg.from_, port=proxy.port))
    second.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100))", "RESET MASTER")
    write(second, BEFORE, AFTER)
    with closing(proxy), running(cfg, spark) as run:
        write(first, 0, BEFORE)
        run.wait_synced(first)
        proxy.lead_to(second.port)
        proxy.cut()
        refused(run, target)
    # The way out: back to the former server.
    run_until_synced(replace(cfg, from_=first.db_config), spark, first)
    assert_equal(first, target, "d.t")


def test_a_checkpoint_that_says_nothing_of_its_file_goes_on(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = started(upstream, target, gtid=False)
    write(upstream, 0, BEFORE)
    run_until_synced(cfg, spark, upstream)
    target.execute("ALTER TABLE dm_meta.t_syncer_batch DROP COLUMN start_file, DROP COLUMN end_file")
    # Without a change of the upstream the file is noted all the same.
    with running(cfg, spark):
        wait_until(lambda: noted(target), "not noted", WAIT_TIMEOUT)
    reset(upstream)
    write(upstream, BEFORE, AFTER)
    with running(cfg, spark) as run:
        refused(run, target)


def test_a_file_of_the_same_binlog_is_no_other_one(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = started(upstream, target, gtid=False)
    for first in range(0, 30, 10):
        write(upstream, first, 5)
        upstream.execute("FLUSH BINARY LOGS")
        write(upstream, first + 5, 5)
        run_until_synced(cfg, spark, upstream)
    assert_equal(upstream, target, "d.t")


def test_a_reset_during_a_connection_that_stays_stops_the_task(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    # The servers end the stream with an error, and the next one begins in the other file.
    cfg = started(upstream, target, gtid=False)
    with running(cfg, spark) as run:
        write(upstream, 0, BEFORE)
        run.wait_synced(upstream)
        wait_until(lambda: noted(target), "the checkpoint names no file", WAIT_TIMEOUT)
        reset(upstream)
        write(upstream, BEFORE, AFTER)
        refused(run, target)
    assert rows_of(target) == BEFORE + 1


def test_a_reset_between_the_full_copy_and_the_first_checkpoint_stops_the_task(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100))", "RESET MASTER")
    write(upstream, -1, BEFORE + 1)
    cfg = subtask(upstream, target, loader=LoaderConfig(dir=str(tmp_path / "dump")), task_mode="all", meta=None)
    dumped = DumpUnit(cfg, spark).run()
    assert dumped.finished, dumped.errors
    write(upstream, 100, 1)
    reset(upstream)
    loaded = LoadUnit(cfg, spark).run()
    assert loaded.finished, loaded.errors
    write(upstream, BEFORE, AFTER)
    with running(cfg, spark) as run:
        refused(run, target)
    assert rows_of(target) == BEFORE + 1
