"""A real dm-master with its etcd, driven by dmctl, with workers that only report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import DMMaster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from tests.harness.fake_worker import FakeWorker
from tests.integration.dm_master.process.support import (
    KEY,
    PASSWORD,
    Dmctl,
    call,
    http,
    stage_of,
)


@pytest.fixture(scope="package")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DMMaster]:
    base = tmp_path_factory.mktemp("master")
    (base / "key").write_text(KEY)
    server = DMMaster(base, extra=f'secret-key-path = "{base}/key"\n')
    server.start()
    yield server
    server.stop(seconds=15)


@pytest.fixture
def dmctl(master: DMMaster) -> Dmctl:
    def run(*argv: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(call(master, *argv))
        return answer

    return run


@pytest.fixture
def workers(master: DMMaster) -> Iterator[Callable[[str], FakeWorker]]:
    """Starts fake workers; at the end, no task, source or worker is left."""
    started: list[FakeWorker] = []

    def start(name: str) -> FakeWorker:
        worker = FakeWorker(name, master.address, key=bytes.fromhex(KEY)).start()
        started.append(worker)
        wait_until(lambda: stage_of(master, name) in ("free", "bound"), f"{name} is online")
        return worker

    yield start
    http(master, "tasks/t1", "PUT", {"op": "Delete"})
    sources = [one["source"] for one in http(master, "sources", "PUT", {"op": "ShowSource"})["sources"]]
    if sources:
        assert http(master, "sources", "PUT", {"op": "StopSource", "sourceID": sources})["result"]
    for worker in started:
        worker.stop()
        wait_until(lambda name=worker.name: stage_of(master, name) == "offline", "offline")  # type: ignore[misc]
        assert http(master, f"members/worker/{worker.name}", "DELETE")["result"]


@pytest.fixture
def upstream(mariadb_upstream: MariaDBServer) -> MariaDBServer:
    with mariadb_upstream.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        cursor.execute(f"CREATE OR REPLACE USER dm@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        cursor.execute("GRANT ALL ON *.* TO dm@'127.0.0.1'")
    return mariadb_upstream


@pytest.fixture
def own_master(tmp_path: Path) -> Iterator[DMMaster]:
    server = DMMaster(tmp_path)
    server.start()
    yield server
    server.stop(seconds=15)
