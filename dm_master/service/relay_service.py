"""OperateRelay, OperateWorkerRelayTask and PurgeWorkerRelay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_master.scheduling.scheduler import WorkerState
from dm_master.service.cluster_access import ClusterAccess
from dm_master.workers.source_workers import ask_relays, success
from dm_master.workers.stage_wait import relay_reaches, wait_for_relays
from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Seconds that a worker has to remove files.
PURGE_TIMEOUT = 60.0
#: DM's wording, which scripts search for.
_OFFLINE = "source relay is operated but the bound worker is offline"
#: Operation → (desired stage to store, stage that the worker then reports).
_STAGES = {
    worker_pb.PauseRelay: ("Paused", worker_pb.Paused),
    worker_pb.ResumeRelay: ("Running", worker_pb.Running),
}


class RelayService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def operate_relay(self, request: pb.OperateRelayRequest) -> pb.OperateRelayResponse:
        """start-relay and stop-relay."""
        workers = list(request.worker)
        operations: dict[int, tuple[Callable[[str, Sequence[str]], None], worker_pb.Stage]] = {
            pb.StartRelayV2: (self._cluster.scheduler.start_relay, worker_pb.Running),
            pb.StopRelayV2: (self._cluster.scheduler.stop_relay, worker_pb.Stopped),
        }
        if request.op not in operations:
            raise _invalid(request.op, "start-relay, stop-relay")
        operate, stage = operations[request.op]
        operate(request.source, workers)
        if not self._pulling(request.source, workers):
            # As with DM, in the answer itself. The worker that the source is bound to later reads the desired stage.
            return pb.OperateRelayResponse(result=True, msg=_OFFLINE)
        return pb.OperateRelayResponse(result=True, sources=self._await([request.source], stage, workers))

    def switch_relay(self, request: pb.OperateWorkerRelayRequest) -> pb.OperateWorkerRelayResponse:
        """pause-relay and resume-relay."""
        if request.op not in _STAGES:
            raise _invalid(request.op, "pause-relay, resume-relay")
        stored, reported = _STAGES[request.op]
        self._cluster.scheduler.set_relay_stage(list(request.sources), stored)
        answers = self._await(request.sources, reported)
        return pb.OperateWorkerRelayResponse(op=request.op, result=True, sources=answers)

    def purge_relay(self, request: pb.PurgeWorkerRelayRequest) -> pb.PurgeWorkerRelayResponse:
        """Asks the workers of ``sources`` to remove relay files."""
        known = self._cluster.scheduler.sources()
        unknown = [source for source in request.sources if source not in known]
        if unknown or not request.sources:
            return pb.PurgeWorkerRelayResponse(msg=f"sources [{' '.join(unknown)}] haven't been added")
        order = worker_pb.PurgeRelayRequest(
            inactive=request.inactive, time=request.time, filename=request.filename, subDir=request.subDir
        )
        sources = sorted(set(request.sources))
        answers = ask_relays(self._cluster, sources, "PurgeRelay", order, timeout=PURGE_TIMEOUT)
        return pb.PurgeWorkerRelayResponse(result=True, sources=answers)

    def _await(
        self, sources: Sequence[str], stage: worker_pb.Stage, workers: Sequence[str] = ()
    ) -> list[worker_pb.CommonWorkerResponse]:
        """One answer for each of ``workers``; when empty, for each worker that pulls the relay log of a source, or
        would if the relay were not stopped."""
        relays, away = [], []
        for source in sorted(set(sources)):
            found = self._pulling(source, workers)
            relays += [(source, worker) for worker in found]
            # The worker that the source is bound to later reads the desired stage.
            away += [] if found else [success(source, msg=_OFFLINE)]
        expected = f"the relay is {worker_pb.Stage.Name(stage)}"
        return [*wait_for_relays(self._cluster, relays, relay_reaches(stage), expected), *away]

    def _pulling(self, source: str, workers: Sequence[str]) -> list[WorkerState]:
        return self._named(workers) or self._cluster.scheduler.relay_workers(source) or self._serving(source)

    def _named(self, workers: Sequence[str]) -> list[WorkerState]:
        return [worker for worker in self._cluster.scheduler.workers() if worker.name in workers]

    def _serving(self, source: str) -> list[WorkerState]:
        return [
            worker
            for worker in self._cluster.scheduler.workers()
            if worker.stage == "bound" and worker.source == source
        ]


def _invalid(op: int, known: str) -> DMError:
    return errors.new(
        Code.MasterInvalidOperateOp, f"invalid operation {op} on relay", workaround=f"Use one of {known}."
    )
