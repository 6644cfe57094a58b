"""An operator's orders for the validator of a task: its status, its errors, and where the application switches over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb

if TYPE_CHECKING:
    from dm_worker.source.source_worker import SourceWorker
    from dm_worker.validator.validator import Validator

#: Operation → the state that it gives an error; clearing removes it.
STATES: dict[int, int | None] = {
    pb.IgnoreErrOp: pb.IgnoredErr,
    pb.ResolveErrOp: pb.ResolvedErr,
    pb.ClearErrOp: None,
}


def status(current: SourceWorker | None, request: pb.GetValidationStatusRequest) -> pb.GetValidationStatusResponse:
    """The progress of a task's validator, and its tables; with ``filterStatus`` those in that stage."""
    try:
        found = _validator(current, request.taskName)
        own = found.status()
    except DMError as exc:
        return pb.GetValidationStatusResponse(msg=str(exc))
    tables = [one for one in found.table_messages() if request.filterStatus in (pb.InvalidStage, one.stage)]
    return pb.GetValidationStatusResponse(result=True, validators=[own] if own else [], tableStatuses=tables)


def row_errors(current: SourceWorker | None, request: pb.GetValidationErrorRequest) -> pb.GetValidationErrorResponse:
    """The rows that differ, in one state or, with ``InvalidErr``, in any."""
    try:
        found = _validator(current, request.taskName).error_messages()
    except DMError as exc:
        return pb.GetValidationErrorResponse(msg=str(exc))
    chosen = [one for one in found if request.errState in (pb.InvalidErr, one.status)]
    return pb.GetValidationErrorResponse(result=True, error=chosen)


def operate(
    current: SourceWorker | None, request: pb.OperateValidationErrorRequest
) -> pb.OperateValidationErrorResponse:
    """Ignores, resolves or clears one error or all."""
    try:
        found = _validator(current, request.taskName)
        known = found.operate(None if request.isAllError else request.errId, _state(request.op))
    except DMError as exc:
        return pb.OperateValidationErrorResponse(msg=str(exc))
    if known:
        return pb.OperateValidationErrorResponse(result=True)
    return pb.OperateValidationErrorResponse(msg=f"task {request.taskName} has no error {request.errId}")


def update(current: SourceWorker, request: pb.UpdateValidationWorkerRequest) -> str:
    """Remembers where the application switches over. Raises DMError."""
    _validator(current, request.taskName).cut_over_at(request.binlogPos, request.binlogGTID)
    return ""


def _state(operation: int) -> int | None:
    if operation not in STATES:
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"invalid operation {operation} on errors of the validation",
            workaround="Use one of ignore-error, resolve-error, clear-error.",
        )
    return STATES[operation]


def _validator(current: SourceWorker | None, task: str) -> Validator:
    """Raises 43006."""
    found = current.validator(task) if current is not None else None
    if found is None or found.status() is None:
        source = current.source.source_id if current is not None else ""
        raise errors.new(
            Code.ValidatorNotFound,
            f"validator not found for task {task} with source {source}",
            workaround=f"`dmctl validation start {task}` starts one.",
        )
    return found
