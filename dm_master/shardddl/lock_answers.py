"""What an operator sees of locks: ``shard-ddl-lock``, ``query-status``, the metrics; and what they ask for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dm_master.shardddl.lock import Lock, LockDecision, LockPhase, UnlockProgress
from dm_master.shardddl.lock_registry import LockRegistry, UnlockOrder
from pkg.errors import DMError
from pkg.mysql.names import qualified
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

MODE = "pessimistic"
NO_LOCK = "no DDL lock exists"
#: Shown in place of the tables of a source that has not reached the DDL of a group: DM's text.
NOT_RECEIVED = "this DM-worker doesn't receive any shard DDL of this group"


@dataclass(frozen=True, slots=True)
class LockView:
    """What an operator sees of one lock.

    ``ddls`` are the owner's. ``synced`` sources have reported, ``unsynced`` ones are members that have not.
    ``since`` (RFC 3339) is when the first one began to wait, "" if unknown; ``waits_for`` must act next.
    ``held_rows``: source → rows that it holds back, as far as is known.
    """

    id: str
    task: str
    target: str
    owner: str
    ddls: Sequence[str]
    synced: Sequence[str]
    unsynced: Sequence[str]
    phase: LockPhase
    since: str
    waits_for: Sequence[str]
    problem: str
    held_rows: Mapping[str, int]

    def message(self) -> pb.DDLLock:
        return pb.DDLLock(
            ID=self.id, task=self.task, mode=MODE, owner=self.owner, DDLs=self.ddls,
            synced=self.synced, unsynced=self.unsynced,
            phase=self.phase, since=self.since, waitsFor=self.waits_for, problem=self.problem,
            heldRows=[pb.HeldRows(source=source, rows=rows) for source, rows in sorted(self.held_rows.items())],
        )  # fmt: skip

    def describe(self) -> str:
        """The state in one line, and the problem if there is one."""
        since = f" since {self.since}" if self.since else ""
        whom = f", waits for {', '.join(self.waits_for)}" if self.waits_for else ""
        will = {
            "waiting": f"{self.owner} will execute its DDLs, the others skip them",
            "executing": f"{self.owner} executes the DDLs",
            "skipping": "the DDLs are executed, the others skip them",
        }
        line = f"{self.id}: {self.phase}{since}{whom}" + (f"; {will[self.phase]}" if self.phase in will else "")
        held = ", ".join(f"{rows} by {source}" for source, rows in sorted(self.held_rows.items()) if rows)
        line += f"; rows held back: {held}" if held else ""
        return f"{line}\n{self.problem}" if self.problem else line


def view(locks: LockRegistry, lock: Lock, refused: DMError | None = None) -> LockView:
    """``refused``: why etcd does not take the lock's next step."""
    members, decision = locks.members(lock), locks.decide(lock)
    owner, synced = lock.owner(members), lock.reported()
    since = next((lock.infos[source].record.since for source in synced if source in lock.infos), "")
    return LockView(
        id=str(lock.id),
        task=lock.id.task,
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
    )


def with_held_rows(one: LockView, statuses: Sequence[worker_pb.QueryStatusResponse]) -> LockView:
    """``one`` with the held rows from the workers' ``statuses``."""
    held = {
        answer.sourceStatus.source: sum(
            group.heldRows for group in subtask.sync.unresolvedGroups if group.target == one.target
        )
        for answer in statuses
        for subtask in answer.subTaskStatus
        if answer.result and subtask.name == one.task and subtask.HasField("sync")
    }
    return replace(one, held_rows={source: held[source] for source in (*one.synced, *one.unsynced) if source in held})


def answer(views: Sequence[LockView], damaged: Mapping[str, str]) -> pb.ShowDDLLocksResponse:
    """The answer to ``shard-ddl-lock``. If there are locks, DM's ``msg`` is empty; here it shows who waits for whom.

    ``damaged``: ignored keys of etcd → what is wrong.
    """
    lines = [one.describe() for one in views] or [NO_LOCK]
    lines += [f"etcd's key {key} is damaged and is ignored: {why}" for key, why in damaged.items()]
    return pb.ShowDDLLocksResponse(result=True, msg="\n".join(lines), locks=[one.message() for one in views])


def order_of(request: pb.UnlockDDLLockRequest) -> UnlockOrder:
    """The order in a request of ``shard-ddl-lock unlock``; without an action the sources that wait skip."""
    action = "exec" if request.op == pb.ExecLock else "skip"
    return UnlockOrder(request.replaceOwner, request.forceRemove, action)


def describe_outcome(lock_id: object, outcome: UnlockProgress | None) -> str:
    """The result of an order that is carried out as far as possible now; None: the lock is gone."""
    if outcome is None:
        return f"lock {lock_id} is resolved: no source waits for it now"
    text = f"{_names(outcome.executed)} executed the DDLs of lock {lock_id}, the others that waited skipped them"
    if outcome.unreported:
        text += f"; {_names(outcome.unreported)} did not wait: the same DDLs are skipped there when they come"
    return text


def _names(sources: Sequence[str]) -> str:
    return ", ".join(sources)


# --- what query-status and the metrics show ---


def add_locks(locks: LockRegistry, status: worker_pb.QueryStatusResponse) -> None:
    """Adds to a worker's answer what only the master knows: the lock that each subtask waits for, its owner, and the
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
    """A source that waits for an owner that failed goes on with all else, and has no error of its own: DM shows one.

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

    A task with a lock has both; its series leave with its last lock.
    """
    counts = Counter({(lock.id.task, state): 0 for lock in locks.all() for state in ("Un-synced", "Synced")})
    for lock in locks.all():
        counts[lock.id.task, "Synced" if lock.sequences() else "Un-synced"] += 1
    return counts
