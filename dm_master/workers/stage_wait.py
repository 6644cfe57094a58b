"""Waits until workers have reached the desired stage: the master stores it in etcd, the workers follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from dm_master.workers.source_workers import ClusterView, failure, success
from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb

#: Seconds to wait for one source, and between two queries of its status.
STAGE_TIMEOUT = 10.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
#: A failure that is seen earlier than this (seconds) may be an old one: the worker has not read the request yet.
#: Once the subtask was seen without a failure, the next one is new and counts at once.
STALE_FAILURE_TIMEOUT = 2.0

#: (whether the wait is over, the failure's text if it ended with one)
StageCheckResult = tuple[bool, str]
#: Judges a source's status, which is None when no worker serves the source.
StageCheck = Callable[[str, pb.QueryStatusResponse | None], StageCheckResult]


def wait_for_all(
    cluster: ClusterView, sources: Iterable[str], task: str, check: StageCheck, expected: str
) -> list[pb.CommonWorkerResponse]:
    """One answer per source, in the sources' order, once ``check`` says that the wait is over, or on timeout
    (38045)."""
    names = sorted(sources)
    if not names:
        return []
    with ThreadPoolExecutor(min(len(names), 32), thread_name_prefix="expect") as pool:
        return list(pool.map(lambda source: _wait_for(cluster, source, task, check, expected), names))


def _wait_for(
    cluster: ClusterView, source: str, task: str, check: StageCheck, expected: str
) -> pb.CommonWorkerResponse:
    began = time.monotonic()
    pause, moved = FIRST_PAUSE, False
    while True:
        remaining = began + STAGE_TIMEOUT - time.monotonic()
        worker, answer, seen = _ask(cluster, source, task, max(remaining, FIRST_PAUSE))
        settled, problem = check(source, answer) if answer is not None or not worker else (False, "")
        if settled and not problem:
            return success(source, worker)
        if settled and (moved or time.monotonic() - began > STALE_FAILURE_TIMEOUT):
            return failure(source, problem, worker)
        moved = moved or (answer is not None and not settled)
        if remaining < pause:
            break
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    error = errors.new(
        Code.MasterFailToGetExpectResult,
        f"fail to get expected result: {expected}",
        raw=problem or seen,
        workaround="The request is stored and will be carried out; `query-status` shows its progress.",
    )
    return failure(source, str(error), worker)


def _ask(
    cluster: ClusterView, source: str, task: str, timeout: float
) -> tuple[str, pb.QueryStatusResponse | None, str]:
    """The worker's name (empty if the source is unbound), its answer if it gave one, and a description of it."""
    worker = cluster.scheduler.bound_worker(source)
    if worker is None:
        return "", None, "the source is not bound to a worker"
    request = pb.QueryStatusRequest(name=task)
    try:
        answer: pb.QueryStatusResponse = cluster.workers.call(worker.addr, "QueryStatus", request, timeout=timeout)
    except DMError as exc:
        return worker.name, None, str(exc)
    return worker.name, answer, _describe(answer)


def _describe(answer: pb.QueryStatusResponse) -> str:
    if not answer.result:
        return answer.msg
    stages = (f"{one.name} {pb.Stage.Name(one.stage)}" if one.name else one.msg for one in answer.subTaskStatus)
    return ", ".join(stages) or "no sub task"


def _named(answer: pb.QueryStatusResponse | None, task: str) -> pb.SubTaskStatus | None:
    subtasks = answer.subTaskStatus if answer is not None else ()
    return next((one for one in subtasks if one.name == task), None)


def reaches(task: str, stage: pb.Stage) -> StageCheck:
    """Over when the subtask is in ``stage``, or when it failed on the way."""

    def check(_: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        subtask = _named(answer, task)
        if answer is None or not answer.result or subtask is None:
            return False, ""
        if subtask.stage in (stage, pb.Finished):
            return True, ""
        if stage == pb.Running and subtask.stage == pb.Paused and subtask.result.errors:
            return True, "; ".join(error_text(error) for error in subtask.result.errors)
        return False, ""

    return check


def is_gone(task: str) -> StageCheck:
    """Over when the worker does not have the subtask any more, or no worker serves the source."""

    def check(_: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        subtask = _named(answer, task)
        return subtask is None or (not subtask.stage and subtask.WhichOneof("status") == "msg"), ""

    return check


def relay_reaches(stage: pb.Stage) -> StageCheck:
    """Over when the source's relay is in ``stage`` (``Stopped``: does not exist), or when it failed on the way."""

    def check(_: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        if answer is None or not answer.result:
            return False, ""
        if not answer.sourceStatus.HasField("relayStatus"):
            return stage == pb.Stopped, ""
        relay = answer.sourceStatus.relayStatus
        if relay.stage == stage:
            return True, ""
        if stage == pb.Running and relay.result.errors:
            return True, "; ".join(error_text(error) for error in relay.result.errors)
        return False, ""

    return check


def serves(source: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
    """Over when the worker serves the source, or failed to."""
    if answer is None or answer.sourceStatus.source != source:
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
