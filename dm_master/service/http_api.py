"""HTTP on the master's port: DM's gateway under ``/apis/v1alpha1/``, and etcd's endpoints for workers that join."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from starlette.responses import Response

from dm_master.service.dispatcher import MasterCall, request_class
from dm_master.service.event_log import acting_as
from pkg.etcd.discovery import ENDPOINTS_PATH
from pkg.pb import dmmaster_pb2 as pb
from pkg.rpc import pbjson
from pkg.rpc.server import HttpRequest, HttpRoutes, json_response
from pkg.rpc.server.routes import JSON_TYPE

BASE = "/apis/v1alpha1"
#: (HTTP method, path, RPC): the path's ``{names}`` and the body's JSON fill the request.
ROUTES = (
    ("POST", "tasks", "StartTask"),
    ("PUT", "tasks/{name}", "OperateTask"),
    ("GET", "tasks/{name}", "GetCfg"),
    ("GET", "status/{name}", "QueryStatus"),
    ("PUT", "sources", "OperateSource"),
    ("DELETE", "members/{type}/{name}", "OfflineMember"),
    ("PUT", "leader/{op}", "OperateLeader"),
    ("GET", "members", "ListMember"),
    ("PUT", "schema", "OperateSchema"),
    ("GET", "subtasks/{name}", "GetSubTaskCfg"),
    ("PUT", "errors", "HandleError"),
)


def add_routes(routes: HttpRoutes, call: MasterCall, etcd_endpoints: Callable[[], list[str]]) -> None:
    """Adds everything under ``/apis/`` to the port's routes."""
    for verb, path, method in ROUTES:
        routes.add_route(verb, f"{BASE}/{path}", partial(_gateway, call, method))
    # For workers: their `join` may name this master by an address that is not in its configuration.
    routes.publish(ENDPOINTS_PATH, partial(_endpoints, etcd_endpoints))


def _endpoints(etcd_endpoints: Callable[[], list[str]], _: HttpRequest) -> Response:
    endpoints = etcd_endpoints()
    if not endpoints:
        return json_response({"error": "etcd is not ready yet"}, 503)
    return json_response(endpoints)


def _gateway(call: MasterCall, method: str, http: HttpRequest) -> Response:
    request: Any = request_class(method)()
    try:
        if http.body:
            json_format.Parse(http.body, request)
        # Values as strings: the parser converts them to the field's type, enums by name included.
        json_format.ParseDict(dict(http.params), request)
        json_format.ParseDict(_query(http, request), request)
    except json_format.ParseError as exc:
        return json_response({"error": str(exc)}, 400)
    if method == "GetCfg":
        request.type = pb.TaskType
    with acting_as("HTTP API"):
        answer = call(method, request)
    return Response(pbjson.to_json(answer) + "\n", media_type=JSON_TYPE)


def _query(http: HttpRequest, request: Any) -> dict[str, Any]:
    """The query's values in the form that the request's fields accept."""
    fields: dict[str, FieldDescriptor] = request.DESCRIPTOR.fields_by_name
    return {key: _typed(fields.get(key), values) for key, values in http.query.items()}


def _typed(field: FieldDescriptor | None, values: list[str]) -> Any:
    if field is not None and field.is_repeated:
        return values
    if field is not None and field.type == FieldDescriptor.TYPE_BOOL:
        # Any other value stays a string; the parser refuses it and names the field.
        return {"true": True, "false": False}.get(values[-1], values[-1])
    return values[-1]
