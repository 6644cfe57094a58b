"""Hazard: a write of another client into the target is not found within a minute, or a row that is right is reported.

In mode ``fast`` nothing is swept: what is found is found by the target's binlog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.foreign_writes import suspects, watcher
from pkg.pb import dmworker_pb2 as pb
from tests.integration.syncer.support import subtask
from tests.integration.validator.support import QUICK, Validated, swept, writers

DELETED, MISSING, CHANGED = "Deleted rows exist", "Expected rows not exist", "Column data not matched"
ROWS = 1000


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def _logging_target(request: pytest.FixtureRequest) -> Iterator[SQLServer]:
    server: SQLServer = MariaDBServer() if request.param == "mariadb" else MySQLServer(version="8.4", gtid=True)
    server.start()
    yield server
    server.cleanup()


@pytest.fixture
def logging_target(_logging_target: SQLServer) -> SQLServer:
    """A target with a binlog."""
    _logging_target.wipe()
    return _logging_target


def filled(*servers: SQLServer) -> None:
    """The same rows in all: the first half is the writer's."""
    for server in servers:
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n INT NOT NULL)",
            "CREATE TABLE d.k (a INT, b VARCHAR(20))",
            "CREATE TABLE d.s (code VARCHAR(20), part INT, v INT, PRIMARY KEY (code, part))",
            "INSERT INTO d.t VALUES " + ", ".join(f"({n}, 'v{n}', {n})" for n in range(1, ROWS + 1)),
            "INSERT INTO d.k VALUES (1, 'x'), (1, 'x'), (2, NULL)",
            "INSERT INTO d.s VALUES ('a', 1, 1), ('a', 2, 2), ('b''c', 1, 3)",
        )


def wait_reading(running: Validated) -> None:
    wait_until(
        lambda: running.status().foreignWrites.startswith("target's binlog, read up to"),
        lambda: f"the target's binlog is read: {running.status()}",
    )


def wait_text(running: Validated, text: str) -> None:
    wait_until(lambda: text in running.status().foreignWrites, lambda: f"{text}: {running.status()}")


def test_writes_of_others_are_found_while_writers_write_and_nothing_else(
    mariadb_upstream: MariaDBServer, logging_target: SQLServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, logging_target)
    # 'a' and 'A' are one key in the upstream, and two here.
    logging_target.execute("ALTER TABLE d.s MODIFY code VARCHAR(20) COLLATE utf8mb4_bin")
    cfg = subtask(mariadb_upstream, logging_target, validator=QUICK)
    with swept(cfg, spark, "fast") as (running, _), writers(mariadb_upstream):
        wait_reading(running)
        logging_target.execute(
            "CREATE DATABASE other",
            "CREATE TABLE other.t (id INT PRIMARY KEY)",
            "INSERT INTO other.t VALUES (1)",
            "UPDATE d.t SET v = 'foreign' WHERE id = 600",
            "DELETE FROM d.t WHERE id = 700",
            "INSERT INTO d.t VALUES (5000, 'foreign', 1)",
            "UPDATE d.s SET part = 9 WHERE code = 'b''c'",
            "INSERT INTO d.s VALUES ('A', 1, 1)",
            "INSERT INTO d.k VALUES (1, 'x')",
        )
        found = running.wait_kinds(CHANGED, MISSING, MISSING, *[DELETED] * 4)
        assert {one.status for one in found} == {pb.NewErr}
        wait_text(running, "6 row changes of others; all compared")

        # Rows that are as the upstream's again, and one that was written and taken back.
        logging_target.execute(
            "UPDATE d.t SET v = 'v600' WHERE id = 600",
            "INSERT INTO d.t VALUES (700, 'v700', 700)",
            "DELETE FROM d.t WHERE id = 5000",
            "UPDATE d.s SET part = 1 WHERE code = 'b''c'",
            "DELETE FROM d.s WHERE code = 'A'",
            "BEGIN",
            "UPDATE d.t SET n = -1 WHERE id = 800",
            "UPDATE d.t SET n = 800 WHERE id = 800",
            "COMMIT",
        )
        wait_text(running, "13 row changes of others; all compared")
        wait_until(
            lambda: running.status().errorRowsStatus == "new/ignored/resolved: 1/0/6",
            lambda: f"rows that are mended are resolved: {running.errors()}",
        )


