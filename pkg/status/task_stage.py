"""The stage of a whole task, and an error on one line. Pure."""

from __future__ import annotations

from pkg.pb import dmworker_pb2 as worker

_UNIFORM = (worker.New, worker.Finished, worker.Stopped)


def error_line(error: worker.ProcessError) -> str:
    """An error on one line: its code and its message."""
    return f"{error.ErrCode}: {' '.join((error.Message or error.RawCause).split())}"


def task_status(name: str, members: list[tuple[worker.SourceStatus, worker.SubTaskStatus]]) -> str:
    """The status of the whole task: the status of its worst subtask."""
    more = f"Please run `query-status {name}` to get more details."
    if any(one.stage == worker.Paused and one.result.errors for _, one in members):
        return f"Error - Some error occurred in subtask. {more}"
    for source, one in members:
        if one.stage == worker.Running and one.unit == worker.Sync and source.HasField("relayStatus"):
            relay = source.relayStatus
            if relay.stage != worker.Running:
                stage = "Error" if relay.result.errors else worker.Stage.Name(relay.stage)
                return f"Error - Relay status is {stage}. {more}"
    stages = {one.stage for _, one in members}
    if worker.Paused in stages:
        return "Paused"
    [common] = stages if len(stages) == 1 else [worker.Running]
    return worker.Stage.Name(common) if common in _UNIFORM else "Running"
