"""The loop over the locks of shard DDL must go on after failures of etcd, outdated records and operators' orders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from deploy.local.process import wait_until
from dm_master.election.campaign import LeaderKey
from dm_master.shardddl.lock_coordinator import CANNOT_COMMIT, DIFFERENT_DDLS, LockCoordinator, LockStore
from dm_master.shardddl.locks import UnlockOrder
from dm_master.shardddl.pessimistic import lock_views
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_worker.syncer.shard_ddl.lock_client import LockClient
from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from dm_worker.syncer.shard_ddl.source_groups import ReportDDL
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient, PrefixMirror, WatchEvent
from pkg.ha import keys
from pkg.ha.shard_ddl import DDLTexts, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, StoredRecord
from pkg.pb import dmmaster_pb2 as pb
from tests.harness.etcd import EtcdServer
from tests.harness.shard_source import FakeShards, FakeTarget, put_subtasks

TASK = "merge"
LOCK = LockId(TASK, "db", "t")
ADD_A: DDLTexts = ("ALTER TABLE `db`.`t` ADD COLUMN `a` INT",)
ADD_B: DDLTexts = ("ALTER TABLE `db`.`t` ADD COLUMN `b` INT",)


@dataclass
class CoordinatedCluster:
    """An etcd, sources of one task, and coordinators that lead one after the other."""

    client: EtcdClient
    target: FakeTarget = field(default_factory=FakeTarget)
    tasks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    leading: LockCoordinator[LockRegistry] | None = None
    terms: int = 0

    def shards(self, *names: str) -> list[FakeShards]:
        self.tasks = {TASK: frozenset(names)}
        put_subtasks(self.client, TASK, *names)
        return [FakeShards(self.client, LOCK, name, self.target) for name in names]

    def lead(self, sources: Callable[[], Mapping[str, frozenset[str]]] | None = None) -> LockCoordinator[LockRegistry]:
        """A new leader; the former one, if it goes on, can do no more."""
        if self.terms:
            self.client.delete(f"/dm-master/leader/{self.terms}")
        self.terms += 1
        key = f"/dm-master/leader/{self.terms}"
        made = LockCoordinator(
            LockStore(self.client),
            LockRegistry,
            sources or (lambda: self.tasks),
            lambda task, kind: self.troubles.append((task, kind)),
        )
        made.start(LeaderKey(key, self.client.put(key, "{}")))
        self.leading = made
        if sources is None:
            wait_until(lambda: ready(made), "it has begun")
        return made

    def stop(self) -> None:
        if self.leading is not None:
            self.leading.stop()
            self.leading = None

    def records(self) -> list[str]:
        return [kv.key for kv in self.client.get_prefix(keys.SHARD_DDL_PREFIX)[0]]

    def show(self) -> pb.DDLLock:
        assert self.leading is not None
        term = self.leading.term()
        refused = term.refusals()
        [one] = term.read(lambda locks: [lock_views.view(locks, lock, refused.get(lock.id)) for lock in locks.all()])
        return one.message()


def ready(coordinator: LockCoordinator[LockRegistry]) -> bool:
    try:
        return coordinator.term().read(lambda _: True)
    except DMError:
        return False


@pytest.fixture
def cluster(etcd: EtcdServer) -> Iterator[CoordinatedCluster]:
    with EtcdClient([etcd.endpoint]) as client:
        made = CoordinatedCluster(client)
        yield made
        made.stop()


def settle(cluster: CoordinatedCluster, *shards: FakeShards) -> None:
    """Until all records are gone."""

    def over() -> bool:
        for one in shards:
            one.work()
        return not cluster.records()

    wait_until(over, "all records are gone", 30)


def test_ddls_go_through_one_after_the_other(cluster: CoordinatedCluster) -> None:
    one, two = cluster.shards("s1", "s2")
    cluster.lead()
    for ddls in (ADD_A, ADD_B, ADD_A):
        assert two.report(ddls)
        assert one.report(ddls)
        settle(cluster, one, two)
    assert cluster.target.executed == [("s2", ADD_A), ("s2", ADD_B), ("s2", ADD_A)]
    assert one.skipped == [ADD_A, ADD_B, ADD_A]
    assert cluster.troubles == []


def test_a_source_that_reports_while_its_task_begins_is_not_taken_for_a_stranger(cluster: CoordinatedCluster) -> None:
    """What the sources are is read in another moment than what they report."""
    (one,) = cluster.shards("s1")
    began = cluster.tasks
    asked: list[int] = []

    def sources() -> Mapping[str, frozenset[str]]:
        asked.append(len(asked))
        if asked[-1] == 1:
            one.reports.publish_tables(ShardTables(TASK, "s1", {"db": {"t": {"up": ("x",)}}}))
            one.report(ADD_A)
            wait_until(lambda: _seen(coordinator) > 1, "the coordinator has read the report")
            return {}
        return began if asked[-1] else {}

    coordinator = cluster.lead(sources)
    wait_until(lambda: bool(asked), "it has begun")
    coordinator.wake()
    wait_until(lambda: one.obey(), "it was told to execute")
    assert cluster.target.executed == [("s1", ADD_A)]


def _seen(coordinator: LockCoordinator[LockRegistry]) -> int:
    return coordinator.term()._events


class Looks(EtcdLockService):
    """Counts how often a source asks what to do."""

    asked = 0

    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None:
        self.asked += 1
        return super().operation(lock)


def test_a_stopped_task_does_not_report_again_what_the_master_removes(cluster: CoordinatedCluster) -> None:
    """Its unit needs a moment to end; until then they would take turns."""
    cluster.shards("s1", "s2")
    coordinator = cluster.lead()
    looks, reports = Looks(cluster.client, TASK, "s1"), list[WatchEvent]()
    mirror = PrefixMirror(cluster.client, LOCK.info_key("s1"), reports.extend, on_error=print).start()
    link = LockClient(looks, TASK, "s1")
    link.start()
    try:
        link.request(ReportDDL(("db", "t"), 0, ADD_A))
        wait_until(lambda: bool(cluster.records()), "it is reported")
        # As stop-task does: the subtasks are gone first.
        for source in ("s1", "s2"):
            cluster.client.delete(keys.SUBTASK.key(source, TASK))
        cluster.tasks = {}
        coordinator.wake()
        for turn in range(3):
            wait_until(lambda: not cluster.records(), "the lock is gone")
            asked = looks.asked
            cluster.client.put(LockId(TASK, "db", f"other{turn}").operation_key("s1"), "{}")
            wait_until(lambda asked=asked: looks.asked > asked, "it has looked again")  # type: ignore[misc]
            cluster.client.delete(LockId(TASK, "db", f"other{turn}").operation_key("s1"))
        wait_until(lambda: not cluster.records(), "the lock is gone")
        assert len({event.mod_revision for event in reports if event.type == "put"}) == 1
    finally:
        mirror.stop()
        link.stop()


def test_a_source_that_leaves_is_not_waited_for_any_more(cluster: CoordinatedCluster) -> None:
    one, _ = cluster.shards("s1", "s2")
    coordinator = cluster.lead()
    assert one.report(ADD_A)
    wait_until(lambda: bool(coordinator.term().read(lambda locks: locks.all())), "the report is read")
    assert list(cluster.show().unsynced) == ["s2"]
    assert not one.obey()
    cluster.tasks = {TASK: frozenset({"s1"})}
    coordinator.wake()
    settle(cluster, one)
    assert cluster.target.executed == [("s1", ADD_A)]
    cluster.tasks = {TASK: frozenset({"s1", "s2"})}
    coordinator.wake()
    assert one.report(ADD_B)
    cluster.tasks = {}
    coordinator.wake()
    wait_until(lambda: not cluster.records(), "a stopped task leaves no lock that nobody has executed")


@pytest.mark.parametrize("abrupt", [True, False])
def test_another_master_goes_on_between_any_two_steps(cluster: CoordinatedCluster, abrupt: bool) -> None:
    """Before every step of the flow the leader changes; ``abrupt``: the former one still runs and thinks it leads."""
    one, two = cluster.shards("s1", "s2")
    former: list[LockCoordinator[LockRegistry]] = []

    def change_leader() -> None:
        if abrupt and cluster.leading:
            former.append(cluster.leading)
        else:
            cluster.stop()
        cluster.lead()

    for ddls in (ADD_A, ADD_B):
        steps: list[Callable[[], bool]] = [
            lambda ddls=ddls: one.report(ddls), lambda ddls=ddls: two.report(ddls),  # type: ignore[misc]
            one.obey, one.confirm, two.obey, two.confirm,
        ]  # fmt: skip
        for step in steps:
            change_leader()
            wait_until(step, "the worker's next step", 30)
        change_leader()
        wait_until(lambda: not cluster.records(), "the lock is gone", 30)
    assert cluster.target.executed == [("s1", ADD_A), ("s1", ADD_B)]
    assert two.skipped == [ADD_A, ADD_B]
    for coordinator in former:
        coordinator.stop()


def test_an_etcd_that_goes_away_and_comes_back_loses_nothing(cluster: CoordinatedCluster, etcd: EtcdServer) -> None:
    one, two = cluster.shards("s1", "s2")
    coordinator = cluster.lead()
    assert one.report(ADD_A)
    assert two.report(ADD_A)
    wait_until(one.obey, "told to execute")
    etcd.kill()
    assert cluster.show().owner == "s1", "what is known is shown without etcd"
    with pytest.raises(DMError) as caught:
        coordinator.term().order(str(LOCK), UnlockOrder("s2", force_remove=True))
    assert caught.value.kind is Code.HAFailTxnOperation
    etcd.start()
    wait_until(one.confirm, "etcd is back")
    settle(cluster, one, two)
    assert cluster.target.executed == [("s1", ADD_A)]


def test_a_mirror_that_breaks_is_started_again(cluster: CoordinatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd may refuse to be read for a while (permissions): leadership goes on, and the locks do when it ends."""
    start_mirror, broken = LockStore.start_mirror, list[PrefixMirror]()

    def breaking(self: LockStore, on_change: Any, on_error: Any) -> PrefixMirror:
        mirror = start_mirror(self, on_change, on_error)
        if not broken:
            broken.append(mirror)
            assert mirror.wait_synced(60)
            mirror.stop()
            on_error(PermissionError("denied"))
        return mirror

    monkeypatch.setattr(LockStore, "start_mirror", breaking)
    one, two = cluster.shards("s1", "s2")
    assert one.report(ADD_A)
    cluster.lead()
    assert two.report(ADD_A)
    settle(cluster, one, two)
    assert broken
    assert cluster.target.executed == [("s1", ADD_A)]


