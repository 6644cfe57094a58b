"""GetCfg, GetSubTaskCfg, GetMasterCfg, Encrypt, ListTaskConfigs and ListSourceConfigs.

No answer contains a secret. Configurations for an export have encrypted passwords if there is a secret key.
"""

from __future__ import annotations

import grpc
from google.protobuf.empty_pb2 import Empty

from dm_master.service.cluster_access import ClusterAccess
from dm_master.task_setup.task_templates import TaskTemplates
from pkg import errors
from pkg.config.complete_task import normalised
from pkg.config.source import source_to_yaml
from pkg.config.subtask_toml import subtask_to_toml
from pkg.config.task import task_to_yaml
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmmaster_pb2_grpc
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.rpc.channel import open_channel
from pkg.settings.encrypt import encrypt

HIDDEN = "******"
_KINDS = {pb.TaskTemplateType: "task-template"}
#: An answer with a configuration's text and the warnings about it.
_Shown = pb.GetCfgResponse | pb.GetMasterCfgResponse | worker_pb.GetWorkerCfgResponse


class ConfigService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def get_cfg(self, request: pb.GetCfgRequest) -> pb.GetCfgResponse:
        getters = {
            pb.TaskType: self._task,
            pb.SourceType: self._source,
            pb.MasterType: self._master,
            pb.WorkerType: self._worker,
            pb.TaskTemplateType: self._template,
        }
        getter = getters.get(request.type)
        if getter is None:
            return pb.GetCfgResponse(msg=f"config type {pb.CfgType.Name(request.type)} is not supported yet")
        kind = _KINDS.get(request.type) or pb.CfgType.Name(request.type).removesuffix("Type").lower()
        found = getter(request.name)
        if found is None:
            return pb.GetCfgResponse(
                msg=f"{kind} not found: {request.name}; see `query-status` or `list-member` for the names"
            )
        return pb.GetCfgResponse(result=True, cfg=found.cfg, warnings=found.warnings)

    def get_subtask_cfg(self, request: pb.GetSubTaskCfgRequest) -> pb.GetSubTaskCfgResponse:
        subtasks = self._cluster.scheduler.subtasks(request.name)
        if not subtasks:
            return pb.GetSubTaskCfgResponse(msg=f"task not found: {request.name}; see `query-status` for the names")
        cfgs = [subtask_to_toml(subtasks[source], self._sealed) for source in sorted(subtasks)]
        return pb.GetSubTaskCfgResponse(result=True, cfgs=cfgs)

    def get_master_cfg(self, _: pb.GetMasterCfgRequest) -> pb.GetMasterCfgResponse:
        config = self._cluster.config
        return pb.GetMasterCfgResponse(cfg=config.to_toml(), warnings=config.warnings())

    def encrypt(self, request: pb.EncryptRequest) -> pb.EncryptResponse:
        return pb.EncryptResponse(result=True, ciphertext=encrypt(request.plaintext, self._cluster.config.secret_key))

    def list_task_configs(self, _: Empty) -> pb.ListTaskConfigsResponse:
        texts = {name: self._exported_task(name) for name in self._cluster.scheduler.tasks()}
        return pb.ListTaskConfigsResponse(
            result=True,
            taskConfigs={name: text for name, text in texts.items() if text is not None},
            stages=[
                pb.DesiredStage(task=task, source=source, stage=stage)
                for task, stages in self._cluster.scheduler.tasks().items()
                for source, stage in stages.items()
            ],
        )

    def _exported_task(self, name: str) -> str | None:
        text = self._cluster.scheduler.task_text(name)
        if text is None:
            return None
        # The stored text has no secrets; each subtask has the target's password.
        subtask = next(iter(self._cluster.scheduler.subtasks(name).values()), None)
        return task_to_yaml(text, password=HIDDEN if subtask is None else self._sealed(subtask.to.password))

    def _sealed(self, password: str) -> str:
        key = self._cluster.config.secret_key
        return encrypt(password, key) if key and password else HIDDEN

    def list_source_configs(self, _: Empty) -> pb.ListSourceConfigsResponse:
        sources = self._cluster.scheduler.sources()
        return pb.ListSourceConfigsResponse(
            result=True,
            sourceConfigs={
                name: source_to_yaml(config, password=self._sealed(config.from_.password))
                for name, config in sources.items()
            },
        )

    def _task(self, name: str) -> _Shown | None:
        text = self._cluster.scheduler.task_text(name)
        return None if text is None else pb.GetCfgResponse(cfg=task_to_yaml(normalised(text)))

    def _template(self, name: str) -> _Shown | None:
        text = TaskTemplates(self._cluster.etcd).all().get(name)
        return None if text is None else pb.GetCfgResponse(cfg=task_to_yaml(text))

    def _source(self, name: str) -> _Shown | None:
        config = self._cluster.scheduler.sources().get(name)
        return None if config is None else pb.GetCfgResponse(cfg=source_to_yaml(config))

    def _worker(self, name: str) -> _Shown | None:
        worker = next((one for one in self._cluster.scheduler.workers() if one.name == name), None)
        if worker is None:
            return None
        found: worker_pb.GetWorkerCfgResponse = self._cluster.workers.call(
            worker.addr, "GetWorkerCfg", worker_pb.GetWorkerCfgRequest()
        )
        return found

    def _master(self, name: str) -> _Shown | None:
        if name == self._cluster.config.name:
            return self.get_master_cfg(pb.GetMasterCfgRequest())
        other = next((one for one in self._cluster.candidates() if one.id == name), None)
        return None if other is None else self._ask_master(name, other.addr)

    def _ask_master(self, name: str, address: str) -> pb.GetMasterCfgResponse:
        with open_channel(address, self._cluster.config.security) as channel:
            stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
            try:
                answer: pb.GetMasterCfgResponse = stub.GetMasterCfg(
                    pb.GetMasterCfgRequest(), timeout=self._cluster.config.rpc_timeout
                )
            except grpc.RpcError as exc:
                raise errors.new(
                    Code.MasterGRPCRequestError,
                    f"dm-master {name} at {address} does not answer with its configuration",
                    raw=f"{exc.code().name}: {exc.details()}",  # type: ignore[attr-defined]
                    workaround="Check that it runs and can be reached at this address.",
                ) from exc
        return answer
