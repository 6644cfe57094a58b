"""OperateDiff: starts, stops and shows the comparison of a task's tables, on the workers of its sources."""

from __future__ import annotations

import secrets

from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.diff_verdict import verdict
from dm_master.service.servers_diff_service import ServersDiffService
from dm_master.workers.source_workers import ask_diffs
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Seconds. A worker reads and writes a few rows of the target.
_TIMEOUT = 60.0


class DiffService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._without_task = ServersDiffService(cluster)

    def operate_diff(self, request: pb.OperateDiffRequest) -> pb.OperateDiffResponse:
        """For the named sources, or all of the task."""
        if request.comparison:
            return self._without_task.operate(request)
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
