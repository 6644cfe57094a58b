"""Hazard: a row of the target that is wrong and not reported, or reported although it is right."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from pkg.pb import dmworker_pb2 as pb
from pkg.rules.model import RouteRule
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.support import subtask
from tests.integration.validator.support import QUICK, Validated, validated

TABLE = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), f DOUBLE, b BLOB, j JSON, m DECIMAL(10, 3),"
    " at TIMESTAMP(3) NULL)"
)
#: The target loses updates of f in the row 3, inserts and deletes of the rows 100 and 200.
FAULTS = ("CREATE TRIGGER d.lose BEFORE UPDATE ON d.t FOR EACH ROW SET NEW.f = IF(OLD.id = 3, OLD.f, NEW.f)",)


def insert(server: MariaDBServer, *ids: int) -> None:
    rows = (f"({n}, 'v{n}', {n}.1e-7, 0x{n:04x}, '[{n}]', {n}.5, '2024-01-01 00:00:00.123')" for n in ids)
    server.execute(f"INSERT INTO d.t (id, v, f, b, j, m, at) VALUES {', '.join(rows)}")


def create(*servers: MariaDBServer) -> None:
    for server in servers:
        server.execute("CREATE DATABASE d", TABLE)


@pytest.mark.target_with("triggers")
def test_changed_missing_and_surviving_rows_are_named_until_they_are_right(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    create(mariadb_upstream, target)
    with validated(subtask(mariadb_upstream, target, validator=QUICK), spark) as running:
        insert(mariadb_upstream, *range(50))
        running.wait_compared(mariadb_upstream)
        assert running.errors() == []
        assert running.status().processedRowsStatus == "insert/update/delete: 50/0/0"

        target.execute(*FAULTS, "DELETE FROM d.t WHERE id = 5")
        mariadb_upstream.execute("UPDATE d.t SET f = 0.25 WHERE id IN (2, 3)")
        (changed,) = running.wait_kinds("Column data not matched")
        assert (changed.srcTable, changed.dstTable, changed.status) == ("`d`.`t`", "`d`.`t`", pb.NewErr)
        assert '"id": "3"' in changed.srcData
        assert '"f": "0.25"' in changed.srcData
        assert '"f": "0.25"' not in changed.dstData

        target.execute("UPDATE d.t SET id = -4 WHERE id = 4")
        mariadb_upstream.execute("DELETE FROM d.t WHERE id IN (5, 6)")
        running.wait_compared(mariadb_upstream)
        assert len(running.errors()) == 1, "a row that is gone on both sides is right"

        target.execute("DROP TRIGGER d.lose", "UPDATE d.t SET f = 0.25 WHERE id = 3")
        wait_until(lambda: running.errors()[0].status == pb.ResolvedErr, lambda: f"resolved: {running.errors()}")
        assert running.errors()[0].message == "the row is right again"
        assert running.status().errorRowsStatus == "new/ignored/resolved: 0/0/1"


@contextmanager
def unapplied(running: Validated, target: MariaDBServer, statement: str) -> Iterator[None]:
    """Changes the target between the batch and its look."""
    gate = running.validator._rounds
    look, entered, go = gate.run, threading.Event(), threading.Event()

    def wait(*args: object) -> None:
        entered.set()
        assert go.wait(60)
        look(*args)  # type: ignore[arg-type]

    gate.run = wait  # type: ignore[method-assign, assignment]
    yield
    assert entered.wait(60)
    target.execute(statement)
    gate.run = look  # type: ignore[method-assign]
    go.set()


@pytest.mark.parametrize(
    ("change", "fault", "kind"),
    [
        ("UPDATE d.t SET v = 'new' WHERE id = 7", "DELETE FROM d.t WHERE id = 7", "Expected rows not exist"),
        ("UPDATE d.t SET v = 'new' WHERE id = 7", "UPDATE d.t SET v = 'NEW' WHERE id = 7", "Column data not matched"),
        ("UPDATE d.t SET b = 0x00 WHERE id = 7", "UPDATE d.t SET b = '' WHERE id = 7", "Column data not matched"),
        ("UPDATE d.t SET v = NULL WHERE id = 7", "UPDATE d.t SET v = '' WHERE id = 7", "Column data not matched"),
        ("UPDATE d.t SET f = 1e-300 WHERE id = 7", "UPDATE d.t SET f = 0 WHERE id = 7", "Column data not matched"),
        ("DELETE FROM d.t WHERE id = 7", "INSERT INTO d.t (id) VALUES (7)", "Deleted rows exist"),
    ],
    ids=["deleted", "case", "zero-byte", "null", "tiny", "inserted"],
)
def test_a_fault_at_the_target_is_found(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, change: str, fault: str, kind: str
) -> None:
    create(mariadb_upstream, target)
    with validated(subtask(mariadb_upstream, target, validator=QUICK), spark) as running:
        insert(mariadb_upstream, *range(20))
        running.wait_compared(mariadb_upstream)
        with unapplied(running, target, fault):
            mariadb_upstream.execute(change)
            running.run.wait_synced(mariadb_upstream)
        (one,) = running.wait_kinds(kind)
        assert one.errorType == kind


def test_fast_mode_looks_only_whether_rows_are_there(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    create(mariadb_upstream, target)
    with validated(subtask(mariadb_upstream, target, validator=QUICK), spark, "fast") as running:
        insert(mariadb_upstream, *range(20))
        running.wait_compared(mariadb_upstream)
        with unapplied(running, target, "UPDATE d.t SET id = 70, v = 'x' WHERE id = 7"):
            mariadb_upstream.execute("UPDATE d.t SET v = 'new' WHERE id IN (7, 8)")
            running.run.wait_synced(mariadb_upstream)
        (one,) = running.wait_kinds("Expected rows not exist")
        assert '"id": "7"' in one.srcData


@pytest.mark.target_with("triggers")
def test_hot_rows_are_never_reported_and_a_lost_version_of_one_is(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    create(mariadb_upstream, target)
    stop = threading.Event()

    def write() -> None:
        conn = mariadb_upstream.connect()
        with conn.cursor() as cursor:
            number = 0
            while not stop.is_set():
                number += 1
                cursor.execute("UPDATE d.t SET m = m + 1, v = %s WHERE id < 5", (f"v{number}",))
                cursor.execute("DELETE FROM d.t WHERE id = 6")
                cursor.execute("INSERT INTO d.t (id, m) VALUES (6, %s)", (number,))
        conn.close()

    with validated(subtask(mariadb_upstream, target, validator=QUICK), spark) as running:
        insert(mariadb_upstream, *range(10))
        writer = threading.Thread(target=write)
        writer.start()
        try:
            wait_until(lambda: _updates(running) > 3000, lambda: f"hot rows are compared: {running.status()}")
            assert running.errors() == []
            target.execute(
                "CREATE TRIGGER d.lose BEFORE UPDATE ON d.t FOR EACH ROW SET NEW.v = IF(OLD.id = 3, OLD.v, NEW.v)"
            )
            wait_until(lambda: bool(running.errors()), lambda: f"the lost version is found: {running.status()}")
            target.execute("DROP TRIGGER d.lose")
            wait_until(lambda: "hides it" in running.errors()[0].message, lambda: f"it is hidden: {running.errors()}")
        finally:
            stop.set()
            writer.join()
        running.wait_compared(mariadb_upstream)
        (one,) = running.errors()
        assert ('"id": "3"' in one.srcData, one.status) == (True, pb.NewErr)
        assert running.status().notes[0].startswith("changes are compared from ")


def _updates(running: Validated) -> int:
    return int(running.status().processedRowsStatus.split("/")[-2])


def test_statements_that_change_tables_and_tables_without_a_key_are_not_reported(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    create(mariadb_upstream, target)
    for server in (mariadb_upstream, target):
        server.execute("CREATE TABLE d.keyless (a INT, b VARCHAR(10))")
    with validated(subtask(mariadb_upstream, target, validator=QUICK), spark) as running:
        for round_ in range(6):
            ids = range(round_ * 100, round_ * 100 + 100)
            insert(mariadb_upstream, *ids)
            mariadb_upstream.execute(
                "INSERT INTO d.keyless VALUES (1, 'x'), (1, 'x'), (2, NULL)",
                f"UPDATE d.t SET m = {round_}.126 WHERE id % 2 = 0",
                f"ALTER TABLE d.t MODIFY m DECIMAL(10, {2 if round_ % 2 == 0 else 3}), ADD c{round_} INT DEFAULT 4",
                f"DELETE FROM d.t WHERE id % 10 = {round_}",
                f"ALTER TABLE d.t DROP COLUMN c{round_}, ADD c{round_ + 10} VARCHAR(3) DEFAULT 'a'",
            )
        mariadb_upstream.execute(
            "CREATE TABLE d.gone (id INT PRIMARY KEY)", "INSERT INTO d.gone VALUES (1)", "DROP TABLE d.gone"
        )
        running.wait_compared(mariadb_upstream)
        assert running.errors() == []
        tables = {one.srcTable: one for one in running.validator.table_messages()}
        assert (tables["`d`.`keyless`"].stage, tables["`d`.`keyless`"].message) == (pb.Stopped, "no primary key")
        assert tables["`d`.`t`"].stage == pb.Running


def test_merged_shards_stay_compared_through_their_ddl(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    shards = [f"CREATE TABLE d.t_{n} (id INT PRIMARY KEY, v VARCHAR(20))" for n in (1, 2)]
    mariadb_upstream.execute("CREATE DATABASE d", *shards)
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))")
    cfg = subtask(mariadb_upstream, target, validator=QUICK, shard_mode="pessimistic")
    cfg = replace(cfg, routes=(RouteRule("d", "d", "t_*", "t"),))
    with validated(cfg, spark, lock_service=OneSource()) as running:
        for n in range(4):
            mariadb_upstream.execute(
                f"INSERT INTO d.t_1 (id, v) VALUES ({n}, 'a'), ({n + 10}, 'b')",
                f"INSERT INTO d.t_2 (id, v) VALUES ({n + 100}, 'a'), ({n + 110}, 'b')",
                f"ALTER TABLE d.t_1 ADD c{n} INT DEFAULT 3",
                f"INSERT INTO d.t_1 (id, v, c{n}) VALUES ({n + 20}, 'held', 5)",
                f"UPDATE d.t_2 SET v = 'before' WHERE id = {n + 100}",
                f"ALTER TABLE d.t_2 ADD c{n} INT DEFAULT 3",
                f"UPDATE d.t_2 SET c{n} = 8 WHERE id = {n + 110}",
            )
        running.wait_compared(mariadb_upstream)
        assert running.errors() == []
        with unapplied(running, target, "UPDATE d.t SET c0 = 7 WHERE id = 110"):
            mariadb_upstream.execute("UPDATE d.t_2 SET v = 'last' WHERE id IN (110, 111)")
            running.run.wait_synced(mariadb_upstream)
        (one,) = running.wait_kinds("Column data not matched")
        assert (one.srcTable, one.dstTable) == ("`d`.`t_2`", "`d`.`t`")


@pytest.mark.target_with("triggers")
def test_errors_and_progress_outlive_the_process_and_a_gap_is_named(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    create(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, validator=QUICK)
    with validated(cfg, spark) as running:
        target.execute(*FAULTS)
        insert(mariadb_upstream, *range(10))
        running.wait_compared(mariadb_upstream)
        mariadb_upstream.execute("UPDATE d.t SET f = 0.25 WHERE id IN (2, 3)")
        (before,) = running.wait_kinds("Column data not matched")
        assert running.validator.operate(int(before.id), pb.IgnoredErr)
        end = running.status().validatorBinlog
        running.validator.cut_over_at(end, "")
    with validated(cfg, spark) as running:
        running.wait_compared(mariadb_upstream)
        (after,) = running.errors()
        assert (after.id, after.srcData, after.status) == (before.id, before.srcData, pb.IgnoredErr)
        assert running.status().processedRowsStatus == "insert/update/delete: 10/2/0"
        assert running.status().cutoverBinlogPos == end
        assert f"all changes up to the cutover at {end} are compared" in running.status().notes
        assert not [note for note in running.status().notes if "have been compared" in note]
    with validated(cfg, spark, "") as running:
        mariadb_upstream.execute("UPDATE d.t SET f = 0.5")
        running.run.wait_synced(mariadb_upstream)
        assert running.validator.status() is not None
    with validated(cfg, spark) as running:
        running.wait_compared(mariadb_upstream)
        wait_until(
            lambda: any("may not have been compared" in note for note in running.status().notes),
            lambda: f"the gap is named: {running.status()}",
        )
        assert running.validator.operate(None, None)
        assert running.errors() == []
