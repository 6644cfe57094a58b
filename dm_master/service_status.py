"""QueryStatus: asks all workers concerned at the same time and puts their answers together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from dm_master.service_base import Cluster
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

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
        return pb.QueryStatusListResponse(result=True, sources=self._ask_all(sorted(set(sources)), request.name))

    def _ask_all(self, sources: list[str], task: str) -> list[worker_pb.QueryStatusResponse]:
        if not sources:
            return []
        with ThreadPoolExecutor(min(len(sources), MOST_AT_ONCE), thread_name_prefix="status") as pool:
            return list(pool.map(lambda source: self._ask(source, task), sources))

    def _ask(self, source: str, task: str) -> worker_pb.QueryStatusResponse:
        worker = self._cluster.scheduler.bound_worker(source)
        if worker is None:
            return worker_pb.QueryStatusResponse(
                msg=f"source {source} is not bound to a worker, please use `list-member` to see which workers are free",
                sourceStatus=worker_pb.SourceStatus(source=source, worker="source not bound"),
            )
        try:
            answer: worker_pb.QueryStatusResponse = self._cluster.workers.call(
                worker.addr, "QueryStatus", worker_pb.QueryStatusRequest(name=task)
            )
        except DMError as exc:
            status = worker_pb.SourceStatus(source=source, worker=worker.name)
            return worker_pb.QueryStatusResponse(msg=str(exc), sourceStatus=status)
        # A worker that is just taking the source over may not know it yet.
        answer.sourceStatus.source = source
        answer.sourceStatus.worker = worker.name
        return answer
