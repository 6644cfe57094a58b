"""Hazard: a batch that the target refused keeps its mode: no setting of the task gets it going."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SyncerConfig
from pkg.errors import Code
from tests.harness.mysql import MariaDBServer
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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
    assert "`dmctl stop-task TASK`" in error.workaround
    assert "safe-mode: true" in error.workaround
    # The way out that the error names.
    safe = replace(cfg, syncer=SyncerConfig(worker_count=workers, safe_mode=True))
    run_until_synced(safe, spark, upstream)
    assert_equal(upstream, target, "d.t", "d.keyless")
