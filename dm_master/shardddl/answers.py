"""Locks as ``shard-ddl-lock`` shows them, and its orders as :class:`Order`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dm_master.shardddl.lock import Lock, Phase
from dm_master.shardddl.locks import Locks, Order
from pkg.pb import dmmaster_pb2 as pb

MODE = "pessimistic"
NO_LOCK = "no DDL lock exists"


@dataclass(frozen=True, slots=True)
class LockView:
    """What an operator sees of one lock.

    ``ddls`` are the owner's. ``synced`` sources have reported, ``unsynced`` ones are members that have not.
    ``since`` (RFC 3339) is when the first one began to wait, "" if unknown; ``waits_for`` must act next.
    """

    id: str
    task: str
    owner: str
    ddls: Sequence[str]
    synced: Sequence[str]
    unsynced: Sequence[str]
    phase: Phase
    since: str
    waits_for: Sequence[str]
    problem: str

    def message(self) -> pb.DDLLock:
        return pb.DDLLock(
            ID=self.id, task=self.task, mode=MODE, owner=self.owner, DDLs=self.ddls,
            synced=self.synced, unsynced=self.unsynced,
        )  # fmt: skip

    def describe(self) -> str:
        """What is going on, in a line, and the problem if there is one."""
        since = f" since {self.since}" if self.since else ""
        whom = f", waits for {', '.join(self.waits_for)}" if self.waits_for else ""
        will = {
            "waiting": f"{self.owner} will execute its DDLs, the others skip them",
            "executing": f"{self.owner} executes the DDLs",
            "skipping": "the DDLs are executed, the others skip them",
        }
        line = f"{self.id}: {self.phase}{since}{whom}" + (f"; {will[self.phase]}" if self.phase in will else "")
        return f"{line}\n{self.problem}" if self.problem else line


def view(locks: Locks, lock: Lock) -> LockView:
    members, decision = locks.members(lock), locks.decide(lock)
    owner, synced = lock.owner(members), lock.reported()
    since = next((lock.infos[source].record.since for source in synced if source in lock.infos), "")
    return LockView(
        str(lock.id),
        lock.id.task,
        owner,
        lock.ddls_of(owner) or next(iter(lock.sequences()), ()),
        sorted(synced),
        sorted(members - set(synced)),
        decision.phase,
        since,
        decision.waits_for,
        str(decision.problem or ""),
    )


def show(locks: Locks, request: pb.ShowDDLLocksRequest) -> pb.ShowDDLLocksResponse:
    """The answer to ``shard-ddl-lock``. With locks, DM's ``msg`` is empty; here it tells who waits for whom."""
    views = [view(locks, lock) for lock in locks.all(request.task, request.sources)]
    text = "\n".join(one.describe() for one in views) or NO_LOCK
    return pb.ShowDDLLocksResponse(result=True, msg=text, locks=[one.message() for one in views])


def order_of(request: pb.UnlockDDLLockRequest) -> Order:
    """What ``shard-ddl-lock unlock`` asks for; without an action the sources that wait skip."""
    action = "exec" if request.op == pb.ExecLock else "skip"
    return Order(request.replaceOwner, request.forceRemove, action)
