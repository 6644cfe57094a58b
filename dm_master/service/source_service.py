"""OperateSource and TransferSource."""

from __future__ import annotations

from collections.abc import Callable

from dm_master.scheduling.source_binding import NO_FREE_WORKER, STOPPED_UNBOUND, exists_already
from dm_master.service.cluster_access import ClusterAccess
from dm_master.workers import source_transfer
from dm_master.workers.source_workers import success
from dm_master.workers.stage_wait import serves, wait_for_all
from pkg import errors
from pkg.config.model import SourceConfig
from pkg.config.source import load_source
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger

log = get_logger("service")

CheckSource = Callable[[SourceConfig, list[str]], SourceConfig]


class SourceService:
    """``check`` connects to a source and completes its configuration (flavor, server id); it extends ``warnings``."""

    def __init__(self, cluster: ClusterAccess, check: CheckSource) -> None:
        self._cluster = cluster
        self._check = check

    def operate_source(self, request: pb.OperateSourceRequest) -> pb.OperateSourceResponse:
        if request.op == pb.StartSource:
            return self._create(request)
        if request.op == pb.StopSource:
            return self._stop(_named(request))
        if request.op == pb.ShowSource:
            return self._show(_named(request))
        if request.op == pb.UpdateSource:
            return pb.OperateSourceResponse(
                # The first sentence is DM's.
                msg="Update worker config is not supported by dm-ha now. Stop the source's tasks, then "
                "`operate-source stop SOURCE` and `operate-source create FILE`; tasks that are started again continue "
                "at their checkpoints"
            )
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"invalid operation {request.op} on source",
            workaround="Use one of create, stop, show.",
        )

    def transfer_source(self, request: pb.TransferSourceRequest) -> pb.TransferSourceResponse:
        """Running tasks are paused for the move. They must be in Sync: the files of a full copy stay on the old
        worker."""
        with source_transfer.paused(self._cluster, request.source):
            message = self._cluster.scheduler.transfer_source(request.source, request.worker)
        return pb.TransferSourceResponse(result=True, msg=message)

    def _create(self, request: pb.OperateSourceRequest) -> pb.OperateSourceResponse:
        if request.workerName and len(request.config) > 1:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                "several sources cannot be created when a worker is specified",
                workaround="Create them one by one, or omit the worker.",
            )
        # All files are parsed and all servers reached before the first source is stored: most mistakes change nothing.
        warnings: list[str] = []
        parsed = [load_source(text, f"source {number}", warnings) for number, text in enumerate(request.config, 1)]
        # Checked before the server is queried: there, the source's own relay uses the server-id.
        known = self._cluster.scheduler.sources()
        for config in parsed:
            if config.source_id in known:
                raise exists_already(config.source_id)
        checked = [self._check(config, warnings) for config in parsed]
        messages = self._add_all(checked, request.workerName)
        bound = [source for source in messages if self._cluster.scheduler.bound_worker(source) is not None]
        answers = wait_for_all(self._cluster, bound, "", serves, "the source's worker has taken it")
        answers += [
            success(source, msg=messages[source] or NO_FREE_WORKER) for source in messages if source not in bound
        ]
        answers.sort(key=_source_of)
        return pb.OperateSourceResponse(result=True, sources=answers, warnings=dict.fromkeys(warnings))

    def _add_all(self, configs: list[SourceConfig], worker: str) -> dict[str, str]:
        """Stores all or none; returns the scheduler's message for each."""
        messages: dict[str, str] = {}
        try:
            for config in configs:
                messages[config.source_id] = self._cluster.scheduler.add_source(config, worker)
        except DMError:
            for source in messages:
                self._take_back(source)
            raise
        return messages

    def _take_back(self, source: str) -> None:
        try:
            self._cluster.scheduler.remove_source(source)
        except DMError as exc:
            # The operator must see the first error; this one follows from it.
            log.error("cannot remove a source that was created before a failure", source=source, error=str(exc))

    def _stop(self, sources: list[str]) -> pb.OperateSourceResponse:
        if not sources:
            return pb.OperateSourceResponse(msg="no source is given to be stopped")
        self._require_known(sources)
        response = pb.OperateSourceResponse(result=True)
        for source in sources:
            worker = self._cluster.scheduler.bound_worker(source)
            message = self._cluster.scheduler.remove_source(source)
            if worker is None:
                response.sources.append(success(source, msg=message or STOPPED_UNBOUND))
            else:
                response.sources.append(success(source, worker.name, message))
        return response

    def _show(self, sources: list[str]) -> pb.OperateSourceResponse:
        self._require_known(sources)
        response = pb.OperateSourceResponse(result=True)
        chosen = sources or sorted(self._cluster.scheduler.sources())
        for source in chosen:
            worker = self._cluster.scheduler.bound_worker(source)
            answer = success(source, msg=NO_FREE_WORKER) if worker is None else success(source, worker.name)
            response.sources.append(answer)
        return response

    def _require_known(self, sources: list[str]) -> None:
        known = self._cluster.scheduler.sources()
        unknown = [source for source in sources if source not in known]
        if unknown:
            raise errors.new(
                Code.SchedulerSourceCfgNotExist,
                f"source config with ID {', '.join(unknown)} not exists",
                workaround="See `operate-source show` for the sources that exist.",
            )


def _named(request: pb.OperateSourceRequest) -> list[str]:
    """The sources by their ids, and by the contents of their files, which DM's client sends."""
    parsed = [load_source(text, f"source {number}", []) for number, text in enumerate(request.config, 1)]
    return list(dict.fromkeys([*request.sourceID, *(config.source_id for config in parsed)]))


def _source_of(answer: worker_pb.CommonWorkerResponse) -> str:
    return answer.source
