"""Real dm-masters with dmctl: locks of shard DDL survive killed masters; operators see and resolve them."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import DMMaster, environment, program
from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from pkg.config.codec import encode_subtask
from pkg.config.model import SubTaskConfig
from pkg.etcd import EtcdClient
from pkg.etcd.discovery import fetch_endpoints
from pkg.ha import keys
from pkg.ha.records import SubTaskStage
from pkg.ha.shard_ddl import DDLTexts
from pkg.ha.shard_ddl_steps import LockId
from pkg.pb import dmworker_pb2
from pkg.settings.connections import DBConfig
from tests.harness.etcd import EtcdServer
from tests.harness.fake_worker import FakeWorker
from tests.harness.shard_source import FakeShards, FakeTarget

TASK = "merge"
LOCK = LockId(TASK, "shop", "orders")
NAME = "merge-`shop`.`orders`"
ADD_A: DDLTexts = ("ALTER TABLE `shop`.`orders` ADD COLUMN `a` INT",)
ADD_B: DDLTexts = ("ALTER TABLE `shop`.`orders` ADD COLUMN `b` INT",)


def dmctl(master: DMMaster, *argv: str) -> Any:
    done = subprocess.run(
        program("dmctl.cli", "--master-addr", master.address, *argv),
        capture_output=True, text=True, env=environment(), check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return json.loads(done.stdout)


def bound_worker(master: DMMaster, source: str) -> str:
    shown = dmctl(master, "operate-source", "show")["sources"]
    return next(str(one["worker"]) for one in shown if one["source"] == source)


def no_locks(master: DMMaster) -> bool:
    """Whether there is no lock, as the leader reports. One that has not read the records yet says no."""
    answer = dmctl(master, "shard-ddl-lock")
    return bool(answer["result"]) and not answer["locks"]


def series(master: DMMaster, name: str) -> set[str]:
    with urllib.request.urlopen(f"http://{master.address}/metrics") as answer:
        return {line for line in answer.read().decode().splitlines() if line.startswith(name)}


# --- what operators see and do ---


@dataclass
class MergeOfShards:
    """A task of two sources that runs, as far as the master can tell."""

    master: DMMaster
    client: EtcdClient
    workers: list[FakeWorker]
    task_file: str
    target: FakeTarget

    def shards(self, source: str) -> FakeShards:
        return FakeShards(self.client, LOCK, source, self.target)

    def dmctl(self, *argv: str) -> Any:
        return dmctl(self.master, *argv)

    def wait_shown(self, phase: str, *waits: str) -> Any:
        """The only lock, once it is in ``phase`` and waits for ``waits``."""
        seen: list[Any] = []

        def reached() -> bool:
            seen[:] = self.dmctl("shard-ddl-lock", TASK)["locks"]
            return [(one["phase"], one["waitsFor"]) for one in seen] == [(phase, list(waits))]

        wait_until(reached, f"the lock is {phase}", step=0.2)
        return seen[0]


@pytest.fixture
def migration(tmp_path: Path, mariadb_upstream: MariaDBServer, target: MariaDBServer) -> Iterator[MergeOfShards]:
    with mariadb_upstream.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    master = DMMaster(tmp_path)
    master.start()
    workers: list[FakeWorker] = []
    instances = ""
    try:
        for number in (1, 2):
            workers.append(FakeWorker(f"w{number}", master.address).start())
            source = tmp_path / f"s{number}.yaml"
            source.write_text(
                f"source-id: s{number}\n"
                f"from: {{host: 127.0.0.1, port: {mariadb_upstream.port}, user: root, password: ''}}\n"
            )
            assert dmctl(master, "operate-source", "create", str(source))["result"]
            wait_until(lambda: bound_worker(master, f"s{number}") == f"w{number}", "the source is bound")  # noqa: B023
            instances += f"  - source-id: s{number}\n    block-allow-list: shop\n"
        task = tmp_path / "task.yaml"
        task.write_text(
            f"name: {TASK}\ntask-mode: all\nignore-checking-items: [all]\n"
            f"target-database: {{host: 127.0.0.1, port: {target.port}, user: root, password: ''}}\n"
            f"block-allow-list:\n  shop:\n    do-dbs: [shop]\nmysql-instances:\n{instances}"
        )
        started = dmctl(master, "start-task", str(task))
        assert started["result"], started
        with EtcdClient(fetch_endpoints([master.address])) as client:
            yield MergeOfShards(master, client, workers, str(task), FakeTarget())
    finally:
        for worker in workers:
            worker.stop()
        master.stop(seconds=15)


def holds_back(rows: int, *tables: str) -> Callable[[dmworker_pb2.SubTaskStatus], None]:
    """A worker that holds back ``rows`` of the lock's tables."""

    def twist(subtask: dmworker_pb2.SubTaskStatus) -> None:
        subtask.sync.unresolvedGroups.add(target="`shop`.`orders`", DDLs=ADD_A, synced=tables, heldRows=rows)

    return twist


