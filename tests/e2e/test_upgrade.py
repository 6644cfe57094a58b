"""Hazard: an upgrade reads the stored state differently: it loses or doubles rows, loses locks or orders.

``data/version-before.tar.xz`` is the code of the version before. It runs real tasks, is killed while every kind of
stored state is in use, and the current code continues from there. A rollback is the other direction.
"""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from deploy.local.cluster import ROOT, Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import wait_until
from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc, dmworker_pb2
from tests.harness.certified import NotAsked
from tests.harness.sharded import Servers, ShardedTask, arrives

VERSION_BEFORE = Path(__file__).parent / "data" / "version-before.tar.xz"
TASK = """\
name: {name}
task-mode: {mode}
online-ddl: true
clean-dump-file: false
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: source-1, block-allow-list: mine}}
block-allow-list:
  mine: {{do-dbs: [{name}]}}
"""


@dataclass
class Before:
    """A cluster of the version before, with its sources and their target."""

    cluster: Cluster
    one: MariaDBServer
    two: MySQLServer
    target: SQLServer
    code: Path

    def task(self, name: str, mode: str) -> str:
        return self.cluster.write_task(TASK.format(name=name, mode=mode, port=self.target.port), f"{name}.yaml")

    def upgrade(self) -> None:
        """kill -9 of all processes; the current code starts in their place."""
        self._start_from(ROOT)

    def roll_back(self) -> None:
        """kill -9 of all processes; the version before starts in their place."""
        self._start_from(self.code)

    def _start_from(self, code: Path) -> None:
        for process in (*self.cluster.workers, self.cluster.master):
            process.kill()
        self.cluster.run_from(code)
        self.cluster.start()


@pytest.fixture(scope="module")
def before(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Before]:
    base = tmp_path_factory.mktemp("upgrade")
    with tarfile.open(VERSION_BEFORE) as archive:
        archive.extractall(base / "code", filter="data")
    cluster = Cluster(2, base=base, keepalive_ttl=5, worker_extra=f'relay-dir = "{base}/relay"')
    cluster.run_from(base / "code")
    try:
        cluster.start()
        for number, server in enumerate(servers[:2], start=1):
            cluster.add_source(server, f"source-{number}", gtid=True)
        yield Before(cluster, *servers, base / "code")
    finally:
        cluster.close()


def test_everything_that_is_stored_is_read_by_the_next_version(before: Before) -> None:
    cluster, one, target = before.cluster, before.one, before.target
    sharded = ShardedTask(cluster, (one, before.two), target, "merged", not_validated=NotAsked.VERSION_BEFORE)
    sharded.create(seed=11)
    try:
        cluster.ok("start-relay", "-s", "source-1")
        sharded.start()
        _begin_online_change_and_xa(before)
        _stop_a_load_half_way(before)
        skipped = _order_a_statement_to_be_skipped(before)
        # A lock waits, with rows held back, while writers continue.
        sharded.alter(sharded.shards("orders", 0), "ADD COLUMN c1 INT NOT NULL DEFAULT 7", adds="c1")
        sharded.wait_lock("orders", "waiting", "source-2")
        relayed = _relay_folders(before)

        before.upgrade()

        sharded.wait_lock("orders", "waiting", "source-2")
        cluster.wait_stage("changing", "Running", unit="Sync")
        assert _shown_orders(before) == [skipped]
        sharded.alter(sharded.shards("orders", 1), "ADD COLUMN c1 INT NOT NULL DEFAULT 7", adds="c1")
        sharded.wait_no_lock()
        _end_online_change_and_xa(before)
        _end_the_load(before)
        sharded.finish()
    finally:
        sharded.abandon()
    sharded.assert_executed_once("`orders` ADD COLUMN c1 INT NOT NULL DEFAULT 7")
    assert relayed <= _relay_folders(before), "the relay goes on in its files"
    for worker in cluster.workers:
        log = (worker.dir / "dm-worker.log").read_text()
        assert "planned differently" not in log, "a batch that was under way is another one now"


