"""Every RPC gets an honest answer: from this master, from the leader, or a refusal that says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.dispatcher import SERVICE, Dispatcher, RpcHandler, handlers, refusal, request_class
from dm_master.service.http_api import ROUTES, add_routes
from dm_master.service.task_steps import TaskSteps
from pkg import errors
from pkg.errors import Code
from pkg.ha.records import LeaderInfo
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes
from tests.harness.canned_master import CannedMaster
from tests.unit.asgi import AsgiAnswer, ask


def _cluster(leader: LeaderInfo | None = None) -> ClusterAccess:
    """A cluster that answers only who leads."""
    config = SimpleNamespace(name="me", security=None)
    election = SimpleNamespace(leader=lambda: leader)
    return cast(ClusterAccess, SimpleNamespace(config=config, election=election, locks=None))


def _unnoted(method: str, request: Message, answer: Message) -> None:
    pass


def _dispatcher(handler: RpcHandler, *, leading: bool = True, leader: LeaderInfo | None = None) -> Dispatcher:
    return Dispatcher(
        _cluster(leader), dict.fromkeys(SERVICE.methods_by_name, handler), lambda: leading, lambda *_: None
    )


def _unused(_: Any) -> Message:
    raise AssertionError("this master must not answer itself")


def test_every_rpc_has_a_handler() -> None:
    table = handlers(_cluster(), cast(TaskSteps, None), lambda config, _: config)
    assert set(table) == set(SERVICE.methods_by_name)


def test_an_error_becomes_an_answer_with_its_code() -> None:
    def refuse(_: Any) -> Message:
        raise errors.new(Code.SchedulerTaskNotExist, "task t not exist", workaround="Look.")

    answer: Any = _dispatcher(refuse).call("OperateTask", pb.OperateTaskRequest(op=worker_pb.Pause))
    assert (answer.result, answer.op) == (False, worker_pb.Pause)
    assert answer.msg == (
        "[code=46018:class=scheduler:scope=internal:level=medium], Message: task t not exist, Workaround: Look."
    )


def test_an_unforeseen_error_is_an_answer_too() -> None:
    def break_down(_: Any) -> Message:
        raise ZeroDivisionError("oops")

    answer: Any = _dispatcher(break_down).call("ListMember", pb.ListMemberRequest())
    assert not answer.result
    assert "code=50000" in answer.msg
    assert "oops" in answer.msg


@pytest.fixture
def other() -> Any:
    fake = CannedMaster().start()
    yield fake
    fake.stop()


def test_a_follower_passes_requests_on_to_the_leader(other: CannedMaster) -> None:
    other.answers["ListMember"] = pb.ListMemberResponse(result=True, msg="from the leader")
    dispatcher = _dispatcher(_unused, leading=False, leader=LeaderInfo("other", other.address))
    answer: Any = dispatcher.call("ListMember", pb.ListMemberRequest(names=["x"]))
    assert answer.msg == "from the leader"
    assert list(other.last("ListMember").names) == ["x"]


def test_a_follower_without_mutual_tls_passes_no_secret_key_on(other: CannedMaster) -> None:
    """The leader judges by its own port; a caller of this one has shown nothing."""
    other.answers["RegisterWorker"] = pb.RegisterWorkerResponse(result=True, secretKey=b"k" * 32)
    dispatcher = _dispatcher(_unused, leading=False, leader=LeaderInfo("other", other.address))
    answer: Any = dispatcher.call("RegisterWorker", pb.RegisterWorkerRequest(name="w1"))
    assert (answer.result, answer.secretKey) == (True, b"")


def test_a_forwarded_request_is_not_forwarded_again(other: CannedMaster) -> None:
    dispatcher = _dispatcher(_unused, leading=False, leader=LeaderInfo("other", other.address))
    answer: Any = dispatcher.call("ListMember", pb.ListMemberRequest(), forwarded=True)
    assert "code=38043" in answer.msg
    assert other.requests == []


@pytest.mark.parametrize("leader", [None, LeaderInfo("me", "127.0.0.1:1"), LeaderInfo("gone", "127.0.0.1:1")])
def test_without_a_reachable_leader_there_is_a_refusal(leader: LeaderInfo | None) -> None:
    answer: Any = _dispatcher(_unused, leading=False, leader=leader).call("QueryStatus", pb.QueryStatusListRequest())
    assert not answer.result
    assert "code=38043" in answer.msg


def test_a_leader_elected_within_a_moment_answers() -> None:
    looks = iter([False, False, True])
    dispatcher = Dispatcher(
        _cluster(), {"ListMember": lambda _: pb.ListMemberResponse(result=True)}, lambda: next(looks), _unnoted
    )
    answer: Any = dispatcher.call("ListMember", pb.ListMemberRequest())
    assert answer.result


def test_operating_the_leader_concerns_the_master_that_was_asked() -> None:
    dispatcher = _dispatcher(lambda _: pb.OperateLeaderResponse(result=True), leading=False)
    answer: Any = dispatcher.call("OperateLeader", pb.OperateLeaderRequest())
    assert answer.result


# --- the HTTP gateway ---


def _routes(call: Callable[..., Message], endpoints: list[str]) -> HttpRoutes:
    routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True)
    add_routes(routes, call, lambda: endpoints)
    return routes


_JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("verb", "path", "body", "query", "method", "expected"),
    [
        ("GET", "status/t1", b"", "sources=a&sources=b", "QueryStatus", {"name": "t1", "sources": ["a", "b"]}),
        ("PUT", "tasks/t1", b'{"op": "Pause"}', "", "OperateTask", {"op": worker_pb.Pause, "name": "t1"}),
        ("PUT", "tasks/t1", b'{"op": 3}', "", "OperateTask", {"op": worker_pb.Resume, "name": "t1"}),
        ("POST", "tasks", b'{"task": "name: x"}', "", "StartTask", {"task": "name: x"}),
        ("DELETE", "members/worker/w1", b"", "", "OfflineMember", {"type": "worker", "name": "w1"}),
        ("PUT", "leader/EvictLeaderOp", b"", "", "OperateLeader", {"op": pb.EvictLeaderOp}),
        ("PUT", "leader/1", b"", "", "OperateLeader", {"op": pb.EvictLeaderOp}),
        ("GET", "members", b"", "leader=true", "ListMember", {"leader": True}),
        ("GET", "tasks/t1", b"", "", "GetCfg", {"type": pb.TaskType, "name": "t1"}),
    ],
)
def test_the_gateway_fills_requests_from_path_query_and_body(
    verb: str, path: str, body: bytes, query: str, method: str, expected: dict[str, Any]
) -> None:
    seen: list[tuple[str, Any]] = []

    def call(name: str, request: Any, *, forwarded: bool = False) -> Message:
        seen.append((name, request))
        return refusal(name, request, "told")

    answer = ask(_routes(call, []).app, verb, f"/apis/v1alpha1/{path}", query=query, headers=_JSON, body=body)
    assert answer.status == 200
    assert json.loads(answer.body)["msg"] == "told"
    [(name, sent)] = seen
    assert name == method
    assert sent == request_class(method)(**expected)


def test_a_malformed_request_is_refused_at_the_gateway() -> None:
    app = _routes(lambda *_: _unused(None), []).app
    assert ask(app, "POST", "/apis/v1alpha1/tasks", headers=_JSON, body=b"{nonsense").status == 400
    assert ask(app, "PUT", "/apis/v1alpha1/leader/nobody").status == 400


def test_requests_that_any_page_can_make_change_nothing() -> None:
    """GET reads; every other route of the port asks for JSON, and for a name of this master."""
    asked: list[str] = []

    def call(name: str, request: Any, *, forwarded: bool = False) -> Message:
        asked.append(name)
        return refusal(name, request, "told")

    app = _routes(call, []).app
    for verb, path, method in ROUTES:
        path = f"/apis/v1alpha1/{path}".replace("{op}", "1").replace("{name}", "n").replace("{type}", "worker")
        asked.clear()
        plain = {"content-type": "text/plain", "host": "127.0.0.1"}
        assert ask(app, verb, path, headers={**_JSON, "host": "evil.example"}, body=b"{}").status == 403
        assert ask(app, verb, path, headers=plain, body=b"{}").status == (200 if verb == "GET" else 415)
        assert asked == ([method] if verb == "GET" else [])
        assert verb != "GET" or method in {"GetCfg", "QueryStatus", "ListMember", "GetSubTaskCfg"}, "it only reads"


def test_workers_learn_where_etcd_is() -> None:
    def answer(endpoints: list[str]) -> AsgiAnswer:
        app = _routes(lambda *_: _unused(None), endpoints).app
        return ask(app, "GET", "/apis/v1alpha1/etcd-endpoints", headers={"host": "some.balancer.example"})

    assert json.loads(answer(["http://a:1"]).body) == ["http://a:1"]
    assert answer([]).status == 503