def test_more_than_etcd_takes_in_one_transaction_is_said_and_done_once_it_takes_it(
    cluster: CoordinatedCluster, etcd: EtcdServer
) -> None:
    """etcd's own default is 128 operations: too few for 70 sources, which each have two records and conditions."""
    shards = cluster.shards(*(f"s{number:02}" for number in range(70)))
    cluster.lead()
    for one in shards:
        assert one.report(ADD_A)
    wait_until(shards[0].work, "told to execute", 30)
    wait_until(shards[0].work, "executed", 30)
    wait_until(lambda: "max-txn-ops" in cluster.show().problem, "the refusal is shown", 30)
    assert (TASK, CANNOT_COMMIT) in cluster.troubles
    etcd.kill()
    etcd.extra.append("--max-txn-ops=2048")
    etcd.start()
    wait_until(lambda: not cluster.show().problem, "etcd takes it", 30)
    settle(cluster, *shards)
    assert cluster.target.executed == [("s00", ADD_A)]


def test_a_damaged_record_stops_its_lock_and_no_other(cluster: CoordinatedCluster) -> None:
    one, two = cluster.shards("s1", "s2")
    cluster.client.put(LockId(TASK, "db", "u").info_key("s1"), "?")
    cluster.client.put(keys.SHARD_DDL_PREFIX + "info/x", "?")
    coordinator = cluster.lead()
    assert one.report(ADD_A)
    assert two.report(ADD_A)
    wait_until(one.work, "told to execute")
    coordinator.term().order("merge-`db`.`u`", UnlockOrder(force_remove=True))
    cluster.client.delete(keys.SHARD_DDL_PREFIX + "info/x")
    settle(cluster, one, two)
    assert cluster.target.executed == [("s1", ADD_A)]


