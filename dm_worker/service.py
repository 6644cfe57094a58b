"""The gRPC service that masters call. Thin: it looks up and answers, and changes no state itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import grpc

from dm_worker.diff.servers_diff import ServersDiffs
from dm_worker.meta.foreign_copy import has_replicated
from dm_worker.meta.load_progress import stored_state
from dm_worker.operator_commands.handle_error import handle_error
from dm_worker.operator_commands.hold_subtask import hold_subtask
from dm_worker.operator_commands.operate_diff import operate_diff
from dm_worker.operator_commands.operate_schema import operate_schema
from dm_worker.operator_commands.operate_servers_diff import operate_servers_diff
from dm_worker.operator_commands.replicating_unit import paused_unit, replicating_unit
from dm_worker.source import operate_validation
from dm_worker.source.binder import Binder, RelayedSource, not_started
from dm_worker.source.profiles import add_profiles
from dm_worker.source.source_worker import SourceWorker
from dm_worker.subtask.subtask import SubTask, process_result
from dm_worker.syncer.unit.hold import HoldState
from pkg import errors
from pkg.config.codec import decode_subtask
from pkg.config.keys import fixed_changes
from pkg.config.model import SubTaskConfig
from pkg.config.worker import WorkerConfig
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb
from pkg.pb import dmworker_pb2_grpc

_Source = TypeVar("_Source", bound=RelayedSource)


def _unsupported(what: str) -> str:
    return f"{what} is not supported yet"


class WorkerService(dmworker_pb2_grpc.WorkerServicer):
    """``pb.Worker``. A refusal is an answer with ``result`` false and the reason, as in DM."""

    def __init__(
        self, config: WorkerConfig, binder: Binder, diffs: ServersDiffs, warnings: Callable[[], list[str]]
    ) -> None:
        """``diffs``: of servers that no task connects. ``warnings`` returns warnings about the worker as a whole."""
        self._config = config
        self._binder = binder
        self._diffs = diffs
        self._warnings = warnings

    def QueryStatus(self, request: pb.QueryStatusRequest, context: grpc.ServicerContext) -> pb.QueryStatusResponse:
        current = self._binder.current
        if current is not None:
            statuses = current.status(request.name)
            if request.profile:
                add_profiles(statuses, dict(current.figures()))
            source = pb.SourceStatus(
                source=current.source.source_id,
                worker=self._config.name,
                relayStatus=current.relay.status(),
                purgeDistances=current.purge_watch.distances(),
            )
            idle = [] if statuses else ["no sub task started"]  # DM's message
            return pb.QueryStatusResponse(
                result=True,
                msg="\n".join([*idle, *self._warnings(), *current.purge_watch.warnings()]),
                sourceStatus=source,
                subTaskStatus=statuses,
            )
        relayed = self._binder.relayed
        if request.relayWorker and relayed is not None:
            return pb.QueryStatusResponse(
                result=True,
                msg="\n".join([*self._warnings(), *relayed.purge_watch.warnings()]),
                sourceStatus=pb.SourceStatus(
                    source=relayed.source.source_id,
                    worker=self._config.name,
                    relayStatus=relayed.relay.status(),
                    purgeDistances=relayed.purge_watch.distances(),
                ),
            )
        bound, error = self._binder.trouble
        source = pb.SourceStatus(source=bound, worker=self._config.name)
        if error is not None:
            source.result.CopyFrom(process_result(False, [error]))
        return pb.QueryStatusResponse(result=False, msg=str(error or not_started()), sourceStatus=source)

    def GetWorkerCfg(self, request: pb.GetWorkerCfgRequest, context: grpc.ServicerContext) -> pb.GetWorkerCfgResponse:
        config = self._config
        return pb.GetWorkerCfgResponse(
            cfg=config.to_toml(), slots=config.spark.embedded_slots, warnings=config.warnings()
        )

    def PurgeRelay(self, request: pb.PurgeRelayRequest, context: grpc.ServicerContext) -> pb.CommonWorkerResponse:
        def purge(relayed: RelayedSource) -> str:
            relayed.relay.purge(
                filename=request.filename, sub_dir=request.subDir, before=float(request.time), inactive=request.inactive
            )
            return ""

        return self._answer(purge, self._binder.relayed)

    def HandleError(
        self, request: pb.HandleWorkerErrorRequest, context: grpc.ServicerContext
    ) -> pb.CommonWorkerResponse:
        return self._answer(
            lambda current: handle_error(_subtask(current, request.task), current.operators, request),
            self._binder.current,
        )

    def OperateSchema(
        self, request: pb.OperateWorkerSchemaRequest, context: grpc.ServicerContext
    ) -> pb.CommonWorkerResponse:
        return self._answer(
            lambda current: operate_schema(_subtask(current, request.task), request), self._binder.current
        )

    def HandBack(self, request: pb.HandBackWorkerRequest, context: grpc.ServicerContext) -> pb.CommonWorkerResponse:
        return self._answer(
            lambda current: paused_unit(_subtask(current, request.task)).hand_back(execute=request.execute),
            self._binder.current,
        )

    def HoldSubTask(self, request: pb.HoldSubTaskRequest, context: grpc.ServicerContext) -> pb.HoldSubTaskResponse:
        states: list[HoldState] = []

        def hold(current: SourceWorker) -> str:
            states.append(hold_subtask(_subtask_of(current, request.task, request.source), request))
            return states[0].reason

        common = self._answer(hold, self._binder.current)
        answer = pb.HoldSubTaskResponse(source=common.source, worker=common.worker, msg=common.msg)
        for state in states:
            answer.result = state.is_held
            if state.location is not None:
                answer.binlogName, answer.binlogPos = state.location.position.name, state.location.position.pos
                answer.binlogGTID = state.location.gtid_set
        return answer

    def ReleaseSubTask(
        self, request: pb.ReleaseSubTaskRequest, context: grpc.ServicerContext
    ) -> pb.CommonWorkerResponse:
        def release(current: SourceWorker) -> str:
            replicating_unit(_subtask_of(current, request.task, request.source)).hold.release()
            return ""

        return self._answer(release, self._binder.current)

    def OperateDiff(self, request: pb.OperateDiffWorkerRequest, context: grpc.ServicerContext) -> pb.DiffSourceStatus:
        current = self._binder.current
        answer = pb.DiffSourceStatus(worker=self._config.name)
        try:
            answer.MergeFrom(operate_diff(_subtask(current, request.task), request))
        except DMError as exc:
            answer.msg = str(exc)
        return answer

    def OperateServersDiff(
        self, request: pb.OperateServersDiffRequest, context: grpc.ServicerContext
    ) -> pb.OperateServersDiffResponse:
        try:
            sources = operate_servers_diff(self._diffs, request)
        except DMError as exc:
            return pb.OperateServersDiffResponse(msg=str(exc))
        for source in sources:
            source.worker = self._config.name
        return pb.OperateServersDiffResponse(result=True, sources=sources)

    def _answer(self, work: Callable[[_Source], str], current: _Source | None) -> pb.CommonWorkerResponse:
        """Runs ``work`` on the source and returns its answer, or the error that it raises as an answer."""
        answer = pb.CommonWorkerResponse(worker=self._config.name)
        if current is None:
            answer.msg = str(not_started())
            return answer
        answer.source = current.source.source_id
        try:
            answer.msg = work(current)
        except DMError as exc:
            answer.msg = str(exc)
            return answer
        answer.result = True
        return answer

    def CheckSubtasksCanUpdate(
        self, request: pb.CheckSubtasksCanUpdateRequest, context: grpc.ServicerContext
    ) -> pb.CheckSubtasksCanUpdateResponse:
        try:
            self._check_update(decode_subtask(request.subtaskCfgTomlString))
        except DMError as exc:
            return pb.CheckSubtasksCanUpdateResponse(success=False, msg=str(exc))
        return pb.CheckSubtasksCanUpdateResponse(success=True)

    def _check_update(self, config: SubTaskConfig) -> None:
        subtask = _subtask(self._binder.current, config.name)
        state = subtask.state
        if state.stage != pb.Paused:
            raise errors.new(
                Code.WorkerUpdateTaskStage,
                f"sub task {config.name} is {pb.Stage.Name(state.stage)}",
                raw=state.history,
                workaround="Pause the task before changing its configuration.",
            )
        # The unit is not known of a subtask that has not run since the worker got it.
        if state.unit != pb.Sync and not _is_copied(config):
            raise errors.new(
                Code.WorkerOperSyncUnitOnly,
                f"sub task {config.name} is still in unit {pb.UnitType.Name(state.unit)}",
                workaround="Wait until the full copy is complete, or stop the task and start it again.",
            )
        changed = fixed_changes(subtask.config, config)
        if changed:
            raise errors.new(
                Code.WorkerUpdateSubTaskConfig,
                f"{', '.join(changed)} of task {config.name} cannot change while the task exists",
                workaround="Stop the task and start it with the new configuration.",
            )

    # Explicit answers for what is not supported: an empty answer would look like success.

    def OperateV1Meta(self, request: Any, context: grpc.ServicerContext) -> pb.OperateV1MetaResponse:
        return pb.OperateV1MetaResponse(result=False, msg=_unsupported("import from DM v1.0"))

    # The validator of a task.

    def UpdateValidator(
        self, request: pb.UpdateValidationWorkerRequest, context: grpc.ServicerContext
    ) -> pb.CommonWorkerResponse:
        return self._answer(lambda current: operate_validation.update(current, request), self._binder.current)

    def GetWorkerValidatorStatus(
        self, request: pb.GetValidationStatusRequest, context: grpc.ServicerContext
    ) -> pb.GetValidationStatusResponse:
        return operate_validation.status(self._binder.current, request)

    def GetValidatorError(
        self, request: pb.GetValidationErrorRequest, context: grpc.ServicerContext
    ) -> pb.GetValidationErrorResponse:
        return operate_validation.row_errors(self._binder.current, request)

    def OperateValidatorError(
        self, request: pb.OperateValidationErrorRequest, context: grpc.ServicerContext
    ) -> pb.OperateValidationErrorResponse:
        return operate_validation.operate(self._binder.current, request)


def _is_copied(config: SubTaskConfig) -> bool:
    """Whether the target records that the full copy is complete. Raises DMError."""
    load = stored_state(config)
    return has_replicated(config) if load is None else load.finished


def _subtask(current: SourceWorker | None, task: str) -> SubTask:
    """Raises 40054."""
    subtask = current.subtask(task) if current is not None else None
    if subtask is None:
        raise errors.new(
            Code.WorkerSubTaskNotFound,
            f"sub task {task} does not exist on this worker",
            workaround="`query-status` lists the tasks.",
        )
    return subtask


def _subtask_of(current: SourceWorker, task: str, source: str) -> SubTask:
    """The subtask of a source that this worker may not serve any more. Raises 40054."""
    if current.source.source_id != source:
        raise errors.new(
            Code.WorkerSubTaskNotFound,
            f"this worker serves source {current.source.source_id}, not {source}",
            workaround="`list-member` shows which worker serves the source.",
        )
    return _subtask(current, task)
