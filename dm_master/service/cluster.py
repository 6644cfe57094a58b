"""What the parts of the service share: the cluster as they see it, and the answers they build."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from google.protobuf.message import Message

from dm_master.election.campaign import Election
from dm_master.scheduling.scheduler import Scheduler
from dm_master.shardddl.lock_coordinator import LockCoordinator
from dm_master.workers.worker_client import WorkerClients
from pkg import errors
from pkg.config.master import MasterConfig
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.ha.keys import LEADER_PREFIX
from pkg.ha.records import LeaderInfo
from pkg.pb import dmworker_pb2 as worker_pb


@dataclass(slots=True)
class Cluster:
    """Everything that the service works on."""

    config: MasterConfig
    scheduler: Scheduler
    election: Election
    etcd: EtcdClient
    workers: WorkerClients
    locks: LockCoordinator

    def candidates(self) -> list[LeaderInfo]:
        """The masters that lead or wait to lead. Raises 42501."""
        candidates, _ = self.etcd.get_prefix(LEADER_PREFIX)
        return [LeaderInfo.from_json(kv.value) for kv in candidates]


#: Workers that are asked at the same time.
_MOST_AT_ONCE = 32


def ask_workers(
    cluster: Cluster, sources: Sequence[str], method: str, request: Message, *, timeout: float | None = None
) -> list[worker_pb.CommonWorkerResponse]:
    """Asks the workers of ``sources`` the same at the same time; one answer a source, also where none serves it.

    ``timeout`` in seconds, that of the cluster's configuration when None.
    """

    def ask(source: str) -> worker_pb.CommonWorkerResponse:
        worker = cluster.scheduler.bound_worker(source)
        if worker is None:
            return failure(source, str(unbound([source])))
        try:
            answer: worker_pb.CommonWorkerResponse = cluster.workers.call(worker.addr, method, request, timeout=timeout)
        except DMError as exc:
            return failure(source, str(exc), worker.name)
        answer.source, answer.worker = source, worker.name
        return answer

    if not sources:
        return []
    with ThreadPoolExecutor(min(len(sources), _MOST_AT_ONCE), thread_name_prefix="ask") as pool:
        return list(pool.map(ask, sources))


def success(source: str, worker: str = "", msg: str = "") -> worker_pb.CommonWorkerResponse:
    return worker_pb.CommonWorkerResponse(result=True, msg=msg, source=source, worker=worker)


def failure(source: str, msg: str, worker: str = "") -> worker_pb.CommonWorkerResponse:
    return worker_pb.CommonWorkerResponse(result=False, msg=msg, source=source, worker=worker)


def unbound(sources: Sequence[str]) -> DMError:
    """46009 for sources that no worker serves."""
    return errors.new(
        Code.SchedulerSourcesUnbound,
        f"sources {', '.join(sources)} have not bound to a worker",
        workaround="Start more dm-workers (each serves one source), and see `list-member` for those that are free.",
    )
