"""Scripts written for DM search for fixed phrases in answers, status and logs. The real programs must show each one.

The phrases of dmctl itself (wrong use, files) are in ``tests/unit/dmctl/commands/test_all_commands.py``.
"""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until

#: Upstream and target user without privileges on the target's side.
POOR = "user: poor, password: ''"
ROOT = "user: root, password: ''"
EXTRACT = """\
routes:
  r: {schema-pattern: texts_shards, target-schema: texts_out, target-table: t,
      extract-table: {table-regexp: "(.*)", target-column: origin}}
"""
SHARDED = """\
shard-mode: pessimistic
routes:
  r: {schema-pattern: texts_shards, table-pattern: "s?", target-schema: texts_out, target-table: merged}
"""
FILTERED = """\
filters:
  f: {schema-pattern: texts_filtered, events: [value range decrease], action: Error}
"""

A_WARNING = "a user without UPDATE"
#: check-task: (problem, task, phrases of the answer, number of times). Error and check have an instruction.
CHECKS: tuple[tuple[str, dict[str, Any], str, int], ...] = (
    (A_WARNING, {"account": POOR, "schema": "texts_plain"}, "lack of Update global (*.*) privilege", 1),
    (
        "target tables without the columns that routes fill, one error for each table",
        {"schema": "texts_shards", "rest": EXTRACT, "rules": "route-rules: [r]"},
        "must contain extended columns", 2,
    ),
    (
        "such target tables that do not exist",
        {"schema": "texts_shards", "rest": EXTRACT.replace("target-table: t", "target-table: no"),
         "rules": "route-rules: [r]"},
        "does not exist in downstream table", 2,
    ),
    ("a target that does not answer", {"schema": "texts_plain", "port": 1}, "Please check the database connection", 2),
)  # fmt: skip
#: Tasks that stop, and query-status: (task, its file, error code, field of the error, phrases in it).
STOPPED: tuple[tuple[str, dict[str, Any], int, str, list[str]], ...] = (
    (
        "texts_sharded", {"schema": "texts_shards", "rest": SHARDED, "rules": "route-rules: [r]"},
        36008, "Message", ["detect inconsistent DDL sequence"],
    ),
    ("texts_missing", {"schema": "texts_plain"}, 36027, "RawCause", ["Error 1054 (42S22): Unknown column 'v'"]),
    (
        "texts_filtered", {"schema": "texts_filtered", "rest": FILTERED, "rules": "filter-rules: [f]"},
        36015, "Message", ["event value range decrease"],
    ),
)  # fmt: skip
LOCATIONS = re.compile(
    r"startLocation: \[position: \(mysql-bin\.\d+, \d+\), gtid-set: [^\]]*\], "
    r"endLocation: \[position: \(mysql-bin\.\d+, \d+\), gtid-set: [^\]]*\]"
)
LOGGED = ("task can't auto resume", "error is not resumable", "flush table info", "clean dump files")
#: `config KIND NAME`: lines of the answer. Defaults are filled in, durations are in DM's form.
CONFIGS = (
    ("task", "texts_missing", ["threads: 4", "pool-size: 16", "worker-count: 16"]),
    ("source", "s1", ["source-id: s1", "backoff-rollback: 5m0s", "backoff-max: 5m0s"]),
)


