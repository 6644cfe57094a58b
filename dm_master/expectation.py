"""Waiting until workers have done what was submitted: the master writes what is expected, the workers follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from dm_master.service_base import Cluster, failure, success
from pkg import errors
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb

#: How long to wait for one source, and between two looks, in seconds.
LONGEST_WAIT = 10.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0

#: (is it settled, the failure's text if it settled badly)
Verdict = tuple[bool, str]
#: Looks at a source's status.
Judge = Callable[[str, pb.QueryStatusResponse], Verdict]


def wait_for_all(
    cluster: Cluster, sources: Iterable[str], task: str, judge: Judge, expected: str
) -> list[pb.CommonWorkerResponse]:
    """One answer a source, in the sources' order, once ``judge`` is satisfied or the time is over (38045)."""
    names = sorted(sources)
    if not names:
        return []
    with ThreadPoolExecutor(min(len(names), 32), thread_name_prefix="expect") as pool:
        return list(pool.map(lambda source: _wait_for(cluster, source, task, judge, expected), names))


def _wait_for(cluster: Cluster, source: str, task: str, judge: Judge, expected: str) -> pb.CommonWorkerResponse:
    deadline = time.monotonic() + LONGEST_WAIT
    pause = FIRST_PAUSE
    seen = "its worker has not answered yet"
    while True:
        worker = cluster.scheduler.bound_worker(source)
        if worker is None:
            seen = "the source is not bound to a worker"
        else:
            try:
                remaining = max(deadline - time.monotonic(), FIRST_PAUSE)
                answer = cluster.workers.call(
                    worker.addr, "QueryStatus", pb.QueryStatusRequest(name=task), timeout=remaining
                )
                settled, problem = judge(source, answer)
                if settled:
                    name = worker.name
                    return failure(source, problem, name) if problem else success(source, name)
                seen = _describe(answer)
            except DMError as exc:
                seen = str(exc)
        if time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    error = errors.new(
        "MasterFailToGetExpectResult",
        f"fail to get expected result: {expected}",
        raw=seen,
        workaround="The request is stored and will be followed; see `query-status` for how far it is.",
    )
    return failure(source, str(error), worker.name if worker else "")


def _describe(answer: pb.QueryStatusResponse) -> str:
    if not answer.result:
        return answer.msg
    stages = (f"{one.name} {pb.Stage.Name(one.stage)}" if one.name else one.msg for one in answer.subTaskStatus)
    return ", ".join(stages) or "no sub task"


def _named(answer: pb.QueryStatusResponse, task: str) -> pb.SubTaskStatus | None:
    return next((one for one in answer.subTaskStatus if one.name == task), None)


def reaches(task: str, stage: pb.Stage) -> Judge:
    """Satisfied when the subtask is in ``stage``, or when it failed on the way."""

    def judge(_: str, answer: pb.QueryStatusResponse) -> Verdict:
        subtask = _named(answer, task)
        if not answer.result or subtask is None:
            return False, ""
        if subtask.stage in (stage, pb.Finished):
            return True, ""
        if stage == pb.Running and subtask.stage == pb.Paused and subtask.result.errors:
            return True, "; ".join(error_text(error) for error in subtask.result.errors)
        return False, ""

    return judge


def is_gone(task: str) -> Judge:
    """Satisfied when the worker doesn't have the subtask any more."""

    def judge(_: str, answer: pb.QueryStatusResponse) -> Verdict:
        subtask = _named(answer, task)
        return subtask is None or (not subtask.stage and subtask.WhichOneof("status") == "msg"), ""

    return judge


def serves(source: str, answer: pb.QueryStatusResponse) -> Verdict:
    """Satisfied when the worker has taken the source, or could not."""
    if answer.sourceStatus.source != source:
        return False, ""
    problems = answer.sourceStatus.result.errors
    if problems:
        return True, "; ".join(error_text(error) for error in problems)
    return answer.result, ""


def error_text(error: pb.ProcessError) -> str:
    """A ``ProcessError`` in the form of an error's text."""
    kind = f"[code={error.ErrCode}:class={error.ErrClass}:scope={error.ErrScope}:level={error.ErrLevel}]"
    parts = [kind, f"Message: {error.Message}"]
    parts += [f"RawCause: {error.RawCause}"] if error.RawCause else []
    parts += [f"Workaround: {error.Workaround}"] if error.Workaround else []
    return ", ".join(parts)
