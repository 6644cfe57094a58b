"""Calls to the workers that serve sources: one request to several in parallel, one answer for each source."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from dm_master.scheduling.scheduler import Scheduler, WorkerState
from dm_master.workers.worker_client import WorkerClients
from pkg import errors
from pkg.errors import Code, DMError
from pkg.ha.records import WorkerInfo
from pkg.pb import dmworker_pb2 as worker_pb


class ClusterView(Protocol):
    """The part of the cluster that a call needs: which worker serves which source, and a channel to it."""

    scheduler: Scheduler
    workers: WorkerClients


#: Workers called in parallel.
_MOST_AT_ONCE = 32
_MOST_STATUSES_AT_ONCE = 64


def ask_workers(
    cluster: ClusterView, sources: Sequence[str], method: str, request: Message, *, timeout: float | None = None
) -> list[worker_pb.CommonWorkerResponse]:
    """Sends the same request to the workers of ``sources`` at the same time; one answer per source, even without a
    worker.

    ``timeout`` in seconds, the configured one when None.
    """

    return _ask_each(cluster, sources, method, request, timeout, worker_pb.CommonWorkerResponse)


def ask_diffs(
    cluster: ClusterView, sources: Sequence[str], request: worker_pb.OperateDiffWorkerRequest, *, timeout: float
) -> list[worker_pb.DiffSourceStatus]:
    """As :func:`ask_workers`, with the comparisons of the sources as answers."""
    return _ask_each(cluster, sources, "OperateDiff", request, timeout, worker_pb.DiffSourceStatus)


_Answer = TypeVar("_Answer", worker_pb.CommonWorkerResponse, worker_pb.DiffSourceStatus)


def _ask_each(
    cluster: ClusterView,
    sources: Sequence[str],
    method: str,
    request: Message,
    timeout: float | None,
    kind: type[_Answer],
) -> list[_Answer]:
    def ask(source: str) -> _Answer:
        worker = cluster.scheduler.bound_worker(source)
        if worker is None:
            known = source in cluster.scheduler.sources()
            return kind(msg=str(unbound([source]) if known else _unknown(source)), source=source)
        try:
            answer: _Answer = cluster.workers.call(worker.addr, method, request, timeout=timeout)
        except DMError as exc:
            return kind(msg=str(exc), source=source, worker=worker.name)
        answer.source, answer.worker = source, worker.name
        return answer

    if not sources:
        return []
    with ThreadPoolExecutor(min(len(sources), _MOST_AT_ONCE), thread_name_prefix="ask") as pool:
        return list(pool.map(ask, sources))


def ask_relays(
    cluster: ClusterView, sources: Sequence[str], method: str, request: Message, *, timeout: float | None = None
) -> list[worker_pb.CommonWorkerResponse]:
    """Sends the same request to all workers that pull the relay logs of ``sources``, one answer each; to the worker
    that serves a source without a relay."""

    def ask(source: str, worker: WorkerState) -> worker_pb.CommonWorkerResponse:
        try:
            answer: worker_pb.CommonWorkerResponse = cluster.workers.call(worker.addr, method, request, timeout=timeout)
        except DMError as exc:
            return failure(source, str(exc), worker.name)
        answer.source, answer.worker = source, worker.name
        return answer

    pulling = {source: cluster.scheduler.relay_workers(source) for source in sources}
    relays = [(source, worker) for source, workers in pulling.items() for worker in workers]
    without = [source for source, workers in pulling.items() if not workers]
    answers = ask_workers(cluster, without, method, request, timeout=timeout)
    if relays:
        with ThreadPoolExecutor(min(len(relays), _MOST_AT_ONCE), thread_name_prefix="ask") as pool:
            answers += pool.map(lambda relay: ask(*relay), relays)
    return sorted(answers, key=lambda answer: (answer.source, answer.worker))


def success(source: str, worker: str = "", msg: str = "") -> worker_pb.CommonWorkerResponse:
    return worker_pb.CommonWorkerResponse(result=True, msg=msg, source=source, worker=worker)


def failure(source: str, msg: str, worker: str = "") -> worker_pb.CommonWorkerResponse:
    return worker_pb.CommonWorkerResponse(result=False, msg=msg, source=source, worker=worker)


def _unknown(source: str) -> DMError:
    """46008; the message begins as DM's."""
    return errors.new(
        Code.SchedulerSourceCfgNotExist,
        f"source {source} relevant worker-client not found: there is no source of this name",
        workaround="`operate-source show` lists the sources.",
    )


