"""StartTask, StoreTask, UpdateTask, OperateTask, CheckTask and ShowRules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dm_master.cutover.store import forget_cutover, refuse_after_cutover
from dm_master.rules.rule_usage import RuleSummary
from dm_master.rules.source_rules import Explanation
from dm_master.service.client_deadline import remaining
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.stored_tasks import STOPPED, StoredTasks, refuse_pause
from dm_master.service.task_steps import SHOWN, TaskSteps, enabled, moment_of, started_at
from dm_master.task_setup.task_end import ensure_possible, task_end
from dm_master.workers.slot_warnings import slot_warnings
from dm_master.workers.source_workers import failure, unbound
from dm_master.workers.stage_wait import STAGE_TIMEOUT, is_gone, reaches, wait_for_all
from pkg import errors
from pkg.config.model import SubTaskConfig, TaskConfig
from pkg.config.task import load_task, task_to_yaml
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Operation → (desired stage to store, stage that workers then report).
_STAGES = {
    worker_pb.Pause: ("Paused", worker_pb.Paused),
    worker_pb.Resume: ("Running", worker_pb.Running),
}
_STOPPING = (worker_pb.Stop, worker_pb.Delete)


class TaskService:
    def __init__(self, cluster: ClusterAccess, steps: TaskSteps) -> None:
        self._cluster = cluster
        self._steps = steps
        stored = StoredTasks(cluster, steps)
        self.store_task, self.update_task = stored.store, stored.update
        self._stored = stored

    def check_task(self, request: pb.CheckTaskRequest) -> pb.CheckTaskResponse:
        moment = moment_of(request.startTime)
        task = load_task(request.task)
        sources = self._cluster.scheduler.sources()
        # Splitting finds unknown sources and contradictions that need no connection.
        subtasks = self._steps.split(task, sources, ())
        # A task that is removed with its progress may be checked too.
        started_at(self._steps, subtasks, moment, removes_meta=True)
        found = self._steps.precheck(task, sources, err_count=request.errCnt, warn_count=request.warnCnt, only=())
        rules = None if found.rules is None else _summary(found.rules)
        warnings = [*found.warnings, *slot_warnings(self._cluster, subtasks)]
        return pb.CheckTaskResponse(result=found.passed, msg=found.text, rules=rules, warnings=warnings)

    def show_rules(self, request: pb.ShowRulesRequest) -> pb.ShowRulesResponse:
        """What the task's rules do with each upstream table."""
        found = self._steps.show_rules(
            load_task(request.task), self._cluster.scheduler.sources(), tuple(request.sources)
        )
        tables = [_table_rules(explained) for explained in found.explanations]
        return pb.ShowRulesResponse(result=True, summary=_summary(found.summary), tables=tables)

    def start_task(self, request: pb.StartTaskRequest) -> pb.StartTaskResponse:
        """Changes nothing if it refuses the task; else stores the subtasks and waits until their workers run them."""
        moment, end = (
            moment_of(request.startTime),
            task_end(request.untilPosition, request.untilGTID, request.untilTime),
        )
        task = load_task(request.task)
        foreign = sorted(set(request.sources) - {instance.source_id for instance in task.instances})
        if foreign:
            answers = [failure(source, "source not found in task's config") for source in foreign]
            return pb.StartTaskResponse(msg="some sources are not in the task's config", sources=answers)
        known = self._cluster.scheduler.sources()
        subtasks = self._new_subtasks(task, self._steps.split(task, known, tuple(request.sources)), request.removeMeta)
        subtasks = enabled(subtasks, known)
        if end is not None:
            ensure_possible(end, subtasks)
        subtasks = started_at(self._steps, subtasks, moment, removes_meta=request.removeMeta)
        names = [subtask.source_id for subtask in subtasks]
        found = self._steps.precheck(
            task, known, err_count=SHOWN, warn_count=SHOWN, only=names, remove_meta=request.removeMeta
        )
        warnings = [*found.warnings, *slot_warnings(self._cluster, subtasks)]
        if not found.passed:
            return pb.StartTaskResponse(checkResult=found.text, warnings=warnings)
        subtasks = [self._steps.complete(task, subtask, end) for subtask in subtasks]
        self._submit(task, subtasks, request.removeMeta)
        answers = wait_for_all(
            self._cluster,
            names,
            task.name,
            reaches(task.name, worker_pb.Running),
            "the task's subtasks are Running",
            # A busy worker starts a subtask late. After a timeout an operator would start it again.
            patience=remaining(STAGE_TIMEOUT),
        )
        return pb.StartTaskResponse(result=True, sources=answers, checkResult=found.text, warnings=warnings)

    def operate_task(self, request: pb.OperateTaskRequest) -> pb.OperateTaskResponse:
        stages = self._cluster.scheduler.tasks().get(request.name, {})
        if not stages:
            message = f"task {request.name} has no source or not exist, please check the task name and status"
            return pb.OperateTaskResponse(op=request.op, msg=message)
        sources = self._chosen(request, stages)
        if request.safeMode and request.op not in (worker_pb.Resume, worker_pb.Start):
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"task {request.name}: safe mode can be asked for only when the task is resumed",
                workaround=f"Use `dmctl resume-task {request.name} --safe-mode`.",
            )
        if request.op in (*_STOPPING, worker_pb.Resume, worker_pb.Start):
            refuse_after_cutover(self._cluster.etcd, request.name, worker_pb.TaskOp.Name(request.op))
        stopped = [source for source in sources if stages[source] == STOPPED]
        if request.op == worker_pb.Start or (request.op == worker_pb.Resume and stopped):
            return self._stored.start(request, sources)
        if request.op == worker_pb.Stop and request.keep:
            return self._stored.stop(request, sources)
        if request.op in _STOPPING and not request.keep:
            forget_cutover(self._cluster.etcd, request.name, stages)
        if request.op == worker_pb.Delete and request.force:
            return self._stored.delete_anyhow(request, sources)
        if request.op == worker_pb.Delete and request.removeMeta:
            return self._stored.delete(request, sources)
        if request.op == worker_pb.Pause and stopped:
            raise refuse_pause(request.name, stopped)
        if request.op in _STOPPING:
            self._cluster.scheduler.stop_task(request.name, sources)
            check, expected = is_gone(request.name), "the subtask is stopped"
        elif request.op in _STAGES:
            stored, reported = _STAGES[request.op]
            self._cluster.scheduler.set_stage(request.name, sources, stored, safe_mode=request.safeMode)
            check, expected = reaches(request.name, reported), f"the subtask is {stored}"
        else:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"invalid operation {request.op} on task {request.name}",
                workaround="Use one of pause-task, resume-task, stop-task.",
            )
        answers = wait_for_all(self._cluster, sources, request.name, check, expected)
        return pb.OperateTaskResponse(op=request.op, result=True, sources=answers)

    def _chosen(self, request: pb.OperateTaskRequest, stages: Mapping[str, str]) -> list[str]:
        foreign = sorted(set(request.sources) - set(stages))
        if foreign:
            raise errors.new(
                Code.SchedulerSubTaskOpSourceNotExist,
                f"sources {', '.join(foreign)} need to be operated for task {request.name} but do not have it",
                workaround="See `query-status` for the task's sources.",
            )
        return sorted(set(request.sources) or set(stages))

    def _new_subtasks(
        self, task: TaskConfig, subtasks: Sequence[SubTaskConfig], remove_meta: bool
    ) -> list[SubTaskConfig]:
        """The subtasks that do not exist yet. Raises 46014 if there is none, 46009 if a source is not bound."""
        existing = self._cluster.scheduler.tasks().get(task.name, {})
        fresh = [subtask for subtask in subtasks if subtask.source_id not in existing]
        if not fresh or (existing and remove_meta):
            raise errors.new(
                Code.SchedulerSubTaskExist,
                f"subtasks with name {task.name} for sources {', '.join(sorted(existing))} already exist"
                + (", so their metadata cannot be removed" if remove_meta else ""),
                workaround="Use `query-status` to see them, `stop-task` to end them, `resume-task` to continue.",
            )
        unbound_sources = [
            one.source_id for one in fresh if self._cluster.scheduler.bound_worker(one.source_id) is None
        ]
        if unbound_sources:
            raise unbound(unbound_sources)
        return fresh

    def _submit(self, task: TaskConfig, subtasks: list[SubTaskConfig], remove_meta: bool) -> None:
        # The file is stored for get-config; the secrets that workers need are in the subtasks, encrypted.
        text = task_to_yaml(task)
        if not remove_meta:
            self._cluster.scheduler.start_task(task.name, text, subtasks)
            return
        with self._cluster.scheduler.task_latch(task.name, "start-task with --remove-meta"):
            self._steps.remove_meta(task)
            # In this order: workers that find their metadata rely on the locks' records.
            self._cluster.locks.term().forget(task.name)
            self._cluster.scheduler.start_task(task.name, text, subtasks, drop_operators=True)


def _summary(rules: RuleSummary) -> pb.RulesSummary:
    return pb.RulesSummary(
        tables=rules.tables, targets=rules.targets, leftOut=rules.left_out, unused=list(rules.unused)
    )


def _table_rules(explained: Explanation) -> pb.TableRules:
    target_schema, target_table = explained.target or ("", "")
    rules = [
        pb.AppliedRule(
            block=one.rule.block, name=one.rule.name, place=one.rule.location, pattern=one.pattern, effect=one.effect
        )
        for one in explained.applied
    ]
    return pb.TableRules(
        source=explained.source_id,
        schema=explained.schema,
        table=explained.table,
        targetSchema=target_schema,
        targetTable=target_table,
        leftOut=explained.reason,
        problem=explained.problem,
        rules=rules,
    )
