"""The locks of all tasks: etcd's events in, transactions out. Pure.

The rules are in :mod:`dm_master.shardddl.pessimistic.lock`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from dm_master.shardddl import lock_errors
from dm_master.shardddl.locks import LockDecision, UnlockOrder, UnlockProgress
from dm_master.shardddl.pessimistic import lock as rules
from dm_master.shardddl.pessimistic.lock import Lock
from pkg.errors import Code, DMError, new
from pkg.etcd.types import Delete, WatchEvent
from pkg.ha import keys
from pkg.ha.keys import KeyFamily
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables, ShardUnlock
from pkg.ha.shard_ddl_steps import LockId, LockStep, StoredRecord

R = TypeVar("R")


class LockRegistry:
    """Follows the records; not thread-safe.

    It holds only the records from etcd and the tasks' sources, which come from the scheduler: set them
    (:meth:`set_sources`) before the first decision. A source is a member of a lock unless it has reported that none
    of its tables is routed there.
    """

    def __init__(self, sources: Mapping[str, Iterable[str]] | None = None) -> None:
        self._locks: dict[LockId, Lock] = {}
        self._sources: dict[str, frozenset[str]] = {}
        self._tables: dict[tuple[str, str], ShardTables] = {}
        self._damaged: dict[str, str] = {}
        for task, names in (sources or {}).items():
            self.set_sources(task, names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LockRegistry):
            return NotImplemented
        mine = (self._locks, self._tables, self._sources, self._damaged)
        return mine == (other._locks, other._tables, other._sources, other._damaged)

    def set_all_sources(self, tasks: Mapping[str, Iterable[str]]) -> None:
        """Sets the sources of all running tasks: any other task is stopped."""
        self._sources = {task: frozenset(sources) for task, sources in tasks.items() if sources}

    def set_sources(self, task: str, sources: Iterable[str]) -> None:
        """Sets the sources that run ``task`` now; none for a stopped task."""
        self._sources[task] = frozenset(sources)
        if not self._sources[task]:
            del self._sources[task]

    def apply(self, event: WatchEvent) -> None:
        """Applies one change of a record; a change that is known already has no effect.

        A lock with a damaged record makes no step, other locks continue. Damaged records of no lock: :meth:`damaged`.
        """
        self._damaged.pop(event.key, None)
        try:
            if event.key.startswith(keys.SHARD_DDL_TABLES.prefix()):
                self._apply_tables(event)
            else:
                self._apply_of(_lock_of(event.key), event)
        except DMError as exc:
            if event.type == "put":
                self._damaged[event.key] = exc.message

    def _apply_of(self, lock_id: LockId, event: WatchEvent) -> None:
        lock = self._locks.get(lock_id, Lock(lock_id))
        lock = replace(lock, damaged=_without(lock.damaged, event.key))
        try:
            lock = _changed(lock, event)
        except DMError as exc:
            # The former value of this record is no longer valid.
            lock = _changed(lock, replace(event, type="delete"))
            lock = replace(lock, damaged={**lock.damaged, event.key: _stored(event, exc.message)})
        if lock.empty:
            self._locks.pop(lock_id, None)
        else:
            self._locks[lock_id] = lock

    def _apply_tables(self, event: WatchEvent) -> None:
        task, source = keys.SHARD_DDL_TABLES.names(event.key)
        # A damaged record excludes no table: the locks wait for the source.
        self._tables.pop((task, source), None)
        if event.type == "put":
            self._tables[task, source] = ShardTables.from_json(event.value)

    # --- reading ---

    def members(self, lock: Lock) -> frozenset[str]:
        """The sources that ``lock`` waits for."""
        task, schema, table = lock.id.task, lock.id.schema, lock.id.table

        def has_part(source: str) -> bool:
            tables = self._tables.get((task, source))
            return tables is None or tables.has(schema, table) or source in lock.infos or source in lock.operations

        return frozenset(filter(has_part, self._sources.get(task, ())))

    def all(self, task: str = "", sources: Iterable[str] = ()) -> list[Lock]:
        """The locks by ID; only those of ``task``, and only those with one of ``sources``, if given."""
        wanted = set(sources)

        def chosen(lock: Lock) -> bool:
            return not wanted or bool(wanted & (self.members(lock) | set(lock.reported())))

        return [lock for _, lock in sorted(self._locks.items()) if (not task or lock.id.task == task) and chosen(lock)]

    def find(self, lock_id: str) -> Lock:
        """The lock with this ID. Raises 38019."""
        found = next((lock for lock in self._locks.values() if str(lock.id) == lock_id), None)
        if found is None:
            raise lock_errors.not_found(lock_id)
        return found

    def id_of(self, text: str) -> LockId:
        """The ID that operators write as ``text``. Raises 38019."""
        return self.find(text).id

    def damaged(self) -> Mapping[str, str]:
        """Records that can't be read and belong to no lock: key → what is wrong. They are ignored."""
        return dict(sorted(self._damaged.items()))

    def decide(self, lock: Lock) -> LockDecision:
        return rules.decide(lock, self.members(lock))

    def decided(self) -> list[tuple[LockId, LockDecision]]:
        """The decision on each lock, by ID."""
        return [(lock_id, self.decide(lock)) for lock_id, lock in sorted(self._locks.items())]

    def steps(self) -> list[LockStep]:
        """The next steps, at most one transaction for each lock: commit them, apply the events, call it again."""
        return [decision.step for _, decision in self.decided() if decision.step is not None]

    # --- orders ---

    def unlock(self, lock_id: str, order: UnlockOrder) -> LockStep:
        """Carries out an operator's order. Raises 38019, 38020, 38022, 42502, or 38041 for an unknown action."""
        lock = self.find(lock_id)
        members = self.members(lock)
        every = _every(order.action)
        if not order.force_remove:
            return rules.unlock(lock, members, owner=order.owner, every=every)
        if order.owner:
            return rules.take_over(lock, members, owner=order.owner, every=every)
        return rules.force_remove(lock)

    def unlocks(self, lock: Lock) -> list[UnlockOrder]:
        """The orders that :meth:`unlock` accepts for ``lock`` now, without force."""
        return rules.unlocks(lock, self.members(lock))

    def progress(self, lock_id: LockId, revision: int) -> UnlockProgress | None:
        """How far the order of ``revision`` is; None when the lock is gone, or has another order."""
        lock = self._locks.get(lock_id)
        if lock is None or lock.unlock is None or lock.unlock.mod_revision != revision:
            return None
        return rules.progress(lock, self.members(lock))

    @staticmethod
    def forget(task: str) -> LockStep:
        """Deletes all records of ``task``, which no source runs: it starts from the beginning (``--remove-meta``)."""
        families = (keys.SHARD_DDL_INFO, keys.SHARD_DDL_OPERATION, keys.SHARD_DDL_UNLOCK, keys.SHARD_DDL_TABLES)
        return LockStep((), tuple(Delete(family.prefix(task), prefix=True) for family in families))


