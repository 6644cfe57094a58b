"""A model of what surrounds the locks of shard DDL: an etcd, a target, and workers that keep to their rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from dm_master.console.view.locks import locks_of
from dm_master.shardddl import lock_answers
from dm_master.shardddl.locks import UnlockOrder
from dm_master.shardddl.pessimistic import lock_views
from dm_master.shardddl.pessimistic.lock import Lock
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from pkg.errors import DMError
from pkg.etcd.types import KV, Compare, Delete, Put, WatchEvent
from pkg.ha import shard_ddl_steps as steps
from pkg.ha.keys import SHARD_DDL_INFO, SHARD_DDL_OPERATION, SHARD_DDL_PREFIX, SHARD_DDL_TABLES
from pkg.ha.shard_ddl import DDLTexts, ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, LockStep, StoredRecord
from pkg.pb import dmmaster_pb2 as pb

TASK = "merge"


class RevisionedKeys:
    """Keys with revisions, and a log of events."""

    def __init__(self) -> None:
        self.kvs: dict[str, KV] = {}
        self.revision = 1
        self.log: list[WatchEvent] = []

    def commit(self, step: LockStep) -> bool:
        if not all(self._holds(one) for one in step.compare):
            return False
        self.revision += 1
        for op in step.ops:
            if isinstance(op, Put):
                old = self.kvs.get(op.key)
                created = old.create_revision if old else self.revision
                kv = KV(op.key, op.value, created, self.revision, old.version + 1 if old else 1)
                self.kvs[op.key] = kv
                self.log.append(WatchEvent("put", op.key, op.value, self.revision, created))
            elif isinstance(op, Delete):
                gone = [key for key in self.kvs if key == op.key or (op.prefix and key.startswith(op.key))]
                for key in gone:
                    del self.kvs[key]
                    self.log.append(WatchEvent("delete", key, "", self.revision))
        return True

    def _holds(self, one: Compare) -> bool:
        kv = self.kvs.get(one.key)
        actual = getattr(kv, one.target) if kv else 0
        assert one.result == "="
        return bool(actual == one.operand)

    def all(self) -> list[KV]:
        return [kv for key, kv in self.kvs.items() if key.startswith(SHARD_DDL_PREFIX)]


def rebuilt(kvs: Iterable[KV], sources: Mapping[str, Iterable[str]]) -> LockRegistry:
    """The locks of all records below :data:`pkg.ha.keys.SHARD_DDL_PREFIX`, in any order."""
    locks = LockRegistry(sources)
    for kv in kvs:
        locks.apply(WatchEvent("put", kv.key, kv.value, kv.mod_revision, kv.create_revision))
    return locks


@dataclass
class MergedTable:
    """One merged table: what was executed, in order, by whom."""

    executed: list[tuple[str, DDLTexts]] = field(default_factory=list)


@dataclass
class LockParticipant:
    """A source's part of one lock. ``passed`` and ``obeyed`` are durable, in the target; nothing else need be."""

    source: str
    lock: LockId
    ddls: Sequence[DDLTexts]
    passed: int = 0
    #: The create revision of the operation that was obeyed last.
    obeyed: int = 0
    #: What was skipped, for the checks.
    skipped: list[DDLTexts] = field(default_factory=list)

    @property
    def next(self) -> DDLTexts:
        return self.ddls[self.passed] if self.passed < len(self.ddls) else ()


