"""Hazard: a comparison without a task begins twice, is asked of the wrong worker, or its passwords are stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_master.scheduling.scheduler import WorkerState
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.diff_service import DiffService
from pkg import errors
from pkg.config.codec import decode_subtask
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.settings import encrypt

FILE = """\
name: shops
tables: ["shop.*"]
chunk-rows: 7
settle-time: 5s
target-database: {host: t, port: 1, password: "secret t"}
mysql-instances:
- {source-id: b, from: {host: b, port: 1, password: "secret b", max-allowed-packet: 5}}
- {source-id: a, from: {host: a, port: 1}}
"""


class Workers:
    """``knows``: the worker that has the comparison; ``silent``: those that do not answer."""

    def __init__(self) -> None:
        self.knows = ""
        self.silent: set[str] = set()
        self.orders: list[tuple[str, worker_pb.OperateServersDiffRequest]] = []

    def call(self, addr: str, method: str, request: Any, *, timeout: float) -> worker_pb.OperateServersDiffResponse:
        assert method == "OperateServersDiff"
        if addr in self.silent:
            raise errors.new(Code.MasterGRPCRequestError, "no answer")
        self.orders.append((addr, request))
        if request.op == worker_pb.StartDiff or addr == self.knows:
            sources = [worker_pb.DiffSourceStatus(result=True, source=one, stage="Running") for one in ("a", "b")]
            return worker_pb.OperateServersDiffResponse(result=True, sources=sources)
        return worker_pb.OperateServersDiffResponse(msg="this worker has no comparison")

    @property
    def changes(self) -> list[tuple[str, worker_pb.OperateServersDiffRequest]]:
        return [(addr, request) for addr, request in self.orders if request.op != worker_pb.ShowDiff]


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def service(workers: Workers) -> DiffService:
    known = [WorkerState("w1", "w1", "bound", "s"), WorkerState("w2", "w2", "free", ""),
             WorkerState("w3", "w3", "free", ""), WorkerState("w0", "w0", "offline", "")]  # fmt: skip
    scheduler = SimpleNamespace(workers=lambda: known)
    return DiffService(cast(ClusterAccess, SimpleNamespace(scheduler=scheduler, workers=workers)))


def start(service: DiffService, text: str = FILE, **fields: Any) -> pb.OperateDiffResponse:
    return service.operate_diff(
        pb.OperateDiffRequest(op=worker_pb.StartDiff, comparison="shops", config=text, **fields)
    )


def test_a_free_worker_gets_the_servers_and_rules(service: DiffService, workers: Workers) -> None:
    answer = start(service)
    assert (answer.result, answer.verdict) == (True, "running")
    assert "max-allowed-packet of from has no effect" in answer.msg
    ((addr, order),) = workers.changes
    assert (addr, order.name, order.settleSeconds, order.outputDir) == ("w2", "shops", 5.0, "./diff_data")
    assert (list(order.sources), list(order.options.tables), order.options.chunkRows) == (["a", "b"], ["shop.*"], 7)
    assert [decode_subtask(text).from_.host for text in order.upstreams] == ["b", "a"]


def test_passwords_are_sent_encrypted(service: DiffService, workers: Workers) -> None:
    encrypt.set_secret_key(bytes(range(32)))
    try:
        start(service)
        ((_, order),) = workers.changes
        assert b"secret" not in order.SerializeToString()
        assert {decode_subtask(text).to.password for text in order.upstreams} == {"secret t"}
    finally:
        encrypt.set_secret_key(b"")


def test_the_worker_that_has_it_gets_the_next_start(service: DiffService, workers: Workers) -> None:
    workers.knows = "w1"
    start(service)
    assert [addr for addr, _ in workers.changes] == ["w1"]


def test_a_worker_that_does_not_answer_is_not_chosen(service: DiffService, workers: Workers) -> None:
    workers.silent = {"w2"}
    start(service)
    assert [addr for addr, _ in workers.changes] == ["w3"]
    workers.silent = {"w1", "w2", "w3"}
    with pytest.raises(DMError, match="no dm-worker answers"):
        start(service)


def test_flags_override_the_tables_of_the_file(service: DiffService, workers: Workers) -> None:
    start(service, options=worker_pb.DiffOptions(tables=["x.y"], threads=3), sources=["b"])
    ((_, order),) = workers.changes
    assert (list(order.options.tables), order.options.threads, list(order.sources)) == (["x.y"], 3, ["b"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": worker_pb.DiffOptions(repair=True)}, "need a task"),
        ({"options": worker_pb.DiffOptions(lock=True)}, "need a task"),
        ({"options": worker_pb.DiffOptions(mostLag=3)}, "need a task"),
        ({"sources": ["c"]}, "the file has no source c"),
        ({"text": FILE.replace("name: shops", "nmae: shops")}, "unknown key 'nmae'"),
    ],
)
def test_what_does_not_fit_is_refused(
    service: DiffService, workers: Workers, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(DMError, match=message):
        start(service, **fields)
    assert workers.changes == []


def test_status_and_stop_go_to_the_worker_that_has_it(service: DiffService, workers: Workers) -> None:
    workers.knows = "w3"
    shown = service.operate_diff(pb.OperateDiffRequest(op=worker_pb.ShowDiff, comparison="shops"))
    assert [one.source for one in shown.sources] == ["a", "b"]
    shown = service.operate_diff(pb.OperateDiffRequest(op=worker_pb.ShowDiff, comparison="shops", sources=["b"]))
    assert [one.source for one in shown.sources] == ["b"]
    assert service.operate_diff(pb.OperateDiffRequest(op=worker_pb.StopDiff, comparison="shops")).result
    assert [(addr, order.op) for addr, order in workers.changes] == [("w3", worker_pb.StopDiff)]
    with pytest.raises(DMError, match="as a whole only"):
        service.operate_diff(pb.OperateDiffRequest(op=worker_pb.StopDiff, comparison="shops", sources=["b"]))


def test_a_comparison_that_no_worker_has_is_told_so(service: DiffService, workers: Workers) -> None:
    request = pb.OperateDiffRequest(op=worker_pb.ShowDiff, comparison="shops")
    answer = service.operate_diff(request)
    assert (answer.result, answer.verdict) == (False, "")
    assert "no worker has a comparison shops" in answer.msg
    workers.silent = {"w1"}
    assert "worker w1 does not answer" in service.operate_diff(request).msg
