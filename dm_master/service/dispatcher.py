"""The gRPC service ``pb.Master``: chooses who answers (this master or the leader) and turns errors into answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from dm_master.service.client_deadline import client_waits, remaining
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.cluster_info import ClusterInfoService
from dm_master.service.config_service import ConfigService
from dm_master.service.cutover_service import CutoverService
from dm_master.service.diff_service import DiffService
from dm_master.service.member_service import MemberService
from dm_master.service.operator_actions import OperatorActionsService
from dm_master.service.relay_service import RelayService
from dm_master.service.source_names import SourceNamesService
from dm_master.service.source_service import CheckSource, SourceService
from dm_master.service.status_service import StatusService
from dm_master.service.task_service import TaskService
from dm_master.service.task_steps import TaskSteps
from dm_master.service.template_service import TemplateService
from dm_master.service.validation_service import ValidationService
from dm_master.shardddl.lock_rpcs import ShardDDLService
from dm_master.task_setup.start_time import location_at
from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc
from pkg.process.log import get_logger
from pkg.rpc.channel import open_channel
from pkg.rpc.server import mutual

log = get_logger("service")

RpcHandler = Callable[[Any], Message]
SERVICE = dmmaster_pb2.DESCRIPTOR.services_by_name["Master"]
#: The RPCs that the called master answers itself, leader or not.
LOCAL = frozenset({"OperateLeader", "GetMasterCfg"})
#: Marks a request that another master forwarded, so that two masters never forward it back and forth.
FORWARDED = "dm-forwarded"
#: Seconds to wait for a leader when there is none, and between two checks.
LEADER_WAIT = 0.1
LEADER_POLL = 0.02
#: A precheck may take this long (seconds); the client's own limit is usually shorter.
FORWARD_TIMEOUT = 1800.0


def handlers(cluster: ClusterAccess, steps: TaskSteps, check_source: CheckSource) -> dict[str, RpcHandler]:
    """RPC → the function that answers it, for every RPC of the service."""
    task, status = TaskService(cluster, steps), StatusService(cluster)
    source = SourceService(cluster, check_source, task.operate_task)
    member, config, relay = MemberService(cluster), ConfigService(cluster), RelayService(cluster)
    locks = ShardDDLService(cluster.locks, cluster)
    operator_actions, validation = OperatorActionsService(cluster), ValidationService(cluster, location_at)
    cutover = CutoverService(cluster, steps, task.start_task)
    templates, cluster_info = TemplateService(cluster), ClusterInfoService(cluster)
    return {
        "StartTask": task.start_task,
        "StoreTask": task.store_task,
        "UpdateTask": task.update_task,
        "OperateTaskTemplate": templates.operate,
        "OperateClusterInfo": cluster_info.operate,
        "ListSourceNames": SourceNamesService(cluster).list_names,
        "OperateTask": task.operate_task,
        "CheckTask": task.check_task,
        "ShowRules": task.show_rules,
        "QueryStatus": status.query_status,
        "ShowDDLLocks": locks.show_locks,
        "UnlockDDLLock": locks.unlock,
        "OperateSource": source.operate_source,
        "TransferSource": source.transfer_source,
        "RegisterWorker": member.register_worker,
        "OfflineMember": member.offline_member,
        "OperateLeader": member.operate_leader,
        "ListMember": member.list_member,
        "HandleError": operator_actions.handle_error,
        "OperateSchema": operator_actions.operate_schema,
        "HandBack": operator_actions.hand_back,
        "CheckCutover": cutover.check,
        "OperateCutover": cutover.operate,
        "StartValidation": validation.start,
        "StopValidation": validation.stop,
        "UpdateValidation": validation.update,
        "GetValidationStatus": validation.status,
        "GetValidationError": validation.errors,
        "OperateValidationError": validation.operate_errors,
        "OperateDiff": DiffService(cluster).operate_diff,
        "OperateRelay": relay.operate_relay,
        "OperateWorkerRelayTask": relay.switch_relay,
        "PurgeWorkerRelay": relay.purge_relay,
        "GetSubTaskCfg": config.get_subtask_cfg,
        "GetCfg": config.get_cfg,
        "GetMasterCfg": config.get_master_cfg,
        "Encrypt": config.encrypt,
        "ListTaskConfigs": config.list_task_configs,
        "ListSourceConfigs": config.list_source_configs,
    }


def response_class(method: str) -> type[Message]:
    return GetMessageClass(SERVICE.methods_by_name[method].output_type)


def request_class(method: str) -> type[Message]:
    return GetMessageClass(SERVICE.methods_by_name[method].input_type)


def refusal(method: str, request: Any, text: str) -> Message:
    """The answer of a refusal: ``result`` is false, ``msg`` has the reason, ``op`` is repeated as DM does."""
    answer: Any = response_class(method)()
    if "msg" not in answer.DESCRIPTOR.fields_by_name:
        raise RuntimeError(text)
    answer.msg = text
    if "op" in answer.DESCRIPTOR.fields_by_name:
        answer.op = request.op
    return answer  # type: ignore[no-any-return]


@dataclass(slots=True)
class Dispatcher:
    """Answers any request of ``pb.Master``, from gRPC, HTTP or another master.

    ``leading`` says whether this master leads and its scheduler is ready; ``note`` gets each request of an operator
    with its answer.
    """

    cluster: ClusterAccess
    table: Mapping[str, RpcHandler]
    leading: Callable[[], bool]
    note: Callable[[str, Message, Message], None]

    def call(self, method: str, request: Message, *, forwarded: bool = False) -> Message:
        """Returns the answer; a ``DMError`` becomes an answer whose ``result`` is false."""
        answer = self._answer(method, request, forwarded)
        if not forwarded:
            self.note(method, request, answer)
        return answer

    def _answer(self, method: str, request: Message, forwarded: bool) -> Message:
        try:
            if method in LOCAL or self._leads_soon():
                return self.table[method](request)
            return self._forward(method, request, forwarded)
        except DMError as exc:
            log.warning("request refused", method=method, error=str(exc))
            return refusal(method, request, str(exc))
        except Exception as exc:  # noqa: BLE001 - the process boundary: every error becomes an answer
            log.error("request failed", method=method, error=repr(exc))
            return refusal(method, request, str(errors.wrap(exc)))

    def _leads_soon(self) -> bool:
        """Whether this master leads; waits a moment while no master leads."""
        deadline = time.monotonic() + LEADER_WAIT
        while not self.leading():
            leader = self.cluster.election.leader()
            known = leader is not None and leader.id != self.cluster.config.name
            if known or time.monotonic() > deadline:
                return False
            time.sleep(LEADER_POLL)
        return True

    def _forward(self, method: str, request: Message, forwarded: bool) -> Message:
        leader = self.cluster.election.leader()
        if leader is None or forwarded or leader.id == self.cluster.config.name:
            raise no_leader(method, "")
        with open_channel(leader.addr, self.cluster.config.security) as channel:
            stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
            try:
                answer: Message = getattr(stub, method)(
                    request, timeout=remaining(FORWARD_TIMEOUT), metadata=((FORWARDED, self.cluster.config.name),)
                )
            except grpc.RpcError as exc:
                raise no_leader(method, f"{leader.addr}: {exc.code().name}: {exc.details()}") from exc  # type: ignore[attr-defined]
        if isinstance(answer, dmmaster_pb2.RegisterWorkerResponse) and not mutual(self.cluster.config.security):
            answer.ClearField("secretKey")  # the leader decided for its own port; this one may be open to everyone
        return answer


def no_leader(method: str, cause: str) -> DMError:
    return errors.new(
        Code.MasterRequestIsNotForwardToLeader,
        f"master is not leader, and can't forward request {method} to leader",
        raw=cause,
        workaround="Try again in a few seconds. If it stays: `/readyz` of each master's port shows which masters know "
        "a leader. More than half of the masters must run and reach each other; docs/runbooks.md, 'Lose a quorum'.",
        retryable=True,
    )


class MasterCall(Protocol):
    """Answers a request of ``pb.Master``; see :meth:`Dispatcher.call`."""

    def __call__(self, method: str, request: Message, *, forwarded: bool = False) -> Message: ...


def register(call: MasterCall, server: grpc.Server) -> None:
    """Adds the service to a gRPC server."""
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            partial(_serve, call, name),
            request_deserializer=request_class(name).FromString,
            response_serializer=response_class(name).SerializeToString,
        )
        for name in SERVICE.methods_by_name
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, methods),))


def _serve(call: MasterCall, method: str, request: Message, context: grpc.ServicerContext) -> Message:
    forwarded = any(key == FORWARDED for key, _ in context.invocation_metadata())
    with client_waits(context.time_remaining()):
        return call(method, request, forwarded=forwarded)