def _every(action: str) -> bool:
    if action not in ("skip", "exec"):
        raise new(
            Code.MasterInvalidOperateOp, f"invalid action {action!r} on a DDL lock", workaround="Give skip or exec."
        )
    return action == "exec"


def _stored(event: WatchEvent, record: R) -> StoredRecord[R]:
    return StoredRecord(record, event.create_revision, event.mod_revision)


def _changed(lock: Lock, event: WatchEvent) -> Lock:
    """``lock`` after a change of one of its records. Raises 42502 for one that is damaged."""
    if event.key == lock.id.unlock_key:
        order = _stored(event, ShardUnlock.from_json(event.value)) if event.type == "put" else None
        return replace(lock, unlock=order)
    if event.key.startswith(keys.SHARD_DDL_INFO.prefix()):
        return replace(lock, infos=_with(lock.infos, event, keys.SHARD_DDL_INFO, ShardInfo.from_json))
    operations = _with(lock.operations, event, keys.SHARD_DDL_OPERATION, ShardOperation.from_json)
    return replace(lock, operations=operations)


def _with(
    records: Mapping[str, StoredRecord[R]], event: WatchEvent, family: KeyFamily, decode: Callable[[str], R]
) -> Mapping[str, StoredRecord[R]]:
    source = family.names(event.key)[1]
    if event.type == "put":
        # Sorted by name: equal records give equal locks, in any order of the events.
        return dict(sorted({**records, source: _stored(event, decode(event.value))}.items()))
    return _without(records, source)


def _without(records: Mapping[str, StoredRecord[R]], name: str) -> Mapping[str, StoredRecord[R]]:
    return {other: record for other, record in records.items() if other != name}


def _lock_of(key: str) -> LockId:
    """The lock that a record belongs to. Raises 42502 for an unknown key."""
    for family in (keys.SHARD_DDL_INFO, keys.SHARD_DDL_OPERATION):
        if key.startswith(family.prefix()):
            task, _, schema, table = family.names(key)
            return LockId(task, schema, table)
    return LockId(*keys.SHARD_DDL_UNLOCK.names(key))
