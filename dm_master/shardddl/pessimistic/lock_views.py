"""What ``shard-ddl-lock``, ``query-status`` and the metrics show of pessimistic locks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dm_master.shardddl.lock_answers import LockView
from dm_master.shardddl.locks import LockDecision
from dm_master.shardddl.pessimistic.lock import Lock
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from pkg.errors import DMError
from pkg.mysql.names import qualified
from pkg.pb import dmworker_pb2 as worker_pb

MODE = "pessimistic"
#: DM's text, shown instead of the tables of a source that has not reached the DDL of a group.
NOT_RECEIVED = "this DM-worker doesn't receive any shard DDL of this group"


def view(locks: LockRegistry, lock: Lock, refused: DMError | None = None) -> LockView:
    """``refused``: why etcd refuses the lock's next step."""
    members, decision = locks.members(lock), locks.decide(lock)
    owner, synced = lock.owner(members), lock.reported()
    since = next((lock.infos[source].record.since for source in synced if source in lock.infos), "")
    return LockView(
        id=str(lock.id),
        task=lock.id.task,
        mode=MODE,
        target=qualified(lock.id.schema, lock.id.table),
        owner=owner,
        ddls=lock.ddls_of(owner) or next(iter(lock.sequences()), ()),
        synced=sorted(synced),
        unsynced=sorted(members - set(synced)),
        phase=decision.phase,
        since=since,
        waits_for=decision.waits_for,
        problem=str(decision.problem or refused or ""),
        held_rows={},
        unlocks=locks.unlocks(lock),
    )


def add_locks(locks: LockRegistry, status: worker_pb.QueryStatusResponse) -> None:
    """Adds to a worker's status what only the master knows: the lock that each subtask waits for, its owner, and the
    groups of other sources whose DDL this source has not reached."""
    source = status.sourceStatus.source
    for subtask in status.subTaskStatus:
        if not subtask.HasField("sync"):
            continue
        mine = locks.all(subtask.name, [source])
        waits = next((lock for lock in mine if _waits(lock, source)), None)
        if waits is not None:
            subtask.unresolvedDDLLockID = subtask.unresolvedDDLLockID or str(waits.id)
            subtask.sync.blockDDLOwner = subtask.sync.blockDDLOwner or waits.owner(locks.members(waits))
        _add_owners_errors(subtask, source, [locks.decide(lock) for lock in mine if _waits(lock, source)])
        _add_foreign_groups(subtask.sync, [lock for lock in mine if source not in lock.reported()])


def _waits(lock: Lock, source: str) -> bool:
    operation = lock.operations.get(source)
    return source in lock.infos and (operation is None or not operation.record.done)


def _add_owners_errors(subtask: worker_pb.SubTaskStatus, source: str, waits: Sequence[LockDecision]) -> None:
    """Shows the owner's error, as DM does, at a source that waits for it: that source has no error of its own.

    The owner shows its own.
    """
    for decision in waits:
        if decision.phase == "executing" and decision.problem is not None and source not in decision.waits_for:
            subtask.result.errors.add(**decision.problem.to_dict())


def _add_foreign_groups(sync: worker_pb.SyncStatus, foreign: Sequence[Lock]) -> None:
    known = {group.target for group in sync.unresolvedGroups}
    for lock in foreign:
        target = qualified(lock.id.schema, lock.id.table)
        if target not in known:
            sync.unresolvedGroups.add(target=target, unsynced=[NOT_RECEIVED])


def lock_states(locks: LockRegistry) -> Mapping[tuple[str, str], int]:
    """The number of locks by task and state, DM's: ``Un-synced`` ones wait for sources, ``Synced`` ones for executions.

    A task with a lock has both; its series end with its last lock.
    """
    counts = Counter({(lock.id.task, state): 0 for lock in locks.all() for state in ("Un-synced", "Synced")})
    for lock in locks.all():
        counts[lock.id.task, "Synced" if lock.sequences() else "Un-synced"] += 1
    return counts
