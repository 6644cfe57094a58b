"""The locks of all tasks: etcd's events in, transactions out. Pure; the rules are in :mod:`dm_master.shardddl.lock`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from dm_master.shardddl import lock as rules
from dm_master.shardddl.lock import Decision, Lock
from pkg.errors import new
from pkg.etcd.types import KV, Delete, Event, Op
from pkg.ha import keys
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables, ShardUnlock
from pkg.ha.shard_ddl_steps import LockId, Step, Stored

R = TypeVar("R")

#: All that the locks are made of is below this: to be listed and followed.
BASE = "/dm-master/shardddl-pessimism/"


@dataclass(frozen=True, slots=True)
class Order:
    """What ``shard-ddl-lock unlock`` asks for. ``action``: what sources do with DDLs that differ from the owner's."""

    owner: str = ""
    force_remove: bool = False
    action: str = "skip"


class Locks:
    """Follows the records; not thread-safe.

    It holds nothing that is not in etcd, but for the tasks' sources, which come from the scheduler: set them
    (:meth:`set_sources`) before the first decision. A source is a member of a lock unless it told that none of its
    tables is routed there.
    """

    def __init__(self, sources: Mapping[str, Iterable[str]] | None = None) -> None:
        self._locks: dict[LockId, Lock] = {}
        self._sources: dict[str, frozenset[str]] = {}
        self._tables: dict[tuple[str, str], ShardTables] = {}
        for task, names in (sources or {}).items():
            self.set_sources(task, names)

    @classmethod
    def rebuilt(cls, kvs: Iterable[KV], sources: Mapping[str, Iterable[str]]) -> Locks:
        """From all records below :data:`BASE`, in any order. Raises 42502 for one that is damaged."""
        locks = cls(sources)
        for kv in kvs:
            locks.apply(Event("put", kv.key, kv.value, kv.mod_revision, kv.create_revision))
        return locks

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Locks):
            return NotImplemented
        return (self._locks, self._tables, self._sources) == (other._locks, other._tables, other._sources)

    def set_sources(self, task: str, sources: Iterable[str]) -> None:
        """The sources that run ``task`` now; none for one that is stopped."""
        self._sources[task] = frozenset(sources)
        if not self._sources[task]:
            del self._sources[task]

    def apply(self, event: Event) -> None:
        """One change of a record; one that is known already changes nothing. Raises 42502 for a damaged record."""
        if event.key.startswith(keys.SHARD_DDL_TABLES.prefix()):
            self._apply_tables(event)
            return
        for family in (keys.SHARD_DDL_INFO, keys.SHARD_DDL_OPERATION):
            if event.key.startswith(family.prefix()):
                task, source, schema, table = family.names(event.key)
                self._apply_of(LockId(task, schema, table), source, family is keys.SHARD_DDL_INFO, event)
                return
        self._apply_unlock(event)

    def _apply_of(self, lock_id: LockId, source: str, is_info: bool, event: Event) -> None:
        lock = self._locks.get(lock_id, Lock(lock_id))
        if is_info:
            self._set(replace(lock, infos=_changed(lock.infos, source, event, ShardInfo.from_json)))
        else:
            self._set(replace(lock, operations=_changed(lock.operations, source, event, ShardOperation.from_json)))

    def _apply_unlock(self, event: Event) -> None:
        lock_id = LockId(*keys.SHARD_DDL_UNLOCK.names(event.key))
        order = _stored(event, ShardUnlock.from_json(event.value)) if event.type == "put" else None
        self._set(replace(self._locks.get(lock_id, Lock(lock_id)), unlock=order))

    def _apply_tables(self, event: Event) -> None:
        task, source = keys.SHARD_DDL_TABLES.names(event.key)
        if event.type == "put":
            self._tables[task, source] = ShardTables.from_json(event.value)
        else:
            self._tables.pop((task, source), None)

    def _set(self, lock: Lock) -> None:
        if lock.empty:
            self._locks.pop(lock.id, None)
        else:
            self._locks[lock.id] = lock

    # --- reading ---

    def members(self, lock: Lock) -> frozenset[str]:
        """The sources that ``lock`` waits for."""
        task, schema, table = lock.id.task, lock.id.schema, lock.id.table

        def has_part(source: str) -> bool:
            told = self._tables.get((task, source))
            return told is None or told.has(schema, table) or source in lock.infos or source in lock.operations

        return frozenset(filter(has_part, self._sources.get(task, ())))

    def all(self, task: str = "", sources: Iterable[str] = ()) -> list[Lock]:
        """The locks by ID: of ``task`` if it is named, and those that one of ``sources`` has a part in."""
        wanted = set(sources)

        def chosen(lock: Lock) -> bool:
            return not wanted or bool(wanted & (self.members(lock) | set(lock.reported())))

        return [lock for _, lock in sorted(self._locks.items()) if (not task or lock.id.task == task) and chosen(lock)]

    def find(self, lock_id: str) -> Lock:
        """The lock with this ID. Raises 38019."""
        found = next((lock for lock in self._locks.values() if str(lock.id) == lock_id), None)
        if found is None:
            raise new(
                "MasterLockNotFound",
                f"lock with ID {lock_id} not found",
                workaround="`shard-ddl-lock` lists the locks. Quote the ID, it has backquotes.",
            )
        return found

    def decide(self, lock: Lock) -> Decision:
        return rules.decide(lock, self.members(lock))

    def steps(self) -> list[Step]:
        """What can be done now, at most one transaction for each lock: commit them, apply the events, ask again."""
        decided = (self.decide(lock).step for _, lock in sorted(self._locks.items()))
        return [step for step in decided if step is not None]

    # --- orders ---

    def unlock(self, lock_id: str, order: Order) -> Step:
        """Carries out an operator's order. Raises 38019, 38020, 38022, or 38041 for an unknown action."""
        lock = self.find(lock_id)
        members = self.members(lock)
        every = _every(order.action)
        if not order.force_remove:
            return rules.unlock(lock, members, owner=order.owner, every=every)
        if order.owner:
            return rules.take_over(lock, members, owner=order.owner, every=every)
        return rules.force_remove(lock)

    def forget(self, task: str, sources: Iterable[str]) -> list[Step]:
        """Removes all that ``sources`` left of ``task``, for one that begins anew (``--remove-meta``)."""
        chosen = sorted(set(sources))
        steps = [Step((), _all_of(task, source)) for source in chosen]
        if not self._sources.get(task, frozenset()) - set(chosen):
            steps.append(Step((), (Delete(keys.SHARD_DDL_UNLOCK.prefix(task), prefix=True),)))
        return steps


def _all_of(task: str, source: str) -> tuple[Op, ...]:
    return (
        Delete(keys.SHARD_DDL_INFO.prefix(task, source), prefix=True),
        Delete(keys.SHARD_DDL_OPERATION.prefix(task, source), prefix=True),
        Delete(keys.SHARD_DDL_TABLES.key(task, source)),
    )


def _every(action: str) -> bool:
    if action not in ("skip", "exec"):
        raise new("MasterInvalidOperateOp", f"invalid action {action!r} on a DDL lock", workaround="Give skip or exec.")
    return action == "exec"


def _stored(event: Event, record: R) -> Stored[R]:
    return Stored(record, event.create_revision, event.mod_revision)


def _changed(
    records: Mapping[str, Stored[R]], source: str, event: Event, decode: Callable[[str], R]
) -> Mapping[str, Stored[R]]:
    if event.type == "put":
        # By name: whatever the order of the events, equal records make equal locks.
        return dict(sorted({**records, source: _stored(event, decode(event.value))}.items()))
    return {name: record for name, record in records.items() if name != source}
