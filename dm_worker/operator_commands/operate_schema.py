"""The known structure of an upstream table, as ``binlog-schema`` and ``operate-schema`` show and change it."""

from __future__ import annotations

import json

from dm_worker.operator_commands.replicating_unit import paused_unit
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.unit.known_structures import KnownStructures
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb


def operate_schema(subtask: SubTask, request: pb.OperateWorkerSchemaRequest) -> str:
    """Executes the request on a paused subtask; returns the requested structure or names (as JSON), or ''.

    Raises 40056, 40051, 44005, 44009, and errors of the servers.
    """
    with paused_unit(subtask).structures() as structures:
        return _operate(structures, request)


def _operate(structures: KnownStructures, request: pb.OperateWorkerSchemaRequest) -> str:
    name = (request.database, request.table)
    match request.op:
        case pb.GetSchema:
            return structures.show(*name)
        case pb.ListSchema:
            return json.dumps(structures.schemas(), ensure_ascii=False)
        case pb.ListTable:
            return json.dumps(structures.tables(request.database), ensure_ascii=False)
        case pb.RemoveSchema:
            structures.delete(*name)
        case pb.SetSchema if request.fromSource:
            structures.update_from_source(*name)
        case pb.SetSchema if request.fromTarget:
            structures.update_from_target(*name)
        case pb.SetSchema:
            structures.update(*name, request.schema)
        case _:
            raise errors.new(
                Code.MasterInvalidOperateOp,
                f"invalid operation {pb.SchemaOp.Name(request.op)} on a known structure",
                workaround="Use one of binlog-schema list, update, delete.",
            )
    return "sync has no effect: the task is not in optimistic mode" if request.sync else ""
