"""OperateDiff: starts, stops and shows the comparison of a task's tables, on the workers of its sources."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from dm_master.service.cluster_access import ClusterAccess
from dm_master.workers.source_workers import ask_diffs
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Seconds. A worker reads and writes a few rows of the target.
_TIMEOUT = 60.0
#: The states of a table, the one that decides first; as the worker names them.
_BY_WEIGHT = ("different", "not compared", "equal")


class DiffService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def operate_diff(self, request: pb.OperateDiffRequest) -> pb.OperateDiffResponse:
        """For the named sources, or all of the task."""
        own = sorted(self._cluster.scheduler.tasks().get(request.task, {}))
        if not own:
            return pb.OperateDiffResponse(
                msg=f"task {request.task} has no source or not exist, please check the task name and status"
            )
        foreign = sorted(set(request.sources) - set(own))
        if foreign:
            raise errors.new(
                Code.SchedulerSubTaskOpSourceNotExist,
                f"sources {', '.join(foreign)} need to be compared for task {request.task} but do not have it",
                workaround="See `query-status` for the task's sources.",
            )
        sources = sorted(set(request.sources)) or own
        order = worker_pb.OperateDiffWorkerRequest(
            op=request.op, task=request.task, options=request.options, run=secrets.token_hex(8), sources=sources
        )
        answers = ask_diffs(self._cluster, sources, order, timeout=_TIMEOUT)
        failed = [answer.source for answer in answers if not answer.result]
        return pb.OperateDiffResponse(
            result=not failed,
            msg=f"not done for sources {', '.join(failed)}" if failed else "",
            verdict=verdict(answers),
            sources=answers,
        )


def verdict(answers: Sequence[worker_pb.DiffSourceStatus]) -> str:
    """Of all sources together: equal only if each has finished and each of its tables is equal."""
    if not all(answer.result for answer in answers):
        return "not compared"
    if any(answer.stage in ("Running", "Waiting") for answer in answers):
        return "running"
    states = {table.state for answer in answers for table in answer.tables}
    found = next((state for state in _BY_WEIGHT if state in states), "not compared")
    whole = all(answer.stage == "Finished" for answer in answers)
    return "not compared" if found == "equal" and (not whole or states != {"equal"}) else found