def unbound(sources: Sequence[str]) -> DMError:
    """46009 for sources that no worker serves."""
    return errors.new(
        Code.SchedulerSourcesUnbound,
        f"sources {', '.join(sources)} have not bound to a worker",
        workaround="Start more dm-workers (each serves one source), and see `list-member` for those that are free.",
    )


def ask_statuses(
    cluster: ClusterView, sources: Sequence[str], task: str, timeout: float | None = None, *, profile: bool = False
) -> list[worker_pb.QueryStatusResponse]:
    """The status of ``task`` ("" for all) from the workers of ``sources``, in the sources' order; ``result`` is false
    for a worker that does not answer (within ``timeout`` seconds, if given). ``profile``: with the time per step."""
    if not sources:
        return []
    request = worker_pb.QueryStatusRequest(name=task, profile=profile)
    with ThreadPoolExecutor(min(len(sources), _MOST_STATUSES_AT_ONCE), thread_name_prefix="status") as pool:
        return list(pool.map(lambda source: _ask_status(cluster, source, request, timeout), sources))


def ask_relay_statuses(cluster: ClusterView, sources: Sequence[str]) -> list[worker_pb.QueryStatusResponse]:
    """The status from the workers that pull the relay logs of ``sources`` without serving them."""
    request = worker_pb.QueryStatusRequest(relayWorker=True)
    idle = [
        (source, worker)
        for source in sources
        for worker in cluster.scheduler.relay_workers(source)
        if worker.stage != "bound"
    ]
    if not idle:
        return []
    with ThreadPoolExecutor(min(len(idle), _MOST_STATUSES_AT_ONCE), thread_name_prefix="status") as pool:
        return list(pool.map(lambda relay: _ask_relay_status(cluster, relay[0], relay[1], request), idle))


def _ask_relay_status(
    cluster: ClusterView, source: str, worker: WorkerState, request: worker_pb.QueryStatusRequest
) -> worker_pb.QueryStatusResponse:
    status = worker_pb.SourceStatus(source=source, worker=worker.name)
    if worker.stage == "offline":
        msg = f"worker {worker.name} is offline: it pulls the relay log of source {source} when it is back"
        return worker_pb.QueryStatusResponse(msg=msg, sourceStatus=status)
    return _status_of(cluster, worker, request, status, None)


def _ask_status(
    cluster: ClusterView, source: str, request: worker_pb.QueryStatusRequest, timeout: float | None
) -> worker_pb.QueryStatusResponse:
    worker = cluster.scheduler.bound_worker(source)
    if worker is None:
        return worker_pb.QueryStatusResponse(
            msg=f"source {source} is not bound to a worker, please use `list-member` to see which workers are free",
            sourceStatus=worker_pb.SourceStatus(source=source, worker="source not bound"),
        )
    return _status_of(cluster, worker, request, worker_pb.SourceStatus(source=source, worker=worker.name), timeout)


def _status_of(
    cluster: ClusterView,
    worker: WorkerInfo | WorkerState,
    request: worker_pb.QueryStatusRequest,
    whose: worker_pb.SourceStatus,
    timeout: float | None,
) -> worker_pb.QueryStatusResponse:
    try:
        answer: worker_pb.QueryStatusResponse = cluster.workers.call(
            worker.addr, "QueryStatus", request, timeout=timeout
        )
    except DMError as exc:
        return worker_pb.QueryStatusResponse(msg=str(exc), sourceStatus=whose)
    # A worker that has just received the source may not name it yet.
    answer.sourceStatus.MergeFrom(whose)
    return answer
