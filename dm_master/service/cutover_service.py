"""CheckCutover and OperateCutover: whether applications may move from the upstreams to the target, and the move."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dm_master.cutover.facts import CutoverFacts, DiffFacts, SubTaskFacts
from dm_master.cutover.reversal import ensure_reversible, reverse_tasks
from dm_master.cutover.run import CutoverRun
from dm_master.cutover.run_record import CutoverRecord, CutoverStage, open_checks, read_certificate
from dm_master.cutover.runner import run_checks, unknown_checks
from dm_master.cutover.runs import CutoverRuns
from dm_master.cutover.store import EtcdCutoverStore
from dm_master.cutover.subtask_status import diff_facts, subtask_facts
from dm_master.cutover.task_servers import TaskServers
from dm_master.cutover.verdict import CheckVerdict, Unreadable
from dm_master.cutover.verification import Verification, verify
from dm_master.cutover.way_back import read_routes, source_of
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.diff_verdict import verdict
from dm_master.service.task_steps import TaskSteps
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_master.workers.source_workers import ask_diffs, ask_statuses
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Seconds in which a quiet upstream's binlog must not grow, unless the request has another number.
QUIET_SECONDS = 5.0
#: The most that a request may ask for: it holds a thread of the server.
_MOST_SECONDS = 300.0
#: Seconds for a worker to read the state of a comparison from the target.
_DIFF_TIMEOUT = 60.0


class CutoverService:
    """``start_task``: the answer to StartTask, for a way back."""

    def __init__(
        self,
        cluster: ClusterAccess,
        steps: TaskSteps,
        start_task: Callable[[pb.StartTaskRequest], pb.StartTaskResponse],
    ) -> None:
        self._cluster = cluster
        self._steps = steps
        self._start_task = start_task
        self._runs = CutoverRuns(lambda: cluster.scheduler.started)

    def check(self, request: pb.CheckCutoverRequest) -> pb.CheckCutoverResponse:
        """Runs all checks; changes nothing. ``result``: each is passed, or named in ``accept``."""
        subtasks = self._cluster.scheduler.subtasks(request.task)
        if not subtasks:
            return pb.CheckCutoverResponse(msg=_no_task(request.task))
        return answer(run_checks(self._facts(request.task, subtasks, request.seconds)), request.accept)

    def operate(self, request: pb.OperateCutoverRequest) -> pb.OperateCutoverResponse:
        """Raises 43201 for an operation that does not fit, and the errors of servers."""
        task = request.task
        subtasks = self._cluster.scheduler.subtasks(task)
        if not subtasks:
            return pb.OperateCutoverResponse(msg=_no_task(task))
        store = EtcdCutoverStore(self._cluster.etcd, task, subtasks)
        match request.op:
            case pb.RunCutover:
                return self._run(request, subtasks, store)
            case pb.ShowCutover:
                return self._show(task, subtasks, store)
            case pb.EndCutover:
                with self._cluster.scheduler.task_latch(task, "cutover end"):
                    shown = self._show(task, subtasks, store)
                    store.forget()
                return shown
            case pb.VerifyCutover:
                return self._verify(request, subtasks, store)
            case pb.ReverseCutover:
                with self._cluster.scheduler.task_latch(task, "cutover reverse"):
                    return self._reverse(task, subtasks, store)
        raise errors.new(
            Code.CutoverRefused,
            f"operation {request.op} of a cutover is not known",
            workaround="Use a dmctl and a master of one version.",
        )

    def _run(
        self, request: pb.OperateCutoverRequest, subtasks: Mapping[str, SubTaskConfig], store: EtcdCutoverStore
    ) -> pb.OperateCutoverResponse:
        """Starts or continues the run; its outcome is told once."""
        task = request.task
        unknown = unknown_checks(request.accept)
        if unknown:
            return pb.OperateCutoverResponse(msg=unknown, done=True)

        def work(stopping: Callable[[], bool]) -> CutoverRun:
            servers = TaskServers(
                task, subtasks, self._cluster, lambda: self._facts(task, subtasks, request.seconds), stopping
            )
            return CutoverRun(task, secrets.token_hex(8), request.accept, servers, store)

        stage, outcome = self._runs.follow(task, work)
        if outcome is None:
            return pb.OperateCutoverResponse(result=True, stage=stage or "checking", msg="the cutover continues")
        if outcome.certificate:
            return pb.OperateCutoverResponse(
                result=True,
                done=True,
                stage=CutoverStage.ENDED,
                msg="the cutover is done",
                certificate=outcome.certificate,
                checks=answer(outcome.verdicts, request.accept).checks,
            )
        shown = answer(outcome.verdicts, request.accept)
        return pb.OperateCutoverResponse(done=True, msg=outcome.reason or shown.msg, checks=shown.checks)

    def _show(
        self, task: str, subtasks: Mapping[str, SubTaskConfig], store: EtcdCutoverStore
    ) -> pb.OperateCutoverResponse:
        """Raises 43201 when there is no cutover."""
        record = _needed(store.load(), task)
        answers = ask_statuses(self._cluster, [*subtasks], task)
        return pb.OperateCutoverResponse(
            result=True,
            stage=record.stage,
            done=record.stage is CutoverStage.ENDED,
            certificate=record.certificate,
            msg=f"replicated back by {', '.join(record.reversed_by)}" if record.reversed_by else "",
            sources=[watched(source, one, task) for source, one in zip(subtasks, answers, strict=True)],
        )

    def _verify(
        self, request: pb.OperateCutoverRequest, subtasks: Mapping[str, SubTaskConfig], store: EtcdCutoverStore
    ) -> pb.OperateCutoverResponse:
        known = store.load()
        given = read_certificate(request.certificate or _needed(known, request.task).certificate)
        servers = TaskServers(
            request.task, subtasks, self._cluster, lambda: self._facts(request.task, subtasks, 0), bool
        )
        found = verify(given, servers, known)
        if known is not None and known.run == given.run and found.equal:
            store.save(replace(known, equal_at={**known.equal_at, **dict.fromkeys(found.equal, servers.now())}))
        return verified(found)

    def _reverse(
        self, task: str, subtasks: Mapping[str, SubTaskConfig], store: EtcdCutoverStore
    ) -> pb.OperateCutoverResponse:
        """Starts the tasks of the way back that are not there yet. Raises 43201 where there is no way back."""
        record = _needed(store.load(), task)
        if record.stage is not CutoverStage.ENDED or record.target_end is None:
            raise errors.new(
                Code.CutoverRefused,
                f"the cutover of task {task} is {record.stage}"
                + ("" if record.stage is not CutoverStage.ENDED else ", and the target writes no binlog"),
                workaround=f"A way back begins where the target was at the end of `dmctl cutover run {task}`.",
            )
        routed = read_routes(subtasks)
        ensure_reversible(task, routed, subtasks)
        name = source_of(next(iter(subtasks.values())).to, self._cluster.scheduler.sources())
        tasks = reverse_tasks(task, routed, subtasks, name, record.target_end)
        # Before they write: else the watch would take their rows for those of others.
        store.watch(record.ends, {one.upstream: one.name for one in tasks})
        for one in tasks:
            if one.name not in self._cluster.scheduler.tasks():
                started = self._start_task(pb.StartTaskRequest(task=one.text))
                if not started.result:
                    return pb.OperateCutoverResponse(msg=f"task {one.name}: {started.msg or started.checkResult}")
        names = tuple(one.name for one in tasks)
        store.save(replace(record, reversed_by=names))
        shown = f"started: {', '.join(names)}; the watch over the upstreams leaves out what they write"
        return pb.OperateCutoverResponse(result=True, done=True, stage=record.stage, msg=shown)

    def _facts(self, task: str, subtasks: Mapping[str, SubTaskConfig], seconds: float) -> CutoverFacts:
        def ask() -> list[SubTaskFacts]:
            return [subtask_facts(one, task) for one in ask_statuses(self._cluster, [*subtasks], task)]

        locks, diff = self._locks(task), self._diff(task, sorted(subtasks))
        quiet = min(seconds or QUIET_SECONDS, _MOST_SECONDS)
        return self._steps.read_cutover_facts(task, subtasks, quiet, ask, locks, diff)

    def _diff(self, task: str, sources: Sequence[str]) -> DiffFacts | Unreadable:
        request = worker_pb.OperateDiffWorkerRequest(op=worker_pb.ShowDiff, task=task, sources=sources)
        answers = ask_diffs(self._cluster, sources, request, timeout=_DIFF_TIMEOUT)
        return diff_facts(answers, verdict(answers))

    def _locks(self, task: str) -> tuple[str, ...] | Unreadable:
        def look(locks: LockRegistry) -> tuple[str, ...]:
            return tuple(str(lock.id) for lock in locks.all(task))

        try:
            return self._cluster.locks.term().read(look)
        except DMError as exc:
            return Unreadable(str(exc))


def answer(verdicts: Sequence[CheckVerdict], accepted: Sequence[str]) -> pb.CheckCutoverResponse:
    """The answer for these verdicts. A name in ``accepted`` that no check has is refused."""
    unknown = unknown_checks(accepted)
    if unknown:
        return pb.CheckCutoverResponse(msg=unknown)
    checks = [
        pb.CutoverCheck(
            name=one.name,
            verdict=one.verdict,
            evidence=one.evidence,
            remedy=one.remedy,
            accepted=one.name in accepted and not one.passed,
        )
        for one in verdicts
    ]
    open_ = open_checks(verdicts, accepted)
    msg = f"not ready: {', '.join(open_)}" if open_ else "ready"
    return pb.CheckCutoverResponse(result=not open_, msg=msg, checks=checks)


def _no_task(task: str) -> str:
    return f"task {task} has no source or not exist, please check the task name and status"


def _needed(record: CutoverRecord | None, task: str) -> CutoverRecord:
    if record is not None:
        return record
    raise errors.new(
        Code.CutoverRefused,
        f"task {task} has no cutover",
        workaround=f"`dmctl cutover check {task}` shows what is missing for one, `dmctl cutover run {task}` does it.",
    )


def watched(source: str, answer: worker_pb.QueryStatusResponse, task: str) -> pb.CutoverSource:
    """What a worker says of the watch over its upstream."""
    shown = pb.CutoverSource(source=source, worker=answer.sourceStatus.worker)
    status = next((one for one in answer.subTaskStatus if one.name == task), None)
    if status is not None and status.HasField("cutover"):
        shown.watch.CopyFrom(status.cutover)
    else:
        shown.msg = answer.msg or "the upstream is not watched now"
    return shown


def verified(found: Verification) -> pb.OperateCutoverResponse:
    return pb.OperateCutoverResponse(
        result=found.is_equal,
        done=True,
        msg="everything is as it was at the cutover" if found.is_equal else "; ".join(found.reasons),
        tables=[
            pb.VerifiedTable(
                target=one.target, state=one.state, since=one.since, rows=one.rows, certifiedRows=one.certified_rows
            )
            for one in found.tables
        ],
    )
