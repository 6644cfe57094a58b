"""Validation while processes are killed with -9: executors of a Spark cluster, Python workers of the embedded engine,
and the master."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from tests.e2e.test_validation import TASK, Load, errors, insert, status, wait_compared
from tests.harness.certified import NotAsked, certify
from tests.harness.proctree import kill_hard, spark_workers
from tests.harness.spark import SparkCluster

pytestmark = pytest.mark.timeout(600)

THREADS = 2
#: How often processes are killed while rows are written and compared.
FAULTS = 3


@pytest.mark.target_with("triggers")
def test_executors_die_and_the_validation_is_right(mariadb_upstream: MariaDBServer, target: SQLServer) -> None:
    with (
        SparkCluster(workers=THREADS, cores=2) as spark,
        always_on_spark(Cluster(workers=1, worker_extra=spark.toml(slots=2 * THREADS))) as cluster,
    ):
        start(cluster, mariadb_upstream, target)
        validate_during(cluster, mariadb_upstream, target, lambda: kill(spark.wait_executors(THREADS)[:1]))


@pytest.mark.target_with("triggers")
@pytest.mark.parametrize("victim", ["python workers", "master"])
def test_processes_die_and_the_validation_is_right(
    mariadb_upstream: MariaDBServer, target: SQLServer, victim: str
) -> None:
    with always_on_spark(Cluster(workers=1)) as cluster:
        start(cluster, mariadb_upstream, target)
        worker = cluster.worker_of("s1")

        def kill_master() -> bool:
            cluster.master.kill()
            cluster.master.start()
            return True

        fault = kill_master if victim == "master" else lambda: kill(spark_workers(worker.pid))
        validate_during(cluster, mariadb_upstream, target, fault)


def always_on_spark(cluster: Cluster) -> Cluster:
    """Its worker applies and compares no few rows by itself, so that all processes have work."""
    cluster.workers[0].variables = {"DM_TINY_BATCH": "-1"}
    return cluster


def kill(victims: Sequence[int]) -> bool:
    return sum(map(kill_hard, victims)) > 0


def start(cluster: Cluster, upstream: SQLServer, target: SQLServer) -> None:
    """The task, whose whole changes are compared, without a sweep, every 0.2 s."""
    upstream.execute(
        "CREATE DATABASE checked", "CREATE TABLE checked.t (id INT PRIMARY KEY, v INT NOT NULL, c VARCHAR(20))"
    )
    insert(upstream, 0)
    cluster.add_source(upstream, "s1")
    text = TASK.format(port=target.port, mode="full")
    text = text.replace("validate-interval: 1s", "validate-interval: 0.2s, sweep-rate: 0")
    cluster.ok("start-task", cluster.write_task(text, "checked.yaml"))
    cluster.wait_stage("checked", "Running", unit="Sync")


def validate_during(cluster: Cluster, upstream: SQLServer, target: SQLServer, fault: Callable[[], bool]) -> None:
    """Has the ``fault`` several times under load; it returns whether it found a process. Exactly the row that the
    target loses is an error, and each change counts."""
    target.execute(
        "CREATE TRIGGER checked.lose BEFORE UPDATE ON checked.t FOR EACH ROW SET NEW.v = IF(NEW.id = 3, 3, NEW.v)"
    )
    load = Load(upstream)
    with load.running():
        for _ in range(FAULTS):
            load.more(200)
            wait_until(fault, "a process is killed", 120, step=0.02)
            before = compared_rows(cluster)
            wait_until(
                partial(lambda before: compared_rows(cluster) > before, before),
                lambda: f"validation goes on: {status(cluster, 'checked')}",
                180,
                step=0.3,
            )
        upstream.execute("UPDATE checked.t SET v = 77 WHERE id = 3")
        load.more(200)
    wait_compared(cluster, "checked", 1)
    (shown,) = status(cluster, "checked")
    assert (shown["stage"], shown["result"]) == ("Running", None)
    assert errors(cluster, "checked") == [("Column data not matched", "NewErr")]
    assert compared_rows(cluster) == load.changes + 1, shown
    target.execute("DROP TRIGGER checked.lose", "UPDATE checked.t SET v = 77 WHERE id = 3")
    certify(cluster, "checked", not_validated=NotAsked.SEEDED_FAULTS)


def compared_rows(cluster: Cluster) -> int:
    """-1 while no validator answers."""
    shown = status(cluster, "checked")
    return sum(map(int, shown[0]["processedRowsStatus"].rpartition(":")[2].split("/"))) if shown else -1
