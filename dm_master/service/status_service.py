"""QueryStatus: asks all workers concerned at the same time and puts their answers together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dm_master.service.cluster import Cluster
from dm_master.shardddl.lock_answers import add_locks
from dm_master.shardddl.lock_registry import Locks
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger

log = get_logger("service")

MOST_AT_ONCE = 64


class StatusService:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def query_status(self, request: pb.QueryStatusListRequest) -> pb.QueryStatusListResponse:
        known = self._cluster.scheduler.sources()
        unknown = [source for source in request.sources if source not in known]
        if unknown:
            return pb.QueryStatusListResponse(msg=f"sources [{' '.join(unknown)}] haven't been added")
        sources = list(request.sources) or sorted(known)
        if request.name and not request.sources:
            sources = sorted(self._cluster.scheduler.tasks().get(request.name, {}))
            if not sources:
                return pb.QueryStatusListResponse(msg=f"task {request.name} has no source or not exist")
        answers = ask_workers(self._cluster, sorted(set(sources)), request.name)
        self._add_locks(answers)
        return pb.QueryStatusListResponse(result=True, sources=answers)

    def _add_locks(self, answers: Sequence[worker_pb.QueryStatusResponse]) -> None:
        def add(locks: Locks) -> None:
            for answer in answers:
                add_locks(locks, answer)

        try:
            self._cluster.locks.term().read(add)
        except DMError as exc:
            # What the workers say is worth showing without it.
            log.warning("query-status without the locks of shard DDL", error=exc)


def ask_workers(
    cluster: Cluster, sources: Sequence[str], task: str, timeout: float | None = None
) -> list[worker_pb.QueryStatusResponse]:
    """What the workers of ``sources`` say of ``task`` ("" for all), in the sources' order; with ``result`` false for
    one that doesn't answer, within ``timeout`` seconds if given."""
    if not sources:
        return []
    with ThreadPoolExecutor(min(len(sources), MOST_AT_ONCE), thread_name_prefix="status") as pool:
        return list(pool.map(lambda source: _ask(cluster, source, task, timeout), sources))


def _ask(cluster: Cluster, source: str, task: str, timeout: float | None) -> worker_pb.QueryStatusResponse:
    worker = cluster.scheduler.bound_worker(source)
    if worker is None:
        return worker_pb.QueryStatusResponse(
            msg=f"source {source} is not bound to a worker, please use `list-member` to see which workers are free",
            sourceStatus=worker_pb.SourceStatus(source=source, worker="source not bound"),
        )
    try:
        answer: worker_pb.QueryStatusResponse = cluster.workers.call(
            worker.addr, "QueryStatus", worker_pb.QueryStatusRequest(name=task), timeout=timeout
        )
    except DMError as exc:
        status = worker_pb.SourceStatus(source=source, worker=worker.name)
        return worker_pb.QueryStatusResponse(msg=str(exc), sourceStatus=status)
    # A worker that is just taking the source over may not know it yet.
    answer.sourceStatus.source = source
    answer.sourceStatus.worker = worker.name
    return answer