def test_a_conflict_is_counted_once(cluster: CoordinatedCluster) -> None:
    one, two = cluster.shards("s1", "s2")
    coordinator = cluster.lead()
    one.report(ADD_A)
    two.report(ADD_B)
    wait_until(lambda: cluster.troubles == [(TASK, DIFFERENT_DDLS)], "the conflict is seen")
    coordinator.wake()
    two.reports.withdraw(LOCK)
    two.report(ADD_A)
    settle(cluster, one, two)
    assert cluster.troubles == [(TASK, DIFFERENT_DDLS)]


# --- orders ---


def test_an_order_is_followed_until_all_who_waited_are_done(cluster: CoordinatedCluster) -> None:
    one, two, three = cluster.shards("s1", "s2", "s3")
    term = cluster.lead().term()
    one.report(ADD_A)
    two.report(ADD_A)
    wait_until(
        lambda: [lock.reported() for lock in term.read(lambda locks: locks.all())] == [["s1", "s2"]], "both are read"
    )
    lock, revision = term.order(str(LOCK), UnlockOrder("s2"))

    def far() -> tuple[object, ...]:
        known = term.wait_order(lock, revision, 0.1)
        return () if known is None else (known.executed, known.executing, known.skipping, known.unreported)

    wait_until(lambda: far() == ((), ("s2",), ("s1",), ("s3",)), "the order is read")
    wait_until(two.obey, "told to execute")
    wait_until(two.confirm, "executed")
    wait_until(lambda: far() == (("s2",), (), ("s1",), ("s3",)), "the execution is read")
    wait_until(one.obey, "told to skip")
    one.confirm()
    began = time.monotonic()
    ended = term.wait_order(lock, revision, 120)
    assert ended is not None
    assert not ended.skipping
    assert time.monotonic() - began < 60
    assert three.report(ADD_A)
    settle(cluster, one, two, three)
    wait_until(lambda: term.wait_order(lock, revision, 30) is None, "the end is read")
    assert cluster.target.executed == [("s2", ADD_A)]