def test_statements_xa_and_many_rows_of_others_are_found(
    mariadb_upstream: MariaDBServer, logging_target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "MOST_KEYS", 50)
    filled(mariadb_upstream, logging_target)
    cfg = subtask(mariadb_upstream, logging_target, validator=QUICK)
    with swept(cfg, spark, "fast") as (running, _), writers(mariadb_upstream):
        wait_reading(running)
        logging_target.execute("SET SESSION binlog_format = STATEMENT", "UPDATE d.t SET v = 'text' WHERE id = 600")
        running.wait_kinds(CHANGED)
        # A prepared transaction has changed nothing yet.
        logging_target.execute("XA START 'x'", "DELETE FROM d.t WHERE id = 700", "XA END 'x'", "XA PREPARE 'x'")
        logging_target.execute("UPDATE d.t SET n = n WHERE id = 1", "UPDATE d.t SET v = 'row' WHERE id = 601")
        running.wait_kinds(CHANGED, CHANGED)
        logging_target.execute("XA COMMIT 'x'")
        running.wait_kinds(CHANGED, CHANGED, MISSING)
        logging_target.execute("UPDATE d.t SET n = n + 10000 WHERE id BETWEEN 801 AND 900")
        running.wait_kinds(*[CHANGED] * 102, MISSING)
        logging_target.execute("TRUNCATE TABLE d.s")
        running.wait_kinds(*[CHANGED] * 102, *[MISSING] * 4)


def test_no_write_is_missed_while_nobody_reads(
    mariadb_upstream: MariaDBServer, logging_target: SQLServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, logging_target)
    # Each transaction is one compressed event. The setting ends with the server.
    if logging_target.execute("SHOW VARIABLES LIKE 'binlog_transaction_compression'"):
        logging_target.execute("SET GLOBAL binlog_transaction_compression = ON")
    cfg = subtask(mariadb_upstream, logging_target, validator=QUICK)
    with swept(cfg, spark, "fast") as (running, _), writers(mariadb_upstream):
        wait_reading(running)
        logging_target.execute("DELETE FROM d.t WHERE id = 700")
        running.wait_kinds(MISSING)
    logging_target.execute("UPDATE d.t SET v = 'foreign' WHERE id = 600", "FLUSH LOGS")
    with swept(cfg, spark, "fast") as (running, _), writers(mariadb_upstream):
        running.wait_kinds(MISSING, CHANGED)
        wait_reading(running)
        # The target's end ends the stream too.
        logging_target.stop()
        logging_target.start()
        logging_target.execute("INSERT INTO d.t VALUES (5000, 'foreign', 1)")
        running.wait_kinds(MISSING, CHANGED, DELETED)
        wait_text(running, "3 row changes of others; all compared")


@pytest.mark.parametrize("lost", ["reset", "purged"])
def test_a_gap_is_shown_and_the_sweep_covers_it(
    mariadb_upstream: MariaDBServer,
    logging_target: SQLServer,
    spark: SparkEngine,
    lost: str,
) -> None:
    filled(mariadb_upstream, logging_target)
    cfg = subtask(mariadb_upstream, logging_target, validator=QUICK)
    with swept(cfg, spark, "fast") as (running, _):
        wait_reading(running)
    logging_target.execute("UPDATE d.t SET v = 'foreign' WHERE id = 600")
    if lost == "reset":
        new = logging_target.binlog_words == "BINARY LOG"
        logging_target.execute("RESET BINARY LOGS AND GTIDS" if new else "RESET MASTER")
    else:
        logging_target.execute("FLUSH LOGS", "FLUSH LOGS")
        ((last, *_),) = logging_target.execute("SHOW BINARY LOGS")[-1:]

        def purged() -> bool:
            # A server keeps the file that a connection reads, and notices late that it is closed.
            logging_target.execute(f"PURGE BINARY LOGS TO '{last}'")
            return len(logging_target.execute("SHOW BINARY LOGS")) == 1

        wait_until(purged, "the files are gone")
    with swept(cfg, spark, "fast") as (running, _):
        wait_text(running, "are found by the sweep only")
        wait_reading(running)
        logging_target.execute("DELETE FROM d.t WHERE id = 700")
        running.wait_kinds(MISSING)
        assert "are found by the sweep only" in running.status().foreignWrites
    with swept(cfg, spark, "full") as (running, _):
        running.wait_kinds(MISSING, CHANGED)
        wait_until(
            lambda: "the sweep only" not in running.status().foreignWrites,
            lambda: f"the round ends the gap: {running.status()}",
        )
        wait_reading(running)


