"""Compares the subtasks in etcd with those of this process, and returns the next actions. Pure.

Called after every change on either side; when both agree there is nothing to do. A stage counts as requested again
when its key's revision has changed, even with the same text: this is how a failed subtask is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pkg.pb import dmworker_pb2 as pb


@dataclass(frozen=True, slots=True)
class ExpectedSubTask:
    """A subtask in etcd: the text of its config, the desired stage and the revision of that stage's key.

    ``safe_mode``: the operator wants the batch that stopped it to be applied again in safe mode.
    """

    config: str
    stage: int
    revision: int
    safe_mode: bool = False

    @property
    def safe_request(self) -> int:
        """Identifies this request of the operator, so that it is fulfilled once; 0 for none."""
        return self.revision if self.safe_mode else 0


@dataclass(frozen=True, slots=True)
class LocalSubTask:
    """A subtask of this process: its configuration, the last requested stage, and its current stage.

    ``doomed``: it is stopping so that it can be removed.
    """

    config: str
    revision: int
    stage: int
    doomed: bool = False


@dataclass(frozen=True, slots=True)
class CreateSubTask:
    task: str
    wanted: ExpectedSubTask


@dataclass(frozen=True, slots=True)
class ChangeStage:
    """Pass the new desired stage to the subtask."""

    task: str
    wanted: ExpectedSubTask


@dataclass(frozen=True, slots=True)
class RemoveSubTask:
    """Stop the subtask for good; it is forgotten once it is Stopped."""

    task: str


@dataclass(frozen=True, slots=True)
class ForgetSubTask:
    task: str


ReconcileAction = CreateSubTask | ChangeStage | RemoveSubTask | ForgetSubTask


def reconcile(wanted: Mapping[str, ExpectedSubTask], actual: Mapping[str, LocalSubTask]) -> list[ReconcileAction]:
    """The next actions, by task; those that have to wait for a subtask's end come in a later call."""
    actions: list[ReconcileAction] = []
    for task in sorted({*wanted, *actual}):
        actions += _task(task, wanted.get(task), actual.get(task))
    return actions


def _task(task: str, want: ExpectedSubTask | None, have: LocalSubTask | None) -> list[ReconcileAction]:
    if have is None:
        return [CreateSubTask(task, want)] if want is not None else []
    if have.doomed or want is None or want.config != have.config:
        if have.stage == pb.Stopped:
            return [ForgetSubTask(task), *_task(task, want, None)]
        return [] if have.doomed else [RemoveSubTask(task)]
    if want.revision == have.revision:
        return []
    if have.stage == pb.Stopped and want.stage != pb.Stopped:
        # Stopped is final for a subtask object: to continue needs a new one.
        return [ForgetSubTask(task), CreateSubTask(task, want)]
    return [ChangeStage(task, want)]
