"""Operators make a stopped task continue with dmctl only, with worker and master killed in between."""

from __future__ import annotations

import json
import re
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.harness.certified import certify, validated

TASK = """\
name: out
task-mode: incremental
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine}}
block-allow-list:
  mine: {{do-dbs: [out], ignore-tables: [{{db-name: out, tbl-name: "q*"}}]}}
"""


class Stage:
    """A running task and its servers."""

    def __init__(self, cluster: Cluster, upstream: MariaDBServer, target: MariaDBServer) -> None:
        self.cluster, self.upstream, self.target = cluster, upstream, target
        self._rows = 0

    def start(self) -> None:
        for server in (self.upstream, self.target):
            server.execute("CREATE DATABASE `out`", "CREATE TABLE `out`.t (id INT PRIMARY KEY, v INT)")
        self.cluster.add_source(self.upstream, "s1")
        self.cluster.ok("start-task", self.cluster.write_task(validated(TASK.format(port=self.target.port))))
        self.cluster.wait_stage("out", "Running", unit="Sync")

    def write(self, *ddl: str) -> None:
        self._rows += 1
        self.upstream.execute(*ddl, f"INSERT INTO `out`.t (id, v) VALUES ({self._rows}, 1)")

    def check(self) -> None:
        self.cluster.wait_synced("out")
        query = "SELECT id, v FROM `out`.t ORDER BY id"
        assert self.target.execute(query) == self.upstream.execute(query)

    def place(self) -> str:
        name, pos, *_ = self.upstream.binlog_status()
        return f"{name}:{pos}"

    def one(self, *args: str) -> dict[str, Any]:
        """The answer for the one source."""
        (answer,) = self.cluster.dmctl(*args)["sources"]
        assert answer["source"] == "s1"
        assert answer["worker"] in {worker.member for worker in self.cluster.workers}
        return answer  # type: ignore[no-any-return]

    def orders(self) -> list[dict[str, Any]]:
        answer = self.one("binlog", "list", "out")
        assert answer["result"], answer
        return json.loads(answer["msg"]) if answer["msg"] else []

    def stopped(self, code: int) -> dict[str, Any]:
        """The error, from one status: the task retries by itself, and is paused only in between."""
        found: list[dict[str, Any]] = []

        def told() -> bool:
            for state in self.cluster.subtasks("out").values():
                if state["stage"] == "Paused":
                    found[:] = (state["result"] or {}).get("errors") or []
            return bool(found)

        wait_until(told, f"an error {code}", WAIT_TIMEOUT, step=0.3)
        (error,) = found
        assert error["ErrCode"] == code, error
        return error  # type: ignore[no-any-return]

    def resume(self) -> None:
        """Resumes after an error, which stays until the worker reads the request; the master allows 2 s for that."""
        self.cluster.dmctl("resume-task", "out")

        def resumed() -> bool:
            states = self.cluster.subtasks("out").values()
            return bool(states) and not any((state["result"] or {}).get("errors") for state in states)

        wait_until(resumed, "the error is gone", 60, step=0.3)

    def wait_orders_gone(self) -> None:
        wait_until(lambda: self.orders() == [], "orders that are passed to go", 60, step=0.5)


