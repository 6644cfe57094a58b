"""Hazards: a killed driver, a killed Python worker or a restarted target loses rows or applies them twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchLimits, BatchPolicy, Budget
from pkg.config.model import SyncerConfig
from tests.harness.proctree import kill_hard, spark_pythons
from tests.integration.syncer.driver_process import start_driver, wait_for
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, running, subtask

#: Kills of the whole process: each costs the start of another Spark.
KILLS = 2
ALL = [f"d.{name}" for name in TABLES]

pytestmark = pytest.mark.timeout(900)


class Writer:
    """Changes the upstream until it is stopped."""

    def __init__(self, upstream: MariaDBServer, seed: int) -> None:
        self._upstream = upstream
        self._seed = seed
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        while not self._end.is_set():
            self._seed += 1
            scramble(self._upstream, self._seed, 20)
            # Rows without a key are written one by one: the syncer is to keep up.
            self._end.wait(0.03)

    def stop(self) -> None:
        self._end.set()
        self._thread.join(WAIT_TIMEOUT)
        assert not self._thread.is_alive()


def batch(target: MariaDBServer) -> tuple[int, str]:
    try:
        ((number, state),) = target.execute("SELECT batch, state FROM dm_meta.t_syncer_batch")
    except Exception:  # noqa: BLE001 - not there yet
        return (0, "none")
    return int(number), str(state)


def kill_during_a_batch(driver: subprocess.Popen[str], target: MariaDBServer, chance: random.Random) -> None:
    """kill -9 at a random moment after the process has begun a batch of its own."""
    before = batch(target)[0]
    end = time.monotonic() + WAIT_TIMEOUT
    try:
        while batch(target)[0] < before + 2 or batch(target)[1] != "open":
            assert driver.poll() is None, driver.stdout.read() if driver.stdout else ""
            assert time.monotonic() < end, "the driver begins no batch"
            time.sleep(0.01)
        time.sleep(chance.random() * 0.4)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait(WAIT_TIMEOUT)


@pytest.mark.parametrize(("gtid", "tiny"), [(False, "-1"), (True, "-1"), (True, "10000000")])
def test_killed_driver_loses_and_doubles_nothing(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    gtid: bool,
    tiny: str,
) -> None:
    """Its batches are Spark jobs, or it applies all of them itself."""
    monkeypatch.setenv("DM_TINY_BATCH", tiny)
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, enable_gtid=gtid)
    chance = random.Random(17)
    writer = Writer(mariadb_upstream, 100)
    try:
        for _ in range(KILLS):
            kill_during_a_batch(start_driver(cfg), target, chance)
    finally:
        writer.stop()
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    assert_equal(mariadb_upstream, target, *ALL)


def test_transaction_beyond_the_budget_is_cut_and_killed_inside(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "limits", lambda self, parallel: BatchLimits(20_000, 50, 4_000))
    # Full batches are placed by blocks of keys, the rest of a transaction is not.
    monkeypatch.setattr("dm_worker.syncer.planning.batch.BLOCKS_FROM", 10_000)
    chance = random.Random(7)
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: chance.choice(list(BatchKind)))
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, syncer=SyncerConfig(worker_count=5))
    values = [f"({i}, '{'x' * 90}', {i})" for i in range(1, 3001)]
    for table in ("plain", "keyless"):
        statements = [f"INSERT INTO d.{table} VALUES {','.join(values[i : i + 30])}" for i in range(0, 3000, 30)]
        mariadb_upstream.execute("BEGIN", *statements, f"UPDATE d.{table} SET n = n + 1", "COMMIT")
    for _ in range(3):
        with running(cfg, spark) as run:
            number = batch(target)[0]
            end = time.monotonic() + WAIT_TIMEOUT
            while batch(target)[0] < number + 3 and time.monotonic() < end and run.outcome is None:
                time.sleep(0.02)
            assert run.stop(graceful=False).errors == []
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    assert_equal(mariadb_upstream, target, "d.plain", "d.keyless")


def test_killed_python_workers_change_nothing(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: BatchKind.SMALL)
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    writer = Writer(mariadb_upstream, 200)
    try:
        with running(cfg, spark) as run:
            wait_for(lambda: batch(target)[0] >= 2)
            for _ in range(4):
                time.sleep(0.7)
                for pid in spark_pythons(os.getpid()):
                    kill_hard(pid)
            writer.stop()
            run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    finally:
        writer.stop()
    assert_equal(mariadb_upstream, target, *ALL)


def test_target_that_gains_a_column_while_a_batch_is_unfinished_gets_no_row_twice(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker's shard of ``plain`` is altered: the unfinished batch has another plan when it is done again, here
    in the driver."""
    kind = BatchKind.SMALL
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: kind)
    make_tables(mariadb_upstream, target)
    for server in (mariadb_upstream, target):
        server.execute("INSERT INTO d.plain VALUES (1, 'old', 0)")
    cfg = subtask(mariadb_upstream, target, syncer=SyncerConfig(worker_count=4))
    blocker = target.connect(autocommit=False)
    with running(cfg, spark) as run:
        with blocker.cursor() as cursor:
            cursor.execute("SELECT * FROM d.plain WHERE id = 1 FOR UPDATE")
        rows = "(1, 'a', 1), (1, 'a', 1), (2, 'b', 2)"
        mariadb_upstream.execute(
            "BEGIN", "UPDATE d.plain SET v = 'new' WHERE id = 1", f"INSERT INTO d.keyless VALUES {rows}", "COMMIT"
        )
        # The bucket of the table without a key is in, that of the locked row is not.
        wait_for(lambda: len(target.execute("SELECT * FROM d.keyless")) == 3)
        assert run.stop(graceful=False).errors == []
    blocker.close()
    assert batch(target)[1] == "open"
    target.execute("ALTER TABLE d.plain ADD COLUMN more INT NOT NULL DEFAULT 7")
    kind = BatchKind.TINY
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    assert_equal(mariadb_upstream, target, "d.keyless")
    assert target.execute("SELECT * FROM d.plain") == [(1, "new", 0, 7)]


def test_meta_tables_of_an_earlier_version_are_brought_up_to_date(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    for i in (1, 2):
        mariadb_upstream.execute(f"INSERT INTO d.keyless VALUES ({i}, 'a', 1)")
        with running(cfg, spark) as run:
            run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
            assert run.stop().errors == []
        assert_equal(mariadb_upstream, target, "d.keyless")
        target.execute("ALTER TABLE dm_meta.t_syncer_batch DROP COLUMN keyless, DROP COLUMN since")


def test_restarting_target_is_waited_for(
    mariadb_upstream: MariaDBServer, new_mariadb: Callable[..., MariaDBServer], spark: SparkEngine
) -> None:
    target = new_mariadb(binlog=False)
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    writer = Writer(mariadb_upstream, 300)
    try:
        with running(cfg, spark) as run:
            wait_for(lambda: batch(target)[0] >= 2)
            target.kill()
            target.start()
            wait_for(lambda: batch(target)[0] > 4)
            writer.stop()
            run.wait_synced(mariadb_upstream, WAIT_TIMEOUT)
    finally:
        writer.stop()
    assert_equal(mariadb_upstream, target, *ALL)
