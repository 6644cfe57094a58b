"""Hazard: a task that cannot read what the upstream wrote shows that it is not behind."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import Running, location, running, subtask

pytestmark = pytest.mark.timeout(600)


def test_a_task_whose_binlog_was_purged_is_not_0_behind(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1)")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        wait_until(lambda: figures(run) == (0, 0), "it is up to date", WAIT_TIMEOUT)
    mariadb_upstream.execute("INSERT INTO d.t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (3)")
    wait_until(lambda: purged(mariadb_upstream), "a reader that is gone holds the file for a while", WAIT_TIMEOUT)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.code == 36069
    assert figures(run)[0] != 0
    assert figures(run)[1] != 0


def purged(server: MariaDBServer) -> bool:
    """Whether the file that is written is the only one left."""
    server.execute(f"PURGE BINARY LOGS TO '{location(server).position.name}'")
    return len(server.execute("SHOW BINARY LOGS")) == 1


def figures(run: Running) -> tuple[int, int]:
    status = run.unit.status()
    return status.secondsBehindMaster, status.bytesBehind
