"""Hazard: a cutover certifies what is not so, ends the task elsewhere, or is lost with a killed process."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import HarnessError, wait_until
from tests.e2e.scrape import address_of, scraped

TASK = """
name: task
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: one, block-allow-list: app}}]
block-allow-list: {{app: {{do-dbs: [app]}}}}
"""
#: What the test servers do not have: equal settings, a validator that runs, a binlog of the target.
ACCEPTED = ("validator", "settings", "users", "way-back")


def _start(cluster: Cluster, upstream: SQLServer, target: MariaDBServer, task: str = TASK) -> None:
    upstream.execute(
        "CREATE DATABASE app",
        "CREATE TABLE app.orders (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), price DOUBLE)",
        "INSERT INTO app.orders (name, price) VALUES ('a', 1.5), ('b', NULL), (NULL, -0.25)",
        "ALTER TABLE app.orders AUTO_INCREMENT = 500",
    )
    cluster.add_source(upstream, "one")
    cluster.ok("start-task", cluster.write_task(task.format(port=target.port)))
    cluster.wait_stage("task", "Running", unit="Sync")
    cluster.wait_synced("task")


@contextlib.contextmanager
def _read_only(upstream: SQLServer) -> Iterator[None]:
    name = "read_only" if isinstance(upstream, MariaDBServer) else "super_read_only"
    upstream.execute(f"SET GLOBAL {name} = 1")
    try:
        yield
    finally:
        upstream.execute(f"SET GLOBAL {name} = 0", "SET GLOBAL read_only = 0")


def _run(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """The certificate of a cutover that is carried out."""
    accept = [word for name in ACCEPTED for word in ("--accept", name)]
    cluster.dmctl_text(
        "cutover", "run", "task", "--quiet-seconds", "0.5", "--certificate", str(folder), *accept, timeout=300
    )
    (path,) = folder.glob("*.json")
    assert "Comparison: equal" in path.with_suffix(".txt").read_text()
    certificate: dict[str, Any] = json.loads(path.read_text())
    return {**certificate, "path": str(path)}


def _fails(cluster: Cluster, *args: str) -> str:
    with pytest.raises(HarnessError) as failed:
        cluster.dmctl_text(*args)
    return str(failed.value)


@pytest.fixture
def running(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer) -> Iterator[Cluster]:
    _start(free_cluster, mariadb_upstream, target)
    yield free_cluster
    with contextlib.suppress(HarnessError):
        free_cluster.dmctl("cutover", "end", "task")


@pytest.mark.timeout(600)
def test_a_cutover_ends_the_task_and_its_certificate_stays_true(
    running: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    assert "read-only" in _fails(running, "cutover", "run", "task", "--certificate", str(tmp_path))
    assert not [*tmp_path.iterdir()]
    with _read_only(mariadb_upstream):
        certificate = _run(running, tmp_path)
        assert [(one["table"], one["rows"]) for one in certificate["tables"]] == [("orders", 3)]
        assert running.subtask("task", "one")["stage"] == "Paused"
        ((name, position, *_),) = mariadb_upstream.execute("SHOW MASTER STATUS")
        assert certificate["sources"][0]["position"] == f"({name}, {position})"
        for refused in ("resume-task", "stop-task"):
            answer = running.dmctl(refused, "task")
            assert "43202" in answer["msg"]
        # Run again, it has the same certificate.
        (tmp_path / "again").mkdir()
        assert _run(running, tmp_path / "again") == {
            **certificate,
            "path": str(tmp_path / "again" / Path(certificate["path"]).name),
        }
        assert "everything is as it was" in running.dmctl_text("cutover", "verify", certificate["path"])
        target.execute("INSERT INTO app.orders (name) VALUES ('of the application')")
        assert target.execute("SELECT MAX(id) FROM app.orders") == [(500,)]
        shown = _fails(running, "cutover", "verify", certificate["path"])
        assert "`app`.`orders`: different since a moment after" in shown
        target.execute("DELETE FROM app.orders WHERE id = 500")
        assert "everything is as it was" in running.dmctl_text("cutover", "verify", certificate["path"])
    assert running.dmctl("cutover", "end", "task")["result"]
    running.ok("resume-task", "task")


@pytest.mark.timeout(600)
def test_a_cutover_survives_killed_processes(
    running: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    """The master is killed while the comparison runs, and again while the task ends; the worker after that."""
    for number in range(20):
        mariadb_upstream.execute(f"CREATE TABLE app.t{number} (id INT PRIMARY KEY)")
    running.wait_synced("task")
    with _read_only(mariadb_upstream):
        for stage in ("comparing", "ending"):
            ended = threading.Event()

            def run(ended: threading.Event = ended) -> None:
                with contextlib.suppress(HarnessError):
                    _run(running, tmp_path)
                ended.set()

            runner = threading.Thread(target=run)
            runner.start()

            def reached(stage: str = stage, ended: threading.Event = ended) -> bool:
                with contextlib.suppress(HarnessError):
                    return ended.is_set() or running.dmctl("cutover", "status", "task", "-o", "json")["stage"] in (
                        stage,
                        "ended",
                    )
                return ended.is_set()

            wait_until(reached, f"the cutover is {stage}", 120, step=0.02)
            running.master.kill()
            running.master.start()
            runner.join()
        for left in tmp_path.iterdir():
            left.unlink()
        certificate = _run(running, tmp_path)
        assert len(certificate["tables"]) == 21
        for worker in running.workers:
            worker.kill()
            worker.start()
        wait_until(lambda: bool(running.subtasks("task")), "the worker has the subtask", 60)
        assert running.subtask("task", "one")["stage"] == "Paused"
        assert "everything is as it was" in running.dmctl_text("cutover", "verify", certificate["path"])


def _late_writes(cluster: Cluster) -> list[dict[str, Any]]:
    """The lines of the file, once the worker watches."""
    (source,) = cluster.dmctl("query-status", "task")["sources"]
    (subtask,) = source["subTaskStatus"] or [{}]
    watch = subtask.get("cutover") or {"problem": "not yet"}
    if watch.get("problem") or not watch.get("file"):
        return []
    return [json.loads(line) for line in Path(watch["file"]).read_text().splitlines()]


@pytest.mark.timeout(600)
def test_writes_after_the_cutover_are_listed_row_by_row_also_after_a_restart(
    running: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    mariadb_upstream.execute("CREATE DATABASE IF NOT EXISTS other", "CREATE TABLE IF NOT EXISTS other.t (id INT)")
    with _read_only(mariadb_upstream):
        _run(running, tmp_path)
        assert "0 writes since" in running.dmctl_text("cutover", "status", "task")
    mariadb_upstream.execute(
        "INSERT INTO other.t VALUES (1)",
        "UPDATE app.orders SET price = 2.5 WHERE id = 1",
        "DELETE FROM app.orders WHERE id = 2",
        "TRUNCATE TABLE app.orders",
    )
    began = time.monotonic()
    wait_until(lambda: len(_late_writes(running)) >= 3, "the writes are listed", 60, step=0.1)
    print(f"late writes were listed after {time.monotonic() - began:.1f} s")
    writes = _late_writes(running)
    assert [(one["kind"], one["table"]) for one in writes] == [
        ("update", "`app`.`orders`"),
        ("delete", "`app`.`orders`"),
        ("statement", "`app`.`orders`"),
    ]
    assert writes[0]["before"]["price"] == "1.5e0"
    assert writes[0]["after"]["price"] == "2.5e0"
    assert "3 writes since the cutover" in _fails(running, "cutover", "status", "task")
    assert target.execute("SELECT price FROM app.orders WHERE id = 1") == [(1.5,)]
    for worker in running.workers:
        worker.kill()
        worker.start()
    running.master.kill()
    running.master.start()
    wait_until(lambda: _late_writes(running) == writes, "the writes are listed again", 120)
    pages = [scraped(address_of(worker)) for worker in running.workers]
    assert any(re.search(r"^dm_worker_writes_after_cutover\{.*\} 3", page, re.MULTILINE) for page in pages)
    assert running.dmctl("cutover", "end", "task")["result"]
    wait_until(
        lambda: "cutover" not in (running.subtasks("task").get("one") or {"cutover": 0}), "the watch has ended", 60
    )


@pytest.mark.timeout(600)
def test_a_mysql_upstream_is_cut_over(
    free_cluster: Cluster, mysql_upstream: MySQLServer, target: MariaDBServer, tmp_path: Path
) -> None:
    _start(free_cluster, mysql_upstream, target)
    try:
        with _read_only(mysql_upstream):
            certificate = _run(free_cluster, tmp_path)
            assert certificate["tables"][0]["rows"] == 3
    finally:
        with contextlib.suppress(HarnessError):
            free_cluster.dmctl("cutover", "end", "task")


def _reversed(cluster: Cluster, upstream: SQLServer, target: MariaDBServer, folder: Path) -> None:
    """Cuts over, goes back, and writes at the target: the upstream gets exactly that."""
    upstream.execute("CREATE TABLE app.notes (v INT)", "INSERT INTO app.notes VALUES (1), (1), (2)")
    cluster.wait_synced("task")
    with _read_only(upstream):
        _run(cluster, folder)
    address = re.escape(f"no source has the target's address 127.0.0.1:{target.port}")
    assert re.search(address, _fails(cluster, "cutover", "reverse", "task"))
    # Before the reverse task runs; and the forward task's own tables change too.
    target.execute("INSERT INTO moved.orders (name) VALUES ('early')", "DELETE FROM moved.notes WHERE v = 2")
    cluster.add_source(target, "back")
    cluster.ok("cutover", "reverse", "task")
    cluster.wait_stage("task_reverse", "Running", unit="Sync")
    target.execute(
        "INSERT INTO moved.notes VALUES (3), (3)",
        "UPDATE moved.orders SET price = price * 2 WHERE price IS NOT NULL",
        "ALTER TABLE moved.orders ADD COLUMN late INT DEFAULT 7",
        "INSERT INTO moved.orders (name, late) VALUES ('late', 8)",
        "DELETE FROM moved.orders WHERE name = 'a'",
    )
    cluster.wait_synced("task_reverse")
    for table, order in (("orders", "id"), ("notes", "v")):
        here, there = (
            server.execute(f"SELECT * FROM {schema}.{table} ORDER BY {order}")
            for server, schema in ((upstream, "app"), (target, "moved"))
        )
        assert here == there, table
    assert upstream.execute("SELECT v FROM app.notes ORDER BY v") == [(1,), (1,), (3,), (3,)]
    assert "replicated back by task_reverse" in cluster.dmctl_text("cutover", "status", "task")
    (path,) = folder.glob("*.json")
    shown = _fails(cluster, "cutover", "verify", str(path))
    assert re.search(r"`moved`.`notes`: different since .* UTC, \(.*\) of the target's binlog: other rows: 4", shown)
    # Again, it changes nothing.
    cluster.ok("cutover", "reverse", "task")


_MOVED = (
    TASK
    + """
routes: {{move: {{schema-pattern: app, target-schema: moved}}}}
"""
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["mariadb_upstream", "mysql_upstream"])
def test_a_cutover_is_reversed_without_a_lost_or_echoed_row(
    free_cluster: Cluster,
    new_mariadb: Callable[..., MariaDBServer],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
) -> None:
    target = new_mariadb()
    upstream: SQLServer = request.getfixturevalue(kind)
    task = _MOVED.replace("block-allow-list: app}}]", "block-allow-list: app, route-rules: [move]}}]")
    _start(free_cluster, upstream, target, task)
    try:
        _reversed(free_cluster, upstream, target, tmp_path)
    finally:
        with contextlib.suppress(HarnessError):
            free_cluster.dmctl("cutover", "end", "task")
