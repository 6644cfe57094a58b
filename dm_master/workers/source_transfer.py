"""Moves a source to another worker while its tasks run: pauses them where nothing can be lost, then resumes them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

from dm_master.workers.source_workers import ClusterView
from dm_master.workers.stage_wait import reaches, wait_for_all
from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.retry import retrying
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger

log = get_logger("transfer")

#: Attempts to resume a paused task: half a minute, in which etcd or a leader may return.
_RESUME_ATTEMPTS = 12
#: No such task, source, or stage: the task was stopped meanwhile, so nothing is left to resume.
_GONE = frozenset(
    {Code.SchedulerSubTaskStageInvalidUpdate, Code.SchedulerSubTaskOpSourceNotExist, Code.SchedulerTaskNotExist}
)


@contextlib.contextmanager
def paused(cluster: ClusterView, source: str) -> Iterator[None]:
    """Pauses the source's running tasks for the block, and resumes them afterwards, also after an error.

    Raises 46019 if one is not in Sync, 46032 if one cannot be paused; names those that it cannot resume.
    """
    tasks = _running_tasks(cluster, source)
    failure: Exception | None = None
    asked: list[str] = []
    try:
        for task in tasks:
            # Noted first: if etcd's answer is lost, the request may still have been stored.
            asked.append(task)
            cluster.scheduler.set_stage(task, [source], "Paused")
        for task in tasks:
            _await_paused(cluster, source, task)
        yield
    except Exception as exc:  # noqa: BLE001 - raised again once the tasks are resumed
        failure = exc
    left = [task for task in asked if not _resumes(cluster, source, task)]
    if left:
        raise _left_paused(source, left, failure) from failure
    if failure is not None:
        raise failure


def _running_tasks(cluster: ClusterView, source: str) -> list[str]:
    """The source's tasks whose desired stage is Running. Raises 46019 if one of them is not in Sync, or the worker's
    error."""
    worker = cluster.scheduler.bound_worker(source)
    expected = cluster.scheduler.tasks()
    tasks = [task for task, stages in expected.items() if stages.get(source) == "Running"]
    if worker is None or not tasks:
        return tasks
    answer = cluster.workers.call(worker.addr, "QueryStatus", pb.QueryStatusRequest())
    syncing = {one.name for one in answer.subTaskStatus if one.unit == pb.Sync}
    others = [task for task in tasks if task not in syncing]
    if others:
        raise errors.new(
            Code.SchedulerRequireRunningTaskInSyncUnit,
            f"running tasks {', '.join(others)} of source {source} are not in unit Sync",
            workaround="Wait until their full copy is done, or stop them, then transfer the source.",
        )
    return tasks


def _await_paused(cluster: ClusterView, source: str, task: str) -> None:
    [answer] = wait_for_all(cluster, [source], task, reaches(task, pb.Paused), "the subtask is Paused")
    if not answer.result:
        raise errors.new(
            Code.SchedulerPauseTaskForTransferSource,
            f"task {task} cannot be paused automatically",
            raw=answer.msg,
            workaround="Pause it with `pause-task`, then transfer the source and resume it.",
        )


def _resumes(cluster: ClusterView, source: str, task: str) -> bool:
    """Sets the task's desired stage to Running; False if etcd refuses that after all attempts."""
    try:
        retrying(functools.partial(cluster.scheduler.set_stage, task, [source], "Running"), attempts=_RESUME_ATTEMPTS)
    except DMError as exc:
        if exc.kind in _GONE:
            return True
        log.error("a task may stay paused after a transfer", task=task, source=source, error=exc)
        return False
    return True


def _left_paused(source: str, tasks: Sequence[str], cause: Exception | None) -> DMError:
    what = "is transferred" if cause is None else f"is not transferred ({cause})"
    return errors.new(
        Code.SchedulerPauseTaskForTransferSource,
        f"source {source} {what}, and tasks {', '.join(tasks)}, which were paused for it, could not be resumed",
        workaround=f"When etcd answers again, resume them: `resume-task` -s {source} for each.",
    )
