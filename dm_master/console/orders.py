"""Makes a request to the master from the fields of a button or form. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker

Order = tuple[str, Any]


#: A row's number in 64 bits; 0 is that of rows without one.
_NUMBER = re.compile("[1-9][0-9]{0,17}", re.ASCII)


class Fields(Protocol):
    def get(self, name: str) -> str: ...

    def all(self, name: str) -> list[str]: ...


#: The fields that an order may need, which the confirmation page passes on.
FIELDS = (
    "task", "source", "lock", "owner", "action", "position", "file", "worker", "mode", "repair", "force", "error",
    "master",
)  # fmt: skip
#: The value of ``error`` that stands for all rows that differ.
ALL_ERRORS = "all"


def order(name: str, fields: Fields) -> Order | None:
    """The method and the request; None for an unknown order, or if a field that it needs is missing or no number."""
    made = ORDERS.get(name)
    if made is None:
        return None
    needs, build = made
    if not all(fields.get(field) for field in needs):
        return None
    return build(fields)


def given(fields: Fields) -> list[tuple[str, str]]:
    """The fields of an order, for the confirmation's form."""
    return [(name, value) for name in FIELDS for value in fields.all(name)]


def _task(op: worker.TaskOp, *, safe: bool = False) -> Callable[[Fields], Order]:
    def build(fields: Fields) -> Order:
        request = master.OperateTaskRequest(op=op, name=fields.get("task"), sources=fields.all("source"), safeMode=safe)
        return "OperateTask", request

    return build


def _skip(fields: Fields) -> Order:
    request = master.HandleErrorRequest(
        op=worker.Skip,
        task=fields.get("task"),
        sources=fields.all("source"),
        binlogPos=fields.get("position"),
    )
    return "HandleError", request


def _unlock(fields: Fields) -> Order:
    request = master.UnlockDDLLockRequest(
        ID=fields.get("lock"),
        replaceOwner=fields.get("owner"),
        op=master.ExecLock if fields.get("action") == "exec" else master.SkipLock,
        forceRemove=bool(fields.get("force")),
    )
    return "UnlockDDLLock", request


def _switch_relay(op: worker.RelayOp) -> Callable[[Fields], Order]:
    def build(fields: Fields) -> Order:
        return "OperateWorkerRelayTask", master.OperateWorkerRelayRequest(op=op, sources=fields.all("source"))

    return build


def _relay(op: master.RelayOpV2) -> Callable[[Fields], Order]:
    def build(fields: Fields) -> Order:
        request = master.OperateRelayRequest(op=op, source=fields.get("source"), worker=fields.all("worker"))
        return "OperateRelay", request

    return build


def _purge(fields: Fields) -> Order:
    request = master.PurgeWorkerRelayRequest(sources=fields.all("source"), filename=fields.get("file"))
    return "PurgeWorkerRelay", request


def _start_validation(fields: Fields) -> Order:
    request = master.StartValidationRequest(taskName=fields.get("task"), sources=fields.all("source"))
    if fields.get("mode"):
        request.mode_value = fields.get("mode")
    return "StartValidation", request


def _stop_validation(fields: Fields) -> Order:
    return "StopValidation", master.StopValidationRequest(taskName=fields.get("task"), sources=fields.all("source"))


def _mark(op: worker.ValidationErrOp) -> Callable[[Fields], Order | None]:
    def build(fields: Fields) -> Order | None:
        number = fields.get("error")
        request = worker.OperateValidationErrorRequest(op=op, taskName=fields.get("task"))
        if number == ALL_ERRORS:
            request.isAllError = True
        elif _NUMBER.fullmatch(number):
            request.errId = int(number)
        else:
            return None
        return "OperateValidationError", request

    return build


def _diff(op: worker.DiffOp) -> Callable[[Fields], Order]:
    def build(fields: Fields) -> Order:
        request = master.OperateDiffRequest(op=op, task=fields.get("task"), sources=fields.all("source"))
        if fields.get("repair"):
            request.options.repair = True
        return "OperateDiff", request

    return build


def _operate_source(op: master.SourceOp) -> Callable[[Fields], Order]:
    def build(fields: Fields) -> Order:
        return "OperateSource", master.OperateSourceRequest(op=op, sourceID=fields.all("source"))

    return build


def _transfer(fields: Fields) -> Order:
    request = master.TransferSourceRequest(source=fields.get("source"), worker=fields.get("worker"))
    return "TransferSource", request


def _remove_member(kind: str) -> Callable[[Fields], Order]:
    def build(fields: Fields) -> Order:
        return "OfflineMember", master.OfflineMemberRequest(type=kind, name=fields.get(kind))

    return build


#: Name → the fields that it needs, and its request.
ORDERS: dict[str, tuple[Iterable[str], Callable[[Fields], Order | None]]] = {
    "pause": (("task",), _task(worker.Pause)),
    "resume": (("task",), _task(worker.Resume)),
    "resume-safe": (("task",), _task(worker.Resume, safe=True)),
    "stop": (("task",), _task(worker.Delete)),
    "skip": (("task",), _skip),
    "unlock": (("lock",), _unlock),
    "pause-relay": (("source",), _switch_relay(worker.PauseRelay)),
    "resume-relay": (("source",), _switch_relay(worker.ResumeRelay)),
    "start-relay": (("source",), _relay(master.StartRelayV2)),
    "stop-relay": (("source",), _relay(master.StopRelayV2)),
    "purge-relay": (("source", "file"), _purge),
    "start-validation": (("task",), _start_validation),
    "stop-validation": (("task",), _stop_validation),
    "ignore-error": (("task", "error"), _mark(worker.IgnoreErrOp)),
    "resolve-error": (("task", "error"), _mark(worker.ResolveErrOp)),
    "clear-error": (("task", "error"), _mark(worker.ClearErrOp)),
    "start-diff": (("task",), _diff(worker.StartDiff)),
    "stop-diff": (("task",), _diff(worker.StopDiff)),
    "remove-source": (("source",), _operate_source(master.StopSource)),
    "enable-source": (("source",), _operate_source(master.EnableSource)),
    "disable-source": (("source",), _operate_source(master.DisableSource)),
    "remove-worker": (("worker",), _remove_member("worker")),
    "remove-master": (("master",), _remove_member("master")),
    "transfer-source": (("source", "worker"), _transfer),
}
