"""DDL locks: who waits for whom. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pkg.pb import dmmaster_pb2 as master


@dataclass(frozen=True, slots=True)
class WaitingLock:
    """``waiting`` sources have sent the DDL and hold rows back; ``missing`` ones have not sent it."""

    id: str
    task: str
    phase: str
    owner: str
    since: str
    problem: str
    statements: Sequence[str]
    waiting: Sequence[tuple[str, str]]
    missing: Sequence[str]
    waits_for: Sequence[str]


def locks_of(answer: master.ShowDDLLocksResponse, task: str = "") -> list[WaitingLock]:
    """All locks, or those of one task; the ones that a person must decide about first."""
    views = [_view(lock) for lock in answer.locks if not task or lock.task == task]
    return sorted(views, key=lambda one: (not one.problem, one.since, one.id))


def _view(lock: master.DDLLock) -> WaitingLock:
    held = {one.source: one.rows for one in lock.heldRows}
    waiting = [(name, f"{held[name]:,} rows held back" if name in held else "") for name in lock.synced]
    return WaitingLock(
        id=lock.ID,
        task=lock.task,
        phase=lock.phase,
        owner=lock.owner,
        since=lock.since,
        problem=lock.problem,
        statements=list(lock.DDLs),
        waiting=waiting,
        missing=list(lock.unsynced),
        waits_for=list(lock.waitsFor),
    )