def test_the_fixed_strings(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    """One test, because its tasks take long to start."""
    scene = Scene(free_cluster, mariadb_upstream, target)
    scene.prepare()
    for wrong, task, word, times in CHECKS:
        answer = scene.cluster.dmctl("check-task", scene.file("checked", **task))
        assert answer["result"] is (wrong == A_WARNING), wrong
        assert answer["msg"].count(word) == times, (wrong, answer["msg"])
    for name, task, *_ in STOPPED:
        scene.cluster.ok("start-task", scene.file(name, **task))
    for name, *_ in STOPPED:
        scene.cluster.wait_stage(name, "Running", unit="Sync")
        scene.cluster.wait_synced(name)
    scene.break_tasks()
    for name, _, code, member, words in STOPPED:
        error = scene.error_of(name)
        assert error["ErrCode"] == code, error
        assert [word for word in words if word not in error[member]] == [], error
        assert LOCATIONS.search(error["Message"]), error
        assert error["Workaround"], error
        if member == "RawCause":
            assert [word for word in words if word in error["Message"]] == [], "the server's text is there once"
    scene.log_lines()
    for kind, name, lines in CONFIGS:
        shown = [line.strip() for line in scene.cluster.dmctl("config", kind, name)["cfg"].splitlines()]
        assert [line for line in lines if line not in shown] == [], shown
    (lost,) = scene.cluster.dmctl("binlog", "list", "texts_missing", "-s", "wrong-source")["sources"]
    assert re.search(r"code=46008.*source wrong-source.*not found", lost["msg"]), lost
    assert scene.cluster.dmctl("get-task-config", "texts_missing")["result"] is True
    for kind in ("task", "master", "worker", "source"):
        assert f"{kind} not found" in scene.cluster.dmctl("config", kind, "absent")["msg"]
    with urllib.request.urlopen(
        f"http://{scene.cluster.master.address}/apis/v1alpha1/subtasks/texts_missing"
    ) as answer:
        (text,) = json.loads(answer.read())["cfgs"]
    assert [line for line in ("is-sharding = false", 'name = "texts_missing"') if line not in text.splitlines()] == []


class Scene:
    """A source s1 with tables for tasks that stop."""

    def __init__(self, cluster: Cluster, upstream: MariaDBServer, target: MariaDBServer) -> None:
        self.cluster = cluster
        self.upstream = upstream
        self.target = target

    def prepare(self) -> None:
        self.upstream.execute(
            *(f"CREATE DATABASE texts_{schema}" for schema in ("shards", "plain", "filtered")),
            *(f"CREATE TABLE texts_{name} (id INT PRIMARY KEY, v INT)"
              for name in ("shards.s1", "shards.s2", "plain.t", "filtered.t")),
        )  # fmt: skip
        self.target.execute(
            "CREATE DATABASE texts_out",
            "CREATE TABLE texts_out.t (id INT PRIMARY KEY, v INT)",
            "CREATE USER poor@'127.0.0.1'",
            "GRANT SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX ON *.* TO poor@'127.0.0.1'",
        )
        # No retries: they may stop for another reason than the first attempt.
        source = self.cluster.write_task(
            "source-id: s1\nchecker: {check-enable: false}\n"
            f"from: {{host: 127.0.0.1, port: {self.upstream.port}, user: root, password: ''}}\n",
            "s1.yaml",
        )
        self.cluster.ok("operate-source", "create", source)

    def file(
        self, name: str, *, schema: str, account: str = ROOT, port: int = 0, rest: str = "", rules: str = ""
    ) -> str:
        text = (
            f"name: {name}\ntask-mode: all\nignore-checking-items: [auto_increment_ID]\n"
            f"target-database: {{host: 127.0.0.1, port: {port or self.target.port}, {account}}}\n"
            f"mysql-instances:\n  - {{source-id: s1, block-allow-list: mine{', ' if rules else ''}{rules}}}\n"
            f"block-allow-list:\n  mine: {{do-dbs: [{schema}]}}\n{rest}"
        )
        return self.cluster.write_task(text, f"{name}.yaml")

    def break_tasks(self) -> None:
        self.target.execute("ALTER TABLE texts_plain.t DROP COLUMN v")
        self.upstream.execute(
            "ALTER TABLE texts_shards.s1 ADD COLUMN a INT",
            "ALTER TABLE texts_shards.s2 ADD COLUMN b INT",
            "INSERT INTO texts_plain.t VALUES (1, 1)",
            "ALTER TABLE texts_filtered.t MODIFY v TINYINT",
        )

    def error_of(self, task: str) -> dict[str, Any]:
        """The error with which the task has paused."""
        found: list[dict[str, Any]] = []

        def paused() -> bool:
            found[:] = (self.cluster.subtask(task, "s1")["result"] or {}).get("errors", [])
            return bool(found)

        wait_until(paused, f"{task} has an error", WAIT_TIMEOUT, step=0.3)
        return found[0]

    def log_lines(self) -> None:
        self.cluster.ok("binlog-schema", "update", "texts_missing", "texts_plain", "t", "--from-source", "-s", "s1")
        logs = "".join((worker.dir / "dm-worker.log").read_text() for worker in self.cluster.workers)
        assert [words for words in LOGGED if words not in logs] == []
