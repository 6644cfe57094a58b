"""A pause. Hazard: an operator who waits for a Spark that starts, and rows that are applied behind his back."""

from __future__ import annotations

from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from tests.harness.slow_engine import SlowEngine
from tests.integration.syncer.support import assert_equal, rows, run_until_synced, running, subtask


def test_a_pause_does_not_wait_for_a_spark_that_starts(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 1)")
    slow = SlowEngine()
    with running(cfg, slow) as run:
        wait_until(lambda: slow.starts == 1, "it waits for Spark")
        outcome = run.stop()
    slow.may_start.set()
    assert outcome.canceled
    assert not outcome.errors
    assert rows(target, "d.t") == []
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")
