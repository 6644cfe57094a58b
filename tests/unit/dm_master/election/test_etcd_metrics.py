"""Hazard: etcd is gone and nothing shows it, or its answer breaks the master's page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dm_master.election.etcd_metrics import EtcdMetrics, etcd_families
from pkg.settings.connections import SecurityConfig

TEXT = """\
# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
# HELP process_open_fds Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 7
# HELP etcd_disk_wal_fsync_duration_seconds The latency distributions of fsync called by WAL.
# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 3
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 4
etcd_disk_wal_fsync_duration_seconds_sum 0.5
etcd_disk_wal_fsync_duration_seconds_count 4
"""


@pytest.fixture
def etcd() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(TEXT.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_only_etcds_own_families_are_passed_on() -> None:
    names = [family.name for family in text_string_to_metric_families(etcd_families(TEXT))]
    assert names == ["etcd_server_has_leader", "etcd_disk_wal_fsync_duration_seconds"]


@pytest.mark.parametrize("bare", [False, True])
def test_the_first_member_that_answers_counts(etcd: str, bare: bool) -> None:
    endpoint = etcd.removeprefix("http://") if bare else etcd
    text = EtcdMetrics(lambda: ["http://127.0.0.1:1", endpoint], SecurityConfig()).text()
    assert b"etcd_server_has_leader 1\n" in text
    assert b"process_open_fds" not in text


def test_an_etcd_that_does_not_answer_has_no_leader_and_before_its_start_nothing_is_said() -> None:
    assert EtcdMetrics(lambda: ["http://127.0.0.1:1"], SecurityConfig()).text().endswith(b"etcd_server_has_leader 0\n")
    assert EtcdMetrics(list, SecurityConfig()).text() == b""
