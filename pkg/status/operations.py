"""The operations that the present stage of a subtask, relay log or difference allows. Pure.

The rules are those of the state machines (``dm_worker/subtask/stage.py``, ``dm_worker/validator/verdicts.py``): an
operation is allowed exactly when it would change the stage. Property tests drive the machines and compare. Stopped is
final for a subtask, but the master starts it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as pb

_PAUSABLE = (pb.New, pb.Running, pb.Resuming)
_RESUMABLE = (pb.Paused, pb.Pausing)
_ENDED = (pb.InvalidStage, pb.Stopping)
#: Of a subtask that is Stopped: the master has it, makes another one of it, or removes it.
_STOPPED = frozenset({"resume", "stop"})
#: In the order in which they are shown.
OPERATIONS = ("resume", "resume-safe", "pause", "skip", "stop")
#: State of a row that the validator found to differ → the operations that would change it, in this order.
_MARKS: dict[int, tuple[str, ...]] = {
    pb.NewErr: ("ignore-error", "resolve-error", "clear-error"),
    pb.IgnoredErr: ("resolve-error", "clear-error"),
    pb.ResolvedErr: ("ignore-error", "clear-error"),
}


def allowed(subtask: pb.SubTaskStatus) -> frozenset[str]:
    """The names of the operations that the subtask's stage allows."""
    stage, found = subtask.stage, set()
    if stage == pb.Stopped:
        return _STOPPED
    if stage in _PAUSABLE:
        found.add("pause")
    if stage in _RESUMABLE:
        found.add("resume")
    if stage == pb.Paused and subtask.unit == pb.Sync and subtask.result.errors:
        found |= {"resume-safe", "skip"}
    if stage not in _ENDED:
        found.add("stop")
    return frozenset(found)


def allowed_for_task(subtasks: Iterable[pb.SubTaskStatus]) -> list[str]:
    """The operations that at least one subtask of a task allows, in the order in which they are shown."""
    found = frozenset[str]().union(*map(allowed, subtasks))
    return [name for name in OPERATIONS if name in found]


def may_move(subtasks: Iterable[pb.SubTaskStatus]) -> bool:
    """Whether a source may change its worker, as far as its tasks are concerned: the files of a copy stay behind."""
    return all(one.unit == pb.Sync or one.stage in (pb.Finished, pb.Stopped) for one in subtasks if one.name)


def allowed_for_source(source: pb.SourceStatus, *, used: bool) -> list[str]:
    """The operations on a source itself; ``used``: it has tasks. A relay log stops as it was started: with the names
    of its workers, or without."""
    # A leader of an earlier version says only that there is one.
    relayed = source.relayFollows or bool(source.relayWorkers) or source.HasField("relayStatus")
    found = ["stop-relay" if relayed else "start-relay", "enable-source" if source.disabled else "disable-source"]
    return found if used or source.relayWorkers else [*found, "remove-source"]


def allowed_for_relay(relay: pb.RelayStatus) -> list[str]:
    """The operations that a relay log's stage allows."""
    if relay.stage == pb.Paused:
        return ["resume-relay"]
    return ["pause-relay"] if relay.stage in _PAUSABLE else []


def may_remove_worker(worker: master.WorkerInfo) -> bool:
    """Whether a worker may leave the cluster for good: the scheduler refuses one whose process runs."""
    return worker.stage == "offline"


def may_remove_master(one: master.MasterInfo, leader: str) -> bool:
    """The same for a master: a member of etcd that does not answer and does not lead. One without its member's number
    uses an etcd of its own, and is gone when it stops; one without a name has never started."""
    return not one.alive and bool(one.memberID) and one.name not in ("", leader)


def allowed_for_difference(error: pb.ValidationError) -> tuple[str, ...]:
    """The operations on one row that differs. One that is not stored yet has no number to name it by."""
    return _MARKS.get(error.status, ()) if error.id not in ("", "0") else ()


def allowed_for_differences(found: Iterable[pb.ValidationError]) -> list[str]:
    """The operations on all rows of a task: those that would change at least one."""
    able = {name for error in found for name in _MARKS.get(error.status, ())}
    return [name for name in _MARKS[pb.NewErr] if name in able]