def test_a_wait_ends_with_the_leadership(cluster: CoordinatedCluster) -> None:
    (one,) = cluster.shards("s1")
    cluster.tasks = {TASK: frozenset({"s1", "s2"})}
    coordinator = cluster.lead()
    term = coordinator.term()
    one.report(ADD_A)
    wait_until(lambda: len(term.read(lambda locks: locks.all())) == 1, "the report is read")
    lock, revision = term.order(str(LOCK), UnlockOrder())
    cluster.stop()
    for action in (lambda: term.wait_order(lock, revision, 60), lambda: coordinator.term()):
        with pytest.raises(DMError) as caught:
            action()
        assert caught.value.kind is Code.MasterPessimistNotStarted
    with pytest.raises(DMError):
        term.order(str(LOCK), UnlockOrder())


def test_a_former_leader_neither_orders_nor_forgets(cluster: CoordinatedCluster) -> None:
    one, _ = cluster.shards("s1", "s2")
    coordinator = cluster.lead()
    term = coordinator.term()
    one.report(ADD_A)
    wait_until(lambda: len(term.read(lambda locks: locks.all())) == 1, "the report is read")
    cluster.lead()
    for action in (lambda: term.order(str(LOCK), UnlockOrder()), lambda: term.forget(TASK)):
        with pytest.raises(DMError):
            action()
    assert cluster.records() == [LOCK.info_key("s1")]
    coordinator.stop()
    assert cluster.leading is not None
    cluster.leading.term().forget(TASK)
    assert cluster.records() == []
