"""Orders for one statement of the binlog, from the commands ``binlog`` and ``handle-error``."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dm_worker.operator_commands.binlog_operators import BinlogOperators
from dm_worker.operator_commands.replicating_unit import ReplicatingUnit, replicating_unit
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.ddl.operator_orders import checked, in_order, listing, parse_place, refused
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg import errors
from pkg.binlog.position import Position
from pkg.errors import Code
from pkg.ha.binlog_operator import BinlogOperator, OperatorKind, position_name
from pkg.mysql.names import qualified
from pkg.pb import dmworker_pb2 as pb

#: Seconds until a running retry has to end.
_RETRY_TIMEOUT = 3.0
_POLL = 0.05
_KINDS: dict[int, OperatorKind] = {pb.Skip: "skip", pb.Replace: "replace", pb.Inject: "inject"}


def handle_error(subtask: SubTask, operators: BinlogOperators, request: pb.HandleWorkerErrorRequest) -> str:
    """Executes the request and resumes a subtask that an error stopped; returns a message for the operator, or ''.

    Raises 40056, 11118, 36023, 36024, 36065, and errors of etcd or the target.
    """
    unit = replicating_unit(subtask)
    given = parse_place(request.binlogPos) if request.binlogPos else None
    if request.op == pb.List:
        return listing(in_order(operators.of(subtask.name), given))
    position = _meant(subtask, unit, given)
    if request.op == pb.Revert:
        operators.remove(_standing_order(subtask, operators, position, given))
    elif request.op in _KINDS:
        _ensure_possible(request.op, position, unit)
        operators.put(_order(subtask, _KINDS[request.op], position, request.sqls))
    else:
        raise refused(f"the operation {request.op} is not known", "Use one of skip, replace, revert, inject, list.")
    return _go_on(subtask, unit)


def _go_on(subtask: SubTask, unit: ReplicatingUnit) -> str:
    """Resumes a subtask that an error stopped. A retry that already runs may not have seen the order yet."""
    deadline = time.monotonic() + _RETRY_TIMEOUT
    while not subtask.retry():
        if subtask.state.stage == pb.Paused:
            return "the task is paused: use resume-task to continue"
        if unit.stuck_at is None or time.monotonic() > deadline:
            break
        time.sleep(_POLL)
    return ""


def _meant(subtask: SubTask, unit: ReplicatingUnit, given: Position | None) -> Position:
    """The start of the statement that contains ``given``, or at which the task stopped."""
    stuck = unit.stuck_at
    if given is not None:
        return stuck.at if stuck is not None and stuck.covers(given) else given
    if stuck is not None:
        # Also while auto-resume retries the subtask.
        return stuck.at
    source = subtask.config.source_id
    if subtask.state.failed:
        raise refused(
            f"only support to handle ddl error currently: the error of source '{source}' is not about a statement",
            "Rows can't be skipped: the target would lack them. See the error with query-status. Fix the target, "
            "or the known structure with binlog-schema, then resume the task.",
        )
    raise refused(f"source '{source}' has no error", "Give the statement's position with -b.")


def _ensure_possible(op: int, position: Position, unit: ReplicatingUnit) -> None:
    stuck = unit.stuck_at
    if isinstance(stuck, SettleDDL) and stuck.covers(position):
        if op not in (pb.Skip, pb.Replace):
            raise refused(
                f"the DDL of merged shards at {position_name(position)} was run by all shards: it can only be skipped "
                "or replaced",
                "Use `binlog replace` with your statements, and with its own after them if it is to run too.",
            )
        return
    checkpoint = unit.checkpoint()
    if checkpoint is not None and position < checkpoint.position:
        raise refused(
            f"{position_name(position)} is before the checkpoint {checkpoint.position}: it is already applied",
            "Give the position of a later statement.",
        )


def _order(subtask: SubTask, kind: OperatorKind, position: Position, sqls: Sequence[str]) -> BinlogOperator:
    statements = () if kind == "skip" else tuple(sqls)
    if kind != "skip":
        rules = TaskRules(subtask.config)
        for parsed in checked(statements):
            for name in parsed.tables:
                if not rules.allows(*name):
                    raise refused(
                        f"{qualified(*name)} is not migrated by task {subtask.name}: {parsed.sql}",
                        "Use the names of upstream tables that the block-allow-list includes; routes apply to them.",
                    )
    return BinlogOperator(kind, subtask.name, subtask.config.source_id, position_name(position), statements)


def _standing_order(
    subtask: SubTask, operators: BinlogOperators, position: Position, given: Position | None
) -> BinlogOperator:
    found = {one.at: one for one in operators.of(subtask.name)}
    for candidate in (position, given):
        if candidate in found:
            return found[candidate]
    raise errors.new(
        Code.SyncerOperatorNotExist,
        f"error operator not exist, position: {position_name(position)}",
        workaround="`binlog list` shows the operator orders.",
    )
