"""What DDL locks have in any shard mode, and what the coordinator needs of a mode's locks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from pkg.errors import DMError
from pkg.etcd.types import WatchEvent
from pkg.ha.shard_ddl_steps import LockId, LockStep

LockPhase = Literal["waiting", "conflict", "executing", "owner left", "skipping", "done", "damaged"]


@dataclass(frozen=True, slots=True)
class LockDecision:
    """A lock's phase, and its next transaction (None: others must act first).

    ``waits_for`` are the sources that must act; ``problem`` is set when the operator must act.
    """

    phase: LockPhase
    step: LockStep | None = None
    waits_for: tuple[str, ...] = ()
    problem: DMError | None = None


@dataclass(frozen=True, slots=True)
class UnlockOrder:
    """The arguments of ``shard-ddl-lock unlock``. ``action``: what sources do with DDLs that differ from the
    owner's."""

    owner: str = ""
    force_remove: bool = False
    action: str = "skip"


@dataclass(frozen=True, slots=True)
class UnlockProgress:
    """How far an order is: the sources that have executed, that must still execute, that waited and must still skip,
    and the members that have not reported."""

    executed: tuple[str, ...]
    executing: tuple[str, ...]
    skipping: tuple[str, ...]
    unreported: tuple[str, ...]


class Locks(Protocol):
    """The locks of all tasks in one shard mode: etcd's events in, transactions out. Not thread-safe."""

    def set_all_sources(self, tasks: Mapping[str, Iterable[str]]) -> None:
        """Sets the sources of all running tasks: any other task is stopped."""

    def apply(self, event: WatchEvent) -> None:
        """Applies one change of a record; a change that is known already has no effect."""

    def decided(self) -> list[tuple[LockId, LockDecision]]:
        """The decision on each lock: commit the steps, apply the events, call it again."""

    def id_of(self, text: str) -> LockId:
        """The ID of the lock that operators write as ``text``. Raises 38019."""

    def unlock(self, lock_id: str, order: UnlockOrder) -> LockStep:
        """Carries out an operator's order. Raises 38019, 38020, 38022, 42502, or 38041 for an unknown action."""

    def progress(self, lock_id: LockId, revision: int) -> UnlockProgress | None:
        """How far the order of ``revision`` is; None when the lock is gone, or has another order."""

    def forget(self, task: str) -> LockStep:
        """Deletes all records of ``task``, which no source runs: it starts from the beginning (``--remove-meta``)."""
