"""The operations on the structures that a task knows of a source's tables."""

from __future__ import annotations

import json
from typing import Any

from dm_master.openapi.contract import ApiCall
from dm_master.openapi.leader import Leader
from dm_master.openapi.refusal import bad_request
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb


class StructureOperations:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def list_schemas(self, call: ApiCall) -> Any:
        return json.loads(self._ask(call, worker_pb.ListSchema))

    def list_tables(self, call: ApiCall) -> Any:
        return json.loads(self._ask(call, worker_pb.ListTable))

    def get(self, call: ApiCall) -> Any:
        return {
            "schema_name": call.path["schema-name"],
            "table_name": call.path["table-name"],
            "schema_create_sql": self._ask(call, worker_pb.GetSchema),
        }

    def put(self, call: ApiCall) -> None:
        origin, sql = call.body["schema_source"], call.body.get("sql_content", "")
        if (origin == "sql") != bool(sql):
            raise bad_request("sql_content is needed for schema_source sql, and for it only")
        self._ask(
            call,
            worker_pb.SetSchema,
            schema=sql,
            flush=call.body["flush"],
            sync=call.body["sync"],
            fromSource=origin == "upstream",
            fromTarget=origin == "downstream",
        )

    def delete(self, call: ApiCall) -> None:
        self._ask(call, worker_pb.RemoveSchema)

    def _ask(self, call: ApiCall, op: worker_pb.SchemaOp, **more: Any) -> str:
        request = pb.OperateSchemaRequest(
            op=op,
            task=call.path["task-name"],
            sources=[call.path["source-name"]],
            database=call.path.get("schema-name", ""),
            table=call.path.get("table-name", ""),
            **more,
        )
        return str(self._leader.order("OperateSchema", request).sources[0].msg)
