"""The validators of a task's subtasks: start, stop, status, errors, and where the application switches over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from google.protobuf.message import Message

from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.task_steps import moment_of
from dm_master.task_setup.task_end import Moment
from dm_master.workers.source_workers import ask_workers, unbound
from dm_master.workers.stage_wait import validates, wait_for_all
from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

_Answer = TypeVar("_Answer", worker_pb.GetValidationStatusResponse, worker_pb.GetValidationErrorResponse,
                  worker_pb.OperateValidationErrorResponse)  # fmt: skip


class ValidationService:
    """``locate``: where a moment is in a source's binlog."""

    def __init__(self, cluster: ClusterAccess, locate: Callable[[SubTaskConfig, Moment], Location]) -> None:
        self._cluster = cluster
        self._locate = locate

    def start(self, request: pb.StartValidationRequest) -> pb.StartValidationResponse:
        """Starts the validators of one task, or of all. Raises the errors of the place of a moment."""
        scheduler, moment = self._cluster.scheduler, moment_of(request.start_time_value)
        names = self._tasks(request.taskName, request.sources)
        places = [{} if moment is None else self._places(task, sources, moment) for task, sources in names]
        for (task, sources), since in zip(names, places, strict=True):
            scheduler.start_validation(task, sources, request.mode_value, since)
        answers = self._wait(names, worker_pb.Running)
        return pb.StartValidationResponse(result=True, msg="success", sources=answers)

    def _places(self, task: str, sources: Sequence[str], moment: Moment) -> dict[str, str]:
        """Where the moment is in the binlog of each source, as text that no other start has."""
        subtasks = self._cluster.scheduler.subtasks(task)
        idle = [source for source in sources if not subtasks[source].validator.sweep_rate]
        if idle:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"--start-time needs the sweep, and sweep-rate is 0 for sources {', '.join(idle)}",
                workaround="Leave the flag out, or set sweep-rate of the task's validators (docs/validation.md).",
            )
        asked = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        places = {source: self._locate(subtasks[source], moment).position for source in sources}
        return {source: f"{place} (asked for at {asked} UTC)" for source, place in places.items()}

    def stop(self, request: pb.StopValidationRequest) -> pb.StopValidationResponse:
        """Stops them; with all tasks, those without a validator are left out."""
        names = [
            (task, sources)
            for task, sources in self._tasks(request.taskName, request.sources)
            if request.taskName or self._cluster.scheduler.validators(task)
        ]
        for task, sources in names:
            self._cluster.scheduler.stop_validation(task, sources)
        answers = self._wait(names, worker_pb.Stopped)
        return pb.StopValidationResponse(result=True, msg="success", sources=answers)

    def status(self, request: worker_pb.GetValidationStatusRequest) -> worker_pb.GetValidationStatusResponse:
        """The progress of all validators of a task, and the state of their tables."""
        answers = self._ask(
            request.taskName, "GetWorkerValidatorStatus", request, worker_pb.GetValidationStatusResponse
        )
        return worker_pb.GetValidationStatusResponse(
            result=all(answer.result for answer in answers),
            msg="; ".join(answer.msg for answer in answers if answer.msg),
            validators=[one for answer in answers for one in answer.validators],
            tableStatuses=[one for answer in answers for one in answer.tableStatuses],
        )

    def errors(self, request: worker_pb.GetValidationErrorRequest) -> worker_pb.GetValidationErrorResponse:
        """The rows that differ."""
        answers = self._ask(request.taskName, "GetValidatorError", request, worker_pb.GetValidationErrorResponse)
        return worker_pb.GetValidationErrorResponse(
            result=all(answer.result for answer in answers),
            msg="; ".join(answer.msg for answer in answers if answer.msg),
            error=[one for answer in answers for one in answer.error],
        )

    def operate_errors(
        self, request: worker_pb.OperateValidationErrorRequest
    ) -> worker_pb.OperateValidationErrorResponse:
        """Ignores, resolves or clears errors. One error is of one source: the others do not know it."""
        answers = self._ask(
            request.taskName, "OperateValidatorError", request, worker_pb.OperateValidationErrorResponse
        )
        enough = all if request.isAllError else any
        if enough(answer.result for answer in answers):
            return worker_pb.OperateValidationErrorResponse(result=True)
        problems = dict.fromkeys(answer.msg for answer in answers if not answer.result)
        return worker_pb.OperateValidationErrorResponse(msg="; ".join(problems))

    def update(self, request: pb.UpdateValidationRequest) -> pb.UpdateValidationResponse:
        """Tells validators where the application switches over."""
        order = worker_pb.UpdateValidationWorkerRequest(
            taskName=request.taskName, binlogPos=request.binlogPos, binlogGTID=request.binlogGTID
        )
        sources = self._sources(request.taskName, request.sources)
        return pb.UpdateValidationResponse(
            result=True, sources=ask_workers(self._cluster, sources, "UpdateValidator", order)
        )

    def _tasks(self, task: str, sources: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Task and chosen sources; of all tasks that have one of the sources when ``task`` is empty."""
        if task:
            return [(task, self._sources(task, sources))]
        chosen = []
        for name, stages in self._cluster.scheduler.tasks().items():
            mine = sorted(set(sources) & set(stages)) if sources else sorted(stages)
            if mine:
                chosen.append((name, mine))
        return chosen

    def _sources(self, task: str, sources: Sequence[str]) -> list[str]:
        """Raises 46018 or 46017."""
        known = self._cluster.scheduler.tasks().get(task, {})
        if not known:
            raise errors.new(
                Code.SchedulerTaskNotExist,
                f"task with name {task} not exist",
                workaround="`query-status` lists the tasks.",
            )
        missing = sorted(set(sources) - set(known))
        if missing:
            raise errors.new(
                Code.SchedulerSubTaskOpSourceNotExist,
                f"task {task} has no subtask of sources {', '.join(missing)}",
                workaround=f"`query-status {task}` shows its sources.",
            )
        return sorted(set(sources)) or sorted(known)

    def _wait(
        self, names: Sequence[tuple[str, Sequence[str]]], stage: worker_pb.Stage
    ) -> list[worker_pb.CommonWorkerResponse]:
        expected = f"the validator is {worker_pb.Stage.Name(stage)}"
        return [
            answer
            for task, sources in names
            for answer in wait_for_all(self._cluster, sources, task, validates(task, stage), expected)
        ]

    def _ask(self, task: str, method: str, request: Message, kind: Callable[..., _Answer]) -> list[_Answer]:
        """One answer per source of the task."""
        sources = self._sources(task, ())

        def ask(source: str) -> _Answer:
            worker = self._cluster.scheduler.bound_worker(source)
            if worker is None:
                return kind(result=False, msg=str(unbound([source])))
            try:
                answer: _Answer = self._cluster.workers.call(worker.addr, method, request)
            except DMError as exc:
                return kind(result=False, msg=str(exc))
            return answer

        with ThreadPoolExecutor(min(len(sources), 32), thread_name_prefix="validation") as pool:
            return list(pool.map(ask, sources))
