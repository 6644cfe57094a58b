"""`diff start|stop|status`: what a worker does with the comparison of one of its subtasks."""

from __future__ import annotations

from collections.abc import Iterable

from dm_worker.diff.companion import DiffCompanion
from dm_worker.diff.state_table import DiffSettings
from dm_worker.subtask.subtask import SubTask
from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb


def operate_diff(subtask: SubTask, request: pb.OperateDiffWorkerRequest) -> pb.DiffSourceStatus:
    """Carries the order out and shows the comparison. Raises 43104 where it does not fit, and the target's errors."""
    companion = _companion(subtask)
    match request.op:
        case pb.StartDiff:
            companion.begin(request.run, diff_settings(request.options, request.sources))
        case pb.StopDiff:
            companion.end()
        case pb.ShowDiff:
            pass
        case _:
            raise unknown_operation(request.op)
    return companion.status()


def unknown_operation(op: int) -> DMError:
    """43104."""
    return errors.new(
        Code.DiffRefused,
        f"operation {op} on a comparison is not known",
        workaround="Use a dmctl and a master of the worker's version.",
    )


def _companion(subtask: SubTask) -> DiffCompanion:
    found = next((one for one in subtask.companions if isinstance(one, DiffCompanion)), None)
    if found is None:
        raise errors.new(
            Code.DiffRefused,
            f"task {subtask.name} does not replicate (task-mode {subtask.config.task_mode}), so there is no position "
            "at which both sides could be compared",
            workaround="Compare a task whose task-mode includes replication.",
        )
    return found


def diff_settings(options: pb.DiffOptions, sources: Iterable[str]) -> DiffSettings:
    """``sources``: those that take part."""
    return DiffSettings(
        tuple(sources),
        tuple(options.tables),
        options.sample,
        options.lock,
        options.redact,
        options.repair,
        options.threads,
        options.bytesPerSecond,
        options.mostLag,
        chunk_rows=options.chunkRows,
    )
