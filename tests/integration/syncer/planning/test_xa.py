"""Hazards: rows of a prepared XA transaction take effect too early, twice or never at the target."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchLimits, Budget
from pkg.config.model import SyncerConfig
from tests.integration.syncer.support import assert_equal, rows, run_until_synced, running, subtask

TABLES = ["CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(90))", "CREATE TABLE d.k (id INT, v VARCHAR(90))"]


@pytest.fixture
def upstream(new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer) -> MariaDBServer:
    server = new_mariadb(gtid=True)
    for each in (server, target):
        each.execute("CREATE DATABASE d", *TABLES)
    return server


def prepare(upstream: MariaDBServer, xid: str, *statements: str) -> None:
    upstream.execute(f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


def waiting(target: MariaDBServer) -> list[str]:
    return [row[0] for row in target.execute("SELECT HEX(xid) FROM dm_meta.t_syncer_xa ORDER BY start_pos")]


@pytest.mark.parametrize("gtid", [False, True])
def test_prepared_transactions_take_effect_at_their_commit_also_after_restarts_of_both_sides(
    upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, gtid: bool
) -> None:
    cfg = subtask(upstream, target, enable_gtid=gtid)
    with running(cfg, spark) as run:
        prepare(upstream, "'a'", "INSERT INTO d.t VALUES (1, 'a')", "INSERT INTO d.k VALUES (1, 'a'), (1, 'a')")
        prepare(upstream, "X'00ff','b',7", "INSERT INTO d.k VALUES (2, 'b')", "INSERT INTO d.t VALUES (2, 'b')")
        prepare(upstream, "'short'", "INSERT INTO d.k VALUES (3, 'c')")
        upstream.execute("INSERT INTO d.t VALUES (10, 'x')", "CREATE TABLE d.other (id INT)", "FLUSH BINARY LOGS")
        upstream.execute("XA COMMIT 'short'", "INSERT INTO d.k VALUES (3, 'd')")
        undone = ("SAVEPOINT s", "INSERT INTO d.k VALUES (8, 'h')", "ROLLBACK TO s")
        prepare(upstream, "'undone'", "INSERT INTO d.k VALUES (7, 'g')", *undone)
        upstream.execute("XA COMMIT 'undone'")
        run.wait_synced(upstream)
        assert rows(target, "d.k") == [(3, "c"), (3, "d"), (7, "g")]
        run.stop()
    assert waiting(target) == ["010000000161", "070000000200FF62"]
    # Table ids start over: those of the prepared rows may stand for other tables by now.
    upstream.restart()
    with running(cfg, spark) as run:
        upstream.execute("INSERT INTO d.k VALUES (4, 'x')", "INSERT INTO d.other VALUES (1)")
        run.wait_synced(upstream)
        upstream.execute(
            "UPDATE d.t SET v = 'y' WHERE id = 10", "XA COMMIT X'00ff','b',7", "DELETE FROM d.t WHERE id = 2"
        )
        run.wait_synced(upstream)
        assert_equal(upstream, target, "d.t", "d.other")
        assert rows(target, "d.k") == rows(upstream, "d.k")
        upstream.execute("XA ROLLBACK 'a'")
        prepare(upstream, "'a'", "INSERT INTO d.t VALUES (5, 'e')", "INSERT INTO d.k VALUES (5, 'e')")
        upstream.execute("XA COMMIT 'a'", "INSERT INTO d.t VALUES (6, 'f')")
        run.wait_synced(upstream)
    assert_equal(upstream, target, "d.t", "d.k", "d.other")
    assert waiting(target) == []


def test_large_prepared_transaction_is_cut_and_stopped_inside_and_applied_once(
    upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "limits", lambda budget, parallel: BatchLimits(20_000, 5, 4_000))
    cfg = subtask(upstream, target, enable_gtid=True, syncer=SyncerConfig(worker_count=3))
    values = [f"({i}, '{'x' * 80}')" for i in range(3000)]
    prepare(upstream, "'big'", *(f"INSERT INTO d.k VALUES {','.join(values[i : i + 20])}" for i in range(0, 3000, 20)))
    upstream.execute("INSERT INTO d.t VALUES (1, 'x')", "XA COMMIT 'big'", "UPDATE d.k SET v = 'y' WHERE id < 50")
    counts = set()
    for _ in range(4):
        with running(cfg, spark) as run:
            before = len(rows(target, "d.k"))
            end = time.monotonic() + 60
            while len(rows(target, "d.k")) == before < 3000 and time.monotonic() < end and run.outcome is None:
                time.sleep(0.02)
            assert run.stop(graceful=False).errors == []
        counts.add(len(rows(target, "d.k")))
    assert any(0 < count < 3000 for count in counts)
    run_until_synced(cfg, spark, upstream)
    assert_equal(upstream, target, "d.t", "d.k")
    assert waiting(target) == []


def test_purged_place_of_a_prepared_transaction_stops_the_task_with_the_reason(
    upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = subtask(upstream, target)
    with running(cfg, spark) as run:
        prepare(upstream, "'a'", "INSERT INTO d.t VALUES (1, 'a')")
        upstream.execute("FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (2, 'b')")
        run.wait_synced(upstream)
        run.stop()
    assert upstream.purge_binlogs() == "mysql-bin.000002"
    with running(cfg, spark) as run:
        upstream.execute("INSERT INTO d.t VALUES (3, 'c')", "XA COMMIT 'a'", "INSERT INTO d.t VALUES (4, 'd')")
        (error,) = run.wait_ended().errors
    assert "XA transaction X'61',X'',1" in error.message
    assert [row[0] for row in rows(target, "d.t")] == [2, 3]
