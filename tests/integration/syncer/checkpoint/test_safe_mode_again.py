"""Hazard: a batch that the target refused keeps its mode: no setting of the task makes it continue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SyncerConfig
from pkg.errors import Code
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_refused_batch_goes_on_in_safe_mode_and_doubles_no_row_without_a_key(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, workers: int
) -> None:
    upstream = mariadb_upstream
    for server in (upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), UNIQUE KEY (v))",
            "CREATE TABLE d.keyless (v VARCHAR(20))",
        )
    cfg = subtask(upstream, target, syncer=SyncerConfig(worker_count=4))
    # A row that only the target has, in the way of one of the batch.
    target.execute("INSERT INTO d.t VALUES (5, 'by hand')")
    upstream.execute(
        "BEGIN",
        *(f"INSERT INTO d.t VALUES ({i}, 'row {i}')" for i in range(20)),
        *(f"INSERT INTO d.keyless VALUES ('row {i}')" for i in range(20)),
        "COMMIT",
    )
    for _ in range(2):
        with running(cfg, spark) as run:
            (error,) = run.wait_ended().errors
    assert error.kind is Code.DBExecuteFailed
    safe = replace(cfg, syncer=SyncerConfig(worker_count=workers, safe_mode=True))
    run_until_synced(safe, spark, upstream)
    assert_equal(upstream, target, "d.t", "d.keyless")


def test_an_order_for_safe_mode_holds_for_the_stopped_batch_and_no_other(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    upstream = mariadb_upstream
    for server in (upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), UNIQUE KEY (v))",
            "CREATE TABLE d.keyless (v VARCHAR(20))",
        )
    cfg = subtask(upstream, target, syncer=SyncerConfig(worker_count=4))
    for first in (0, 100):
        # A row that only the target has, in the way of one of the batch.
        target.execute(f"INSERT INTO d.t VALUES ({first + 5}, 'by hand {first}')")
    upstream.execute(
        "BEGIN",
        *(f"INSERT INTO d.t VALUES ({i}, 'row {i}')" for i in range(20)),
        *(f"INSERT INTO d.keyless VALUES ('row {i}')" for i in range(20)),
        "COMMIT",
    )
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    # The way out that the error names; 7 stands for the revision of the order in etcd.
    assert "`dmctl resume-task t -s source-1 --safe-mode`" in error.workaround
    with running(cfg, spark, safe_request=7) as run:
        run.wait_synced(upstream)
        assert run.outcome is None
        # The next batch meets another row of the target, in the same run: nobody asked to replace that one.
        upstream.execute(*(f"INSERT INTO d.t VALUES ({100 + i}, 'row {100 + i}')" for i in range(20)))
        (error,) = run.wait_ended().errors
    assert error.kind is Code.DBExecuteFailed
    # The order is still in etcd when the worker restarts, but it is met.
    with running(cfg, spark, safe_request=7) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.DBExecuteFailed
    with running(cfg, spark, safe_request=9) as run:
        run.wait_synced(upstream)
    assert_equal(upstream, target, "d.t", "d.keyless")
