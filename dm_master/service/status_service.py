"""QueryStatus: asks all workers concerned at the same time and combines their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dm_master.service.cluster_access import ClusterAccess
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from dm_master.shardddl.pessimistic.lock_views import add_locks
from dm_master.workers.source_workers import ask_relay_statuses, ask_statuses
from pkg.config.model import SourceConfig
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger

log = get_logger("service")


class StatusService:
    def __init__(self, cluster: ClusterAccess) -> None:
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
        answers = ask_statuses(self._cluster, sorted(set(sources)), request.name, profile=request.profile)
        self._add_locks(answers)
        named = self._cluster.scheduler.named_relay_workers()
        for answer in answers:
            _add_settings(answer.sourceStatus, known, named)
        # As in DM, the status of named sources includes the idle workers that pull their relay logs.
        answers += ask_relay_statuses(self._cluster, sorted(set(request.sources)))
        # The worker that serves a source comes first.
        answers.sort(key=lambda answer: answer.sourceStatus.source)
        return pb.QueryStatusListResponse(result=True, sources=answers)

    def _add_locks(self, answers: Sequence[worker_pb.QueryStatusResponse]) -> None:
        def add(locks: LockRegistry) -> None:
            for answer in answers:
                add_locks(locks, answer)

        try:
            self._cluster.locks.term().read(add)
        except DMError as exc:
            # The workers' answers are useful without the locks.
            log.warning("query-status without the locks of shard DDL", error=exc)


def _add_settings(
    status: worker_pb.SourceStatus, known: Mapping[str, SourceConfig], named: Mapping[str, Sequence[str]]
) -> None:
    """What the cluster has decided about the source, which its worker does not know."""
    config = known.get(status.source)
    if config is None:
        return
    if not config.enable:
        status.disabled = True
    if config.enable_relay:
        status.relayFollows = True
    status.relayWorkers.extend(named.get(status.source, ()))
