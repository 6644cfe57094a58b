"""The transactions of workers in a shard DDL lock, and the code that master and workers share for it. Pure.

:mod:`dm_master.shardddl.pessimistic.lock` describes the master's part and the rules for a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pkg.etcd.types import Compare, Delete, EtcdOperation, Put, missing, mod_revision_is
from pkg.ha import keys
from pkg.ha.shard_ddl import ShardInfo, ShardOperation
from pkg.mysql.names import qualified

R = TypeVar("R")


@dataclass(frozen=True, slots=True, order=True)
class LockId:
    """A task's target table. Its string form is DM's lock ID."""

    task: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.task}-{qualified(self.schema, self.table)}"

    def info_key(self, source: str) -> str:
        return keys.SHARD_DDL_INFO.key(self.task, source, self.schema, self.table)

    def operation_key(self, source: str) -> str:
        return keys.SHARD_DDL_OPERATION.key(self.task, source, self.schema, self.table)

    @property
    def unlock_key(self) -> str:
        return keys.SHARD_DDL_UNLOCK.key(self.task, self.schema, self.table)


@dataclass(frozen=True, slots=True)
class StoredRecord(Generic[R]):
    """A record with its revisions in etcd."""

    record: R
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True)
class LockStep:
    """One transaction: ``ops`` if all conditions hold."""

    compare: tuple[Compare, ...]
    ops: tuple[EtcdOperation, ...]


def report(info: ShardInfo) -> LockStep:
    """A source waits with its DDLs; refused while it has an operation there, which comes first."""
    lock = LockId(info.task, info.schema, info.table)
    return LockStep((missing(lock.operation_key(info.source)),), (Put(lock.info_key(info.source), info.to_json()),))


def withdraw(lock: LockId, source: str) -> LockStep:
    """A source no longer waits (its DDLs were skipped or replaced by hand). Refused after it got an operation."""
    return LockStep((missing(lock.operation_key(source)),), (Delete(lock.info_key(source)),))


def confirm(lock: LockId, operation: StoredRecord[ShardOperation]) -> LockStep:
    """A source has executed its operation. Refused when the operation was withdrawn in the meantime."""
    return _changed(lock, operation, replace(operation.record, done=True, error=""))


def tell_error(lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> LockStep:
    """A source could not execute its operation, or retries it ("" for ``error``). Refused as :func:`confirm` is."""
    return _changed(lock, operation, replace(operation.record, error=error))


def _changed(lock: LockId, operation: StoredRecord[ShardOperation], record: ShardOperation) -> LockStep:
    key = lock.operation_key(record.source)
    return LockStep((mod_revision_is(key, operation.mod_revision),), (Put(key, record.to_json()),))
