"""The DDL locks of a task with two sources: the master's own rules, over records in memory in place of etcd's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_worker.syncer.shard_ddl.lock_client import LockService
from pkg.etcd import WatchEvent
from pkg.etcd.types import Put
from pkg.ha import keys
from pkg.ha import shard_ddl_steps as steps
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, LockStep, StoredRecord
from tests.integration.syncer.one_source import NoMirror
from tests.unit.dm_master.shardddl.support import RevisionedKeys

OnChange = Callable[[Sequence[WatchEvent]], None]


class SharedLocks:
    """The records, and the master that leads: each change is followed by the steps that it allows."""

    def __init__(self, task: str, sources: Sequence[str]) -> None:
        self._task = task
        self._records = RevisionedKeys()
        self._registry = LockRegistry({task: sources})
        self._read = 0
        self._guard = threading.RLock()
        self._listeners: dict[str, OnChange] = {}

    def of(self, source: str) -> LockService:
        return _SourceLocks(self, self._task, source)

    def listen(self, source: str, on_change: OnChange) -> None:
        with self._guard:
            self._listeners[source] = on_change

    def value(self, key: str) -> tuple[str, int, int] | None:
        """A record, with the revisions of its creation and of its last change."""
        with self._guard:
            found = self._records.kvs.get(key)
        return None if found is None else (found.value, found.create_revision, found.mod_revision)

    def commit(self, step: LockStep) -> bool:
        with self._guard:
            done = self._records.commit(step)
            self._lead()
            listeners = list(self._listeners.values())
        for on_change in listeners:
            on_change([])
        return done

    def _lead(self) -> None:
        while True:
            for event in self._records.log[self._read :]:
                self._registry.apply(event)
            self._read = len(self._records.log)
            done = [self._records.commit(step) for step in self._registry.steps()]
            if not any(done):
                return


class _SourceLocks:
    """What one source does, as :class:`dm_worker.syncer.shard_ddl.lock_reports.EtcdLockService` does it in etcd."""

    def __init__(self, shared: SharedLocks, task: str, source: str) -> None:
        self._shared = shared
        self._task = task
        self._source = source

    def publish_tables(self, tables: ShardTables) -> None:
        key = keys.SHARD_DDL_TABLES.key(self._task, self._source)
        self._shared.commit(LockStep((), (Put(key, tables.to_json()),)))

    def report(self, info: ShardInfo) -> bool:
        return self._shared.commit(steps.report(info))

    def reported(self, lock: LockId) -> ShardInfo | None:
        found = self._shared.value(lock.info_key(self._source))
        return None if found is None else ShardInfo.from_json(found[0])

    def withdraw(self, lock: LockId) -> bool:
        return self._shared.commit(steps.withdraw(lock, self._source))

    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None:
        found = self._shared.value(lock.operation_key(self._source))
        return None if found is None else StoredRecord(ShardOperation.from_json(found[0]), *found[1:])

    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool:
        return self._shared.commit(steps.confirm(lock, operation))

    def tell_error(self, lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> bool:
        return self._shared.commit(steps.tell_error(lock, operation, error))

    def start_mirrors(self, on_change: OnChange, on_error: Callable[[BaseException], None]) -> Sequence[NoMirror]:
        self._shared.listen(self._source, on_change)
        return ()
