"""A master that only registers workers and returns etcd's endpoints; the test writes a scheduler's keys to etcd."""

from __future__ import annotations

from typing import Any

import grpc

from pkg.config.codec import encode_source, encode_subtask
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.errors import Code, new
from pkg.etcd import Delete, EtcdClient, EtcdOperation, Put
from pkg.ha import keys
from pkg.ha.records import SourceBound, SubTaskStage
from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer, json_response
from pkg.settings.connections import SecurityConfig


class RegisteringMaster(dmmaster_pb2_grpc.MasterServicer):
    """Listens on a free loopback port; ``registered`` maps names to addresses."""

    def __init__(self, etcd_endpoint: str, *, tls: SecurityConfig | None = None) -> None:
        self.registered: dict[str, str] = {}
        self.registrations = 0
        #: The key that it gives to workers, or the text of its refusal.
        self.secret_key = b""
        self.refusal = ""
        self.endpoints = [etcd_endpoint]
        routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True)
        routes.add_route("GET", "/apis/v1alpha1/etcd-endpoints", lambda _: json_response(self.endpoints))
        self._server = PortServer("127.0.0.1", 0, self._register, routes, tls)
        self._server.start()
        self.address = f"{'localhost' if tls else '127.0.0.1'}:{self._server.port}"
        self.etcd = EtcdClient([etcd_endpoint])

    def _register(self, server: grpc.Server) -> None:
        dmmaster_pb2_grpc.add_MasterServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def RegisterWorker(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.registrations += 1
        if self.registered.setdefault(request.name, request.address) != request.address:
            error = new(Code.SchedulerWorkerExist, f"dm-worker with name {request.name} already exists")
            return dmmaster_pb2.RegisterWorkerResponse(result=False, msg=str(error))
        if self.refusal:
            return dmmaster_pb2.RegisterWorkerResponse(result=False, msg=self.refusal)
        return dmmaster_pb2.RegisterWorkerResponse(result=True, secretKey=self.secret_key)

    def close(self) -> None:
        self.etcd.close()
        self._server.stop(0)

    # The keys that a scheduler writes.

    def bind(self, worker: str, source: SourceConfig) -> None:
        self._write(
            Put(keys.SOURCE_CONFIG.key(source.source_id), encode_source(source)),
            Put(keys.BOUND.key(worker), SourceBound(source.source_id, worker).to_json()),
        )

    def unbind(self, worker: str) -> None:
        self._write(Delete(keys.BOUND.key(worker)))

    def start_task(self, config: SubTaskConfig, stage: str = "Running") -> None:
        self._write(
            Put(keys.SUBTASK.key(config.source_id, config.name), encode_subtask(config)),
            self._stage(config, stage),
        )

    def set_stage(self, config: SubTaskConfig, stage: str) -> None:
        self._write(self._stage(config, stage))

    def stop_task(self, config: SubTaskConfig) -> None:
        self._write(
            Delete(keys.SUBTASK.key(config.source_id, config.name)),
            Delete(keys.SUBTASK_STAGE.key(config.source_id, config.name)),
        )

    def alive(self, worker: str) -> bool:
        return self.etcd.get(keys.WORKER_ALIVE.key(worker)) is not None

    @staticmethod
    def _stage(config: SubTaskConfig, stage: str) -> Put:
        record = SubTaskStage(stage, config.source_id, config.name)
        return Put(keys.SUBTASK_STAGE.key(config.source_id, config.name), record.to_json())

    def _write(self, *operations: EtcdOperation) -> None:
        assert self.etcd.txn([], operations).succeeded
