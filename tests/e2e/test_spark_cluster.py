"""The same job on a Spark cluster: executors are killed with -9 in dump, load and sync; nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, up, wait_until
from tests.harness.migration import Migration
from tests.harness.proctree import kill_hard
from tests.harness.spark import SparkCluster, driver_toml
from tests.sweeps import LONG

#: The executors' cores in total; the dump requests more threads.
SLOTS = 4
KILLS_IN_SYNC = 3 if LONG else 1

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[MariaDBServer, MariaDBServer]]:
    made = (MariaDBServer(gtid=True), MariaDBServer(binlog=False))
    with up(*made):
        yield made


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2, cores=SLOTS // 2) as spark:
        yield spark


@pytest.fixture(scope="module")
def cluster(servers: tuple[MariaDBServer, MariaDBServer], spark_cluster: SparkCluster) -> Iterator[Cluster]:
    cluster = Cluster(workers=1, worker_extra=spark_cluster.toml(slots=SLOTS))
    # Executors are killed in batches: the worker itself applies none.
    cluster.workers[0].variables = {"DM_TINY_BATCH": "-1"}
    with cluster:
        cluster.add_source(servers[0], "source-1", gtid=True)
        yield cluster


def kill_executor(spark: SparkCluster, rng: random.Random) -> None:
    victim = rng.choice(spark.wait_executors(2))
    assert kill_hard(victim)


class OnSpark(Migration):
    """Dumps into the shared ``folder``, in many small files, so that there are many moments for a fault."""

    folder: str

    def task_text(self) -> str:
        text = (
            super()
            .task_text()
            .replace("route-rules:", "mydumper-config-name: small, loader-config-name: shared, route-rules:")
        )
        return (
            text + "mydumpers: {small: {threads: 8, rows: 250, statement-size: 10000}}\n"
            f"loaders: {{shared: {{pool-size: 4, dir: {self.folder}}}}}\n"
        )


def worker_log(cluster: Cluster) -> str:
    return (cluster.workers[0].dir / "dm-worker.log").read_text()


def half_loaded(target: MariaDBServer) -> bool:
    try:
        rows = target.execute("SELECT COUNT(*), SUM(finished) FROM dm_meta.onspark_loader_progress")
    except Exception:  # noqa: BLE001 - the load creates the table
        return False
    return bool(rows[0][1]) and rows[0][1] < rows[0][0]


def test_executors_die_while_dumping_loading_and_replicating(
    cluster: Cluster, servers: tuple[MariaDBServer, MariaDBServer], spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    rng = random.Random(2)
    upstream, target = servers
    migration = OnSpark(cluster, [upstream], target, name="onspark", rows=30_000, pause=0.02)
    migration.folder = f"{tmp_path}/dump"
    migration.create(seed=7)
    migration.start_writers()
    try:
        migration.start_task()
        wait_until(
            lambda: bool(list(tmp_path.glob("dump.*/.work-*/done.*"))), "the dump's tasks work", WAIT_TIMEOUT, step=0.01
        )
        kill_executor(spark_cluster, rng)
        wait_until(lambda: half_loaded(target), "some files are loaded", WAIT_TIMEOUT, step=0.01)
        assert "dump starts again" in worker_log(cluster), "the executor died in the middle of the dump"
        kill_executor(spark_cluster, rng)
        left = target.execute("SELECT SUM(1 - finished) FROM dm_meta.onspark_loader_progress")
        assert left[0][0] > 0, "the executor died in the middle of the load"
        cluster.wait_stage("onspark", "Running", unit="Sync")
        for _ in range(KILLS_IN_SYNC):
            time.sleep(rng.uniform(1, 3))
            kill_executor(spark_cluster, rng)
        cluster.wait_stage("onspark", "Running", unit="Sync")
        migration.stop_writers()
        cluster.wait_synced("onspark")
    except Exception as exc:
        raise AssertionError(f"{exc}\n{spark_cluster.logs()}") from exc
    finally:
        migration.abandon()
    migration.compare()


@pytest.mark.parametrize("answers", [False, True], ids=["its master is silent", "it has no executors yet"])
def test_a_worker_that_waits_for_the_cluster_ends_on_sigterm(
    servers: tuple[MariaDBServer, MariaDBServer], answers: bool
) -> None:
    with contextlib.ExitStack() as stack:
        if answers:
            spark = stack.enter_context(SparkCluster(workers=0))
            toml = spark.toml(slots=SLOTS)
        else:
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            silent.settimeout(WAIT_TIMEOUT)
            toml = driver_toml(f"spark://127.0.0.1:{silent.getsockname()[1]}", "secret", slots=SLOTS)
        cluster = stack.enter_context(Cluster(workers=1, worker_extra=toml))
        cluster.add_source(servers[0], "source-1", gtid=True)
        migration = Migration(cluster, [servers[0]], servers[1], name=f"waits{int(answers)}", rows=10)
        migration.create(seed=8)
        migration.start_task()
        if answers:
            wait_until(
                lambda: "Registered app" in spark.master.log.read_text(), "the driver is registered", WAIT_TIMEOUT
            )
        else:
            stack.enter_context(silent.accept()[0])
        # The programs get 40 s in docker-compose.
        assert cluster.workers[0].stop(seconds=35) == 0, worker_log(cluster)