def _begin_online_change_and_xa(before: Before) -> None:
    """Alters a ghost table without the swap, and prepares rows of an XA transaction."""
    before.one.execute(
        "CREATE DATABASE changing",
        "CREATE TABLE changing.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO changing.t VALUES (1, 1)",
        "CREATE TABLE changing.x (id INT PRIMARY KEY)",
    )
    before.cluster.ok("start-task", before.task("changing", "all"))
    before.cluster.wait_stage("changing", "Running", unit="Sync")
    before.one.execute("CREATE TABLE changing._t_gho LIKE changing.t", "ALTER TABLE changing._t_gho ADD COLUMN w INT")
    conn = before.one.connect()
    with conn.cursor() as cursor:
        for sql in ("XA START 'upgrade'", "INSERT INTO changing.x VALUES (7)", "XA END 'upgrade'"):
            cursor.execute(sql)
        cursor.execute("XA PREPARE 'upgrade'")
    conn.close()
    before.cluster.wait_synced("changing")


def _end_online_change_and_xa(before: Before) -> None:
    before.one.execute(
        "INSERT INTO changing._t_gho SELECT id, v, 5 FROM changing.t",
        "RENAME TABLE changing.t TO changing._t_del, changing._t_gho TO changing.t",
        "INSERT INTO changing.t VALUES (2, 2, 2)",
        "XA COMMIT 'upgrade'",
    )
    arrives(before.target, "SELECT 1 FROM changing.x WHERE id = 7", "the prepared rows arrive")
    arrives(
        before.target,
        "SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'changing' "
        "AND TABLE_NAME = 't' AND COLUMN_NAME = 'w'",
        "the change of the ghost table arrives",
    )
    arrives(before.target, "SELECT 1 FROM changing.t WHERE id = 2 AND w = 2", "rows after it arrive")


def _stop_a_load_half_way(before: Before) -> None:
    """Loads one table of a full copy; the target refuses the other one."""
    before.one.execute(
        "CREATE DATABASE copied",
        "CREATE TABLE copied.a (id INT PRIMARY KEY)",
        "CREATE TABLE copied.b (id INT PRIMARY KEY)",
        "INSERT INTO copied.a SELECT seq FROM copied.seq_1_to_1000",
        "INSERT INTO copied.b SELECT seq FROM copied.seq_1_to_1000",
    )
    before.target.execute(
        "CREATE DATABASE copied", "CREATE TABLE copied.b (id INT PRIMARY KEY, CONSTRAINT small CHECK (id < 500))"
    )
    before.cluster.dmctl("start-task", before.task("copied", "full"))
    before.cluster.wait_stage("copied", "Paused")
    arrives(before.target, "SELECT 1 FROM copied.a HAVING COUNT(*) = 1000", "one table is loaded")
    # Loaded tables are not loaded again, or this row would return.
    before.target.execute("DELETE FROM copied.a WHERE id = 1")


def _end_the_load(before: Before) -> None:
    before.target.execute("ALTER TABLE copied.b DROP CONSTRAINT small")
    before.cluster.ok("resume-task", "copied")
    before.cluster.wait_stage("copied", "Finished")
    counts = [before.target.execute(f"SELECT COUNT(*) FROM copied.{table}")[0][0] for table in ("a", "b")]
    assert counts == [999, 1000]


def _order_a_statement_to_be_skipped(before: Before) -> str:
    """Orders to skip a statement far ahead; returns its position."""
    name, *_ = before.one.binlog_status()
    position = f"{name}:900000000"
    before.cluster.ok("binlog", "skip", "changing", "-s", "source-1", "-b", position)
    return position


def _shown_orders(before: Before) -> list[str]:
    (answer,) = before.cluster.ok("binlog", "list", "changing", "-s", "source-1")["sources"]
    return [one["binlogPos"] for one in json.loads(answer["msg"])]


def _relay_folders(before: Before) -> set[str]:
    return {path.name for path in before.cluster.dir.parent.glob("relay/*/*") if path.is_dir()}


