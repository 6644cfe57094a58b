"""`dmctl diff` over a running task: two upstreams, merged shards with and without a key, and writers that do not stop.

Faults are made at the target only: exactly these rows must be found, and none without faults.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import ER

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import wait_until
from tests.harness.beside import beside
from tests.harness.certified import NotAsked
from tests.harness.comparisons import ended, lines, tables
from tests.harness.migration import RANGE, Migration
from tests.harness.proctree import kill_hard, spark_workers

#: Rows above those that writers change: the writers use ids up to twice the rows of a shard.
QUIET = 500_000


@pytest.fixture
def migration(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: SQLServer
) -> Iterator[Migration]:
    """A running task with its writers: the ids of its quiet rows are ``shard.offset + QUIET`` and following."""
    made = Migration(free_cluster, [mariadb_upstream, mysql_upstream], target, name="diffed", rows=400, pause=0.02,
                     not_validated=NotAsked.SEEDED_FAULTS)  # fmt: skip
    made.create(seed=25)
    for shard in made.shards:
        if not shard.keyless:
            first = shard.offset + QUIET
            shard.server.execute(
                f"INSERT INTO {shard.name} VALUES ({first}, 1, 'quiet', 1.5, NULL, NULL, '2020-01-01 00:00:00'),"
                f" ({first + 1}, 1, 'quiet', 1.5, NULL, NULL, '2020-01-01 00:00:00'),"
                f" ({first + 2}, 1, 'quiet', 1.5, NULL, NULL, '2020-01-01 00:00:00')"
            )
    made.add_sources(gtid=True)
    made.start_task()
    free_cluster.wait_stage(made.name, "Running", unit="Sync")
    made.start_writers()
    yield made
    made.abandon()


def started(migration: Migration, *flags: str) -> None:
    migration.cluster.ok("diff", "start", migration.name, *flags)


@contextmanager
def hot_row(server: SQLServer, table: str, row_id: int) -> Iterator[None]:
    """Updates one row some hundred times a second: replication on a busy machine still keeps pace."""

    def update(stop: threading.Event) -> None:
        conn = server.connect(autocommit=True)
        with conn.cursor() as cursor:
            while not stop.wait(0.002):
                cursor.execute(f"UPDATE {table} SET customer = (customer + 1) % 1000000 WHERE id = {row_id}")
        conn.close()

    with beside(update):
        yield


def test_nothing_is_reported_without_faults_while_writers_write(migration: Migration) -> None:
    started(migration)
    answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "equal", json.dumps(answer, indent=1)
    assert {name: table["state"] for name, table in tables(answer).items()} == {
        "`diffed`.`orders`": "equal",
        "`diffed`.`events`": "equal",
    }
    assert lines(answer) == []
    migration.stop_writers()
    migration.cluster.wait_synced(migration.name)
    migration.compare()


def test_exactly_the_seeded_faults_are_found(migration: Migration) -> None:
    target, name = migration.target, migration.name
    firsts = [shard.offset + QUIET for shard in migration.shards if not shard.keyless]
    target.execute(
        f"DELETE FROM {name}.orders WHERE id = {firsts[0]}",
        f"UPDATE {name}.orders SET note = 'loud' WHERE id = {firsts[1]}",
        f"INSERT INTO {name}.orders SELECT id + 100, customer, note, amount, ratio, raw, created FROM {name}.orders"
        f" WHERE id = {firsts[2]}",
        f"UPDATE {name}.orders SET amount = 1.501 WHERE id = {firsts[3]}",
        f"INSERT INTO {name}.events VALUES (1000, 'not there', 0.5)",
    )
    with hot_row(migration.shards[0].server, migration.shards[0].name, firsts[0] + 1):
        # The update of the hot row at the target is undone by the next one: a column that is not written is not.
        target.execute(f"UPDATE {name}.orders SET created = '2020-01-01 00:00:01' WHERE id = {firsts[0] + 2}")
        started(migration)
        answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "different", json.dumps(answer, indent=1)
    found = {(one["table"], one["kind"], one["key"].get("id", "")) for one in lines(answer)}
    orders, events = f"`{name}`.`orders`", f"`{name}`.`events`"
    assert found == {
        (orders, "missing", str(firsts[0])),
        (orders, "changed", str(firsts[1])),
        (orders, "extra", str(firsts[2] + 100)),
        (orders, "changed", str(firsts[3])),
        (orders, "changed", str(firsts[0] + 2)),
        (events, "extra", ""),
    }
    shown = tables(answer)[orders]
    assert (shown["missing"], shown["extra"], shown["changed"]) == ("1", "1", "3")
    (amount,) = [one for one in lines(answer) if one["key"].get("id") == str(firsts[3])]
    assert amount["columns"] == ["amount"]
    assert amount["upstream"]["amount"] != amount["target"]["amount"]


@pytest.mark.target_with("triggers")
def test_a_fault_in_a_constantly_updated_row_is_found(migration: Migration) -> None:
    """Whatever replication writes to the row, the target stores another value of one column."""
    target, shard, orders = migration.target, migration.shards[0], f"{migration.name}.orders"
    row = shard.offset + QUIET + 1
    fault = f"SET NEW.created = IF(NEW.id = {row}, '2020-01-01 00:00:01', NEW.created)"
    for event in ("INSERT", "UPDATE"):
        target.execute(f"CREATE TRIGGER {migration.name}.fault_{event} BEFORE {event} ON {orders} FOR EACH ROW {fault}")
    with hot_row(shard.server, shard.name, row):
        there = f"SELECT COUNT(*) FROM {orders} WHERE id = {row} AND created = '2020-01-01 00:00:01'"
        wait_until(lambda: target.execute(there)[0][0] == 1, "the fault is there", 120)
        started(migration)
        answer = ended(migration.cluster, migration.name)
    # The column that changes all the time is equal: both sides are read at one position.
    assert [(one["kind"], one["key"]["id"], one["columns"]) for one in lines(answer)] == [
        ("changed", str(row), ["created"])
    ]


def test_a_comparison_survives_the_death_of_the_master(migration: Migration) -> None:
    cluster = migration.cluster
    first = migration.shards[0].offset + QUIET
    migration.target.execute(f"DELETE FROM {migration.name}.orders WHERE id = {first}")
    started(migration)
    cluster.master.kill()
    cluster.master.start()
    answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "different"
    assert [(one["kind"], one["key"]["id"]) for one in lines(answer)] == [("missing", str(first))]


def test_once_waits_for_the_verdict(migration: Migration) -> None:
    shown = migration.cluster.dmctl_text("diff", "start", migration.name, "--once", timeout=300)
    assert "verdict: equal" in shown


def run_again_after_deadlocks(conn: Connection[Any], statement: str) -> None:
    """Replication writes the same tables."""

    def done() -> bool:
        try:
            conn.query(statement)
        except pymysql.OperationalError as exc:
            if exc.args[0] != ER.LOCK_DEADLOCK:
                raise
            return False
        return True

    wait_until(done, "the statement is executed", 60)


def test_the_statements_repair_the_target(migration: Migration) -> None:
    target, name = migration.target, migration.name
    firsts = [shard.offset + QUIET for shard in migration.shards if not shard.keyless]
    target.execute(
        f"DELETE FROM {name}.orders WHERE id = {firsts[0]}",
        f"UPDATE {name}.orders SET note = 'it''s' WHERE id = {firsts[1]}",
        f"INSERT INTO {name}.orders VALUES ({firsts[2] + 9}, 2, NULL, 1, NULL, NULL, '2020-01-01 00:00:00')",
        f"INSERT INTO {name}.events VALUES (1000, 'not there', 0.5)",
    )
    started(migration)
    answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "different"
    conn = target.connect(autocommit=True)
    for source in answer["sources"]:
        for statement in Path(source["repairs"]).read_bytes().split(b";\n") if source["repairs"] else ():
            if statement:
                run_again_after_deadlocks(conn, statement.decode())
    conn.close()
    started(migration)
    assert ended(migration.cluster, migration.name)["verdict"] == "equal"


def test_a_repair_makes_the_target_equal_while_writers_write(migration: Migration) -> None:
    target, name = migration.target, migration.name
    firsts = [shard.offset + QUIET for shard in migration.shards if not shard.keyless]
    target.execute(
        f"DELETE FROM {name}.orders WHERE id IN ({firsts[0]}, {firsts[3]})",
        f"UPDATE {name}.orders SET note = 'it''s' WHERE id = {firsts[1]}",
        f"INSERT INTO {name}.orders VALUES ({firsts[2] + 9}, 2, NULL, 1, NULL, NULL, '2020-01-01 00:00:00')",
        f"INSERT INTO {name}.events VALUES (1000, 'not there', 0.5), (1000, 'not there', 0.5)",
    )
    started(migration, "--repair")
    answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "equal", json.dumps(answer, indent=1)
    assert tables(answer)[f"`{name}`.`orders`"]["repaired"] == "4"
    assert len(lines(answer)) >= 5
    migration.stop_writers()
    migration.cluster.wait_synced(name)
    migration.compare()


def test_a_comparison_continues_after_the_death_of_worker_and_spark(migration: Migration) -> None:
    cluster = migration.cluster
    orders = f"`{migration.name}`.`orders`"
    first = migration.shards[0].offset + QUIET
    migration.target.execute(f"DELETE FROM {migration.name}.orders WHERE id = {first}")
    started(migration)
    for worker in cluster.workers:
        for pid in spark_workers(worker.pid)[:1]:
            kill_hard(pid)
        worker.kill()
        worker.start()
    answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "different"
    assert [(one["table"], one["kind"], one["key"]["id"]) for one in lines(answer)] == [(orders, "missing", str(first))]


def test_a_table_without_a_target_is_named_and_not_equal(migration: Migration) -> None:
    # Replication would stop at the next change of the table.
    migration.stop_writers()
    migration.cluster.wait_synced(migration.name)
    migration.target.execute(f"DROP TABLE {migration.name}.events")
    started(migration)
    answer = ended(migration.cluster, migration.name)
    assert answer["verdict"] == "not compared"
    events = tables(answer)[f"`{migration.name}`.`events`"]
    assert events["state"] == "not compared"
    assert "there is no table" in events["reason"]


def test_a_table_of_sources_that_do_not_take_part_is_not_equal(migration: Migration) -> None:
    migration.cluster.ok("diff", "start", migration.name, "-s", migration.source(0))
    answer = ended(migration.cluster, migration.name, "-s", migration.source(0))
    assert answer["verdict"] == "not compared"
    assert all(migration.source(1) in table["reason"] for table in tables(answer).values())


assert RANGE > QUIET
