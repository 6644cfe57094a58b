"""Hazard: an operator examines the engine while the task waits for the target, a lock or a dead relay."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.e2e.scrape import Scrape, address_of
from tests.harness.proxy import CountingProxy

TASK = """\
name: why
task-mode: all
shard-mode: pessimistic
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine, route-rules: [mine]}}
  - {{source-id: s2, block-allow-list: mine, route-rules: [mine]}}
routes: {{mine: {{schema-pattern: 'why_*', table-pattern: 't*', target-schema: why, target-table: t}}}}
block-allow-list: {{mine: {{do-dbs: ['why_*']}}}}
"""


class _Scene:
    """A task that merges a table of two sources; ``link`` is the connection to its target."""

    def __init__(self, cluster: Cluster, upstreams: tuple[SQLServer, SQLServer], target: SQLServer) -> None:
        self.cluster = cluster
        self.upstreams = upstreams
        self.target = target
        self.link = CountingProxy(target.port)

    def start(self) -> None:
        for number, server in enumerate(self.upstreams, 1):
            server.execute(
                f"CREATE DATABASE why_{number}",
                f"CREATE TABLE why_{number}.t (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO why_{number}.t VALUES ({number}, 0)",
            )
            self.cluster.add_source(server, f"s{number}", gtid=True)
        self.upstreams[0].execute("CREATE TABLE why_1.t2 LIKE why_1.t")
        self.cluster.ok("start-task", self.cluster.write_task(TASK.format(port=self.link.port)))
        self.cluster.wait_stage("why", "Running", unit="Sync")

    def change(self) -> None:
        """Changes a row at the first source."""
        self.upstreams[0].execute("UPDATE why_1.t SET v = v + 1 WHERE id = 1")

    def shows(self, reason: str, *, source: str = "s1") -> None:
        """Waits until the metric and query-status name ``reason`` for ``source``."""
        wait_until(lambda: self._metric(source) == {reason}, lambda: f"{reason}: {self._metric(source)}", WAIT_TIMEOUT)
        if reason != "stopped":
            wait_until(
                lambda: self.cluster.subtask("why", source)["sync"]["lagReason"] == reason,
                lambda: f"{reason}: {self.cluster.subtask('why', source)['sync']}",
                WAIT_TIMEOUT,
            )

    def counts(self, **expected: int) -> None:
        """Waits until the first source's metrics of shard DDL have these values."""
        wait_until(lambda: self._sharding() == expected, lambda: f"{expected}: {self._sharding()}", WAIT_TIMEOUT)

    def _sharding(self) -> dict[str, int]:
        samples = [one for worker in self.cluster.workers for one in Scrape(address_of(worker)).samples]
        mine = [one for one in samples if one.labels.get("source_id") == "s1"]
        locks = [one for one in Scrape(self.cluster.master.address).samples if one.labels.get("type") == "Un-synced"]
        names = {
            "resolving": "dm_syncer_shard_lock_resolving",
            "unsynced": "dm_syncer_unsynced_table_number",
            "held": "dm_syncer_held_rows",
        }
        found = {key: int(sum(one.value for one in mine if one.name == name)) for key, name in names.items()}
        return found | {"locks": int(sum(one.value for one in locks if one.name == "dm_master_ddl_state_number"))}

    def _metric(self, source: str) -> set[str]:
        return {
            sample.labels["reason"]
            for worker in self.cluster.workers
            for sample in Scrape(address_of(worker)).samples
            if sample.name == "dm_syncer_lag_reason" and sample.labels["source_id"] == source and sample.value
        }

    @contextmanager
    def target_transaction(self, statement: str) -> Iterator[None]:
        """A transaction that stays open at the target."""
        conn = self.target.connect(autocommit=False)
        try:
            with conn.cursor() as cursor:
                cursor.execute(statement)
                cursor.fetchall()
            yield
            conn.rollback()
        finally:
            conn.close()

    @contextmanager
    def only_spark_jobs(self) -> Iterator[None]:
        """The workers apply no batch themselves."""
        self._restart({"DM_TINY_BATCH": "-1"})
        try:
            yield
        finally:
            self._restart({})

    def _restart(self, variables: Mapping[str, str]) -> None:
        for worker in self.cluster.workers:
            worker.variables = variables
            worker.kill()
        self.cluster.start()

    @contextmanager
    def steady_changes(self) -> Iterator[None]:
        """Runs small transactions, one after the other."""
        end = threading.Event()

        def write() -> None:
            while not end.wait(0.02):
                self.change()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            yield
        finally:
            end.set()
            writer.join(WAIT_TIMEOUT)


