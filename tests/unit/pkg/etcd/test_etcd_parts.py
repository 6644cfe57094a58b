"""Hazard: the etcd client builds wrong keys, takes a permanent error for a passing one, or asks a wrong address."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.etcd.discovery import fetch_endpoints
from pkg.etcd.endpoint import address_of
from pkg.etcd.errors import call_error, failure_of
from pkg.etcd.messages import range_end
from tests.harness.process import free_port

keys = st.text(st.characters(codec="utf-8"))


@given(prefix=keys.filter(bool), rest=keys, other=keys)
def test_a_prefix_means_exactly_the_keys_that_begin_with_it(prefix: str, rest: str, other: str) -> None:
    start, end = prefix.encode(), range_end(prefix)
    assert start <= (prefix + rest).encode() < end
    assert (start <= other.encode() < end) == other.startswith(prefix)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("127.0.0.1:2379", "127.0.0.1:2379"),
        ("http://etcd-0:2379", "etcd-0:2379"),
        ("https://[::1]:2379/", "[::1]:2379"),
        ("[fe80::1]:2379", "[fe80::1]:2379"),
    ],
)
def test_endpoints_may_be_addresses_or_urls(url: str, address: str) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize("url", ["", "etcd", "http://etcd", "etcd:port", ":2379"])
def test_a_wrong_endpoint_is_named(url: str) -> None:
    with pytest.raises(DMError) as caught:
        address_of(url)
    assert caught.value.kind is Code.HAInvalidItem
    assert repr(url) in caught.value.message


def test_no_endpoints_are_an_error() -> None:
    with pytest.raises(DMError) as caught:
        EtcdClient([])
    assert caught.value.kind is Code.HAInvalidItem


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


# --- discovery ---


@pytest.fixture
def answers() -> Iterator[dict[str, bytes]]:
    """A master that answers ``body`` with ``status``; ``address`` is where."""
    answer: dict[str, bytes] = {"body": b'["http://etcd:2379"]', "status": b"200"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(answer["status"]))
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answer["address"] = f"127.0.0.1:{server.server_port}".encode()
    yield answer
    server.shutdown()
    server.server_close()


def test_a_dead_master_is_passed_over(answers: dict[str, bytes]) -> None:
    masters = [f"127.0.0.1:{free_port()}", f"http://{answers['address'].decode()}/"]
    assert fetch_endpoints(masters) == ["http://etcd:2379"]


@pytest.mark.parametrize(
    ("status", "body"), [(b"200", b"not json"), (b"200", b"[]"), (b"200", b"[1]"), (b"200", b"{}"), (b"503", b"[]")]
)
def test_an_answer_that_makes_no_sense_is_an_error(answers: dict[str, bytes], status: bytes, body: bytes) -> None:
    answers.update(status=status, body=body)
    with pytest.raises(DMError) as caught:
        fetch_endpoints([answers["address"].decode()])
    assert caught.value.kind is Code.HAFailTxnOperation
    assert caught.value.retryable
    assert answers["address"].decode() in caught.value.raw_cause
