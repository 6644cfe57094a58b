"""Forwards operator actions on a stopped subtask to its workers: HandleError, OperateSchema, HandBack."""

from __future__ import annotations

from dm_master.service.cluster_access import ClusterAccess
from dm_master.workers.source_workers import ask_workers
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Seconds. A worker examines all tables of both servers.
_HAND_BACK_TIMEOUT = 600.0


class OperatorActionsService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def handle_error(self, request: pb.HandleErrorRequest) -> pb.HandleErrorResponse:
        """binlog skip, replace, revert, inject and list, for the named sources or all of the task."""
        sources = list(request.sources) or sorted(self._cluster.scheduler.tasks().get(request.task, {}))
        if not sources:
            return pb.HandleErrorResponse(
                msg=f"task {request.task} has no source or not exist, please check the task name and status"
            )
        order = worker_pb.HandleWorkerErrorRequest(
            op=request.op, task=request.task, binlogPos=request.binlogPos, sqls=request.sqls
        )
        answers = ask_workers(self._cluster, sorted(set(sources)), "HandleError", order)
        return pb.HandleErrorResponse(result=True, sources=answers)

    def operate_schema(self, request: pb.OperateSchemaRequest) -> pb.OperateSchemaResponse:
        """binlog-schema list, update and delete, for the named sources."""
        if not request.sources:
            return pb.OperateSchemaResponse(msg="must specify at least one source")
        answers = []
        for source in sorted(set(request.sources)):
            order = worker_pb.OperateWorkerSchemaRequest(
                op=request.op,
                task=request.task,
                source=source,
                database=request.database,
                table=request.table,
                schema=request.schema,
                flush=request.flush,
                sync=request.sync,
                fromSource=request.fromSource,
                fromTarget=request.fromTarget,
            )
            answers += ask_workers(self._cluster, [source], "OperateSchema", order)
        return pb.OperateSchemaResponse(result=True, sources=answers)

    def hand_back(self, request: pb.HandBackRequest) -> pb.HandBackResponse:
        """Converts the task's checkpoints so that DM continues from them: of all sources, or of none if one refuses."""
        sources = sorted(self._cluster.scheduler.tasks().get(request.task, {}))
        if not sources:
            return pb.HandBackResponse(
                msg=f"task {request.task} has no source or not exist, please check the task name and status. The task "
                f"must be here and paused: `start-task FILE`, `pause-task {request.task}`"
            )
        for execute in (False, True)[: 1 + request.execute]:
            order = worker_pb.HandBackWorkerRequest(task=request.task, execute=execute)
            answers = []
            for source in sources:
                # One after the other: the last one drops the empty tables.
                answers += ask_workers(self._cluster, [source], "HandBack", order, timeout=_HAND_BACK_TIMEOUT)
            if not all(answer.result for answer in answers):
                return pb.HandBackResponse(msg=f"task {request.task} was not handed back", sources=answers)
        return pb.HandBackResponse(result=True, sources=answers)
