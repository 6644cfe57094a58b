"""Waits until workers have reached the desired stage, which the master stores in etcd and the workers follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from dm_master.scheduling.scheduler import WorkerState
from dm_master.workers.source_workers import ClusterView, failure, success
from pkg import errors
from pkg.errors import Code, DMError
from pkg.ha.records import WorkerInfo
from pkg.pb import dmworker_pb2 as pb

#: Seconds to wait for one source, and between two queries of its status.
STAGE_TIMEOUT = 10.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
#: A failure seen earlier than this (seconds) may be an old one: the worker has not read the request yet.
#: Once the subtask was seen without a failure, the next failure is new and counts at once.
STALE_FAILURE_TIMEOUT = 2.0

#: (whether the wait is over, the text of the failure that ended it)
StageCheckResult = tuple[bool, str]
#: Judges a source's status, which is None when no worker serves the source.
StageCheck = Callable[[str, pb.QueryStatusResponse | None], StageCheckResult]
#: Queries a status, within some seconds: the worker's name (empty if there is none), its answer if any, and a
#: description of it.
_Ask = Callable[[float], tuple[str, pb.QueryStatusResponse | None, str]]


def wait_for_all(
    cluster: ClusterView,
    sources: Iterable[str],
    task: str,
    check: StageCheck,
    expected: str,
    patience: float = 0.0,
    limit: float = STAGE_TIMEOUT,
) -> list[pb.CommonWorkerResponse]:
    """One answer per source, in the sources' order, once ``check`` says that the wait is over, or on timeout
    (38045): after ``limit`` seconds, or, while the worker answers, after ``patience`` seconds if that is longer.
    """
    names = sorted(sources)
    if not names:
        return []

    def wait(source: str) -> pb.CommonWorkerResponse:
        return _wait_for(lambda timeout: _ask(cluster, source, task, timeout), source, check, expected, patience, limit)

    with ThreadPoolExecutor(min(len(names), 32), thread_name_prefix="expect") as pool:
        return list(pool.map(wait, names))


def wait_for_relays(
    cluster: ClusterView, relays: Sequence[tuple[str, WorkerState]], check: StageCheck, expected: str
) -> list[pb.CommonWorkerResponse]:
    """As :func:`wait_for_all` for the relays of (source, worker): one answer each, in their order. Workers that are
    offline follow when they return."""

    def wait(source: str, worker: WorkerState) -> pb.CommonWorkerResponse:
        if worker.stage == "offline":
            return success(source, worker.name, f"source relay is operated but worker {worker.name} is offline")
        request = pb.QueryStatusRequest(relayWorker=True)
        return _wait_for(lambda timeout: _ask_worker(cluster, worker, request, timeout), source, check, expected)

    if not relays:
        return []
    with ThreadPoolExecutor(min(len(relays), 32), thread_name_prefix="expect") as pool:
        return list(pool.map(lambda relay: wait(*relay), relays))


def _wait_for(
    ask: _Ask,
    source: str,
    check: StageCheck,
    expected: str,
    patience: float = 0.0,
    limit: float = STAGE_TIMEOUT,
) -> pb.CommonWorkerResponse:
    began = time.monotonic()
    pause, moved, allowed = FIRST_PAUSE, False, limit
    while True:
        remaining = began + allowed - time.monotonic()
        worker, answer, seen = ask(min(max(remaining, FIRST_PAUSE), limit))
        allowed = max(limit, patience) if answer is not None else limit
        remaining = began + allowed - time.monotonic()
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
    worker = cluster.scheduler.bound_worker(source)
    if worker is None:
        return "", None, "the source is not bound to a worker"
    return _ask_worker(cluster, worker, pb.QueryStatusRequest(name=task), timeout)


def _ask_worker(
    cluster: ClusterView, worker: WorkerInfo | WorkerState, request: pb.QueryStatusRequest, timeout: float
) -> tuple[str, pb.QueryStatusResponse | None, str]:
    try:
        answer: pb.QueryStatusResponse = cluster.workers.call(worker.addr, "QueryStatus", request, timeout=timeout)
    except DMError as exc:
        return worker.name, None, str(exc)
    return worker.name, answer, _describe(answer)


def _describe(answer: pb.QueryStatusResponse) -> str:
    if not answer.result:
        return answer.msg
    return ", ".join(_describe_subtask(one) for one in answer.subTaskStatus) or "no sub task"


def _describe_subtask(subtask: pb.SubTaskStatus) -> str:
    if not subtask.name:
        return subtask.msg
    text = f"{subtask.name} {pb.Stage.Name(subtask.stage)} in unit {pb.UnitType.Name(subtask.unit)}"
    return f"{text}; the target executes {subtask.sync.targetDDL}" if subtask.sync.targetDDL else text


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


def validates(task: str, stage: pb.Stage) -> StageCheck:
    """Over when the subtask's validator is in ``stage``. It runs only beside replication: one that is to run is also
    there while its subtask does something else."""

    def check(_: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        subtask = _named(answer, task)
        if subtask is None or not subtask.HasField("validation"):
            return False, ""
        replicates = subtask.stage == pb.Running and subtask.unit == pb.Sync
        return subtask.validation.stage == stage or (stage == pb.Running and not replicates), ""

    return check


def is_gone(task: str) -> StageCheck:
    """Over when the worker no longer has the subtask, or no worker serves the source."""

    def check(_: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        subtask = _named(answer, task)
        return subtask is None or (not subtask.stage and subtask.WhichOneof("status") == "msg"), ""

    return check


def has_stopped(task: str) -> StageCheck:
    """Over when the subtask is Stopped, or the worker does not have it."""

    def check(_: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        subtask = _named(answer, task)
        return subtask is None or not subtask.stage or subtask.stage == pb.Stopped, ""

    return check


def relay_reaches(stage: pb.Stage) -> StageCheck:
    """Over when the source's relay is in ``stage`` (``Stopped``: does not exist), or when it failed on the way."""

    def check(source: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
        if answer is None:
            return False, ""
        # A worker with a stopped relay that serves no source has no status.
        if answer.sourceStatus.source != source or not answer.sourceStatus.HasField("relayStatus"):
            return stage == pb.Stopped, ""
        if not answer.result:
            return False, ""
        relay = answer.sourceStatus.relayStatus
        if relay.stage == stage:
            return True, ""
        if stage == pb.Running and relay.result.errors:
            return True, "; ".join(error_text(error) for error in relay.result.errors)
        return False, ""

    return check


def serves(source: str, answer: pb.QueryStatusResponse | None) -> StageCheckResult:
    """Over when the worker serves the source, or failed to do so."""
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
