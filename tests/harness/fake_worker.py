"""A dm-worker without units: joins a cluster, follows etcd, and reports the desired stages as reached."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import grpc

from pkg.errors import DMError
from pkg.etcd import EtcdClient, LeaseKeeper
from pkg.etcd.discovery import fetch_endpoints
from pkg.ha import keys
from pkg.ha.records import SourceBound, SubTaskStage, WorkerAlive
from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc, dmworker_pb2, dmworker_pb2_grpc
from pkg.process.metrics import Metrics
from pkg.rpc.channel import open_channel
from pkg.rpc.server import HttpRoutes, PortServer
from pkg.settings.encrypt import key_proof

#: Changes the worker's report of a subtask.
Twist = Callable[[dmworker_pb2.SubTaskStatus], None]


class FakeWorker(dmworker_pb2_grpc.WorkerServicer):
    """Set ``twist`` to make subtasks report something other than the desired stage."""

    def __init__(self, name: str, master: str, *, key: bytes = b"") -> None:
        """``key`` is the secret key of its configuration."""
        self.name = name
        self.key = key
        self.twist: Twist = lambda status: None
        self._master = master
        routes = HttpRoutes(status=lambda: "fake\n", metrics=Metrics(), ready=lambda: True)
        self._server = PortServer("127.0.0.1", 0, self._register, routes)
        self._etcd: EtcdClient | None = None
        self._keeper: LeaseKeeper | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    def start(self) -> FakeWorker:
        self._server.start()
        answer = self.register(self.address)
        assert answer.result, answer.msg
        self._etcd = EtcdClient(fetch_endpoints([self._master]))
        self._keeper = LeaseKeeper(self._etcd, 10, lambda: None, name=self.name)
        alive = WorkerAlive(self.name, "2026-01-02T03:04:05Z")
        self._etcd.put(keys.WORKER_ALIVE.key(self.name), alive.to_json(), self._keeper.start())
        return self

    def register(self, address: str) -> dmmaster_pb2.RegisterWorkerResponse:
        with open_channel(self._master) as channel:
            stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
            request = dmmaster_pb2.RegisterWorkerRequest(
                name=self.name, address=address, secretKeyProof=key_proof(self.key, self.name)
            )
            return stub.RegisterWorker(request, timeout=60)  # type: ignore[no-any-return]

    def stop(self) -> None:
        if self._keeper is not None:
            # The master and its etcd may have ended: then the lease expires by itself.
            with contextlib.suppress(DMError):
                self._keeper.stop()
        if self._etcd is not None:
            self._etcd.close()
        self._server.stop(0)

    def QueryStatus(
        self, request: dmworker_pb2.QueryStatusRequest, context: grpc.ServicerContext
    ) -> dmworker_pb2.QueryStatusResponse:
        assert self._etcd is not None
        bound = self._etcd.get(keys.BOUND.key(self.name))
        if bound is None:
            return dmworker_pb2.QueryStatusResponse(msg="worker has not started")
        source = SourceBound.from_json(bound.value).source
        status = dmworker_pb2.SourceStatus(source=source, worker=self.name)
        subtasks = [one for one in self._subtasks(source) if request.name in ("", one.name)]
        if not subtasks and request.name:
            text = f"no sub task with name {request.name} has started"
            subtasks = [dmworker_pb2.SubTaskStatus(name=request.name, msg=text)]
        return dmworker_pb2.QueryStatusResponse(result=True, sourceStatus=status, subTaskStatus=subtasks)

    def GetWorkerCfg(
        self, request: dmworker_pb2.GetWorkerCfgRequest, context: grpc.ServicerContext
    ) -> dmworker_pb2.GetWorkerCfgResponse:
        return dmworker_pb2.GetWorkerCfgResponse(cfg=f'name = "{self.name}"\n', slots=16)

    def _subtasks(self, source: str) -> list[dmworker_pb2.SubTaskStatus]:
        assert self._etcd is not None
        pairs, _ = self._etcd.get_prefix(keys.SUBTASK_STAGE.prefix(source))
        statuses = []
        for pair in pairs:
            expected = SubTaskStage.from_json(pair.value)
            status = dmworker_pb2.SubTaskStatus(
                name=expected.task, stage=expected.expect, unit=dmworker_pb2.Sync, sync=dmworker_pb2.SyncStatus()
            )
            self.twist(status)
            statuses.append(status)
        return statuses

    def _register(self, server: grpc.Server) -> None:
        dmworker_pb2_grpc.add_WorkerServicer_to_server(self, server)  # type: ignore[no-untyped-call]
