"""Hazard: while a subtask is held at a location, the target has other rows than the upstream had there."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.target_location import TargetLocation, Whereabouts, location_in
from dm_worker.syncer.unit.hold import NOT_REPLICATING, HoldState
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import SubTaskConfig
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query
from tests.integration.relay_routes import read_through
from tests.integration.syncer.support import Running, location, run_until_synced, running, subtask
from tests.sweeps import LONG

TABLES = ("a", "b", "log", "uk")
KEYS = 200
HOLDS = 50 if LONG else 12


class Writers:
    """Connections that change rows of all tables in transactions, as fast as they can."""

    def __init__(self, server: SQLServer, count: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._main, args=(seed,), daemon=True) for seed in range(count)]
        self.transactions = 0
        self.failure: Exception | None = None

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_TIMEOUT)
        assert self.failure is None, self.failure
        assert self.transactions > 0

    def _main(self, seed: int) -> None:
        rng = random.Random(seed)
        conn = self._server.connect(autocommit=False)
        try:
            while not self._stop.is_set():
                self._write(conn, rng, seed)
                self.transactions += 1
        except Exception as exc:  # noqa: BLE001 - shown by the test
            self.failure = exc
        finally:
            conn.close()

    def _write(self, conn: Connection[Any], rng: random.Random, seed: int) -> None:
        key = rng.randrange(KEYS)
        number = rng.randrange(1 << 30)
        statements = [
            f"INSERT INTO d.a VALUES ({key}, {number}) ON DUPLICATE KEY UPDATE v = {number}",
            f"DELETE FROM d.b WHERE id = {key}",
            f"INSERT INTO d.b VALUES ({key}, {number}) ON DUPLICATE KEY UPDATE v = {number}",
            f"INSERT INTO d.log VALUES ({seed}, {number % 10})",
            f"UPDATE d.uk SET u = {number} WHERE id = {key}",
        ]
        with conn.cursor() as cursor:
            try:
                for statement in rng.sample(statements, rng.randint(1, len(statements))):
                    cursor.execute(statement)
                conn.commit()
            except (pymysql.err.OperationalError, pymysql.err.IntegrityError):
                conn.rollback()  # a deadlock, or a value that is there
        time.sleep(rng.random() * 0.01)


def make_tables(*servers: SQLServer) -> None:
    for server in servers:
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.a (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE d.b (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE d.log (writer INT, v INT)",
            "CREATE TABLE d.uk (id INT PRIMARY KEY, u INT UNIQUE)",
            *(f"INSERT INTO d.uk VALUES ({key}, {-key})" for key in range(KEYS)),
        )


def contents(conn: Connection[Any]) -> dict[str, list[Any]]:
    return {table: sorted(query(conn, f"SELECT * FROM d.{table}")) for table in TABLES}


@contextmanager
def upstream_snapshot(server: SQLServer) -> Iterator[tuple[Connection[Any], Location]]:
    """A consistent snapshot, and where it is in the binlog."""
    conn = server.connect(autocommit=False)
    try:
        query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if server.flavor == "mariadb":
            query(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            found = dict(query(conn, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
            place = Position(str(found["Binlog_snapshot_file"]), int(found["Binlog_snapshot_position"]))
            gtid = str(query(conn, "SELECT BINLOG_GTID_POS(%s, %s)", (place.name, place.pos))[0][0])
            yield conn, Location(place, gtid)
        else:
            _lock_tables(conn)
            query(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            here = master_status(conn, server.flavor)
            query(conn, "UNLOCK TABLES")
            assert here is not None
            yield conn, here
    finally:
        conn.close()


def _lock_tables(conn: Connection[Any]) -> None:
    """The global lock, tried again when a statement waits for a row whose transaction waits for the lock."""
    query(conn, "SET SESSION lock_wait_timeout = 1")
    while True:
        try:
            query(conn, "FLUSH TABLES WITH READ LOCK")
            return
        except pymysql.err.OperationalError as exc:
            if error_number(exc) != 1205:
                raise


@contextmanager
def target_snapshot(server: SQLServer) -> Iterator[Connection[Any]]:
    conn = server.connect(autocommit=False)
    try:
        query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        query(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        yield conn
    finally:
        conn.close()


def placed(conn: Connection[Any], cfg: SubTaskConfig, at: Location) -> TargetLocation:
    return location_in(
        conn, meta_schema=cfg.meta_schema, task=cfg.name, source=cfg.source_id, location=at, flavor=cfg.flavor
    )


def compare(run: Running, upstream: SQLServer, target: SQLServer, *, freeze: bool) -> float | None:
    """Holds at a snapshot of the upstream and compares; returns the seconds of the hold, None if it came too late."""
    hold = run.unit.hold
    began = time.monotonic()
    if freeze:
        first = hold.at(None, WAIT_TIMEOUT)
        assert first.is_held, first
    with upstream_snapshot(upstream) as (source, place):
        if not freeze:
            began = time.monotonic()
        state = hold.at(place, WAIT_TIMEOUT)
        if not state.is_held:
            assert not freeze, state
            assert state.reason == "the location is passed", state
            return None
        assert state.location is not None
        with target_snapshot(target) as conn:
            found = placed(conn, run.cfg, state.location)
            hold.release()
            lasted = time.monotonic() - began
            assert found.where is Whereabouts.EXACT, (found, state)
            assert contents(conn) == contents(source)
    return lasted


@pytest.fixture(params=["mariadb-position", "mariadb-gtid", "mysql-position", "mysql-gtid"])
def upstream(request: pytest.FixtureRequest) -> tuple[SQLServer, bool]:
    kind, way = request.param.split("-")
    return request.getfixturevalue(f"{kind}_upstream"), way == "gtid"


@pytest.mark.timeout(600)
def test_rows_are_those_of_the_upstream_at_each_hold_under_16_writers(
    upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    make_tables(server, target)
    cfg = subtask(server, target, enable_gtid=gtid)
    lasted, late = [], 0
    with running(cfg, spark) as run, Writers(server, 16):
        wait_until(lambda: run.unit.status().totalRows > 0, "rows are applied")
        for number in range(HOLDS):
            found = compare(run, server, target, freeze=number % 2 == 0)
            late += found is None
            lasted += [] if found is None else [found]
    # A hold at where the run is comes before all snapshots after it, so it can't be late.
    assert len(lasted) >= HOLDS // 2
    print(f"holds: {len(lasted)}, late: {late}, median {statistics.median(lasted):.3f} s, most {max(lasted):.3f} s")
    run_until_synced(cfg, spark, server)
    with target_snapshot(target) as there, target_snapshot(server) as here:
        assert contents(there) == contents(here)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_rows_of_a_task_that_reads_the_relay_log_are_those_of_the_upstream(
    kind: str, request: pytest.FixtureRequest, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    server: SQLServer = request.getfixturevalue(f"{kind}_upstream")
    make_tables(server, target)
    cfg = subtask(server, target, enable_gtid=True)
    with (
        read_through("relay", cfg, server, tmp_path / "relay") as relay,
        running(cfg, spark, relay=relay) as run,
        Writers(server, 4),
    ):
        wait_until(lambda: run.unit.status().totalRows > 0, "rows are applied")
        for _ in range(10):
            assert compare(run, server, target, freeze=True) is not None
        run.stop()


def taken_over(run: Running) -> bool:
    """Whether the run replicates; before, it holds nowhere."""
    state = run.unit.hold.at(None, WAIT_TIMEOUT)
    run.unit.hold.release()
    return state.reason != NOT_REPLICATING


def held_at_end(run: Running, server: SQLServer) -> Location:
    state = run.unit.hold.at(location(server), WAIT_TIMEOUT)
    assert state.is_held, state
    assert state.location is not None
    return state.location


def test_a_task_without_events_is_held_at_once_and_at_the_end_of_the_binlog(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        wait_until(lambda: taken_over(run), "the run has taken over")
        # There is no checkpoint yet: nothing was applied.
        at = held_at_end(run, mariadb_upstream)
        with target_snapshot(target) as conn:
            assert placed(conn, cfg, at).where is Whereabouts.EXACT
        run.unit.hold.release()
        # Events that change no migrated row, and those of a new file.
        mariadb_upstream.execute("CREATE DATABASE other", "CREATE TABLE other.t (a INT)", "FLUSH BINARY LOGS")
        at = held_at_end(run, mariadb_upstream)
        with target_snapshot(target) as conn:
            assert placed(conn, cfg, at).where is Whereabouts.EXACT
            assert placed(conn, cfg, Location(Position(at.position.name, 4))).where is Whereabouts.AHEAD
            assert placed(conn, cfg, Location(Position("mysql-bin.999999", 4))).where is Whereabouts.BEHIND


def test_a_location_that_is_applied_or_is_no_end_is_refused_with_the_checkpoint(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    before = location(mariadb_upstream)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.log VALUES (1, 1)")
        run.wait_synced(mariadb_upstream)
        state = run.unit.hold.at(Location(before.position), WAIT_TIMEOUT)
        assert state.reason == "the location is passed"
        assert state.location is not None
        assert state.location.position == location(mariadb_upstream).position
        end = location(mariadb_upstream).position
        with held_at(run, None):
            mariadb_upstream.execute("INSERT INTO d.log VALUES (2, 2)")
        state = run.unit.hold.at(Location(Position(end.name, end.pos + 5)), WAIT_TIMEOUT)
        assert not state.is_held
        run.wait_synced(mariadb_upstream)
        assert len(target.execute("SELECT * FROM d.log")) == 2


@contextmanager
def held_at(run: Running, at: Location | None, limit: float = WAIT_TIMEOUT) -> Iterator[HoldState]:
    state = run.unit.hold.at(at, limit)
    assert state.is_held, state
    yield state
    run.unit.hold.release()


def test_nothing_is_applied_during_a_hold_and_all_after_its_limit(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        wait_until(lambda: taken_over(run), "the run has taken over")
        state = run.unit.hold.at(None, 3.0)
        assert state.is_held
        assert state.location is not None
        mariadb_upstream.execute("INSERT INTO d.log VALUES (1, 1)", "ALTER TABLE d.log ADD c INT")
        # Reading and planning continue.
        wait_until(lambda: run.unit.status().held.startswith("held at"), "the status shows it")
        # Jobs of Spark are cancelled, as when an executor dies.
        spark.cancel("sync-t-source-1")
        with target_snapshot(target) as conn:
            assert placed(conn, cfg, state.location).where is Whereabouts.EXACT
            assert query(conn, "SELECT * FROM d.log") == []
        run.wait_synced(mariadb_upstream)
        assert run.unit.status().held == ""
        assert target.execute("SELECT * FROM d.log") == [(1, 1, None)]
        with target_snapshot(target) as conn:
            assert placed(conn, cfg, state.location).where is Whereabouts.AHEAD


def test_a_ddl_before_the_location_is_executed_first(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, enable_gtid=True)
    with running(cfg, spark) as run:
        wait_until(lambda: taken_over(run), "the run has taken over")
        for number in range(3):
            mariadb_upstream.execute(f"ALTER TABLE d.log ADD c{number} INT")
            if number % 2:
                mariadb_upstream.execute(f"INSERT INTO d.log VALUES (1, 1{', 1' * (number + 1)})")
            with upstream_snapshot(mariadb_upstream) as (source, place), held_at(run, place) as state:
                assert state.location == place
                with target_snapshot(target) as conn:
                    assert placed(conn, cfg, place).where is Whereabouts.EXACT
                    assert contents(conn) == contents(source)


def test_a_pause_ends_a_hold_and_a_wait_for_one(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        wait_until(lambda: taken_over(run), "the run has taken over")
        assert run.unit.hold.at(None, 60.0).is_held
        mariadb_upstream.execute("INSERT INTO d.log VALUES (1, 1)")
        began = time.monotonic()
        outcome = run.stop()
        assert outcome.canceled
        assert time.monotonic() - began < 30
        assert run.unit.hold.at(None, 5.0).reason == NOT_REPLICATING
    run_until_synced(cfg, spark, mariadb_upstream)
    with target_snapshot(target) as there, target_snapshot(mariadb_upstream) as here:
        assert contents(there) == contents(here)
