"""Hazard: the target falls back to an older state (a replica that lags behind takes over, a backup is restored), and
what it lost is never applied again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import OPEN, AppliedBuckets, BatchProgress
from dm_worker.syncer.execution.apply import apply_bucket
from dm_worker.syncer.execution.compaction import INSERTED
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from tests.integration.apply.support import BATCHES, TOKEN, content_of, plan_of, prepare, spec_of, states_of
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

TABLES = ("d.plain", "d.keyless")


@pytest.fixture
def tables(mariadb_upstream: MariaDBServer, new_mariadb: Callable[..., MariaDBServer]) -> MariaDBServer:
    """A target of the test's own with the upstream's tables."""
    target = new_mariadb(binlog=False)
    for server in (mariadb_upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.plain (id INT PRIMARY KEY, v VARCHAR(20))",
            "CREATE TABLE d.keyless (id INT, v VARCHAR(20))",
        )
    return target


def change(upstream: MariaDBServer, word: str, first: int) -> None:
    values = ",".join(f"({i}, '{word}')" for i in range(first, first + 20))
    upstream.execute(
        *(f"INSERT INTO {table} (id, v) VALUES {values}" for table in TABLES),
        *(f"UPDATE {table} SET v = '{word}' WHERE id < {first} AND id % 3 = 0" for table in TABLES),
        *(f"DELETE FROM {table} WHERE id = {first - 7}" for table in TABLES),
    )


def take_snapshot(target: MariaDBServer) -> None:
    target.kill()
    shutil.copytree(target.data, target.dir / "snapshot")
    target.start()


def set_back(target: MariaDBServer) -> None:
    target.kill()
    shutil.rmtree(target.data)
    shutil.copytree(target.dir / "snapshot", target.data)
    target.start()


def test_a_target_that_falls_back_under_a_run_is_noticed_and_gets_what_it_lost(
    mariadb_upstream: MariaDBServer, tables: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = subtask(mariadb_upstream, tables)
    with running(cfg, spark) as run:
        change(mariadb_upstream, "kept", 10)
        run.wait_synced(mariadb_upstream)
        take_snapshot(tables)
        change(mariadb_upstream, "lost", 40)
        change(mariadb_upstream, "lost too", 70)
        run.wait_synced(mariadb_upstream)
        assert_equal(mariadb_upstream, tables, *TABLES)
        set_back(tables)
        mariadb_upstream.execute("INSERT INTO d.keyless VALUES (100, 'new')")

        def has_chosen() -> bool:
            return run.outcome is not None or tables.execute("SELECT 1 FROM d.keyless WHERE v = 'new'") != []

        wait_until(has_chosen, "the run neither goes on nor ends", WAIT_TIMEOUT)
        (error,) = run.wait_ended().errors
        assert "the target went back" in error.message
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, tables, *TABLES)


def test_a_target_that_falls_back_between_two_runs_gets_what_it_lost(
    mariadb_upstream: MariaDBServer, tables: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = subtask(mariadb_upstream, tables)
    with running(cfg, spark) as run:
        change(mariadb_upstream, "kept", 10)
        run.wait_synced(mariadb_upstream)
        take_snapshot(tables)
        change(mariadb_upstream, "lost", 40)
        mariadb_upstream.execute("ALTER TABLE d.plain ADD COLUMN n INT DEFAULT 7 FIRST")
        change(mariadb_upstream, "lost too", 70)
        run.wait_synced(mariadb_upstream)
    set_back(tables)
    change(mariadb_upstream, "new", 100)
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, tables, *TABLES)


# -- what a write must find ----------------------------------------------------------------------------------------


def at(pos: int) -> Location:
    return Location(Position("bin.000001", pos))


@pytest.fixture
def store(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> Iterator[MetaStore]:
    with closing(MetaStore(subtask(mariadb_upstream, target), should_stop=lambda: True)) as store:
        store.prepare()
        yield store


def intent(epoch: int, number: int) -> BatchProgress:
    return BatchProgress(number, epoch, OPEN, at(10 * number), at(10 * number + 10), buckets=4, keyless_since=number)


def test_a_write_that_misses_an_earlier_one_is_refused(store: MetaStore, target: MariaDBServer) -> None:
    epoch = store.take_over(4).epoch
    store.write(intent(epoch, 1))
    target.execute(
        f"CREATE TABLE dm_meta.older LIKE {store.batches}", f"INSERT INTO dm_meta.older SELECT * FROM {store.batches}"
    )
    # The batch row says the same before and after: only the record of a statement differs, for example.
    store.write(intent(epoch, 1))
    target.execute(f"REPLACE INTO {store.batches} SELECT * FROM dm_meta.older")
    with pytest.raises(DMError, match="the target went back"):
        store.write(intent(epoch, 2))
    target.execute(f"DELETE FROM {store.batches}")
    with pytest.raises(DMError, match="the target went back"):
        store.write(intent(epoch, 2))


def test_a_write_that_misses_a_bucket_of_the_batch_is_refused(store: MetaStore, target: MariaDBServer) -> None:
    epoch = store.take_over(4).epoch
    store.write(intent(epoch, 1))
    target.execute(f"UPDATE {store.markers} SET batch = 1 WHERE bucket IN (0, 2)")
    with pytest.raises(DMError, match="the target went back"):
        store.write(intent(epoch, 2), applied=AppliedBuckets(1, 3))
    store.write(intent(epoch, 2), applied=AppliedBuckets(1, 2))
    assert target.execute(f"SELECT batch FROM {store.batches}") == [(2,)]


def test_a_newer_run_is_not_taken_for_a_fall(store: MetaStore) -> None:
    epoch = store.take_over(4).epoch
    with closing(MetaStore(store._cfg, should_stop=lambda: True)) as other:
        other.take_over(4)
    with pytest.raises(DMError, match="has a newer epoch"):
        store.write(intent(epoch, 1))


def test_a_commit_whose_answer_is_lost_is_no_fall(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = MetaStore(store._cfg)
    epoch = patient.take_over(4).epoch
    commit, losses = pymysql.connections.Connection.commit, [1]

    def lossy(self: Any) -> None:
        commit(self)
        if losses and losses.pop():
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(pymysql.connections.Connection, "commit", lossy)
    with closing(patient):
        patient.write(intent(epoch, 1))
        assert not losses
        patient.write(intent(epoch, 2))


def test_an_epoch_is_never_used_twice_though_nothing_of_it_is_left(store: MetaStore) -> None:
    epochs = []
    for _ in range(20):
        epochs.append(store.take_over(4).epoch)
        store.remove()
    assert len(set(epochs)) == 20


def test_a_bucket_without_its_intent_is_not_written(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY)")
    plans = {1: plan_of(target, "t")}
    content = content_of(plans, states_of([(INSERTED, b"1", b"(1)")]))
    late = replace(TOKEN, number=2, keyless_since=2)
    with pytest.raises(DMError, match="the target went back"):
        apply_bucket(spec_of(target), late, 0, content, plans)
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    target.execute(f"UPDATE {BATCHES} SET batch = 2")
    assert not apply_bucket(spec_of(target), late, 0, content, plans).skipped
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(1,)]
