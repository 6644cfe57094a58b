"""Cutovers in end-to-end tests: a small task, its end, and what is written afterwards."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import HarnessError
from tests.harness.beside import beside

TASK = """
name: task
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{instances}]
block-allow-list: {{app: {{do-dbs: [app]}}}}
"""
INSTANCE = "{{source-id: {source}, block-allow-list: app}}"
#: The same, with all tables in another schema of the target.
MOVED_TASK = f"{TASK}routes: {{{{move: {{{{schema-pattern: app, target-schema: moved}}}}}}}}\n"
MOVED_INSTANCE = "{{source-id: {source}, block-allow-list: app, route-rules: [move]}}"
#: What the test servers do not have: equal settings, a validator that runs, a binlog of the target.
ACCEPTED = ("validator", "settings", "users", "way-back")


def start(
    cluster: Cluster,
    upstreams: Mapping[str, SQLServer],
    target: SQLServer,
    *,
    task: str = TASK,
    instance: str = INSTANCE,
    gtid: bool = False,
    relay: bool = False,
) -> None:
    """A table of three rows for each upstream, which have different keys, in one table of the target."""
    for number, (source, upstream) in enumerate(upstreams.items()):
        upstream.execute(
            "CREATE DATABASE app",
            "CREATE TABLE app.orders (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), price DOUBLE)",
            f"ALTER TABLE app.orders AUTO_INCREMENT = {1 + 100 * number}",
            "INSERT INTO app.orders (name, price) VALUES ('a', 1.5), ('b', NULL), (NULL, -0.25)",
            "ALTER TABLE app.orders AUTO_INCREMENT = 500",
        )
        cluster.add_source(upstream, source, gtid=gtid, relay=relay)
    instances = ", ".join(instance.format(source=source) for source in upstreams)
    cluster.ok("start-task", cluster.write_task(task.format(port=target.port, instances=instances)))
    cluster.wait_stage("task", "Running", unit="Sync")
    cluster.wait_synced("task")


@contextlib.contextmanager
def ends_cutover(cluster: Cluster) -> Iterator[None]:
    """Frees the task at the end, if it is not free."""
    try:
        yield
    finally:
        with contextlib.suppress(HarnessError):
            cluster.dmctl("cutover", "end", "task")


@contextlib.contextmanager
def read_only(upstream: SQLServer) -> Iterator[None]:
    name = "read_only" if isinstance(upstream, MariaDBServer) else "super_read_only"
    upstream.execute(f"SET GLOBAL {name} = 1")
    try:
        yield
    finally:
        upstream.execute(f"SET GLOBAL {name} = 0", "SET GLOBAL read_only = 0")


def carried_out(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """The certificate of a cutover that is carried out."""
    accept = [word for name in ACCEPTED for word in ("--accept", name)]
    cluster.dmctl_text(
        "cutover", "run", "task", "--quiet-seconds", "0.5", "--certificate", str(folder), *accept, timeout=300
    )
    (path,) = folder.glob("*.json")
    assert "Comparison: equal" in path.with_suffix(".txt").read_text()
    certificate: dict[str, Any] = json.loads(path.read_text())
    return {**certificate, "path": str(path)}


def failure(cluster: Cluster, *args: str) -> str:
    with pytest.raises(HarnessError) as failed:
        cluster.dmctl_text(*args)
    return str(failed.value)


def late_writes(cluster: Cluster, source: str = "one") -> list[dict[str, Any]]:
    """The lines of the file, once the worker watches."""
    watch = cluster.subtasks("task").get(source, {}).get("cutover") or {"problem": "not yet"}
    if watch.get("problem") or not watch.get("file"):
        return []
    return [json.loads(line) for line in Path(watch["file"]).read_text().splitlines()]


def checked(cluster: Cluster, *accepted: str) -> dict[str, dict[str, Any]]:
    """The checks by name; ``""`` has whether all are passed."""
    accept = [word for name in accepted for word in ("--accept", name)]
    try:
        text = cluster.dmctl_text("cutover", "check", "task", "-o", "json", "--quiet-seconds", "1", *accept)
    except HarnessError as exc:  # dmctl exits with 1 unless all is passed
        text = str(exc)
    answer = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return {"": {"passed": answer["result"]}, **{one["name"]: one for one in answer["checks"]}}


@contextlib.contextmanager
def writing(server: SQLServer, *statements: str) -> Iterator[None]:
    """Executes the statements again and again in the block."""

    def write(ended: threading.Event) -> None:
        while not ended.wait(0.01):
            server.execute(*statements)

    with beside(write):
        yield
