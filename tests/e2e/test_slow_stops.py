"""Pause, stop and SIGTERM while a subtask waits for the target: the answer comes in time, and each row counts once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.harness.certified import certify, validated

TASK = """\
name: slow
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [slow]}}}}
"""
#: Seconds in which a command must answer: the master waits for 10 s, the rest is for a busy machine.
IN_TIME = 25.0


@pytest.mark.target_with("rows held by open transactions")
def test_a_subtask_that_waits_for_the_target_is_stopped_in_time(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    """One test, because a task takes long to start."""
    cluster, upstream = free_cluster, mariadb_upstream
    upstream.execute("CREATE DATABASE slow", "CREATE TABLE slow.t (id INT PRIMARY KEY, v INT)")
    upstream.execute("INSERT INTO slow.t VALUES (1, 0), (2, 0)")
    cluster.add_source(upstream, "s1")
    task = cluster.write_task(validated(TASK.format(port=target.port)))
    cluster.ok("start-task", task)
    cluster.wait_stage("slow", "Running", unit="Sync")
    cluster.wait_synced("slow")

    def same_rows() -> None:
        cluster.wait_synced("slow")
        query = "SELECT * FROM slow.t ORDER BY id"
        assert target.execute(query) == upstream.execute(query)

    # A transaction holds a row that a batch writes.
    with _holding(target, "SELECT * FROM slow.t WHERE id = 1 FOR UPDATE"):
        upstream.execute("UPDATE slow.t SET v = v + 1", "INSERT INTO slow.t VALUES (3, 0)")
        _wait_for_row_lock(target)
        _answered(lambda: cluster.dmctl("pause-task", "slow"), "")
        cluster.wait_stage("slow", "Paused")
    cluster.ok("resume-task", "slow")
    same_rows()

    # A DDL waits for a transaction: it is rolled back, and executed once after the resume.
    with _holding(target, "SELECT * FROM slow.t"):
        upstream.execute("ALTER TABLE slow.t ADD COLUMN w INT DEFAULT 5", "UPDATE slow.t SET w = w + 1")
        _wait_for_table_lock(target)
        _answered(lambda: cluster.dmctl("pause-task", "slow"), "ALTER TABLE")
        cluster.wait_stage("slow", "Paused")
        assert not _statements(target, "ALTER")
        cluster.ok("resume-task", "slow")
        _wait_for_table_lock(target)
        _answered(lambda: cluster.dmctl("stop-task", "slow"), "ALTER TABLE")
        wait_until(lambda: not _statements(target, "ALTER"), "the DDL has ended", WAIT_TIMEOUT, step=0.2)
    cluster.ok("start-task", task)
    same_rows()

    with _holding(target, "SELECT * FROM slow.t WHERE id = 1 FOR UPDATE"):
        upstream.execute("UPDATE slow.t SET v = v + 1")
        _wait_for_row_lock(target)
        # After 30 s, DM's limit, the test would kill it, with another exit code.
        worker = cluster.worker_of("s1")
        assert worker.stop(seconds=30) == 0
    worker.start()
    same_rows()
    certify(cluster, "slow")


def _answered(command: Callable[[], dict[str, Any]], waits_for: str) -> None:
    """Asserts that the answer comes in time. If the subtask has not ended, the answer shows what it waits for."""
    began = time.monotonic()
    (source,) = command()["sources"]
    assert time.monotonic() - began < IN_TIME
    assert source["result"] or waits_for in source["msg"], source


@contextmanager
def _holding(server: MariaDBServer, statement: str) -> Iterator[None]:
    """A transaction of another application, in which ``statement`` has run."""
    conn = pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=False)
    try:
        with conn.cursor() as cursor:
            cursor.execute(statement)
        yield
    finally:
        conn.close()


def _wait_for_row_lock(server: MariaDBServer) -> None:
    query = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    wait_until(lambda: server.execute(query) != [(0,)], "a statement waits for a row", WAIT_TIMEOUT, step=0.2)


def _wait_for_table_lock(server: MariaDBServer) -> None:
    def waits() -> bool:
        return any("metadata lock" in state for state in _statements(server, "ALTER"))

    wait_until(waits, "the DDL waits for the table", WAIT_TIMEOUT, step=0.2)


def _statements(server: MariaDBServer, beginning: str) -> list[str]:
    """The states of running statements with this beginning."""
    query = "SELECT state, info FROM information_schema.processlist WHERE info IS NOT NULL"
    return [str(state) for state, info in server.execute(query) if beginning in info[:40] and "processlist" not in info]