@pytest.fixture
def scene(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: MariaDBServer
) -> Iterator[_Scene]:
    scene = _Scene(free_cluster, (mariadb_upstream, mysql_upstream), target)
    try:
        scene.start()
        yield scene
    finally:
        scene.link.refusing, scene.link.delay = False, 0.0
        for task in free_cluster.dmctl("query-status").get("tasks", []):
            free_cluster.ok("stop-task", task["taskName"])
        scene.link.close()


def test_each_reason_shows_while_it_is_one(scene: _Scene) -> None:
    """One test, because a cluster takes long to prepare."""
    scene.shows("source_idle")
    with scene.only_spark_jobs(), scene.steady_changes():
        # Small batches take more time in Spark than at the target.
        scene.shows("engine")
    scene.shows("source_idle")
    _the_target_is_locked(scene)
    _the_target_is_away(scene)
    _a_ddl_waits(scene)
    _tables_are_looked_up_slowly(scene)
    _the_relay_stands_still(scene)
    scene.cluster.ok("pause-task", "why")
    scene.shows("stopped")


def _the_target_is_locked(scene: _Scene) -> None:
    with scene.target_transaction("SELECT * FROM why.t WHERE id = 1 FOR UPDATE"):
        scene.change()
        scene.shows("target_slow")
    scene.shows("source_idle")


def _the_target_is_away(scene: _Scene) -> None:
    scene.link.refusing = True
    scene.link.cut()
    scene.change()
    scene.shows("retry")
    scene.link.refusing = False
    scene.shows("source_idle")


def _a_ddl_waits(scene: _Scene) -> None:
    """First for the other shard, then for the other source, then at the target for an open transaction."""
    first, second = scene.upstreams
    first.execute("ALTER TABLE why_1.t ADD COLUMN w INT", "INSERT INTO why_1.t VALUES (11, 0, 0), (12, 0, 0)")
    scene.shows("lock")
    scene.counts(resolving=0, unsynced=1, held=2, locks=0)
    first.execute("ALTER TABLE why_1.t2 ADD COLUMN w INT")
    scene.shows("lock")
    scene.counts(resolving=1, unsynced=0, held=2, locks=1)
    with scene.target_transaction("SELECT * FROM why.t"):
        second.execute("ALTER TABLE why_2.t ADD COLUMN w INT")
        scene.shows("ddl")
    scene.shows("source_idle")
    scene.shows("source_idle", source="s2")
    scene.counts(resolving=0, unsynced=0, held=0, locks=0)


def _tables_are_looked_up_slowly(scene: _Scene) -> None:
    scene.cluster.ok("pause-task", "why")
    scene.cluster.ok("resume-task", "why")
    scene.cluster.wait_stage("why", "Running", unit="Sync")
    scene.shows("source_idle")
    scene.link.delay = 2.0
    scene.change()
    scene.shows("planning")
    scene.link.delay = 0.0
    scene.shows("source_idle")


def _the_relay_stands_still(scene: _Scene) -> None:
    scene.cluster.ok("start-relay", "-s", "s1")
    wait_until(
        lambda: scene.cluster.subtask("why", "s1")["sync"]["binlogType"] == "local", "s1 reads the relay", WAIT_TIMEOUT
    )
    scene.cluster.ok("pause-relay", "-s", "s1")
    scene.change()
    scene.shows("reading")
    scene.cluster.ok("resume-relay", "-s", "s1")
    scene.shows("source_idle")
    scene.cluster.ok("stop-relay", "-s", "s1")
