"""Faults while rows are loaded before their dump is complete, and in the load after it: replication is exact."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

import pytest

from deploy.local.cluster import Cluster, DMWorker
from deploy.local.mysql import SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.faults.test_kill_moments import FAULTS, SEED, Fault, quietly, reached, settle, workers_in
from tests.harness.certified import certify, validated
from tests.harness.full_copy import contents
from tests.harness.sharded import Servers

#: The row at which a dump waits for a lock, in the last table that it reads.
_LAST = 900_002
_WHERE = f'IF(id = {_LAST}, GET_LOCK("early", 600) AND RELEASE_LOCK("early"), 1)'
_EARLY = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME LIKE '\\_dm\\_early\\_%'"
_TABLES = ("keyed", "bag", "last")


def _pause(cluster: Cluster, workers: Sequence[DMWorker], target: SQLServer, rng: random.Random) -> str:
    cluster.ok("pause-task", "early")
    if workers_in(cluster, "early", "Dump"):
        assert not target.execute(_EARLY)
    cluster.ok("resume-task", "early")
    return "pause and resume"


_FAULTS: dict[str, Fault] = {**FAULTS, "pause": _pause}


@pytest.fixture(scope="module")
def early_cluster(servers: Servers, keepalive_ttl: int) -> Iterator[Cluster]:
    cluster = Cluster(workers=2, keepalive_ttl=keepalive_ttl)
    for worker in cluster.workers:
        worker.module = "tests.faults.early_worker"
    with cluster:
        for number, server in enumerate(servers[:2], start=1):
            cluster.add_source(server, f"source-{number}", gtid=True)
        yield cluster


def _create(upstream: SQLServer) -> None:
    keyed = ",".join(f"({n},{n % 7},'row {n} {'x' * 100}')" for n in range(3000))
    bag = ",".join(f"({n % 50},'{'y' * 200}')" for n in range(2000))
    upstream.execute(
        "DROP DATABASE IF EXISTS early", "CREATE DATABASE early",
        "CREATE TABLE early.keyed (id INT NOT NULL, a INT, c VARCHAR(150), PRIMARY KEY (id), KEY ka (a))",
        "CREATE TABLE early.bag (id INT, c VARCHAR(250))", "CREATE TABLE early.last (id INT PRIMARY KEY)",
        f"INSERT INTO early.keyed VALUES {keyed}", f"INSERT INTO early.bag VALUES {bag}",
        f"INSERT INTO early.last VALUES ({_LAST})", "ANALYZE TABLE early.keyed, early.bag, early.last",
    )  # fmt: skip


def _start(cluster: Cluster, target: SQLServer, source: str) -> None:
    text = validated(
        "name: early\ntask-mode: all\n"
        f"target-database: {{host: 127.0.0.1, port: {target.port}, user: root, password: ''}}\n"
        "mysql-instances:\n"
        f"  - {{source-id: {source}, block-allow-list: mine, mydumper-config-name: gated, loader-config-name: early}}\n"
        "block-allow-list: {mine: {do-dbs: [early]}}\n"
        "mydumpers: {gated: {threads: 1, rows: 500, extra-args: \"-s 10000 -F 40000 --where '"
        + _WHERE.replace('"', '\\"')
        + "'\"}}\n"
        "loaders: {early: {rows-while-dumping: true}}\n"
    )
    cluster.ok("start-task", cluster.write_task(text, "early.yaml"), "--remove-meta")


def _loaded(target: SQLServer) -> bool:
    """Whether rows of both large tables are in early tables."""
    rows = [
        target.execute(f"SELECT COUNT(*) FROM `{schema}`.`{name}`")[0][0] for schema, name in target.execute(_EARLY)
    ]
    return len([count for count in rows if count]) == 2


def _change(upstream: SQLServer, low: int) -> None:
    """Changes, deletes and inserts rows that a snapshot has, and others."""
    upstream.execute(
        f"DELETE FROM early.keyed WHERE id BETWEEN {low} AND {low + 300}",
        f"UPDATE early.keyed SET a = a + 1, c = 'changed' WHERE id BETWEEN {low + 301} AND {low + 600}",
        f"INSERT INTO early.keyed VALUES ({low + 10_000}, 1, 'new')",
        f"DELETE FROM early.bag WHERE id = {low // 100}", f"INSERT INTO early.bag VALUES ({low}, 'new')",
    )  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "upstream"), [*((fault, "mariadb") for fault in _FAULTS), ("worker", "mysql"), ("pause", "mysql")]
)
def test_a_copy_with_early_rows_survives(early_cluster: Cluster, servers: Servers, fault: str, upstream: str) -> None:
    cluster, target = early_cluster, servers[2]
    source, number = (servers[0], 1) if upstream == "mariadb" else (servers[1], 2)
    rng = random.Random(f"{SEED} early {fault}")
    target.execute("DROP DATABASE IF EXISTS early")
    _create(source)
    settle(cluster)
    try:
        with contextlib.closing(source.connect()) as gate:
            with gate.cursor() as cursor:
                cursor.execute("SELECT GET_LOCK('early', 60)")
            _start(cluster, target, f"source-{number}")
            wait_until(lambda: quietly(lambda: _loaded(target)), "early rows are loaded", WAIT_TIMEOUT, step=0.1)
            _change(source, 0)
            print("Dump", _FAULTS[fault](cluster, workers_in(cluster, "early", "Dump"), target, rng))
            settle(cluster)
            _change(source, 1000)
        wait_until(lambda: quietly(lambda: reached(cluster, "early", "Load")), "the load begins", 180, step=0.05)
        print("Load", _FAULTS[fault](cluster, workers_in(cluster, "early", "Load") or cluster.workers, target, rng))
        settle(cluster)
        _change(source, 2000)
        wait_until(lambda: quietly(lambda: _in_sync(cluster)), "the task is in Sync", WAIT_TIMEOUT, step=0.5)
        cluster.wait_synced("early")
        for table in _TABLES:
            assert contents(target, f"early.{table}") == contents(source, f"early.{table}"), table
        assert not target.execute(_EARLY)
        certify(cluster, "early")
    finally:
        cluster.ok("stop-task", "early")


def _in_sync(cluster: Cluster) -> bool:
    states = cluster.subtasks("early").values()
    return bool(states) and all(one["unit"] == "Sync" and one["stage"] == "Running" for one in states)
