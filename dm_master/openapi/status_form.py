"""The workers' answers in the API's types. Pure."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from dm_master.openapi.contract import contract
from dm_master.openapi.models import ApiSourceStatus, ApiSubTaskStatus
from pkg.pb import dmworker_pb2 as worker_pb

#: The stages of the API by those of workers: a subtask that is on its way still is where it comes from.
_STAGES = {
    worker_pb.Running: "Running",
    worker_pb.Pausing: "Running",
    worker_pb.Stopping: "Running",
    worker_pb.Finished: "Finished",
    worker_pb.Paused: "Paused",
    worker_pb.Resuming: "Paused",
}
#: The API's name of a field where it is not the message's in snake case.
_NAMES = {
    "DDLs": "ddl_list",
    "blockingDDLs": "blocking_ddls",
    "ioTotalBytes": "io_total_bytes",
    "dumpIOTotalBytes": "dump_io_total_bytes",
    "metaBinlogGTID": "meta_binlog_gtid",
}
_UNITS = {"dump": "dump_status", "load": "load_status", "sync": "sync_status"}


def subtask_status(answer: worker_pb.QueryStatusResponse, one: worker_pb.SubTaskStatus) -> ApiSubTaskStatus:
    status: dict[str, Any] = {
        "name": one.name,
        "source_name": answer.sourceStatus.source,
        "worker_name": answer.sourceStatus.worker,
        "stage": _STAGES.get(one.stage, "Stopped"),
        "unit": "" if one.unit == worker_pb.InvalidUnit else worker_pb.UnitType.Name(one.unit),
        "unresolved_ddl_lock_id": one.unresolvedDDLLockID,
    }
    kind = one.WhichOneof("status")
    if kind in _UNITS:
        status[_UNITS[kind]] = _unit(getattr(one, kind))
    problems = [f"code={error.ErrCode}: {_text(error)}" for error in one.result.errors]
    problems += [one.msg] if kind == "msg" else []
    return {**status, **({"error_msg": "; ".join(problems)} if problems else {})}  # type: ignore[typeddict-item]


def missing_subtask(answer: worker_pb.QueryStatusResponse, task: str) -> ApiSubTaskStatus:
    """For a source whose worker did not answer."""
    return {
        "name": task,
        "source_name": answer.sourceStatus.source,
        "worker_name": answer.sourceStatus.worker,
        "stage": "Stopped",
        "unit": "",
        "error_msg": answer.msg,
    }


def source_status(answer: worker_pb.QueryStatusResponse) -> ApiSourceStatus:
    one = answer.sourceStatus
    status: ApiSourceStatus = {"source_name": one.source, "worker_name": one.worker}
    problems = [_text(error) for error in one.result.errors]
    problems += [answer.msg] if answer.msg and not answer.result else []
    if one.HasField("relayStatus"):
        relay = one.relayStatus
        status["relay_status"] = {
            "master_binlog": relay.masterBinlog,
            "master_binlog_gtid": relay.masterBinlogGtid,
            "relay_dir": relay.relaySubDir,
            "relay_binlog_gtid": relay.relayBinlogGtid,
            "relay_catch_up_master": relay.relayCatchUpMaster,
            "stage": worker_pb.Stage.Name(relay.stage),
        }
        problems += [_text(error) for error in relay.result.errors]
    if problems:
        status["error_msg"] = "; ".join(problems)
    return status


def _text(error: worker_pb.ProcessError) -> str:
    return ". ".join(filter(None, (error.Message, error.RawCause, error.Workaround)))


def _unit(message: Message) -> dict[str, Any]:
    """A unit's status under the API's names: what the contract has of it."""
    described = message.DESCRIPTOR
    known = contract().document["components"]["schemas"][described.name]["properties"]
    found: dict[str, Any] = {}
    for field in described.fields:  # type: ignore[attr-defined]
        name = _NAMES.get(field.name) or _snake(field.name)
        if name in known:
            value = getattr(message, field.name)
            if field.is_repeated:
                value = [_unit(one) if isinstance(one, Message) else one for one in value]
            found[name] = value
    return found


def _snake(name: str) -> str:
    text = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return text.replace("_g_t_i_d", "_gtid")
