"""Moving a source to another worker while its tasks run: they are paused where nothing can be lost, then go on."""

from __future__ import annotations

from collections.abc import Sequence

from dm_master.expectation import reaches, wait_for_all
from dm_master.service_base import Cluster
from pkg import errors
from pkg.pb import dmworker_pb2 as pb


def running_tasks(cluster: Cluster, source: str) -> list[str]:
    """The source's tasks that shall run. Raises 46019 if one of them is not in Sync, or the worker's error."""
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
            "SchedulerRequireRunningTaskInSyncUnit",
            f"running tasks {', '.join(others)} of source {source} are not in unit Sync",
            workaround="Wait until their full copy is done, or stop them, then transfer the source.",
        )
    return tasks


def pause(cluster: Cluster, source: str, tasks: Sequence[str]) -> None:
    """Pauses ``tasks`` on ``source`` and waits for it. Raises 46032, with the tasks running again, if that fails."""
    for task in tasks:
        cluster.scheduler.set_stage(task, [source], "Paused")
    for task in tasks:
        [answer] = wait_for_all(cluster, [source], task, reaches(task, pb.Paused), "the subtask is Paused")
        if answer.result:
            continue
        for paused in tasks:
            cluster.scheduler.set_stage(paused, [source], "Running")
        raise errors.new(
            "SchedulerPauseTaskForTransferSource",
            f"task {task} cannot be paused automatically",
            raw=answer.msg,
            workaround="Pause it with `pause-task`, then transfer the source and resume it.",
        )