def test_a_lock_is_shown_before_anything_runs_and_with_dms_strings(migration: MergeOfShards) -> None:
    one, two = migration.shards("s1"), migration.shards("s2")
    assert migration.dmctl("shard-ddl-lock") == {"result": True, "msg": "no DDL lock exists", "locks": []}
    assert migration.dmctl("show-ddl-locks", TASK)["msg"] == "no DDL lock exists"
    migration.workers[0].twist = holds_back(12, "`shop`.`orders`")
    assert one.report(ADD_A, "2026-01-02T03:04:05Z")
    shown = migration.wait_shown("waiting", "s2")
    assert list(shown.items()) == [
        ("ID", NAME), ("task", TASK), ("mode", "pessimistic"), ("owner", "s1"), ("DDLs", list(ADD_A)),
        ("synced", ["s1"]), ("unsynced", ["s2"]), ("phase", "waiting"), ("since", "2026-01-02T03:04:05Z"),
        ("waitsFor", ["s2"]), ("problem", ""),
        ("heldRows", [{"source": "s1", "rows": "12"}, {"source": "s2", "rows": "0"}]),
        ("unlocks", [{"owner": "", "op": "SkipLock"}]),
    ]  # fmt: skip
    answer = migration.dmctl("show-ddl-locks", "-s", "s2")
    assert answer["msg"] == (
        f"{NAME}: waiting since 2026-01-02T03:04:05Z, waits for s2; s1 will execute its DDLs, the others skip them; "
        "rows held back: 12 by s1"
    )
    assert series(migration.master, "dm_master_ddl_state_number") == {
        'dm_master_ddl_state_number{task="merge",type="Synced"} 0',
        'dm_master_ddl_state_number{task="merge",type="Un-synced"} 1',
    }
    first, second = (source["subTaskStatus"][0] for source in migration.dmctl("query-status", TASK)["sources"])
    assert (first["unresolvedDDLLockID"], first["sync"]["blockDDLOwner"]) == (NAME, "s1")
    assert second["unresolvedDDLLockID"] == ""
    assert second["sync"]["unresolvedGroups"][0]["unsynced"] == [
        "this DM-worker doesn't receive any shard DDL of this group"
    ]
    assert two.report(ADD_A)
    migration.wait_shown("executing", "s1")
    assert one.obey()
    assert one.confirm()
    migration.wait_shown("skipping", "s2")
    wait_until(two.obey, "told to skip")
    assert two.confirm()
    wait_until(lambda: no_locks(migration.master), "the lock is gone", step=0.2)
    assert series(migration.master, "dm_master_ddl_state_number") == set(), "its series leave with it"
    assert migration.target.executed == [("s1", ADD_A)]


def test_locks_are_resolved_by_operators(migration: MergeOfShards) -> None:
    one, two = migration.shards("s1"), migration.shards("s2")
    unknown = migration.dmctl("unlock-ddl-lock", NAME)
    assert not unknown["result"]
    assert "code=38019" in unknown["msg"]
    one.report(ADD_A)
    two.report(ADD_B)
    problem = migration.wait_shown("conflict")["problem"]
    assert "code=38016" in problem
    assert f"! {ADD_A[0]} | {ADD_B[0]}" in problem
    counted = 'dm_master_shard_ddl_error{task="merge",type="InfoPut_-_SyncLockError"} 1'
    # Shown as soon as it is read, counted when the next step is decided.
    wait_until(lambda: counted in series(migration.master, "dm_master_shard_ddl_error"), "the conflict is counted")
    for argv, code in (
        (("--owner", "s3"), 38022),
        (("-s", "s1", "-d", "shop", "-t", "orders"), 38041),
    ):
        refused = migration.dmctl("shard-ddl-lock", "unlock", NAME, *argv)
        assert not refused["result"]
        assert f"code={code}" in refused["msg"]
    # The owner's worker stands still with an error: the order stands, and says what keeps it.
    stuck = dmworker_pb2.ProcessError(ErrCode=10006, Message="execute failed", RawCause="Error 1060 (42S21): Duplicate")
    migration.workers[1].twist = lambda subtask: subtask.result.errors.append(stuck)
    late = migration.dmctl("unlock-ddl-lock", NAME, "--owner", "s2", "-s", "s1")
    assert not late["result"]
    assert "code=38024" in late["msg"]
    assert "Error 1060 (42S21): Duplicate" in late["msg"]
    migration.workers[1].twist = lambda subtask: None
    wait_until(two.obey, "told to execute")
    two.confirm()
    wait_until(one.obey, "told to skip")
    one.confirm()
    wait_until(lambda: no_locks(migration.master), "the lock is gone", step=0.2)
    assert migration.target.executed == [("s2", ADD_B)]
    assert one.skipped == [ADD_A]
    one.report(ADD_B)
    migration.wait_shown("waiting", "s2")
    removed = migration.dmctl("shard-ddl-lock", "unlock", NAME, "--force-remove")
    assert (removed["result"], removed["msg"].split(";")[0]) == (True, f"lock {NAME} is removed")
    assert migration.dmctl("shard-ddl-lock")["locks"] == []


