"""A worker that is slow, gone or asked too often must cost the master a bounded time and give a coded error."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_master.workers.worker_client import TokenBucket, WorkerClients
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb
from pkg.pb import dmworker_pb2_grpc
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer

#: Set when a slow worker may answer.
_GO_ON = threading.Event()


class _AnsweringWorker(dmworker_pb2_grpc.WorkerServicer):
    def QueryStatus(self, request: pb.QueryStatusRequest, context: grpc.ServicerContext) -> pb.QueryStatusResponse:
        if request.name == "slow":
            _GO_ON.wait(60)
        return pb.QueryStatusResponse(result=True, msg=request.name)


@pytest.fixture
def address() -> Iterator[str]:
    def register(server: grpc.Server) -> None:
        dmworker_pb2_grpc.add_WorkerServicer_to_server(_AnsweringWorker(), server)  # type: ignore[no-untyped-call]

    port = PortServer("127.0.0.1", 0, register, HttpRoutes(status=str, metrics=Metrics(), ready=lambda: True))
    port.start()
    _GO_ON.clear()
    yield f"127.0.0.1:{port.port}"
    _GO_ON.set()
    port.stop(0)


@pytest.fixture
def clients() -> Iterator[WorkerClients]:
    clients = WorkerClients(timeout=60, rate=0.01, burst=3)
    yield clients
    clients.close()


def test_an_answer_comes_back(clients: WorkerClients, address: str) -> None:
    assert clients.call(address, "QueryStatus", pb.QueryStatusRequest(name="x")).msg == "x"


def test_a_slow_worker_is_a_timeout(address: str) -> None:
    hasty = contextlib.closing(WorkerClients(timeout=0.5, rate=0.01, burst=3))
    with hasty as clients, pytest.raises(DMError, match="code=38033") as caught:
        clients.call(address, "QueryStatus", pb.QueryStatusRequest(name="slow"))
    assert caught.value.retryable


def test_a_worker_that_is_gone_is_a_request_error(clients: WorkerClients) -> None:
    with pytest.raises(DMError, match="code=38008") as caught:
        clients.call("127.0.0.1:1", "QueryStatus", pb.QueryStatusRequest())
    assert caught.value.retryable


def test_an_rpc_the_worker_lacks_is_not_retryable(clients: WorkerClients, address: str) -> None:
    with pytest.raises(DMError, match="code=38008") as caught:
        clients.call(address, "PurgeRelay", pb.PurgeRelayRequest())
    assert not caught.value.retryable


def test_too_many_requests_are_refused_before_they_reach_the_worker(clients: WorkerClients, address: str) -> None:
    for _ in range(3):
        clients.call(address, "QueryStatus", pb.QueryStatusRequest())
    with pytest.raises(DMError, match="code=38018"):
        clients.call(address, "QueryStatus", pb.QueryStatusRequest())


# Scripts that poll must not drown a worker, and bursts within the limit must pass.


class _BucketClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.floats(0.1, 100), st.integers(1, 50), st.lists(st.floats(0, 3), max_size=100))
def test_never_more_than_burst_plus_rate_times_time(rate: float, burst: int, pauses: list[float]) -> None:
    clock = _BucketClock()
    bucket = TokenBucket(rate, burst, clock)
    taken = 0
    for pause in pauses:
        clock.now += pause
        while bucket.take():
            taken += 1
            assert taken <= burst + rate * clock.now + 1e-6


def test_a_burst_passes_and_the_next_waits() -> None:
    clock = _BucketClock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.now = 0.1
    assert bucket.take()
    assert not bucket.take()
