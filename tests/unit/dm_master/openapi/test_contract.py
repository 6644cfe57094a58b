"""Hazard: a request that the contract does not allow reaches the cluster, or answers have another form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from jsonschema import Draft202012Validator

from deploy.openapi_models import TARGET, models
from dm_master.openapi.contract import SchemaValidator, contract
from dm_master.openapi.routes import mount_openapi
from pkg.pb import dmmaster_pb2 as pb
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes
from pkg.rpc.server.http_server import MAX_BODY
from tests.unit.asgi import AsgiAnswer, ask

_JSON = {"host": "127.0.0.1", "content-type": "application/json"}
_DOCUMENT: Any = contract().document


class _Cluster:
    """Takes every request and answers that there is nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Message]] = []
        self.answers: dict[str, Message] = {}

    def call(self, method: str, request: Message, *, forwarded: bool = False) -> Message:
        self.asked.append((method, request))
        if method in self.answers:
            return self.answers[method]
        return pb.OperateSourceResponse(result=False, msg="[code=46008:class=scheduler], Message: none")


@pytest.fixture
def cluster() -> _Cluster:
    return _Cluster()


def _ask(cluster: _Cluster, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
    answer = _raw(cluster, method, path, b"" if body is None else json.dumps(body).encode(), **more)
    return answer.status, json.loads(answer.body) if answer.body else None


def _raw(
    cluster: _Cluster, method: str, path: str, body: bytes = b"", *, query: str = "", headers: Any = _JSON
) -> AsgiAnswer:
    routes = HttpRoutes(status=str, metrics=Metrics(), ready=lambda: True)
    mount_openapi(routes, cluster.call)
    return ask(routes.app, method, f"/api/v1/{path}", query=query, headers=headers, body=body)


def test_all_of_dms_operations_exist() -> None:
    assert len(contract().operations) == 43
    assert len({one.id for one in contract().operations}) == 43


def test_each_type_of_the_contract_is_a_schema_and_each_default_fits() -> None:
    for name, schema in _DOCUMENT["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        for key, one in schema.get("properties", {}).items():
            if "default" in one:
                assert Draft202012Validator(one).is_valid(one["default"]), (name, key)


def test_the_models_are_those_of_the_contract() -> None:
    formatted = "".join(TARGET.read_text().split()).replace(",)", ")").replace("'", '"')
    assert formatted == "".join(models().split()).replace(",)", ")").replace("'", '"'), "run `make openapi-models`"


def test_the_description_is_served_as_json_and_as_a_page_without_other_hosts(cluster: _Cluster) -> None:
    status, document = _ask(cluster, "GET", "dm.json")
    assert (status, document) == (200, _DOCUMENT)
    page = _raw(cluster, "GET", "docs").body.decode()
    assert all(f"<code>{one.method} /{'/'.join(one.segments)}</code>" in page for one in contract().operations)
    assert "http:" not in page
    assert "https:" not in page
    assert "<script" not in page


@pytest.mark.parametrize("operation", contract().operations, ids=lambda one: one.id)
def test_a_refusal_of_the_master_has_the_contracts_form(cluster: _Cluster, operation: Any) -> None:
    if operation.id in ("GetDocHTML", "GetDocJSON", "DMAPIConvertTask"):
        return
    path = "/".join("x" if part.startswith("{") else part for part in operation.segments)
    body = _example(operation.body)
    if operation.id == "DMAPIOperateTableStructure":
        body = {"sql_content": "CREATE TABLE t (id INT)"}
    status, body = _ask(cluster, operation.method, path, body)
    assert cluster.asked, f"{operation.id} asked nothing: {status} {body}"
    assert (status, body["error_code"]) == (400, 46008)


def _example(schema: Any) -> Any:
    """The smallest body of a schema."""
    if schema is None:
        return None
    one: Any = contract().resolved(schema)
    if "default" in one:
        return one["default"]
    if "enum" in one:
        return one["enum"][0]
    if one["type"] == "object":
        return {key: _example(one["properties"][key]) for key in one.get("required", ())}
    if one["type"] == "array":
        return [_example(one["items"])] * one.get("minItems", 0)
    return {"string": "x", "integer": 1, "boolean": False}[one["type"]]


_SOURCE = {"source_name": "s", "host": "h", "port": 3306, "user": "u", "enable": True, "enable_gtid": False}


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "sources", {"source": _SOURCE | {"port": "secret"}}, "source.port: must be of type integer"),
        ("POST", "sources", {"source": _SOURCE | {"port": 0}}, "source.port: minimum must be 1"),
        ("POST", "sources", {"source": _SOURCE | {"pasword": "secret"}}, "source: unknown names pasword"),
        ("POST", "sources", {"source": {}}, "source: source_name, host, port, user, enable_gtid, enable must be given"),
        ("POST", "sources", {"source": _SOURCE | {"source_name": "a\nb"}}, "source.source_name: pattern"),
        ("POST", "sources", {"source": _SOURCE | {"flavor": "oracle"}}, "source.flavor: must be one of"),
        ("POST", "sources", [], "the body: must be of type object"),
        ("GET", "sources?x=1", None, "unknown parameters: x"),
        ("GET", "sources?with_status=maybe", None, "with_status must be true or false"),
        ("GET", "sources?with_status=true&with_status=true", None, "more than once"),
        ("GET", "tasks?stage=Sleeping", None, "stage: must be one of"),
        ("POST", "sources/x/enable", {"a": 1}, "this request has no body"),
        ("GET", f"sources/{'x' * 33}", None, "source-name: maxLength must be 32"),
    ],
)
def test_a_request_against_the_contract_does_not_reach_the_leader(
    cluster: _Cluster, method: str, path: str, body: Any, words: str
) -> None:
    path, _, query = path.partition("?")
    status, found = _ask(cluster, method, path, body, query=query)
    assert (status, found["error_code"]) == (400, 49001)
    assert words in found["error_msg"]
    assert "secret" not in found["error_msg"]
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("number", "fits"), [((1 << 63) - 1, True), (1 << 63, False), (-(1 << 63), True), (-(1 << 63) - 1, False)]
)
def test_numbers_have_the_size_that_the_contract_says(number: int, fits: bool) -> None:
    load = {"total_bytes": 0, "progress": "", "meta_binlog": "", "meta_binlog_gtid": "", "bps": 0}
    schema = contract().document["components"]["schemas"]["LoadStatus"]
    found = [*SchemaValidator(schema).iter_errors(load | {"finished_bytes": number})]
    assert [one.validator for one in found] == ([] if fits else ["format"])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"source": NaN}', b'{"a": 1, "a": 2}', b'{"source": "\\ud800"}', b"[" * 100_000],
)
def test_invalid_json_is_refused_without_quoting_it(cluster: _Cluster, body: bytes) -> None:
    answer = _raw(cluster, "POST", "sources", body)
    assert answer.status == 400
    assert "the body is not valid JSON" in json.loads(answer.body)["error_msg"]
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "nothing", _JSON, 404),
        ("GET", "sources/../tasks", _JSON, 404),
        ("GET", "a\nb", _JSON, 404),
        ("GET", "sources/a\nb/status", _JSON, 400),
        ("GET", "sources/a\n", _JSON, 400),
        ("DELETE", "tasks/templates", _JSON, 405),
        ("PATCH", "sources", _JSON, 405),
        ("POST", "sources", {"host": "127.0.0.1", "content-type": "text/plain"}, 415),
        ("POST", "sources/x/enable", {"host": "127.0.0.1", "content-type": "text/plain"}, 415),
        ("POST", "sources/x/enable", {"host": "127.0.0.1", "origin": "http://evil.example"}, 403),
        ("POST", "sources", _JSON | {"origin": "http://evil.example"}, 403),
        ("GET", "sources", {"host": "evil.example"}, 403),
    ],
)
def test_requests_outside_the_contract_are_refused(
    cluster: _Cluster, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = _raw(cluster, method, path, headers=headers)
    assert (answer.status, set(json.loads(answer.body))) == (status, {"error_msg", "error_code"})
    assert cluster.asked == []


def test_a_post_without_body_needs_no_type(cluster: _Cluster) -> None:
    assert _raw(cluster, "POST", "sources/x/enable", headers={"host": "127.0.0.1"}).status == 400
    assert [method for method, _ in cluster.asked] == ["OperateSource"]


@pytest.mark.parametrize(("size", "body"), [(MAX_BODY + 1, b"{}"), (0, bytes(MAX_BODY + 1))])
def test_a_body_that_is_too_large_is_refused_in_the_contracts_form(cluster: _Cluster, size: int, body: bytes) -> None:
    answer = _raw(cluster, "POST", "sources", body, headers={**_JSON, "content-length": str(size)})
    assert answer.status == 413
    assert set(json.loads(answer.body)) == {"error_msg", "error_code"}
    assert cluster.asked == []


def test_a_quoted_slash_is_part_of_a_name() -> None:
    assert contract().find("DELETE", ("sources", "a%2Fb%252e"))[1] == {"source-name": "a/b%2e"}


def test_no_leader_is_another_status_than_a_refusal(cluster: _Cluster) -> None:
    cluster.answers["ListMember"] = pb.ListMemberResponse(msg="[code=38043:class=dm-master], Message: no leader")
    status, body = _ask(cluster, "GET", "cluster/workers")
    assert (status, body["error_code"]) == (503, 38043)


def test_a_defect_is_reported_in_the_same_form(cluster: _Cluster) -> None:
    cluster.answers["ListMember"] = pb.OfflineMemberResponse(result=True)
    status, body = _ask(cluster, "GET", "cluster/workers")
    assert status == 500
    assert set(body) == {"error_msg", "error_code"}


def test_the_file_of_the_contract_is_a_package_file() -> None:
    assert (Path(__file__).parents[4] / "dm_master" / "openapi" / "dm.yaml").read_text() == contract().text
