"""Batches that the driver applies itself. Hazards: a pause waits for a lock of the target, what it canceled is written
behind its back, connections stay open, rows wait for a Spark that starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchPolicy
from pkg.config.model import SyncerConfig
from tests.harness.slow_engine import SlowEngine
from tests.integration.syncer.support import assert_equal, rows, running, subtask

_WRITERS = "SELECT id FROM information_schema.processlist WHERE info LIKE '%`d`.`t`%' AND info NOT LIKE '%processlist%'"
_ALL = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()"


@pytest.fixture(autouse=True)
def in_the_driver(monkeypatch: pytest.MonkeyPatch, driver_and_spark_in_turns: None) -> None:
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: BatchKind.TINY)


def make_table(*servers: SQLServer) -> None:
    for server in servers:
        server.execute(
            "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)"
        )


@contextmanager
def locked_row(server: SQLServer) -> Iterator[None]:
    """Row 1 stays locked for as long as a test may take."""
    ((before,),) = server.execute("SELECT @@GLOBAL.innodb_lock_wait_timeout")
    server.execute("SET GLOBAL innodb_lock_wait_timeout = 3600")
    with closing(server.connect(autocommit=False)) as blocker, blocker.cursor() as cursor:
        cursor.execute("SELECT * FROM d.t WHERE id = 1 FOR UPDATE")
        try:
            yield
        finally:
            server.execute(f"SET GLOBAL innodb_lock_wait_timeout = {before}")


@pytest.mark.target_with("rows held by open transactions")
@pytest.mark.parametrize("graceful", [True, False])
def test_what_a_pause_cancels_is_not_written_before_the_next_run(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, graceful: bool
) -> None:
    make_table(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    with locked_row(target):
        with running(cfg, spark) as run:
            mariadb_upstream.execute("INSERT INTO d.t VALUES (2, 2)", "UPDATE d.t SET v = v + 1")
            wait_until(lambda: bool(target.execute(_WRITERS)), "a batch waits for the row", 60)
            outcome = run.stop(graceful=graceful)
        assert outcome.canceled
        assert not outcome.errors
    # Nobody holds the row any more. The server may execute what it had received; it does not get the COMMIT.
    wait_until(lambda: not target.execute(_WRITERS), "the canceled transaction has ended", 60)
    assert rows(target, "d.t") in ([(1, 1)], [(1, 1), (2, 2)]), "the INSERT may be a batch of its own"
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_its_connections_end_with_the_run(mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine) -> None:
    make_table(mariadb_upstream, target)
    ((before,),) = target.execute(_ALL)
    with running(subtask(mariadb_upstream, target), spark) as run:
        for number in range(2, 6):
            mariadb_upstream.execute(f"INSERT INTO d.t VALUES ({number}, 0)")
            run.wait_synced(mariadb_upstream)
        assert run.stop().errors == []
    wait_until(lambda: target.execute(_ALL) <= [(before,)], "all connections are closed", 60)


def test_they_do_not_wait_for_a_spark_that_starts(mariadb_upstream: SQLServer, target: SQLServer) -> None:
    make_table(mariadb_upstream, target)
    slow = SlowEngine()
    with running(subtask(mariadb_upstream, target), slow) as run:
        mariadb_upstream.execute("UPDATE d.t SET v = 7")
        run.wait_synced(mariadb_upstream)
        assert slow.starts == 0
    assert_equal(mariadb_upstream, target, "d.t")


def seen_first(server: SQLServer, above: int) -> int:
    """How many rows with such keys there are when there is one."""
    counts: list[int] = []

    def found() -> bool:
        counts.append(server.execute(f"SELECT COUNT(*) FROM d.t WHERE id > {max(1, above)}")[0][0])
        return counts[-1] > 0

    wait_until(found, "a row is there", 60, step=0.0)
    return counts[-1]


def test_a_transaction_is_visible_as_a_whole(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    """All rows of the batch are one transaction of the target, with as many writers as the task may have."""
    make_table(mariadb_upstream, target)
    with running(subtask(mariadb_upstream, target, syncer=SyncerConfig(worker_count=16)), spark) as run:
        for step in range(20):
            values = ", ".join(f"({1000 * step + number}, {step})" for number in range(2, 50))
            mariadb_upstream.execute("BEGIN", f"INSERT INTO d.t VALUES {values}", "COMMIT")
            assert seen_first(target, 1000 * step) == 48
        assert run.unit.figures.applying.batches["small"] == 0
