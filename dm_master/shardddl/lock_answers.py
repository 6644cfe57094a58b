"""What ``shard-ddl-lock`` shows of DDL locks, and the orders it accepts, in any shard mode. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dm_master.shardddl.locks import LockPhase, UnlockOrder, UnlockProgress
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

_OPS = {"skip": pb.SkipLock, "exec": pb.ExecLock}
NO_LOCK = "no DDL lock exists"


@dataclass(frozen=True, slots=True)
class LockView:
    """What an operator sees of one lock.

    ``ddls`` are the owner's. ``synced`` sources have reported, ``unsynced`` ones are members that have not.
    ``since`` (RFC 3339) is when the first one began to wait, "" if unknown; ``waits_for`` must act next.
    ``held_rows``: source → rows that it holds back, as far as known. ``unlocks``: the orders that are accepted now.
    """

    id: str
    task: str
    mode: str
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
    unlocks: Sequence[UnlockOrder]

    def message(self) -> pb.DDLLock:
        return pb.DDLLock(
            ID=self.id, task=self.task, mode=self.mode, owner=self.owner, DDLs=self.ddls,
            synced=self.synced, unsynced=self.unsynced,
            phase=self.phase, since=self.since, waitsFor=self.waits_for, problem=self.problem,
            heldRows=[pb.HeldRows(source=source, rows=rows) for source, rows in sorted(self.held_rows.items())],
            unlocks=[pb.UnlockChoice(owner=one.owner, op=_OPS[one.action]) for one in self.unlocks],
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
    """The answer to ``shard-ddl-lock``. With locks, DM's ``msg`` is empty; here it shows which source waits for which.

    ``damaged``: ignored keys of etcd → what is wrong.
    """
    lines = [one.describe() for one in views] or [NO_LOCK]
    lines += [f"etcd's key {key} is damaged and is ignored: {why}" for key, why in damaged.items()]
    return pb.ShowDDLLocksResponse(result=True, msg="\n".join(lines), locks=[one.message() for one in views])


def order_of(request: pb.UnlockDDLLockRequest) -> UnlockOrder:
    """The order in a request of ``shard-ddl-lock unlock``; without an action, waiting sources skip."""
    action = next((action for action, op in _OPS.items() if op == request.op), "skip")
    return UnlockOrder(request.replaceOwner, request.forceRemove, action)


def describe_outcome(lock_id: object, outcome: UnlockProgress | None) -> str:
    """The result of an order, as far as it is carried out now; None: the lock is gone."""
    if outcome is None:
        return f"lock {lock_id} is resolved: no source waits for it now"
    text = f"{_names(outcome.executed)} executed the DDLs of lock {lock_id}, the others that waited skipped them"
    if outcome.unreported:
        text += f"; {_names(outcome.unreported)} did not wait: the same DDLs are skipped there when they come"
    return text


def _names(sources: Sequence[str]) -> str:
    return ", ".join(sources)