def test_operators_get_past_statements_and_structures(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    """One test, because a task takes long to start."""
    stage = Stage(free_cluster, mariadb_upstream, target)
    stage.start()
    _skip_where_it_stands(stage)
    _orders_survive_kills(stage)
    _a_wrong_structure_is_put_right(stage)
    _a_refused_batch_goes_on_in_safe_mode(stage)
    certify(free_cluster, "out")
    _orders_end_with_the_metadata(stage)


def _skip_where_it_stands(stage: Stage) -> None:
    stage.write()
    stage.check()
    assert "source 's1' has no error" in stage.one("binlog", "skip", "out")["msg"]
    stage.write("CREATE SEQUENCE `out`.q")
    workaround = stage.stopped(36067)["Workaround"]
    refused = stage.one("binlog", "replace", "out", "CREATE TABLE `out`.s (id INT PRIMARY KEY")
    assert not refused["result"]
    assert "code=11118" in refused["msg"]
    assert "statement 1 of 1" in refused["msg"]
    assert "code=36065" in stage.one("binlog", "revert", "out")["msg"]
    # The command from the error.
    command = re.search(r"`dmctl (binlog skip [^`]+)`", workaround)
    assert command is not None
    stage.cluster.ok(*command[1].split())
    stage.check()
    stage.wait_orders_gone()
    stage.write("CREATE SEQUENCE `out`.q2")
    stage.stopped(36067)
    stage.cluster.ok("handle-error", "out", "replace", "CREATE TABLE `out`.s2 (id INT PRIMARY KEY)")
    stage.check()
    assert stage.target.execute("SHOW TABLES IN `out` LIKE 's%'") == [("s2",)]


def _orders_survive_kills(stage: Stage) -> None:
    cluster = stage.cluster
    cluster.ok("pause-task", "out")
    first = stage.place()
    stage.write("CREATE SEQUENCE `out`.q3")
    second = stage.place()
    stage.write("CREATE TABLE `out`.plain (id INT PRIMARY KEY)")
    kept = stage.one("binlog", "replace", "out", "CREATE TABLE `out`.s3 (a INT); DROP TABLE `out`.s2", "-b", first)
    assert kept["result"]
    assert "resume-task" in kept["msg"]
    cluster.ok("binlog", "skip", "out", "-b", second)
    wanted = {"op": 2, "task": "out", "binlogPos": first}
    wanted["sqls"] = ["CREATE TABLE `out`.s3 (a INT)", "DROP TABLE `out`.s2"]  # type: ignore[assignment]
    assert stage.orders() == [wanted, {"op": 1, "task": "out", "binlogPos": second}]
    worker = cluster.worker_of("s1")
    for process in (worker, cluster.master):
        process.kill()
    # In this order: a worker ends if it finds no master for some seconds.
    for process in (cluster.master, worker):
        process.start()
    cluster.wait_stage("out", "Paused")
    wait_until(lambda: bool(stage.one("binlog", "list", "out")["result"]), "the unit takes commands", WAIT_TIMEOUT)
    cluster.ok("binlog", "revert", "out", "-b", second)
    assert stage.orders() == [wanted]
    cluster.ok("resume-task", "out")
    stage.check()
    assert sorted(stage.target.execute("SHOW TABLES IN `out`")) == [("plain",), ("s3",), ("t",)]
    stage.wait_orders_gone()


def _a_wrong_structure_is_put_right(stage: Stage) -> None:
    cluster = stage.cluster
    table = ("out", "out", "t", "-s", "s1")
    assert "code=40051" in stage.one("binlog-schema", "list", *table)["msg"]
    cluster.ok("pause-task", "out")
    shown = stage.one("binlog-schema", "list", *table)["msg"]
    assert shown.startswith("CREATE TABLE `t` (`id` int(11) NOT NULL, `v` int(11) NULL")
    wrong = cluster.dir / "wrong.sql"
    wrong.write_text("CREATE TABLE t (\n  id INT PRIMARY KEY\n)")
    cluster.ok("binlog-schema", "update", "out", "out", "t", str(wrong), "-s", "s1")
    stage.write()
    cluster.dmctl("resume-task", "out")  # the answer shows the error if that comes first
    assert "binlog-schema update" in stage.stopped(36027)["Workaround"]
    assert "only support to handle ddl error" in stage.one("binlog", "skip", "out")["msg"]
    cluster.ok("binlog-schema", "update", *table, "--from-source")
    assert stage.one("operate-schema", "get", "out", "-d", "out", "-t", "t", "-s", "s1")["msg"] == shown
    stage.resume()
    stage.check()


def _a_refused_batch_goes_on_in_safe_mode(stage: Stage) -> None:
    next_row = stage.upstream.execute("SELECT MAX(id) + 1 FROM `out`.t")[0][0]
    stage.target.execute(f"INSERT INTO `out`.t (id, v) VALUES ({next_row}, 99)")
    stage.write()
    workaround = stage.stopped(10006)["Workaround"]
    # The command from the error.
    command = re.search(r"`dmctl (resume-task out -s s1 --safe-mode)`", workaround)
    assert command is not None, workaround
    stage.cluster.dmctl(*command[1].split())  # the answer may show the earlier error
    stage.check()
    assert "safe" not in stage.cluster.dmctl("config", "task", "out")["cfg"].replace("safe-mode: false", "")


def _orders_end_with_the_metadata(stage: Stage) -> None:
    cluster = stage.cluster
    place = stage.place()
    cluster.ok("binlog", "skip", "out", "-b", place)
    cluster.ok("stop-task", "out")
    task = str(cluster.dir / "task.yaml")
    cluster.ok("start-task", task)
    cluster.wait_stage("out", "Running", unit="Sync")
    assert [order["binlogPos"] for order in stage.orders()] == [place]
    cluster.ok("stop-task", "out")
    assert cluster.dmctl("binlog", "list", "out")["result"] is False
    cluster.ok("start-task", task, "--remove-meta")
    cluster.wait_stage("out", "Running", unit="Sync")
    assert stage.orders() == []
