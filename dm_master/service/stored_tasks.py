"""Tasks that exist without running: stored, started again, changed in place, stopped, deleted with their progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dm_master.service.client_deadline import remaining
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.task_steps import SHOWN, TaskSteps, enabled, moment_of, started_at
from dm_master.workers.slot_warnings import slot_warnings
from dm_master.workers.source_workers import success
from dm_master.workers.stage_wait import STAGE_TIMEOUT, has_stopped, is_gone, reaches, wait_for_all
from pkg import errors
from pkg.config.codec import encode_subtask
from pkg.config.keys import fixed_changes
from pkg.config.model import SubTaskConfig, TaskConfig
from pkg.config.stored_secrets import with_stored_secrets
from pkg.config.task import load_task, task_to_yaml
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger
from pkg.settings.units import parse_duration

log = get_logger("service")

STOPPED = "Stopped"
#: Seconds for the connection to the target of a task that is to go in any case, and for its workers if there is none.
PROBE_TIMEOUT, SOON = 1.0, 1.0


class StoredTasks:
    def __init__(self, cluster: ClusterAccess, steps: TaskSteps) -> None:
        self._cluster = cluster
        self._steps = steps

    def store(self, request: pb.StoreTaskRequest) -> pb.StoreTaskResponse:
        """Checks a new task as start-task does, and stores it Stopped."""
        task = load_task(request.task)
        existing = self._cluster.scheduler.tasks().get(task.name)
        if existing:
            raise errors.new(
                Code.SchedulerSubTaskExist,
                f"subtasks with name {task.name} for sources {', '.join(sorted(existing))} already exist",
                workaround="Choose another name, or `stop-task` removes the task.",
            )
        known = self._cluster.scheduler.sources()
        subtasks = self._steps.split(task, known, ())
        found = self._steps.precheck(task, known, err_count=SHOWN, warn_count=SHOWN, only=())
        warnings = [*task.warnings, *found.warnings, *slot_warnings(self._cluster, subtasks)]
        if found.passed:
            self._cluster.scheduler.start_task(task.name, task_to_yaml(task), subtasks, stage=STOPPED)
        return pb.StoreTaskResponse(result=found.passed, checkResult=found.text, warnings=dict.fromkeys(warnings))

    def start(self, request: pb.OperateTaskRequest, sources: Sequence[str]) -> pb.OperateTaskResponse:
        """Runs the stopped subtasks of ``sources`` as start-task would, and resumes the others."""
        stages = self._cluster.scheduler.tasks()[request.name]
        stopped = [source for source in sources if stages[source] == STOPPED]
        if request.removeMeta and set(stages.values()) != {STOPPED}:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"task {request.name}: its metadata cannot be removed while one of its subtasks runs or is paused",
                workaround="Stop it on all sources first.",
            )
        checked = ""
        if stopped:
            found, checked = self._run(request, stopped)
            if not found:
                return pb.OperateTaskResponse(op=request.op, msg=checked)
        others = [source for source in sources if source not in stopped]
        if others:
            self._cluster.scheduler.set_stage(request.name, others, "Running", safe_mode=request.safeMode)
        answers = wait_for_all(
            self._cluster,
            sources,
            request.name,
            reaches(request.name, worker_pb.Running),
            "the task's subtasks are Running",
            patience=remaining(request.seconds or STAGE_TIMEOUT),
        )
        return pb.OperateTaskResponse(op=request.op, result=True, sources=answers)

    def _run(self, request: pb.OperateTaskRequest, stopped: Sequence[str]) -> tuple[bool, str]:
        """Whether the checks were passed, and their text; then the subtasks are stored to run."""
        task, text = self._stored(request.name)
        known = self._cluster.scheduler.sources()
        subtasks = enabled(self._steps.split(task, known, stopped), known)
        moment = moment_of(request.startTime)
        subtasks = started_at(self._steps, subtasks, moment, removes_meta=request.removeMeta)
        found = self._steps.precheck(
            task, known, err_count=SHOWN, warn_count=SHOWN, only=stopped, remove_meta=request.removeMeta
        )
        if not found.passed:
            return False, found.text
        subtasks = [
            _with_safe_mode(self._steps.complete(task, one, None), request.safeModeDuration) for one in subtasks
        ]
        with self._cluster.scheduler.task_latch(task.name, "the start of the stopped task"):
            if request.removeMeta:
                self._steps.remove_meta(task)
                # In this order: workers that find their metadata rely on the locks' records.
                self._cluster.locks.term().forget(task.name)
            self._cluster.scheduler.start_task(task.name, text, subtasks, drop_operators=request.removeMeta)
        return True, found.text

    def stop(self, request: pb.OperateTaskRequest, sources: Sequence[str]) -> pb.OperateTaskResponse:
        """Stops the subtasks of ``sources``; their configuration stays."""
        self._cluster.scheduler.set_stage(request.name, sources, STOPPED)
        answers = self._await_stopped(request, sources)
        return pb.OperateTaskResponse(op=request.op, result=True, sources=answers)

    def _await_stopped(
        self, request: pb.OperateTaskRequest, sources: Sequence[str]
    ) -> list[worker_pb.CommonWorkerResponse]:
        patience = remaining(request.seconds or STAGE_TIMEOUT)
        check = has_stopped(request.name)
        return wait_for_all(self._cluster, sources, request.name, check, "the subtask is Stopped", patience)

    def delete(self, request: pb.OperateTaskRequest, sources: Sequence[str]) -> pb.OperateTaskResponse:
        """Stops all of a task and removes it with its progress. A target that refuses that changes nothing: then the
        task is there, Stopped."""
        name = request.name
        task = self._whole(name, sources)
        with self._cluster.scheduler.task_latch(name, "the removal of the task"):
            self._cluster.scheduler.set_stage(name, sources, STOPPED)
            answers = self._await_stopped(request, sources)
            if not all(answer.result for answer in answers):
                return pb.OperateTaskResponse(op=request.op, result=True, sources=answers)
            self._forget_progress(task)
            self._cluster.scheduler.stop_task(name, sources)
        answers = wait_for_all(self._cluster, sources, name, is_gone(name), "the subtask is removed")
        return pb.OperateTaskResponse(op=request.op, result=True, sources=answers)

    def delete_anyhow(self, request: pb.OperateTaskRequest, sources: Sequence[str]) -> pb.OperateTaskResponse:
        """As :meth:`delete`, but the task goes in any case, and soon if its target does not answer. What could not be
        done is in the answer."""
        name = request.name
        task = self._whole(name, sources)
        left = self._unreachable(task)
        limit = SOON if left else STAGE_TIMEOUT
        with self._cluster.scheduler.task_latch(name, "the removal of the task"):
            self._cluster.scheduler.set_stage(name, sources, STOPPED)
            late = [
                one.msg
                for one in wait_for_all(self._cluster, sources, name, has_stopped(name), "it is Stopped", limit=limit)
                if not one.result
            ]
            if request.removeMeta:
                left = left or "; ".join(late) or self._try_to_forget(task)
            self._cluster.scheduler.stop_task(name, sources)
        ends = wait_for_all(self._cluster, sources, name, is_gone(name), "it is removed", limit=limit)
        text = (
            f"task {name} is removed; its progress stays at the target: {left}" if left and request.removeMeta else ""
        )
        # A worker that is late ends the subtask when it can: nobody needs to ask again.
        answers = [success(one.source, one.worker, "" if one.result else one.msg) for one in ends]
        return pb.OperateTaskResponse(op=request.op, result=True, msg=text, sources=answers)

    def _whole(self, name: str, sources: Sequence[str]) -> TaskConfig:
        """The stored task. Raises 38041 when ``sources`` are not all of its sources."""
        if set(sources) != set(self._cluster.scheduler.tasks()[name]):
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"task {name}: its metadata can be removed for all of its sources only",
                workaround="Name no source.",
            )
        return self._stored(name)[0]

    def _unreachable(self, task: TaskConfig) -> str:
        """Why the target does not answer; '' when it does."""
        try:
            self._steps.reach_target(task, PROBE_TIMEOUT)
        except DMError as exc:
            log.warning("the target of a task that is removed does not answer", task=task.name, error=str(exc))
            return str(exc)
        return ""

    def _forget_progress(self, task: TaskConfig) -> None:
        self._steps.remove_meta(task)
        self._cluster.locks.term().forget(task.name)

    def _try_to_forget(self, task: TaskConfig) -> str:
        """Why the progress stays; '' when it is removed."""
        try:
            self._forget_progress(task)
        except DMError as exc:
            log.warning("a removed task's progress stays at the target", task=task.name, error=str(exc))
            return str(exc)
        return ""

    def update(self, request: pb.UpdateTaskRequest) -> pb.UpdateTaskResponse:
        """Replaces the configuration of a task that is paused or stopped; nothing of the old one stays.

        A paused subtask keeps its place in the binlog, so only some keys may change (40081). A stopped one that has no
        progress yet may change in any way.
        """
        name = load_task(request.task).name
        existing = self._cluster.scheduler.subtasks(name)
        if not existing:
            raise errors.new(
                Code.SchedulerTaskNotExist,
                f"task with name {name} not exist",
                workaround="`query-status` lists the tasks; `start-task` starts a new one.",
            )
        text = with_stored_secrets(request.task, "target-database", next(iter(existing.values())).to)
        task = load_task(text)
        known = self._cluster.scheduler.sources()
        subtasks = self._steps.split(task, known, ())
        self._refuse_waiting_locks(name)
        names = [subtask.source_id for subtask in subtasks]
        found = self._steps.precheck(task, known, err_count=SHOWN, warn_count=SHOWN, only=names)
        if not found.passed:
            return pb.UpdateTaskResponse(checkResult=found.text)
        stages = self._cluster.scheduler.tasks().get(name, {})
        updated = [self._updated(task, one, existing.get(one.source_id), stages) for one in subtasks]
        with self._cluster.scheduler.task_latch(name, "the update of the task"):
            self._cluster.scheduler.update_task(name, task_to_yaml(task), updated)
        paused = [source for source in names if stages.get(source) == "Paused"]
        answers = wait_for_all(
            self._cluster, paused, name, reaches(name, worker_pb.Paused), "the subtask has its new configuration"
        )
        answers += [success(source) for source in names if source not in paused]
        return pb.UpdateTaskResponse(result=True, sources=answers, checkResult=found.text)

    def _updated(
        self, task: TaskConfig, new: SubTaskConfig, old: SubTaskConfig | None, stages: Mapping[str, str]
    ) -> SubTaskConfig:
        """``new`` in the form to store. Raises 40081 for a key that must not change, and the worker's refusal."""
        if old is None:
            return new
        kept = replace(new, meta=new.meta or old.meta, until=old.until)
        if stages.get(old.source_id) == STOPPED:
            changed = fixed_changes(old, kept)
            if changed and self._steps.has_progress(old):
                raise _must_not_change(old, changed)
            return new
        kept = replace(self._steps.complete(task, kept, None), until=old.until)
        changed = fixed_changes(old, kept)
        if changed:
            raise _must_not_change(old, changed)
        worker = self._cluster.scheduler.bound_worker(old.source_id)
        if worker is None:
            return kept
        request = worker_pb.CheckSubtasksCanUpdateRequest(subtaskCfgTomlString=encode_subtask(kept))
        answer: worker_pb.CheckSubtasksCanUpdateResponse = self._cluster.workers.call(
            worker.addr, "CheckSubtasksCanUpdate", request
        )
        if not answer.success:
            raise errors.new(
                Code.SchedulerSubTaskCfgUpdate,
                f"the subtask of source {old.source_id} cannot be changed",
                raw=answer.msg,
                workaround="See the cause: it names what to do.",
            )
        return kept

    def _refuse_waiting_locks(self, name: str) -> None:
        if self._cluster.locks.term().read(lambda locks: bool(locks.all(name))):
            raise errors.new(
                Code.SchedulerSubTaskCfgUpdate,
                f"task {name} cannot change while sources wait for a DDL lock",
                workaround=f"`shard-ddl-lock {name}` shows it; resume the task until the lock is resolved.",
            )

    def _stored(self, name: str) -> tuple[TaskConfig, str]:
        """The task with its secrets, and its text without them."""
        text = self._cluster.scheduler.task_text(name)
        subtasks = self._cluster.scheduler.subtasks(name)
        if text is None or not subtasks:
            raise errors.new(
                Code.SchedulerTaskNotExist,
                f"task with name {name} not exist",
                workaround="`query-status` lists the tasks.",
            )
        known = next(iter(subtasks.values())).to
        return load_task(with_stored_secrets(text, "target-database", known)), text


def refuse_pause(name: str, stopped: Sequence[str]) -> DMError:
    return errors.new(
        Code.SchedulerSubTaskStageInvalidUpdate,
        f"task {name} is stopped on sources {', '.join(stopped)}: it cannot be paused",
        workaround=f"`resume-task {name}` runs it first.",
    )


def _with_safe_mode(subtask: SubTaskConfig, duration: str) -> SubTaskConfig:
    """With the duration of safe mode at the begin of replication, if one is given."""
    if not duration:
        return subtask
    try:
        seconds = parse_duration(duration)
    except ValueError as exc:
        raise errors.new(
            Code.ConfigInvalidSafeModeDuration,
            f"safe_mode_time_duration: {exc}",
            workaround="Write a duration such as 60s.",
        ) from None
    return replace(subtask, syncer=replace(subtask.syncer, safe_mode_duration=seconds))


def _must_not_change(subtask: SubTaskConfig, changed: Sequence[str]) -> DMError:
    return errors.new(
        Code.WorkerUpdateSubTaskConfig,
        f"{', '.join(changed)} of task {subtask.name} cannot change on source {subtask.source_id}: it has progress",
        workaround="Stop the task and start it with the new configuration and --remove-meta.",
    )
