"""Hazard: a request whose outcome is unknown is sent again, or a passing failure ends a program."""

from __future__ import annotations

import grpc
import pytest

from deploy.local.process import free_port
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.etcd.errors import call_error, failure_of


class Refusal(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, detail: str) -> None:
        self._code, self._detail = code, detail

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._detail


@pytest.mark.parametrize(
    ("code", "detail", "transient", "never_sent"),
    [
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; Connection refused", True, True),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", True, False),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader", True, False),
        (grpc.StatusCode.INTERNAL, "Stream removed (RST_STREAM (Received RST_STREAM with error code 0))", True, False),
        (grpc.StatusCode.INTERNAL, "etcdserver: panic", False, False),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", True, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", True, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", False, False),
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", False, False),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request", False, False),
    ],
)
def test_only_what_may_pass_is_tried_again(
    code: grpc.StatusCode, detail: str, transient: bool, never_sent: bool
) -> None:
    failure = failure_of(Refusal(code, detail))
    assert (failure.transient, failure.never_sent) == (transient, never_sent)
    error = call_error(Code.HAFailTxnOperation, "write /k", failure)
    assert error.retryable == transient
    assert detail in error.raw_cause
    assert error.workaround


def test_an_error_that_etcd3_translated_keeps_its_facts() -> None:
    with EtcdClient([f"127.0.0.1:{free_port()}"], timeout=2.0) as client, pytest.raises(DMError) as caught:
        client.get_prefix("/k")
    assert "refused" in caught.value.raw_cause.lower()
