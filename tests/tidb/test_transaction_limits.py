"""Hazard: a batch that is more than TiDB takes in a transaction stops the task, or is doubled when it is divided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.unit import run as unit_run
from dm_worker.syncer.unit.smaller_batches import TooMuchAtOnce, prepare_smaller_batches
from pkg.config.model import SubTaskConfig, SyncerConfig
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

_MADE = (
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT UNIQUE, b LONGBLOB)",
    "CREATE TABLE d.loose (n INT, b LONGBLOB)",
    "INSERT INTO d.t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')",
    *(f"INSERT INTO d.t VALUES ({n}, {n}, '')" for n in range(1000, 1016)),
)
_MIB = 1 << 20
#: Each row takes the value of the one before it, so one writer gets them all.
_CHAIN = [f"UPDATE d.t SET v = {999 + i}, b = REPEAT('c', {_MIB}) WHERE id = {1000 + i}" for i in range(16)]
#: Values change hands: in safe mode, an image of the middle of the range meets rows that are at its end.
_MOVES = (
    "UPDATE d.t SET v = 30 WHERE id = 1",
    "UPDATE d.t SET v = 40 WHERE id = 1",
    "UPDATE d.t SET v = 30 WHERE id = 2",
    "UPDATE d.t SET v = 1 WHERE id = 3",
)


def _memory(cfg: SubTaskConfig, mib: int) -> SubTaskConfig:
    return replace(cfg, to=replace(cfg.to, session=(*cfg.to.session, ("tidb_mem_quota_query", str(mib * _MIB)))))


def _workers(cfg: SubTaskConfig, count: int) -> SubTaskConfig:
    return replace(cfg, syncer=replace(cfg.syncer or SyncerConfig(), worker_count=count))


@contextmanager
def _divisions(monkeypatch: pytest.MonkeyPatch, *, allowed: bool = True) -> Iterator[list[bool]]:
    """For each division of a batch, whether a part of the batch was in, so that it needed safe mode."""
    found: list[bool] = []

    def divide(cfg: SubTaskConfig, store: MetaStore, refused: TooMuchAtOnce, *how: Any, **more: Any) -> None:
        if not allowed:
            raise refused.error
        prepare_smaller_batches(cfg, store, refused, *how, **more)
        found.append(store.exit_safe is not None)

    with monkeypatch.context() as patch:
        patch.setattr(unit_run, "prepare_smaller_batches", divide)
        yield found


def _one_transaction(upstream: SQLServer, *statements: str) -> None:
    upstream.execute("BEGIN", *statements, "COMMIT")


def _rows(table: str, first: int, count: int, size: int) -> list[str]:
    column = "(id, b)" if table == "t" else ""
    return [
        f"INSERT INTO d.{table} {column} VALUES ({first + i}, REPEAT('{'abcdefgh'[i % 8]}', {size}))"
        for i in range(count)
    ]


@pytest.mark.parametrize("gtid", [False, True])
def test_a_transaction_that_needs_too_much_memory_is_written_in_pieces(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, gtid: bool
) -> None:
    mariadb_upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    cfg = _memory(_workers(subtask(mariadb_upstream, tidb, enable_gtid=gtid), 1), 12)
    with _divisions(monkeypatch) as divisions:
        # One writer: nothing is in, so also the rows without a key may be written again.
        _one_transaction(mariadb_upstream, *_rows("t", 100, 500, 32_000), *_rows("loose", 0, 500, 32_000), *_MOVES)
        mariadb_upstream.execute("INSERT INTO d.loose VALUES (7, 'behind')")
        run_until_synced(cfg, spark, mariadb_upstream)
    assert divisions
    assert not any(divisions)
    assert_equal(mariadb_upstream, tidb, "d.t", "d.loose")


@pytest.mark.parametrize(("flavor", "gtid"), [("mariadb", False), ("mariadb", True), ("mysql", False)])
@pytest.mark.parametrize("restart", [False, True])
def test_a_batch_of_which_some_buckets_are_in_is_written_again_in_pieces(
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    tidb: TiDBServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    flavor: str,
    gtid: bool,
    restart: bool,
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    cfg = _workers(subtask(upstream, tidb, enable_gtid=gtid), 4)
    _one_transaction(upstream, *_rows("t", 10, 200, 10), *_MOVES[:2], *_CHAIN, *_MOVES[2:])
    upstream.execute("INSERT INTO d.loose VALUES (7, 'behind')", "UPDATE d.t SET v = 2 WHERE id = 10")
    low = _memory(cfg, 12)
    if restart:
        with _divisions(monkeypatch, allowed=False), running(low, spark) as run:
            (error,) = run.wait_ended().errors
        assert "8175" in error.message or "8175" in error.raw_cause
    with _divisions(monkeypatch) as divisions:
        run_until_synced(low, spark, upstream)
    assert divisions
    assert divisions[0], "nothing was in"
    assert_equal(upstream, tidb, "d.t", "d.loose")
    upstream.execute("DELETE FROM d.loose", "DELETE FROM d.t WHERE id < 1004")
    run_until_synced(low, spark, upstream)
    assert_equal(upstream, tidb, "d.t", "d.loose")


def test_rows_without_a_key_are_not_written_twice_when_some_buckets_are_in(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    cfg = _workers(subtask(mariadb_upstream, tidb), 4)
    _one_transaction(mariadb_upstream, *_rows("t", 10, 200, 10), *_rows("loose", 0, 16, _MIB))
    with running(_memory(cfg, 12), spark) as run:
        (error,) = run.wait_ended().errors
    assert "tidb_mem_quota_query" in error.workaround
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, "d.t", "d.loose")


@pytest.fixture
def small_tidb(_tidb: TiDBServer) -> Iterator[TiDBServer]:
    """Takes 8 MiB in a transaction; such a test runs where the others about TiDB do."""
    server = TiDBServer(settings={"performance": {"txn-total-size-limit": 8 * _MIB}})
    server.start()
    yield server
    server.stop()


def test_a_transaction_beyond_the_limit_of_its_size_is_written_in_pieces(
    mariadb_upstream: MariaDBServer, small_tidb: TiDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mariadb_upstream.execute(*_MADE)
    small_tidb.execute(*_MADE)
    cfg = _workers(subtask(mariadb_upstream, small_tidb), 2)
    _one_transaction(mariadb_upstream, *_rows("t", 100, 24, _MIB), *_MOVES)
    with _divisions(monkeypatch) as divisions:
        run_until_synced(cfg, spark, mariadb_upstream)
    assert divisions
    assert_equal(mariadb_upstream, small_tidb, "d.t")