def test_a_stopped_task_keeps_what_was_executed_and_one_that_starts_over_forgets_it(migration: MergeOfShards) -> None:
    one, two = migration.shards("s1"), migration.shards("s2")
    one.report(ADD_A)
    migration.wait_shown("waiting", "s2")
    assert migration.dmctl("stop-task", TASK)["result"]
    wait_until(lambda: no_locks(migration.master), "nobody waits", step=0.2)
    assert migration.dmctl("start-task", migration.task_file)["result"]
    one.report(ADD_A)
    two.report(ADD_A)
    wait_until(one.obey, "told to execute")
    one.confirm()
    migration.wait_shown("skipping", "s2")
    assert migration.dmctl("stop-task", TASK)["result"]
    [shown] = migration.dmctl("shard-ddl-lock", TASK)["locks"]
    assert shown["phase"] == "skipping"
    started = migration.dmctl("start-task", migration.task_file, "--remove-meta")
    assert started["result"], started
    wait_until(lambda: no_locks(migration.master), "forgotten", step=0.2)
    assert migration.target.executed == [("s1", ADD_A)]


# --- masters that are killed ---


@pytest.fixture
def masters(etcd: EtcdServer, tmp_path: Path) -> Iterator[list[DMMaster]]:
    """Two masters on an etcd of its own, not started, and a task of two sources."""
    database = DBConfig(host="127.0.0.1", port=1)
    with EtcdClient([etcd.endpoint]) as client:
        for source in ("s1", "s2"):
            subtask = SubTaskConfig(name=TASK, source_id=source, task_mode="all", from_=database, to=database)
            client.put(keys.SUBTASK.key(source, TASK), encode_subtask(subtask))
            client.put(keys.SUBTASK_STAGE.key(source, TASK), SubTaskStage("Running", source, TASK).to_json())
    extra = f'etcd-endpoints = ["http://{etcd.endpoint}"]\nelection-ttl = 3\n'
    made = [DMMaster(tmp_path, member=f"m{number}", extra=extra) for number in (1, 2)]
    yield made
    for master in made:
        master.stop(seconds=15)


def test_masters_that_are_killed_between_any_two_steps_lose_nothing(masters: list[DMMaster], etcd: EtcdServer) -> None:
    first, second = masters
    with EtcdClient([etcd.endpoint]) as client:
        target = FakeTarget()
        one, two = (FakeShards(client, LOCK, source, target) for source in ("s1", "s2"))
        first.start()
        steps: list[Callable[[], bool]] = [
            lambda: one.report(ADD_A), lambda: two.report(ADD_A), one.obey, one.confirm, two.obey, two.confirm,
        ]  # fmt: skip
        for step in steps:
            # What the worker waits for comes from a living master; what it does then, none sees happen.
            if step in (one.obey, two.obey):
                wait_until(lambda: has_operation(one if step == one.obey else two), "told what to do")  # noqa: B023
            first.kill()
            assert step()
            first.start()
        wait_until(lambda: no_locks(first), "the lock is gone", step=0.2)
        # And one that takes over from another; whoever is asked, the leader answers.
        second.start()
        assert one.report(ADD_B)
        for asked in masters:
            wait_until(lambda: bool(dmctl(asked, "shard-ddl-lock")["locks"]), "shown", step=0.2)  # noqa: B023
        first.kill()
        assert two.report(ADD_B)
        for shards in (one, two):
            wait_until(shards.obey, "told what to do")
            assert shards.confirm()
        wait_until(lambda: no_locks(second), "the lock is gone", step=0.2)
        assert target.executed == [("s1", ADD_A), ("s1", ADD_B)]
        assert two.skipped == [ADD_A, ADD_B]


def has_operation(shards: FakeShards) -> bool:
    return shards.reports.operation(shards.lock) is not None