class LockWorld:
    """Etcd, targets and workers; the master's memory lags behind etcd by the events that it has not read."""

    def __init__(self, ddls: Mapping[str, Mapping[str, Sequence[DDLTexts]]]) -> None:
        """``ddls``: target table → source → what its shards run."""
        self.etcd = RevisionedKeys()
        self.sources = frozenset(source for by_source in ddls.values() for source in by_source)
        self.members = self.sources
        self.shards = {
            (source, table): LockParticipant(source, LockId(TASK, "db", table), sequence)
            for table, by_source in ddls.items()
            for source, sequence in by_source.items()
        }
        self.targets = {table: MergedTable() for table in ddls}
        self.locks = LockRegistry({TASK: self.members})
        self.read = 0

    # --- workers ---

    def operation(self, shard: LockParticipant) -> StoredRecord[ShardOperation] | None:
        kv = self.etcd.kvs.get(shard.lock.operation_key(shard.source))
        return StoredRecord(ShardOperation.from_json(kv.value), kv.create_revision, kv.mod_revision) if kv else None

    def report(self, shard: LockParticipant, since: str = "") -> bool:
        lock = shard.lock
        info = ShardInfo(lock.task, shard.source, lock.schema, lock.table, shard.next, since)
        return bool(shard.next) and self.etcd.commit(steps.report(info))

    def obey(self, shard: LockParticipant) -> bool:
        """Executes or skips, and records it in the same transaction of the target."""
        operation = self.operation(shard)
        if operation is None or operation.record.done or operation.create_revision == shard.obeyed:
            return False
        assert operation.record.ddls == shard.next, "told to do what was not reported"
        if operation.record.execute:
            self.targets[shard.lock.table].executed.append((shard.source, shard.next))
        else:
            shard.skipped.append(shard.next)
        shard.obeyed = operation.create_revision
        shard.passed += 1
        return True

    def confirm(self, shard: LockParticipant) -> bool:
        operation = self.operation(shard)
        if operation is None or operation.record.done or operation.create_revision != shard.obeyed:
            return False
        return self.etcd.commit(steps.confirm(shard.lock, operation))

    def fail(self, shard: LockParticipant, error: str) -> bool:
        """It could not execute, or tries again."""
        operation = self.operation(shard)
        if operation is None or operation.record.done or operation.create_revision == shard.obeyed:
            return False
        return self.etcd.commit(steps.tell_error(shard.lock, operation, error))

    def withdraw(self, shard: LockParticipant) -> bool:
        return self.etcd.commit(steps.withdraw(shard.lock, shard.source))

    def has_tables(self, source: str, tables: Iterable[str]) -> None:
        told = ShardTables(TASK, source, {"db": {table: {"up": ("t",)} for table in tables}})
        self.etcd.commit(LockStep((), (Put(SHARD_DDL_TABLES.key(TASK, source), told.to_json()),)))

    def work(self, shard: LockParticipant) -> bool:
        """One step of a worker that runs; False if it has nothing to do."""
        if shard.source not in self.members:
            return False
        if self.confirm(shard) or self.obey(shard):
            return True
        waits = shard.lock.info_key(shard.source) in self.etcd.kvs
        return not waits and self.report(shard)

    def leaves_nothing(self, source: str) -> None:
        """All records of a source are removed, by whoever that may be."""
        families = (SHARD_DDL_INFO, SHARD_DDL_OPERATION, SHARD_DDL_TABLES)
        gone = [
            key
            for key in self.etcd.kvs
            if any(family.names(key)[1] == source for family in families if key.startswith(family.prefix()))
        ]
        assert self.etcd.commit(LockStep((), tuple(Delete(key) for key in gone)))

    # --- the master ---

    def hear(self, count: int = 1_000_000) -> None:
        """The master reads the next events."""
        for event in self.etcd.log[self.read : self.read + count]:
            self.locks.apply(event)
        self.read = min(len(self.etcd.log), self.read + count)

    def lead(self) -> bool:
        """The master does what it can, on what it knows; False if nothing changed."""
        done = [self.etcd.commit(step) for step in self.locks.steps()]
        return any(done)

    def restart_master(self, kvs: Iterable[KV] | None = None) -> None:
        self.locks = rebuilt(self.etcd.all() if kvs is None else kvs, {TASK: self.members})
        self.read = len(self.etcd.log)

    def set_members(self, members: Iterable[str]) -> None:
        self.members = frozenset(members)
        self.locks.set_sources(TASK, self.members)

    def unlock(self, lock_id: str, order: UnlockOrder) -> bool:
        return self.etcd.commit(self.locks.unlock(lock_id, order))

    # --- all ---

    def settle(self) -> None:
        """Lets everyone work until nobody has anything to do."""
        for _ in range(1000):
            worked = [self.work(shard) for shard in self.shards.values()]
            self.hear()
            if not self.lead() and not any(worked):
                self.hear()
                return
        raise AssertionError("the locks never come to rest")


# --- one table, for tests case by case ---

ADD_A: DDLTexts = ("ALTER TABLE `db`.`t` ADD a INT",)
ADD_B: DDLTexts = ("ALTER TABLE `db`.`t` ADD b INT",)
LOCK = "merge-`db`.`t`"


def world_of(**ddls: Sequence[DDLTexts]) -> LockWorld:
    """One target table ``t``; a source's argument is what its shards run."""
    return LockWorld({"t": ddls})


def wait(world: LockWorld, *sources: str) -> None:
    for source in sources:
        assert world.report(world.shards[source, "t"], f"2026-01-01T00:00:0{source[-1]}Z")
    world.hear()


def executed(world: LockWorld) -> list[tuple[str, DDLTexts]]:
    return world.targets["t"].executed


def answer(world: LockWorld, **request: str | Sequence[str]) -> pb.ShowDDLLocksResponse:
    """What ``shard-ddl-lock`` answers, without what workers say."""
    asked = pb.ShowDDLLocksRequest(**request)  # type: ignore[arg-type]
    chosen = world.locks.all(asked.task, asked.sources)
    return lock_answers.answer([lock_views.view(world.locks, lock) for lock in chosen], world.locks.damaged())


def offered_unlocks(locks: LockRegistry, lock: Lock) -> list[UnlockOrder]:
    """The orders that have a button in the console."""
    message = lock_views.view(locks, lock).message()
    (shown,) = locks_of(pb.ShowDDLLocksResponse(locks=[message]))
    return [UnlockOrder(fields.get("owner", ""), action=fields["action"]) for _, fields in shown.orders]


def refusal(world: LockWorld, order: UnlockOrder, lock_id: str = LOCK) -> DMError:
    with pytest.raises(DMError) as caught:
        world.unlock(lock_id, order)
    return caught.value
