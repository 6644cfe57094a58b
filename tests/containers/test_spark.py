"""Hazard: an executor of a Spark cluster in containers ends and rows are lost, or the dump's folder is not shared."""

from __future__ import annotations

import pytest

from deploy.local.process import wait_until
from tests.containers.compose import ComposeCluster, spark_secret
from tests.containers.driven import LIMIT
from tests.containers.workload import Migration

SERVICES = ("spark-master", "spark-worker", "dm-worker-spark")
ROWS = 100_000


@pytest.mark.timeout(900, func_only=True)
def test_killed_executor_containers(cluster: ComposeCluster) -> None:
    with spark_secret():
        cluster.up(*SERVICES)
        assert len(cluster.containers("spark-worker")) == 2
        migration = Migration(cluster, "onspark", rows=ROWS, loader="/dumps/onspark")
        migration.start(worker="dm-worker-spark")
        # In the middle of the load: the target has some rows and not yet all.
        victim = cluster.containers("spark-worker")[0]
        wait_until(lambda: migration.rows_at_target() > 0, "the load has begun", LIMIT, step=0.02)
        victim.kill()
        assert migration.rows_at_target() < ROWS, "the container died in the middle of the load"
        cluster.up("spark-worker")
        cluster.wait_sync(migration.task)
        migration.wait_written(20)
        cluster.kill("spark-worker", 1)
        migration.wait_written(50)
        assert cluster.server_of(migration.source) == "dm-worker-spark"
        counts = migration.compare()
        # The first job has a shuffle, for which executors load compiled code.
        cluster.compose("restart", "dm-worker-spark")
        wait_until(
            lambda: '["Spark is ready"]' in cluster.compose("logs", "--no-color", "dm-worker-spark"),
            "a job with a shuffle ran",
            LIMIT,
            step=1,
        )
        log = cluster.compose("logs", "--no-color", "dm-worker-spark")
        assert "[master=spark://spark-master:7077]" in log, log
        print(f"containers: row counts and checksums through Spark: {counts}")
        migration.end()
        cluster.compose("rm", "--stop", "--force", "--volumes", *SERVICES)