def test_the_version_before_continues_what_the_next_one_ran(before: Before) -> None:
    """A rollback: the current code wrote the task, its checkpoint and its markers."""
    cluster, one, target = before.cluster, before.one, before.target
    one.execute(
        "CREATE DATABASE back",
        "CREATE TABLE back.nokey (v INT)",
        "INSERT INTO back.nokey VALUES (1), (1)",
        "CREATE TABLE back.t (id INT PRIMARY KEY, v INT)",
    )
    before.upgrade()
    _start_once_workers_joined(cluster, before.task("back", "all"))
    cluster.wait_stage("back", "Running", unit="Sync")
    writer = RowWriter(one, "back")
    writer.start()
    writer.wait(50)
    before.roll_back()
    writer.wait(50)
    one.execute("ALTER TABLE back.nokey ADD COLUMN w INT DEFAULT 3")
    writer.wait(20)
    writer.stop()
    cluster.wait_stage("back", "Running", unit="Sync")
    cluster.wait_synced("back")
    for table in ("nokey", "t"):
        query = f"SELECT * FROM back.{table} ORDER BY 1, 2"
        assert target.execute(query) == one.execute(query)
    cluster.ok("stop-task", "back")


def test_a_stopped_task_stays_stopped_in_the_version_before_and_can_be_resumed_there(before: Before) -> None:
    """Only the API stops a task so that it stays; the version before knows no such tasks."""
    cluster, one, target = before.cluster, before.one, before.target
    for schema in ("resting", "moving"):
        one.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    before.upgrade()
    for schema in ("resting", "moving"):
        _start_once_workers_joined(cluster, before.task(schema, "all"))
        cluster.wait_stage(schema, "Running", unit="Sync")
    with grpc.insecure_channel(cluster.master.address) as channel:
        stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
        order = dmmaster_pb2.OperateTaskRequest(op=dmworker_pb2.Stop, keep=True, name="resting")
        assert stub.OperateTask(order).result
    cluster.wait_stage("resting", "Stopped")
    before.roll_back()
    one.execute("INSERT INTO resting.t VALUES (1)", "INSERT INTO moving.t VALUES (1)")
    arrives(target, "SELECT 1 FROM moving.t WHERE id = 1", "the other task runs")
    assert target.execute("SELECT * FROM resting.t") == []
    wait_until(lambda: cluster.dmctl("query-status", "resting")["result"], "the status is shown", 120)
    cluster.ok("resume-task", "resting")
    cluster.wait_stage("resting", "Running", unit="Sync")
    arrives(target, "SELECT 1 FROM resting.t WHERE id = 1", "it continues")
    # The next version takes it over again.
    before.upgrade()
    one.execute("INSERT INTO resting.t VALUES (2)")
    arrives(target, "SELECT 1 FROM resting.t WHERE id = 2", "it runs on")
    for schema in ("resting", "moving"):
        cluster.ok("stop-task", schema)


def _start_once_workers_joined(cluster: Cluster, task: str) -> None:
    """The sources cannot get a task before their workers have joined again."""
    wait_until(lambda: bool(cluster.dmctl("start-task", task)["result"]), "the task starts", 120, step=0.5)


class RowWriter:
    """Inserts and deletes in a table without a key, inserts and updates in one with a key."""

    def __init__(self, server: MariaDBServer, schema: str) -> None:
        self._server, self._schema = server, schema
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._done = 0

    def start(self) -> None:
        self._thread.start()

    def _write(self) -> None:
        with self._server.connect() as connection, connection.cursor() as cursor:
            while not self._stopped.wait(0.02):
                cursor.execute(f"INSERT INTO {self._schema}.nokey (v) VALUES ({self._done % 5})")
                cursor.execute(f"INSERT INTO {self._schema}.t VALUES ({self._done}, 0)")
                cursor.execute(f"UPDATE {self._schema}.t SET v = v + 1 WHERE id = {self._done // 2}")
                if self._done % 3 == 0:
                    cursor.execute(f"DELETE FROM {self._schema}.nokey WHERE v = {self._done % 5} LIMIT 1")
                self._done += 1

    def wait(self, count: int) -> None:
        goal = self._done + count
        wait_until(lambda: self._done >= goal, "the writer works", 120)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(60)