def test_what_can_not_be_read_is_said(
    mariadb_upstream: MariaDBServer, logging_target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "_REFUSED", 0.5)
    monkeypatch.setattr(watcher, "_LOOK", 0.5)
    filled(mariadb_upstream, logging_target)
    logging_target.execute(
        "DROP USER IF EXISTS plain@'127.0.0.1'",
        "CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'secret'",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, PROCESS ON *.* TO plain@'127.0.0.1'",
    )
    ((form,),) = logging_target.execute("SELECT @@GLOBAL.binlog_format")
    cfg = subtask(mariadb_upstream, logging_target, validator=QUICK)
    cfg = replace(cfg, to=replace(cfg.to, user="plain", password="secret"))
    with swept(cfg, spark, "full") as (running, _):
        wait_text(running, "because the target's user lacks REPLICATION SLAVE and REPLICATION CLIENT")
        assert running.status().foreignWrites.startswith("sweep, a whole round ")
        logging_target.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO plain@'127.0.0.1'")
        wait_reading(running)
        running.validator.expect("fast")
        logging_target.execute("SET GLOBAL binlog_format = MIXED")
        try:
            wait_text(running, "not found, because the target's binlog_format is MIXED, not ROW")
        finally:
            logging_target.execute(f"SET GLOBAL binlog_format = {form}")
        wait_reading(running)
        wait_text(running, "0 row changes of others; all compared")


def test_without_a_binlog_the_sweep_is_named(
    mariadb_upstream: MariaDBServer, silent_target: SQLServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, silent_target)
    with swept(subtask(mariadb_upstream, silent_target, validator=QUICK), spark, "full") as (running, _):
        wait_text(running, "because the target's binlog is off (log_bin)")
        silent_target.execute("DELETE FROM d.t WHERE id = 700")
        running.wait_kinds(MISSING)
        wait_until(
            lambda: re.match(r"sweep, a whole round takes \d+ s, because", running.status().foreignWrites) is not None,
            lambda: f"the time of a round is named: {running.status()}",
        )


@pytest.fixture
def silent_target() -> Iterator[SQLServer]:
    """A target without a binlog."""
    server = MySQLServer(binlog=False)
    server.start()
    yield server
    server.cleanup()


def test_the_first_source_of_merged_tables_reports_them(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, logging_target: SQLServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, logging_target)
    mysql_upstream.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n INT NOT NULL)",
        "INSERT INTO d.t VALUES (6001, 'v6001', 6001), (6002, 'v6002', 6002)",
    )
    logging_target.execute("INSERT INTO d.t VALUES (6001, 'v6001', 6001), (6002, 'v6002', 6002)")
    one = subtask(mariadb_upstream, logging_target, validator=QUICK)
    two = subtask(mysql_upstream, logging_target, validator=QUICK, source_id="source-2")
    with (
        swept(one, spark, "fast", [two]) as (first, _),
        swept(two, spark, "fast", [one]) as (second, _),
        writers(mariadb_upstream),
    ):
        for running in (first, second):
            wait_reading(running)
        # The other source's own transactions are not foreign.
        mysql_upstream.execute("UPDATE d.t SET n = n + 1")
        second.run.wait_synced(mysql_upstream)
        logging_target.execute("UPDATE d.t SET v = 'foreign' WHERE id IN (600, 6001)")
        first.wait_kinds(CHANGED, CHANGED)
        wait_text(first, "2 row changes of others; all compared")
        wait_text(second, "0 row changes of others; all compared")
        assert second.errors() == []
