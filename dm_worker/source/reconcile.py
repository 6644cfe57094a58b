"""What a worker has to do so that its subtasks become what etcd says. Pure: compares two pictures.

Called again after every change of either picture; when they agree there is nothing to do. A stage counts as newly
asked for when its key's revision changed, even if its text did not: that is how a failed subtask is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pkg.pb import dmworker_pb2 as pb


@dataclass(frozen=True, slots=True)
class Wanted:
    """A subtask as etcd has it: its config's text, the expected stage and the revision of that stage's key."""

    config: str
    stage: int
    revision: int


@dataclass(frozen=True, slots=True)
class Actual:
    """A subtask of this process: what it was made from, the last stage asked for, and where it is.

    ``doomed``: told to stop in order to be removed.
    """

    config: str
    revision: int
    stage: int
    doomed: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    task: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Ask:
    """Pass the newly expected stage on to the subtask."""

    task: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Remove:
    """Stop the subtask for good; once it is Stopped it can be forgotten."""

    task: str


@dataclass(frozen=True, slots=True)
class Forget:
    task: str


Action = Create | Ask | Remove | Forget


def reconcile(wanted: Mapping[str, Wanted], actual: Mapping[str, Actual]) -> list[Action]:
    """The next actions, by task; those that have to wait for a subtask's end come in a later call."""
    actions: list[Action] = []
    for task in sorted({*wanted, *actual}):
        actions += _task(task, wanted.get(task), actual.get(task))
    return actions


def _task(task: str, want: Wanted | None, have: Actual | None) -> list[Action]:
    if have is None:
        return [Create(task, want)] if want is not None else []
    if have.doomed or want is None or want.config != have.config:
        if have.stage == pb.Stopped:
            return [Forget(task), *_task(task, want, None)]
        return [] if have.doomed else [Remove(task)]
    if want.revision == have.revision:
        return []
    if have.stage == pb.Stopped and want.stage != pb.Stopped:
        # Stopped is final for a subtask object: going on needs a new one.
        return [Forget(task), Create(task, want)]
    return [Ask(task, want)]
