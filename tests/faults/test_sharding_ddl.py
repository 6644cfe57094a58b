"""kill -9 of owner, non-owner and master at every step of a coordinated DDL: no row lost or doubled, one execution."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from deploy.local.cluster import Cluster
from deploy.local.process import HarnessError, Process, wait_until
from pkg.etcd import EtcdClient, PrefixMirror, WatchEvent
from pkg.etcd.discovery import fetch_endpoints
from pkg.ha import keys
from pkg.ha.keys import SHARD_DDL_PREFIX
from pkg.ha.shard_ddl import ShardOperation
from tests.harness.sharded import Servers, ShardedTask

MOMENTS = ("reported", "execute", "executed", "skip", "skipped", "over")
VICTIMS = ("owner", "other", "master")
#: Each moment once; `make test-long` combines each moment with each victim.
SOME_KILLS = tuple(zip(("other", "owner", "owner", "other", "master", "master"), MOMENTS, strict=True))
ALL_KILLS = tuple((victim, moment) for victim in VICTIMS for moment in MOMENTS)
#: Seconds that a DDL may take with one kill: a worker's lease (5 s), its start, and the batches.
LONGEST = 180.0


def moment_of(event: WatchEvent) -> str:
    """The step of the flow that a change in etcd shows."""
    if event.key.startswith(keys.SHARD_DDL_INFO.prefix()):
        return "reported" if event.type == "put" else ""
    if not event.key.startswith(keys.SHARD_DDL_OPERATION.prefix()):
        return ""
    if event.type == "delete":
        return "over"
    operation = ShardOperation.from_json(event.value)
    if operation.execute:
        return "executed" if operation.done else "execute"
    return "skipped" if operation.done else "skip"


class Killer:
    """Kills ``victim`` as soon as etcd shows ``moment``, once."""

    def __init__(self, client: EtcdClient, moment: str, victim: Process) -> None:
        self._moment = moment
        self._victim = victim
        self.done = threading.Event()
        self._mirror = PrefixMirror(client, SHARD_DDL_PREFIX, self._see, on_error=self._failed).start()
        assert self._mirror.wait_synced(60)

    def _see(self, events: Sequence[WatchEvent]) -> None:
        if not self.done.is_set() and any(moment_of(event) == self._moment for event in events):
            self._victim.kill()
            self.done.set()

    def _failed(self, exc: BaseException) -> None:
        raise AssertionError(f"cannot follow etcd: {exc}")

    def stop(self) -> None:
        self._mirror.stop()


def eventually(check: Callable[[], bool], what: str, seconds: float = LONGEST) -> None:
    """Waits for ``check``. dmctl may fail in any way while a process restarts; the wait has a limit."""

    def quietly() -> bool:
        try:
            return check()
        except HarnessError:
            return False

    wait_until(quietly, what, seconds, step=0.3)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("name", "kills"),
    [
        pytest.param("killed", SOME_KILLS, id="one victim a step"),
        pytest.param("all_killed", ALL_KILLS, id="every victim", marks=pytest.mark.slow),
    ],
)
def test_a_coordinated_ddl_survives_kills_at_every_step(
    cluster: Cluster, servers: Servers, name: str, kills: Sequence[tuple[str, str]]
) -> None:
    task = ShardedTask(cluster, servers[:2], servers[2], name, tables=2, rows=200)
    task.create(seed=9)
    for writer in task.writers:
        writer.pause = 0.05
    clauses: list[str] = []
    took: dict[tuple[str, str], float] = {}
    try:
        task.start()
        for victim, moment in kills:
            began = time.monotonic()
            clause = f"ADD COLUMN k{len(clauses)} INT NOT NULL DEFAULT {len(clauses)}"
            clauses.append(f"`orders` {clause}")
            one_ddl(task, clause, f"k{len(clauses) - 1}", moment, victim)
            took[victim, moment] = time.monotonic() - began
        eventually(lambda: all_run(task), "all subtasks run")
        task.finish()
    finally:
        task.abandon()
        print({f"{victim} {moment}": round(seconds, 1) for (victim, moment), seconds in took.items()})
    task.assert_executed_once(*clauses)
    cluster.ok("stop-task", name)


@pytest.mark.timeout(600)
def test_the_part_of_an_owner_that_is_gone_can_be_given_to_another(cluster: Cluster, servers: Servers) -> None:
    """The owner's worker dies before it gets the order to execute, and stays offline until an operator decides."""
    task = ShardedTask(cluster, servers[:2], servers[2], "replaced", tables=2, rows=200)
    task.create(seed=10)
    clause = "ADD COLUMN c1 INT NOT NULL DEFAULT 1"
    unlock = ("shard-ddl-lock", "unlock", task.lock_id("orders"))
    try:
        task.start()
        owner = cluster.worker_of("source-1")
        task.alter(task.shards("orders", 0), clause, adds="c1")
        task.wait_lock("orders", "waiting", "source-2")
        owner.kill()
        task.alter(task.shards("orders", 1), clause, adds="c1")
        task.wait_lock("orders", "executing", "source-1")
        assert "code=38020" in cluster.dmctl(*unlock, "--owner", "source-2")["msg"]
        given = cluster.dmctl(*unlock, "--owner", "source-2", "--force-remove")
        # Carried out within DM's 10 seconds, or stored.
        assert "source-2 executed" in given["msg"] or " within 10 s" in given["msg"], given
        wait_until(lambda: column_is_there(task, "c1"), "source-2 has executed it", 120)
        owner.start()
        eventually(lambda: all_run(task) and task.has_no_lock(), "the former owner has skipped it")
        task.finish()
    finally:
        task.abandon()
    task.assert_executed_once(f"`orders` {clause}")
    cluster.ok("stop-task", "replaced")


def one_ddl(task: ShardedTask, clause: str, column: str, moment: str, victim: str) -> None:
    """One DDL on all shards, source-1 first so that it is the owner, and one kill."""
    eventually(lambda: all_run(task), "all subtasks run")
    processes: dict[str, Process] = {
        "owner": task.cluster.worker_of("source-1"),
        "other": task.cluster.worker_of("source-2"),
        "master": task.cluster.master,
    }
    with EtcdClient(fetch_endpoints([task.cluster.master.address])) as client:
        killer = Killer(client, moment, processes[victim])
        try:
            task.alter(task.shards("orders", 0), clause, adds=column)
            if moment == "reported":
                assert killer.done.wait(LONGEST)
                processes[victim].start()
            eventually(lambda: "source-1" in task.locks().get("orders", {}).get("synced", ()), "source-1 reports")
            task.alter(task.shards("orders", 1), clause, adds=column)
            assert killer.done.wait(LONGEST), f"{moment} was never seen"
        finally:
            killer.stop()
    if not processes[victim].running():
        processes[victim].start()
    eventually(lambda: column_is_there(task, column) and task.has_no_lock(), f"{victim} killed when {moment}: settled")


def column_is_there(task: ShardedTask, column: str) -> bool:
    return bool(task.target.execute(f"SHOW COLUMNS FROM `{task.name}`.orders LIKE '{column}'"))


def all_run(task: ShardedTask) -> bool:
    states = task.cluster.subtasks(task.name)
    return len(states) == 2 and all(one["stage"] == "Running" and one["unit"] == "Sync" for one in states.values())
