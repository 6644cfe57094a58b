"""kill -9 of any process, at seeded moments of dump, load and sync: tasks resume, nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence

import pytest

from deploy.local.cluster import Cluster, DMWorker
from deploy.local.mysql import SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.harness.migration import Migration
from tests.harness.proctree import command_of, descendants, kill_hard, spark_workers
from tests.harness.sharded import Servers

#: The number of faults in the long form of the sync test; a nightly run may inject hundreds.
MANY_FAULTS = int(os.environ.get("DM_TEST_FAULTS", "20"))
SEED = int(os.environ.get("DM_TEST_SEED", "20261121"))


def kill_worker(cluster: Cluster, workers: Sequence[DMWorker], target: SQLServer, rng: random.Random) -> str:
    worker = rng.choice(workers)
    worker.kill()
    time.sleep(rng.uniform(0, 1))
    worker.start()
    return f"kill -9 of {worker.member}"


def kill_spark_worker(cluster: Cluster, workers: Sequence[DMWorker], target: SQLServer, rng: random.Random) -> str:
    found = [pid for worker in workers for pid in spark_workers(worker.pid)]
    if not found:
        return "no Spark Python worker is running yet"
    rng.shuffle(found)
    killed = [pid for pid in found[:2] if kill_hard(pid)]
    return f"kill -9 of Spark Python workers {killed}"


def kill_master(cluster: Cluster, workers: Sequence[DMWorker], target: SQLServer, rng: random.Random) -> str:
    cluster.master.kill()
    time.sleep(rng.uniform(0, 1))
    cluster.master.start()
    return "kill -9 of dm-master"


def _etcd_members(cluster: Cluster) -> list[int]:
    found = descendants(cluster.master.pid)
    return [pid for pid in found if os.path.basename(command_of(pid).split(" ")[0]) == "etcd"]


def kill_etcd(cluster: Cluster, workers: Sequence[DMWorker], target: SQLServer, rng: random.Random) -> str:
    # The master may be starting it again after the fault before.
    wait_until(lambda: bool(_etcd_members(cluster)), "dm-master runs its own etcd member", 60, step=0.1)
    kill_hard(_etcd_members(cluster)[0])
    return "kill -9 of etcd"


def restart_target(cluster: Cluster, workers: Sequence[DMWorker], target: SQLServer, rng: random.Random) -> str:
    if rng.random() < 0.5:
        target.kill()
        target.start()
        return "kill -9 and start of the target"
    target.restart()
    return "restart of the target"


Fault = Callable[[Cluster, Sequence[DMWorker], SQLServer, random.Random], str]
FAULTS: dict[str, Fault] = {
    "worker": kill_worker,
    "spark-worker": kill_spark_worker,
    "master": kill_master,
    "etcd": kill_etcd,
    "target": restart_target,
}


def settle(cluster: Cluster) -> None:
    """Waits until the cluster answers again and every source is bound."""

    def bound() -> bool:
        answer = cluster.dmctl("list-member", "--worker")
        workers = answer["members"][0]["worker"]["workers"]
        return bool(sum(worker["stage"] == "bound" for worker in workers) == 2)

    wait_until(lambda: quietly(bound), "both sources are bound", 120, step=0.5)


def quietly(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except Exception:  # noqa: BLE001 - while a process restarts, dmctl may fail in any way; the wait above has a limit
        return False


@pytest.fixture(scope="module")
def copied(cluster: Cluster, servers: Servers) -> Migration:
    """The data for all copies. Their files are small, so that a load has many moments for a fault."""
    migration = Migration(cluster, [servers[0], servers[1]], servers[2], name="copied", rows=30_000, pause=0.02)
    migration.extra = "mydumpers: {global: {rows: 3000, statement-size: 20000}}\n"
    migration.create(seed=random.Random(SEED).randrange(10**6))
    return migration


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", list(FAULTS))
def test_full_copy_survives(copied: Migration, servers: Servers, fault: str) -> None:
    """Injects the fault into a dump, and then into a load of the same copy."""
    cluster, target, name = copied.cluster, servers[2], copied.name
    rng = random.Random(f"{SEED} {fault}")
    target.execute(f"DROP DATABASE IF EXISTS {name}")
    settle(cluster)
    copied.start_writers()
    try:
        start_with_dumper(copied)
        for unit in ("Dump", "Load"):
            hit(copied, target, FAULTS[fault], unit, rng)
        wait_until(
            lambda: quietly(lambda: in_sync(cluster, name)), f"{name} in Sync after the fault", WAIT_TIMEOUT, step=0.5
        )
        copied.stop_writers()
        cluster.wait_synced(name)
        copied.compare()
    finally:
        copied.abandon()
        cluster.ok("stop-task", name)


def hit(migration: Migration, target: SQLServer, fault: Fault, unit: str, rng: random.Random) -> None:
    """Injects ``fault`` at a seeded moment of ``unit``, and waits until the cluster works again."""
    cluster, task = migration.cluster, migration.name
    wait_until(lambda: quietly(lambda: reached(cluster, task, unit)), f"a subtask reaches {unit}", 180, step=0.05)
    time.sleep(rng.uniform(0, 0.5))
    print(unit, fault(cluster, workers_in(cluster, task, unit) or cluster.workers, target, rng))
    settle(cluster)


def start_with_dumper(migration: Migration) -> None:
    text = migration.task_text().replace("route-rules:", "mydumper-config-name: global, route-rules:")
    path = migration.cluster.write_task(text, f"{migration.name}.yaml")
    migration.cluster.ok("start-task", path, "--remove-meta")


def reached(cluster: Cluster, task: str, unit: str) -> bool:
    """Whether a subtask is in ``unit``, or all are past it."""
    units = ["InvalidUnit", "Check", "Dump", "Load", "Sync"]
    found = [units.index(status["unit"]) for status in cluster.subtasks(task).values()]
    return bool(found) and (units.index(unit) in found or min(found) > units.index(unit))


def workers_in(cluster: Cluster, task: str, unit: str) -> list[DMWorker]:
    """The workers whose subtask is in ``unit``."""
    names = [
        source["sourceStatus"]["worker"]
        for source in cluster.dmctl("query-status", task)["sources"]
        if any(status["unit"] == unit for status in source["subTaskStatus"] or [])
    ]
    return [worker for worker in cluster.workers if worker.member in names]


def in_sync(cluster: Cluster, task: str) -> bool:
    states = cluster.subtasks(task)
    return len(states) == 2 and all(s["unit"] == "Sync" and s["stage"] == "Running" for s in states.values())


def check_never_ahead(target: SQLServer, task: str) -> None:
    """Asserts that no marker is of a later batch than the recorded intent: no batch was written without an intent."""
    rows = target.execute(
        f"SELECT m.id, m.bucket, m.batch, b.batch FROM dm_meta.`{task}_syncer_marker` m"
        f" JOIN dm_meta.`{task}_syncer_batch` b ON b.id = m.id WHERE m.batch > b.batch"
    )
    assert not rows, rows


@pytest.mark.timeout(600 + 120 * MANY_FAULTS)
@pytest.mark.parametrize(
    ("name", "faults"),
    [
        pytest.param("seeded", len(FAULTS), id="each fault once"),
        pytest.param("seeded_long", MANY_FAULTS, id="many", marks=pytest.mark.slow),
    ],
)
def test_replication_survives_faults_at_seeded_moments(
    cluster: Cluster, servers: Servers, name: str, faults: int
) -> None:
    rng = random.Random(f"{SEED} {name}")
    migration = Migration(cluster, [servers[0], servers[1]], servers[2], name=name, rows=2000)
    migration.create(seed=rng.randrange(10**6))
    settle(cluster)
    migration.start_task()
    cluster.wait_stage(name, "Running", unit="Sync")
    try:
        for i in range(faults):
            migration.start_writers()
            time.sleep(rng.uniform(0.2, 2.5))
            fault = list(FAULTS)[i % len(FAULTS)]
            print(i, FAULTS[fault](cluster, cluster.workers, servers[2], rng))
            check_never_ahead(servers[2], name)
            time.sleep(rng.uniform(0, 1))
            settle(cluster)
            wait_until(
                lambda: quietly(lambda: in_sync(cluster, name)), f"in Sync after fault {i} ({fault})", 180, step=0.5
            )
            migration.stop_writers()
            if i % 3 == 2:
                cluster.wait_synced(name)
                migration.compare()
        cluster.wait_synced(name)
    finally:
        migration.abandon()
    migration.compare()
    check_never_ahead(servers[2], name)
