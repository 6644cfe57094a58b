"""Hazard: a cutover certifies what is not so, ends the task elsewhere, or is lost with a killed process."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import HarnessError, wait_until
from tests.e2e.scrape import address_of, scraped
from tests.harness.cutovers import (
    MOVED_INSTANCE,
    MOVED_TASK,
    carried_out,
    ends_cutover,
    failure,
    late_writes,
    read_only,
    start,
    writing,
)


@pytest.fixture
def running(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer) -> Iterator[Cluster]:
    start(free_cluster, {"one": mariadb_upstream}, target)
    with ends_cutover(free_cluster):
        yield free_cluster


@pytest.mark.timeout(600)
def test_a_cutover_ends_the_task_and_its_certificate_stays_true(
    running: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    assert "read-only" in failure(running, "cutover", "run", "task", "--certificate", str(tmp_path))
    assert not [*tmp_path.iterdir()]
    with read_only(mariadb_upstream):
        certificate = carried_out(running, tmp_path)
        assert [(one["table"], one["rows"]) for one in certificate["tables"]] == [("orders", 3)]
        assert running.subtask("task", "one")["stage"] == "Paused"
        ((name, position, *_),) = mariadb_upstream.execute("SHOW MASTER STATUS")
        assert certificate["sources"][0]["position"] == f"({name}, {position})"
        for refused in ("resume-task", "stop-task"):
            answer = running.dmctl(refused, "task")
            assert "43202" in answer["msg"]
        # Run again, it has the same certificate.
        (tmp_path / "again").mkdir()
        assert carried_out(running, tmp_path / "again") == {
            **certificate,
            "path": str(tmp_path / "again" / Path(certificate["path"]).name),
        }
        assert "everything is as it was" in running.dmctl_text("cutover", "verify", certificate["path"])
        target.execute("INSERT INTO app.orders (name) VALUES ('of the application')")
        assert target.execute("SELECT MAX(id) FROM app.orders") == [(500,)]
        shown = failure(running, "cutover", "verify", certificate["path"])
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
    with read_only(mariadb_upstream):
        for stage in ("comparing", "ending"):
            ended = threading.Event()

            def run(ended: threading.Event = ended) -> None:
                with contextlib.suppress(HarnessError):
                    carried_out(running, tmp_path)
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
        certificate = carried_out(running, tmp_path)
        assert len(certificate["tables"]) == 21
        for worker in running.workers:
            worker.kill()
            worker.start()
        wait_until(lambda: bool(running.subtasks("task")), "the worker has the subtask", 60)
        assert running.subtask("task", "one")["stage"] == "Paused"
        assert "everything is as it was" in running.dmctl_text("cutover", "verify", certificate["path"])


@pytest.mark.timeout(600)
def test_writes_after_the_cutover_are_listed_row_by_row_also_after_a_restart(
    running: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    mariadb_upstream.execute("CREATE DATABASE IF NOT EXISTS other", "CREATE TABLE IF NOT EXISTS other.t (id INT)")
    with read_only(mariadb_upstream):
        carried_out(running, tmp_path)
        assert "0 writes since" in running.dmctl_text("cutover", "status", "task")
    mariadb_upstream.execute(
        "INSERT INTO other.t VALUES (1)",
        "UPDATE app.orders SET price = 2.5 WHERE id = 1",
        "DELETE FROM app.orders WHERE id = 2",
        "TRUNCATE TABLE app.orders",
    )
    began = time.monotonic()
    wait_until(lambda: len(late_writes(running)) >= 3, "the writes are listed", 60, step=0.1)
    print(f"late writes were listed after {time.monotonic() - began:.1f} s")
    writes = late_writes(running)
    assert [(one["kind"], one["table"]) for one in writes] == [
        ("update", "`app`.`orders`"),
        ("delete", "`app`.`orders`"),
        ("statement", "`app`.`orders`"),
    ]
    assert writes[0]["before"]["price"] == "1.5e0"
    assert writes[0]["after"]["price"] == "2.5e0"
    assert "3 writes since the cutover" in failure(running, "cutover", "status", "task")
    assert target.execute("SELECT price FROM app.orders WHERE id = 1") == [(1.5,)]
    for process in (*running.workers, running.master):
        process.kill()
    # In this order: a worker that has never joined gives up after some seconds without a master.
    for process in (running.master, *running.workers):
        process.start()
    wait_until(lambda: late_writes(running) == writes, "the writes are listed again", 120)
    pages = [scraped(address_of(worker)) for worker in running.workers]
    assert any(re.search(r"^dm_worker_writes_after_cutover\{.*\} 3", page, re.MULTILINE) for page in pages)
    assert running.dmctl("cutover", "end", "task")["result"]
    wait_until(
        lambda: "cutover" not in (running.subtasks("task").get("one") or {"cutover": 0}), "the watch has ended", 60
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("reading", ["gtid", "relay"])
def test_a_cutover_of_a_task_that_reads_by_gtid_or_from_a_relay(
    free_cluster: Cluster, mysql_upstream: MySQLServer, target: MariaDBServer, tmp_path: Path, reading: str
) -> None:
    start(free_cluster, {"one": mysql_upstream}, target, gtid=reading == "gtid", relay=reading == "relay")
    with ends_cutover(free_cluster):
        if reading == "relay":
            wait_until(lambda: _reads_from(free_cluster) == "local", "the task reads the relay log", 120)
        mysql_upstream.execute("INSERT INTO app.orders (name) VALUES ('replicated')")
        free_cluster.wait_synced("task")
        with read_only(mysql_upstream):
            certificate = carried_out(free_cluster, tmp_path)
        assert certificate["tables"][0]["rows"] == 4
        mysql_upstream.execute("DELETE FROM app.orders WHERE id = 1")
        wait_until(lambda: bool(late_writes(free_cluster)), "the write is listed", 60, step=0.1)
        (write,) = late_writes(free_cluster)
        assert (write["kind"], write["before"]["name"]) == ("delete", "'a'")
        ((_, _, _, _, executed),) = mysql_upstream.execute("SHOW MASTER STATUS")
        assert write["gtid"].partition(":")[2] == str(executed).rpartition("-")[2]


def _reads_from(cluster: Cluster) -> str:
    """Where the task reads the binlog."""
    return str(cluster.subtask("task", "one")["sync"]["binlogType"])


@pytest.mark.timeout(600)
def test_a_cutover_of_merged_sources_watches_all_of_them_and_has_no_way_back(
    free_cluster: Cluster,
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    new_mariadb: Callable[..., MariaDBServer],
    tmp_path: Path,
) -> None:
    target = new_mariadb()
    start(free_cluster, {"one": mariadb_upstream, "two": mysql_upstream}, target)
    with ends_cutover(free_cluster):
        with read_only(mariadb_upstream):
            # Of one upstream alone.
            assert "on two: SET GLOBAL super_read_only = 1" in failure(free_cluster, "cutover", "check", "task")
            with read_only(mysql_upstream):
                certificate = carried_out(free_cluster, tmp_path)
        assert [(one["table"], one["rows"]) for one in certificate["tables"]] == [("orders", 6)]
        assert [one["source"] for one in certificate["sources"]] == ["one", "two"]
        assert {one["stage"] for one in free_cluster.subtasks("task").values()} == {"Paused"}
        refused = failure(free_cluster, "cutover", "reverse", "task")
        assert "there is no way back for task task: several tables merge into `app`.`orders`" in refused
        mysql_upstream.execute("UPDATE app.orders SET name = 'late' WHERE id = 101")
        wait_until(lambda: bool(late_writes(free_cluster, "two")), "the write is listed", 60, step=0.1)
        assert not late_writes(free_cluster, "one")
        assert "two: 1 writes since the cutover" in failure(free_cluster, "cutover", "status", "task")


def _reversed(cluster: Cluster, upstream: SQLServer, target: MariaDBServer, folder: Path, *, gtid: bool) -> None:
    """Cuts over, goes back, and writes at the target: the upstream gets exactly that."""
    upstream.execute(
        "CREATE TABLE app.notes (v INT)",
        "INSERT INTO app.notes VALUES (1), (1), (2)",
        "CREATE TABLE app.log (v INT)",
        "INSERT INTO app.log VALUES (0)",
    )
    cluster.wait_synced("task")
    with read_only(upstream):
        carried_out(cluster, folder)
    address = re.escape(f"no source has the target's address 127.0.0.1:{target.port}")
    assert re.search(address, failure(cluster, "cutover", "reverse", "task"))
    # Before the reverse task runs; and the forward task's own tables change too.
    target.execute("INSERT INTO moved.orders (name) VALUES ('early')", "DELETE FROM moved.notes WHERE v = 2")
    cluster.add_source(target, "back", gtid=gtid)
    # And while it starts; in a table without a key, so that a row that comes twice stays.
    with writing(target, "INSERT INTO moved.log SELECT MAX(v) + 1 FROM moved.log"):
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
    for table, order in (("orders", "id"), ("notes", "v"), ("log", "v")):
        here, there = (
            server.execute(f"SELECT * FROM {schema}.{table} ORDER BY {order}")
            for server, schema in ((upstream, "app"), (target, "moved"))
        )
        assert here == there, table
        assert len(there) > 1
    assert upstream.execute("SELECT v FROM app.notes ORDER BY v") == [(1,), (1,), (3,), (3,)]
    assert "replicated back by task_reverse" in cluster.dmctl_text("cutover", "status", "task")
    (path,) = folder.glob("*.json")
    shown = failure(cluster, "cutover", "verify", str(path))
    assert re.search(r"`moved`.`notes`: different since .* UTC, \(.*\) of the target's binlog: other rows: 4", shown)
    # Again, it changes nothing.
    cluster.ok("cutover", "reverse", "task")
    _others_in_the_old_upstream(cluster, upstream)


def _others_in_the_old_upstream(cluster: Cluster, upstream: SQLServer) -> None:
    """All that the reverse task wrote there does not count; what others write does."""

    def watched() -> bool:
        watch = cluster.subtask("task", "one").get("cutover") or {}
        return not watch.get("problem") and watch.get("replicatedBy") == "task_reverse"

    wait_until(watched, "the old upstream is watched", 60)
    assert "0 writes of others since" in cluster.dmctl_text("cutover", "status", "task")
    began = time.monotonic()
    upstream.execute("UPDATE app.orders SET name = 'astray' WHERE name = 'late'")
    wait_until(lambda: bool(late_writes(cluster)), "the write is listed", 60, step=0.1)
    print(f"a write of others was listed after {time.monotonic() - began:.1f} s")
    upstream.execute("ALTER TABLE app.notes ADD COLUMN astray INT")
    wait_until(lambda: len(late_writes(cluster)) > 1, "the statement is listed", 60, step=0.1)
    assert [(one["kind"], one["table"]) for one in late_writes(cluster)] == [
        ("update", "`app`.`orders`"),
        ("statement", "`app`.`notes`"),
    ]
    assert "2 writes since the cutover" in failure(cluster, "cutover", "status", "task")


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
    # What is replicated back is read by GTID as well as by position.
    gtid = kind == "mysql_upstream"
    start(free_cluster, {"one": upstream}, target, task=MOVED_TASK, instance=MOVED_INSTANCE, gtid=gtid)
    with ends_cutover(free_cluster):
        _reversed(free_cluster, upstream, target, tmp_path, gtid=gtid)
