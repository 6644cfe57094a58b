"""DDL locks: who waits for whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pkg.pb import dmmaster_pb2 as master
from pkg.status.amounts import counted

#: What each phase means. In a phase that is not here a person must decide: the lock's problem says what.
_MEANINGS = {
    "waiting": "Once all have sent this DDL, {owner} executes it and the others skip it.",
    "executing": "{owner} executes this DDL now.",
    "skipping": "This DDL is executed. Each other source skips it as soon as it reads it. No rows are held back.",
}


@dataclass(frozen=True, slots=True)
class WaitingLock:
    """``synced`` sources have sent the DDL, and hold rows back until it is ``executed``; ``missing`` ones have not.

    ``orders``: the text of each unlock that is accepted now, and its fields.
    """

    id: str
    task: str
    phase: str
    owner: str
    since: str
    problem: str
    statements: Sequence[str]
    synced: Sequence[tuple[str, str]]
    missing: Sequence[str]
    waits_for: Sequence[str]
    meaning: str
    executed: bool
    orders: Sequence[tuple[str, Mapping[str, str]]]


def locks_of(answer: master.ShowDDLLocksResponse, task: str = "") -> list[WaitingLock]:
    """All locks, or those of one task; the ones that a person must decide about first."""
    views = [_view(lock) for lock in answer.locks if not task or lock.task == task]
    return sorted(views, key=lambda one: (not one.problem, one.since, one.id))


def _view(lock: master.DDLLock) -> WaitingLock:
    held = {one.source: one.rows for one in lock.heldRows}
    executed = lock.phase == "skipping"
    rows = {} if executed else {name: f"{counted(count, 'row')} held back" for name, count in held.items()}
    return WaitingLock(
        id=lock.ID,
        task=lock.task,
        phase=lock.phase,
        owner=lock.owner,
        since=lock.since,
        problem=lock.problem,
        statements=list(lock.DDLs),
        synced=[(name, rows.get(name, "")) for name in lock.synced],
        missing=list(lock.unsynced),
        waits_for=[] if executed else list(lock.waitsFor),
        meaning=_MEANINGS.get(lock.phase, "").format(owner=lock.owner or "the first one"),
        executed=executed,
        orders=_orders(lock),
    )


def _orders(lock: master.DDLLock) -> list[tuple[str, Mapping[str, str]]]:
    """The unlocks that the master accepts now, as it says."""
    return [_order(lock, choice) for choice in lock.unlocks]


def _order(lock: master.DDLLock, choice: master.UnlockChoice) -> tuple[str, Mapping[str, str]]:
    fields = {"action": "exec" if choice.op == master.ExecLock else "skip"}
    if choice.owner:
        return f"Unlock: let {choice.owner} execute it", {**fields, "owner": choice.owner}
    if choice.op == master.ExecLock:
        return "Unlock: execute each sequence once", fields
    if lock.phase == "conflict":
        return "Unlock: execute the owner's alone", fields
    return "Unlock: do not wait for the others", fields
