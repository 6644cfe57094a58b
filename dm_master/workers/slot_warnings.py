"""Warnings about threads and pool-size above the slots of the worker that would use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dm_master.workers.source_workers import ClusterView
from pkg.config.dump_arguments import parse_dump_arguments
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger

log = get_logger("service")

#: Seconds: a check must not wait long for a worker that does not answer; start-task reports that worker.
_TIMEOUT = 3.0
_DUMPING = ("all", "full", "dump")
_LOADING = ("all", "full", "load", "load&sync")


def slot_warnings(cluster: ClusterView, subtasks: Sequence[SubTaskConfig]) -> list[str]:
    """One sentence for each setting of ``subtasks`` that needs more slots than its source's worker has.

    None for a source without a worker, or a worker on a Spark cluster, whose slots only a running job shows.
    """
    return [text for subtask in subtasks for text in _of_one(cluster, subtask)]


def _of_one(cluster: ClusterView, subtask: SubTaskConfig) -> Iterator[str]:
    worker = cluster.scheduler.bound_worker(subtask.source_id)
    if worker is None:
        return
    try:
        answer: worker_pb.GetWorkerCfgResponse = cluster.workers.call(
            worker.addr, "GetWorkerCfg", worker_pb.GetWorkerCfgRequest(), timeout=_TIMEOUT
        )
    except DMError as exc:
        log.warning("cannot compare the task with the worker's slots", worker=worker.name, error=str(exc))
        return
    for setting, value in settings_above(subtask, answer.slots):
        yield (
            f"{setting} {value} of source {subtask.source_id} is more than dm-worker {worker.name} has slots: "
            f"{answer.slots} are used. Raise spark.slots of the worker, or lower {setting}"
        )


def settings_above(subtask: SubTaskConfig, slots: int) -> list[tuple[str, int]]:
    """The settings of the subtask's mode that exceed ``slots`` (0: unknown), with their values. Pure."""
    threads = parse_dump_arguments(subtask.mydumper.extra_args).threads or subtask.mydumper.threads
    asked = (("threads", threads, _DUMPING), ("pool-size", subtask.loader.pool_size, _LOADING))
    return [(name, value) for name, value, modes in asked if 0 < slots < value and subtask.task_mode in modes]
