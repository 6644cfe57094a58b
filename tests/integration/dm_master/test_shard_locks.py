"""Locks of shard DDL over a real etcd: a former leader changes nothing, both sides read each other's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from deploy.local.process import wait_until
from dm_master.election.campaign import LeaderKey
from dm_master.shardddl.lock_coordinator import LockStore
from dm_master.shardddl.locks import UnlockOrder
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from pkg.etcd import EtcdClient, Put, WatchEvent
from pkg.ha import keys
from pkg.ha.shard_ddl import DDLTexts, ShardInfo, ShardTables
from pkg.ha.shard_ddl_steps import LockId, LockStep
from tests.harness.etcd import EtcdServer
from tests.harness.shard_source import put_subtasks
from tests.unit.dm_master.shardddl.support import rebuilt

TASK = "merge"
LOCK = LockId(TASK, "db", "t`1")
DDLS: DDLTexts = ("ALTER TABLE `db`.`t``1` ADD COLUMN `ä` INT DEFAULT '\\'",)
SOURCES = ("s1", "s2", "s3")


@pytest.fixture
def client(etcd: EtcdServer) -> Iterator[EtcdClient]:
    with EtcdClient([etcd.endpoint]) as made:
        put_subtasks(made, TASK, *SOURCES)
        yield made


def lead(client: EtcdClient) -> LeaderKey:
    client.delete("/dm-master/leader/1")
    return LeaderKey("/dm-master/leader/1", client.put("/dm-master/leader/1", "{}"))


def info(source: str) -> ShardInfo:
    return ShardInfo(TASK, source, LOCK.schema, LOCK.table, DDLS, "2026-01-01T00:00:00Z")


class LockingMaster:
    """Follows etcd and commits what the locks decide, as the leader of a term."""

    def __init__(self, client: EtcdClient, leader: LeaderKey) -> None:
        self.store = LockStore(client)
        self.leader = leader
        self.locks = LockRegistry({TASK: SOURCES})
        self.errors: list[BaseException] = []
        self.mirror = self.store.start_mirror(self.see, self.errors.append)

    def see(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            self.locks.apply(event)

    def rebuilt(self) -> LockRegistry:
        return rebuilt(self.store.load(), {TASK: SOURCES})

    def works(self) -> None:
        """Until there is nothing to do and nothing unread."""

        def rests() -> bool:
            done = [self.store.commit(step, self.leader) for step in self.rebuilt().steps()]
            return not any(done)

        wait_until(rests, "the master has done all")
        wait_until(lambda: self.rebuilt() == self.locks, "the mirror has seen all")
        assert not self.errors


def test_a_ddl_goes_through_a_real_etcd(client: EtcdClient) -> None:
    master = LockingMaster(client, lead(client))
    one, two, three = (EtcdLockService(client, TASK, source) for source in SOURCES)
    three.publish_tables(ShardTables(TASK, "s3", {"db": {"other": {"up": ("x",)}}}))
    assert two.report(info("s2"))
    master.works()
    assert two.operation(LOCK) is None
    assert one.report(info("s1"))
    assert one.withdraw(LOCK)
    assert one.report(info("s1"))
    master.works()
    assert one.operation(LOCK) is None, "told to skip before the owner has executed"
    told = two.operation(LOCK)
    assert told is not None
    assert (told.record.execute, told.record.done, told.record.ddls) == (True, False, DDLS)
    assert not two.report(info("s2"))
    assert not two.withdraw(LOCK)
    assert two.confirm(LOCK, told)
    assert not two.confirm(LOCK, told), "confirmed on what is not there any more"
    confirmed = two.operation(LOCK)
    assert confirmed is not None
    assert confirmed.create_revision == told.create_revision
    master.works()
    skip = one.operation(LOCK)
    assert skip is not None
    assert not skip.record.execute
    assert one.confirm(LOCK, skip)
    master.works()
    assert master.locks.all() == []
    assert two.operation(LOCK) is None
    master.mirror.stop()


def test_a_run_that_ends_reports_no_tables_for_the_next_task_of_its_name(client: EtcdClient) -> None:
    three = EtcdLockService(client, TASK, "s3")
    tables = keys.SHARD_DDL_TABLES.key(TASK, "s3")
    three.publish_tables(ShardTables(TASK, "s3", {}))
    assert client.get(tables) is not None
    client.delete(tables)
    client.delete(keys.SUBTASK.key("s3", TASK))
    three.publish_tables(ShardTables(TASK, "s3", {}))
    assert client.get(tables) is None


def test_a_worker_hears_what_it_shall_do_and_that_its_report_is_gone(client: EtcdClient) -> None:
    leader, store, errors = lead(client), LockStore(client), list[BaseException]()
    heard: list[tuple[str, str]] = []
    one, other = (EtcdLockService(client, TASK, source) for source in SOURCES[:2])
    mirrors = one.start_mirrors(lambda events: heard.extend((event.type, event.key) for event in events), errors.append)
    assert other.report(info("s2"))
    assert one.report(info("s1"))
    locks = rebuilt(store.load(), {TASK: ["s1"]})
    assert store.commit(locks.unlock(str(LOCK), UnlockOrder()), leader)
    [step] = rebuilt(store.load(), {TASK: ["s1"]}).steps()
    assert store.commit(step, leader)
    locks = rebuilt(store.load(), {TASK: ["s1"]})
    assert store.commit(locks.unlock(str(LOCK), UnlockOrder(force_remove=True)), leader)
    expected = {(kind, key("s1")) for kind in ("put", "delete") for key in (LOCK.info_key, LOCK.operation_key)}
    wait_until(lambda: set(heard) >= expected, "the worker has heard all")
    assert set(heard) == expected, "heard of another source"
    assert not errors
    for mirror in mirrors:
        mirror.stop()


def test_a_former_leader_changes_nothing(client: EtcdClient) -> None:
    store, former = LockStore(client), lead(client)
    for source in SOURCES:
        assert EtcdLockService(client, TASK, source).report(info(source))
    locks = rebuilt(store.load(), {TASK: SOURCES})
    [step] = locks.steps()
    order = locks.unlock(str(LOCK), UnlockOrder())
    present = lead(client)
    before = store.load()
    assert not store.commit(step, former)
    assert not store.commit(order, former)
    assert store.load() == before
    assert store.commit(step, present)
    assert not store.commit(step, present), "granted twice"
    assert not store.commit(order, present), "the order was given on what is not there any more"


def test_a_mirror_lists_what_was_there_before(client: EtcdClient) -> None:
    assert EtcdLockService(client, TASK, "s1").report(info("s1"))
    client.txn([], [Put("/dm-master/shardddl-optimism/info/61/62/63/64", "not ours")])
    leader = lead(client)
    master = LockingMaster(client, leader)
    assert master.mirror.wait_synced(30)
    assert [str(lock.id) for lock in master.locks.all()] == ["merge-`db`.`t``1`"]
    assert master.store.commit(master.locks.forget(TASK), leader)
    assert master.store.load() == []
    assert master.store.commit(LockStep((), ()), leader)
    master.mirror.stop()
