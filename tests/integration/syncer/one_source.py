"""The lock service for tests with one source: decides what is reported, when the test lets it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from pkg.etcd import WatchEvent
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, StoredRecord


class OneSource:
    """The locks of a task whose only source this is: it executes everything, and what is done is forgotten at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.tables: ShardTables | None = None
        #: All statements that were granted, in order.
        self.granted: list[tuple[str, ...]] = []
        self.confirmed = 0
        self._revision = 100
        self._infos: dict[LockId, ShardInfo] = {}
        self._operations: dict[LockId, StoredRecord[ShardOperation]] = {}
        self._on_change: Callable[[Sequence[WatchEvent]], None] = lambda _: None
        self._lock = threading.RLock()

    def decide(self) -> None:
        """Decides what waits, though the gate is closed."""
        with self._lock:
            for lock in set(self._infos) - set(self._operations):
                self._grant(lock, self._infos[lock])
        self._on_change([])

    def waiting(self) -> int:
        with self._lock:
            return len(self._infos)

    def _grant(self, lock: LockId, info: ShardInfo) -> None:
        self._revision += 1
        self.granted.append(info.ddls)
        operation = ShardOperation(str(lock), info.task, info.source, info.ddls, execute=True)
        self._operations[lock] = StoredRecord(operation, self._revision, self._revision)

    # -- what a source does -------------------------------------------------------------------------------------

    def publish_tables(self, tables: ShardTables) -> None:
        self.tables = tables

    def withdraw(self, lock: LockId) -> bool:
        with self._lock:
            return lock not in self._operations and self._infos.pop(lock, None) is not None

    def report(self, info: ShardInfo) -> bool:
        lock = LockId(info.task, info.schema, info.table)
        with self._lock:
            if lock in self._operations:
                return False
            self._infos[lock] = info
            if self.open.is_set():
                self._grant(lock, info)
        self._on_change([])
        return True

    def reported(self, lock: LockId) -> ShardInfo | None:
        return self._infos.get(lock)

    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None:
        return self._operations.get(lock)

    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool:
        with self._lock:
            assert self._operations[lock] == operation
            self._operations[lock] = replace(operation, record=replace(operation.record, done=True))
            del self._operations[lock], self._infos[lock]
            self.confirmed += 1
        self._on_change([])
        return True

    def tell_error(self, lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> bool:
        with self._lock:
            assert self._operations[lock] == operation
            told = replace(operation.record, error=error)
            self._operations[lock] = replace(operation, record=told)
        return True

    def start_mirrors(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> Sequence[NoMirror]:
        self._on_change = on_change
        return ()


class NoMirror:
    def stop(self) -> None: ...
