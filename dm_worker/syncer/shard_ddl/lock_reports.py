"""A worker's side of the locks of shard DDL, in etcd: report, learn what to do, confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pkg.etcd import EtcdClient, PrefixMirror, WatchEvent, exists
from pkg.ha import keys
from pkg.ha import shard_ddl_steps as steps
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, LockStep, StoredRecord
from pkg.process.log import get_logger

log = get_logger("syncer.shard")


class EtcdLockService:
    """What one source tells and is told about a task's locks.

    Keep to the rules in :mod:`dm_master.shardddl.pessimistic.lock`. Every method raises 42501; after a ``retryable``
    one the outcome of a change is found by reading, or by doing it again.
    """

    def __init__(self, client: EtcdClient, task: str, source: str) -> None:
        self._client = client
        self._task = task
        self._source = source

    def publish_tables(self, tables: ShardTables) -> None:
        """Tells which upstream tables go where, so that nobody waits for a source without any."""
        self._client.put(keys.SHARD_DDL_TABLES.key(self._task, self._source), tables.to_json())

    def report(self, info: ShardInfo) -> bool:
        """Waits with ``info``; False if there is an operation to obey or confirm first.

        Once the task is stopped nothing is written: the master would remove it, this source write it again, and so on
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
        """What it waits with; None if it does not wait."""
        found = self._client.get(lock.info_key(self._source))
        return None if found is None else ShardInfo.from_json(found.value)

    def withdraw(self, lock: LockId) -> bool:
        """Waits no more; False if there is an operation already."""
        return self._commit(steps.withdraw(lock, self._source))

    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None:
        """What to do now; None if nothing. Its create revision tells one order from the next."""
        found = self._client.get(lock.operation_key(self._source))
        if found is None:
            return None
        return StoredRecord(ShardOperation.from_json(found.value), found.create_revision, found.mod_revision)

    def follow(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> tuple[PrefixMirror, PrefixMirror]:
        """Started mirrors of this source's operations and reports: what to do now, and reports that were removed."""
        families = (keys.SHARD_DDL_OPERATION, keys.SHARD_DDL_INFO)
        first, second = (
            PrefixMirror(self._client, family.prefix(self._task, self._source), on_change, on_error=on_error)
            for family in families
        )
        return first.start(), second.start()

    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool:
        """The operation is done; False if it changed or was taken back."""
        return self._commit(steps.confirm(lock, operation))

    def tell_error(self, lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> bool:
        """Why the operation could not be executed, or "" for a new try; False if it changed or was taken back."""
        return self._commit(steps.tell_error(lock, operation, error))

    def _commit(self, step: LockStep) -> bool:
        return self._client.txn(step.compare, step.ops).succeeded
