"""CheckCutover: whether applications may move from the upstreams to the target."""

from __future__ import annotations

from collections.abc import Sequence

from dm_master.cutover.facts import DiffFacts, SubTaskFacts
from dm_master.cutover.runner import run_checks
from dm_master.cutover.subtask_status import diff_facts, subtask_facts
from dm_master.cutover.verdict import CheckVerdict, Unreadable
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.diff_service import verdict
from dm_master.service.task_steps import TaskSteps
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_master.workers.source_workers import ask_diffs, ask_statuses
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Seconds in which a quiet upstream's binlog must not grow, unless the request has another number.
QUIET_SECONDS = 5.0
#: The most that a request may ask for: it holds a thread of the server.
_MOST_SECONDS = 300.0
#: Seconds for a worker to read the state of a comparison from the target.
_DIFF_TIMEOUT = 60.0


class CutoverService:
    def __init__(self, cluster: ClusterAccess, steps: TaskSteps) -> None:
        self._cluster = cluster
        self._steps = steps

    def check(self, request: pb.CheckCutoverRequest) -> pb.CheckCutoverResponse:
        """Runs all checks; changes nothing. ``result``: each is passed, or named in ``accept``."""
        subtasks = self._cluster.scheduler.subtasks(request.task)
        if not subtasks:
            return pb.CheckCutoverResponse(
                msg=f"task {request.task} has no source or not exist, please check the task name and status"
            )
        seconds = min(request.seconds or QUIET_SECONDS, _MOST_SECONDS)

        def ask() -> list[SubTaskFacts]:
            return [subtask_facts(one, request.task) for one in ask_statuses(self._cluster, [*subtasks], request.task)]

        locks, diff = self._locks(request.task), self._diff(request.task, sorted(subtasks))
        facts = self._steps.read_cutover_facts(request.task, subtasks, seconds, ask, locks, diff)
        return answer(run_checks(facts), request.accept)

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
    strange = sorted(set(accepted) - {one.name for one in verdicts})
    if strange:
        names = ", ".join(one.name for one in verdicts)
        return pb.CheckCutoverResponse(msg=f"there is no check {', '.join(strange)}; the checks are {names}")
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
    open_ = [one.name for one in checks if one.verdict not in ("yes", "not applicable") and not one.accepted]
    msg = f"not ready: {', '.join(open_)}" if open_ else "ready"
    return pb.CheckCutoverResponse(result=not open_, msg=msg, checks=checks)
