"""A worker's side of the locks of shard DDL, in etcd: reports, reads the operation, confirms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pkg.etcd import EtcdClient, PrefixMirror, Put, WatchEvent, exists
from pkg.ha import keys
from pkg.ha import shard_ddl_steps as steps
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, LockStep, StoredRecord
from pkg.process.log import get_logger

log = get_logger("syncer.shard")


class EtcdLockService:
    """The reports and reads of one source for a task's locks.

    Follow the rules in :mod:`dm_master.shardddl.pessimistic.lock`. Every method raises 42501; after a ``retryable``
    one, read the result of a change, or repeat the change.
    """

    def __init__(self, client: EtcdClient, task: str, source: str) -> None:
        self._client = client
        self._task = task
        self._source = source

    def publish_tables(self, tables: ShardTables) -> None:
        """Reports where upstream tables are routed, so that no lock waits for a source without tables. Once the task is
        stopped, this writes nothing: it would hold for the next task of this name."""
        key = keys.SHARD_DDL_TABLES.key(self._task, self._source)
        self._client.txn([exists(keys.SUBTASK.key(self._source, self._task))], (Put(key, tables.to_json()),))

    def report(self, info: ShardInfo) -> bool:
        """Reports ``info``; False if there is an operation to follow or confirm first.

        Once the task is stopped, this writes nothing: the master would remove it, this source write it again, and so on
        until its unit has ended.
        """
        step, subtask = steps.report(info), keys.SUBTASK.key(self._source, self._task)
        if self._client.txn([*step.compare, exists(subtask)], step.ops).succeeded:
            return True
        if self._client.get(subtask) is not None:
            return False
        log.info("the task is stopped: its DDL of merged tables is not reported", task=self._task, source=self._source)
        return True

    def reported(self, lock: LockId) -> ShardInfo | None:
        """The source's report; None if it has none."""
        found = self._client.get(lock.info_key(self._source))
        return None if found is None else ShardInfo.from_json(found.value)

    def withdraw(self, lock: LockId) -> bool:
        """Removes the report; False if there is an operation already."""
        return self._commit(steps.withdraw(lock, self._source))

    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None:
        """The current operation; None if there is none. Its create revision distinguishes it from the next."""
        found = self._client.get(lock.operation_key(self._source))
        if found is None:
            return None
        return StoredRecord(ShardOperation.from_json(found.value), found.create_revision, found.mod_revision)

    def start_mirrors(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> tuple[PrefixMirror, PrefixMirror]:
        """Started mirrors of this source's operations and reports: the current operation, and removed reports."""
        families = (keys.SHARD_DDL_OPERATION, keys.SHARD_DDL_INFO)
        first, second = (
            PrefixMirror(self._client, family.prefix(self._task, self._source), on_change, on_error=on_error)
            for family in families
        )
        return first.start(), second.start()

    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool:
        """Sets the operation to done; False if it changed or was revoked."""
        return self._commit(steps.confirm(lock, operation))

    def tell_error(self, lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> bool:
        """Reports why the operation could not be executed, or "" for a retry; False if it changed or was revoked."""
        return self._commit(steps.tell_error(lock, operation, error))

    def _commit(self, step: LockStep) -> bool:
        return self._client.txn(step.compare, step.ops).succeeded
