"""Hazard: a dead or confused master keeps a program from finding etcd."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from deploy.local.process import free_port
from pkg.errors import Code, DMError
from pkg.etcd.discovery import fetch_endpoints


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


def test_a_dead_master_is_skipped(answers: dict[str, bytes]) -> None:
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
