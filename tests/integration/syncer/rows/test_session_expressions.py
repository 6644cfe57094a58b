"""Hazard: the upstream's sessions compute generated columns in another time zone than the writers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

from deploy.local.mysql import MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from tests.compiled import kernels
from tests.harness.full_copy import config, dump, load
from tests.integration.syncer.replay import Replay
from tests.integration.syncer.support import run_until_synced, running, subtask

S = TypeVar("S", bound=SQLServer)
KERNELS = kernels()
_COLUMNS = "ts TIMESTAMP NOT NULL, g DATE AS (DATE(ts)) STORED, v INT"
_CHARSET = "DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
_TABLE = f"CREATE TABLE d.t (id INT PRIMARY KEY, {_COLUMNS}) {_CHARSET}"
#: MariaDB has no generated columns in primary keys.
_IN_KEY = f"CREATE TABLE d.t (id INT, {_COLUMNS}, PRIMARY KEY (id, g)) {_CHARSET}"
_ROWS = "INSERT INTO d.t (id, ts, v) VALUES " + ", ".join(f"({n}, '2024-03-01 03:00:00', 0)" for n in range(40))
_PLAIN = "SELECT id, UNIX_TIMESTAMP(ts), v FROM d.t ORDER BY id"


def _at_0800(server: S) -> Iterator[S]:
    before = server.execute("SELECT @@GLOBAL.time_zone")[0][0]
    server.execute("SET GLOBAL time_zone = '+08:00'")
    yield server
    server.execute(f"SET GLOBAL time_zone = '{before}'")


@pytest.fixture
def eastern(mariadb_upstream: SQLServer) -> Iterator[SQLServer]:
    """An upstream whose sessions are at +08:00."""
    yield from _at_0800(mariadb_upstream)


@pytest.fixture
def eastern_mysql(mysql_upstream: MySQLServer) -> Iterator[MySQLServer]:
    """As :func:`eastern`, a MySQL."""
    yield from _at_0800(mysql_upstream)


@pytest.fixture(scope="module")
def mysql_8() -> Iterator[MySQLServer]:
    server = MySQLServer(version="8.0", binlog=False)
    with up(server):
        yield server


def test_rows_are_found_though_their_key_is_computed_differently(
    eastern_mysql: MySQLServer, mysql_8: MySQLServer
) -> None:
    for server in (eastern_mysql, mysql_8):
        server.execute("CREATE DATABASE d", _IN_KEY)
    replay = Replay(eastern_mysql, mysql_8)
    eastern_mysql.execute(_ROWS)
    replay.catch_up()
    eastern_mysql.execute(
        "UPDATE d.t SET v = 1 WHERE id < 30", "DELETE FROM d.t WHERE id < 10", "UPDATE d.t SET id = 50 LIMIT 1"
    )
    replay.catch_up()
    assert mysql_8.execute(_PLAIN) == eastern_mysql.execute(_PLAIN)


def test_values_that_would_differ_stop_the_task_by_name(
    eastern: SQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    eastern.execute("CREATE DATABASE d", _TABLE, _ROWS)
    cfg = config(eastern, target, tmp_path)
    dump(cfg, spark)
    outcome = LoadUnit(cfg, spark).run()
    assert [("`g` (time_zone)" in str(error), error.code) for error in outcome.errors] == [(True, 34001)]
    # The way out that the error names.
    target.execute("ALTER TABLE d.t DROP COLUMN g")
    load(cfg, spark)
    assert target.execute(_PLAIN) == eastern.execute(_PLAIN)


def test_replication_stops_before_it_writes_another_value(
    eastern: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    for server in (eastern, target):
        server.execute("CREATE DATABASE d", _TABLE)
    cfg = subtask(eastern, target)
    eastern.execute(_ROWS)
    with running(cfg, spark) as run:
        outcome = run.wait_ended()
    assert [("`g` (time_zone)" in str(error), error.code) for error in outcome.errors] == [(True, 36027)]
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    target.execute("ALTER TABLE d.t DROP COLUMN g")
    run_until_synced(cfg, spark, eastern)
    assert target.execute(_PLAIN) == eastern.execute(_PLAIN)


def _changed_rows(upstream: SQLServer) -> None:
    upstream.execute(
        _ROWS,
        "UPDATE d.t SET ts = '2024-07-01 20:00:00' WHERE id < 20",
        "REPLACE INTO d.t (id, ts, v) VALUES (3, '2024-08-01 20:00:00', 5), (70, '2024-08-02 01:00:00', 5)",
        "DELETE FROM d.t WHERE id > 35 AND id < 60",
        "UPDATE d.t SET id = 80 WHERE id = 5",
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: "python" if kernel is None else "native")
@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (id), UNIQUE (g, id)", "KEY (v)"])
def test_a_plain_column_gets_what_the_upstream_computed(
    eastern: SQLServer, target: SQLServer, kernel: ModuleType | None, key: str
) -> None:
    _into_plain_column(eastern, target, kernel, key)


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (id, g)", "KEY (v)"])
def test_a_plain_column_gets_what_mysql_computed(eastern_mysql: MySQLServer, target: SQLServer, key: str) -> None:
    _into_plain_column(eastern_mysql, target, KERNELS[-1], key)


def _into_plain_column(upstream: SQLServer, target: SQLServer, kernel: ModuleType | None, key: str) -> None:
    upstream.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT, {_COLUMNS}, {key}) {_CHARSET}")
    target.execute(
        "CREATE DATABASE d",
        f"CREATE TABLE d.t (id INT, {_COLUMNS.replace('AS (DATE(ts)) STORED', '')}, {key}) {_CHARSET}",
    )
    replay = Replay(upstream, target, kernel=kernel)
    _changed_rows(upstream)
    replay.catch_up()
    rows = "SELECT id, UNIX_TIMESTAMP(ts), g, v FROM d.t ORDER BY id"
    assert target.execute(rows) == upstream.execute(rows)
    # By UTC, these rows are of the day before.
    assert target.execute("SELECT COUNT(*) FROM d.t WHERE g <> DATE(ts)")[0][0] > 0


def test_a_virtual_column_is_not_taken_for_a_plain_one(
    eastern: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    """Its values need not be in the binlog."""
    eastern.execute("CREATE DATABASE d", _TABLE.replace("STORED", "VIRTUAL"))
    target.execute("CREATE DATABASE d", _TABLE.replace("AS (DATE(ts)) STORED", ""))
    cfg = subtask(eastern, target)
    eastern.execute(_ROWS)
    with running(cfg, spark) as run:
        outcome = run.wait_ended()
    assert [("`g` is date (generated) upstream" in str(error), error.code) for error in outcome.errors] == [
        (True, 36027)
    ]


def test_a_virtual_column_is_computed_by_the_session_that_reads_it(
    mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    """MySQL rounds fractions of seconds, MariaDB cuts them. Nothing but the base column is stored."""
    mysql_upstream.execute(
        "CREATE DATABASE d",
        f"CREATE TABLE d.t (id INT PRIMARY KEY, b DATETIME(3), c DATETIME AS (b) VIRTUAL) {_CHARSET}",
        "INSERT INTO d.t (id, b) VALUES (1, '2024-01-01 10:00:00.500')",
    )
    cfg = config(mysql_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    shown = "SELECT CAST(b AS CHAR), CAST(c AS CHAR) FROM d.t"
    upstream = [("2024-01-01 10:00:00.500", "2024-01-01 10:00:01")]
    assert mysql_upstream.execute(shown) == upstream
    assert target.execute(shown) == [("2024-01-01 10:00:00.500", "2024-01-01 10:00:00")]
    assert target.execute("SET SESSION sql_mode = 'TIME_ROUND_FRACTIONAL'", shown) == upstream


def test_fractions_that_the_upstream_cuts_and_the_target_would_round(
    mysql_upstream: MySQLServer, mysql_8: MySQLServer, spark: SparkEngine
) -> None:
    mode = mysql_upstream.execute("SELECT @@GLOBAL.sql_mode")[0][0]
    mysql_upstream.execute(f"SET GLOBAL sql_mode = '{mode},TIME_TRUNCATE_FRACTIONAL'")
    try:
        for server in (mysql_upstream, mysql_8):
            server.execute(
                "DROP DATABASE IF EXISTS d",
                "CREATE DATABASE d",
                f"CREATE TABLE d.t (id INT PRIMARY KEY, b DATETIME(3), c DATETIME AS (b) STORED) {_CHARSET}",
            )
        cfg = subtask(mysql_upstream, mysql_8)
        mysql_upstream.execute("INSERT INTO d.t (id, b) VALUES (1, '2024-01-01 10:00:00.500')")
        with running(cfg, spark) as run:
            outcome = run.wait_ended()
    finally:
        mysql_upstream.execute(f"SET GLOBAL sql_mode = '{mode}'")
    assert [("`c` (TIME_TRUNCATE_FRACTIONAL)" in str(error), error.code) for error in outcome.errors] == [(True, 36027)]
    assert mysql_8.execute("SELECT * FROM d.t") == []


@pytest.mark.parametrize("form", ["c DATETIME AS (b) STORED", "c DATETIME AS (b) VIRTUAL, KEY (c)"])
def test_a_mariadb_keeps_no_column_that_cuts_what_a_mysql_rounds(
    mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path, form: str
) -> None:
    mysql_upstream.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, b DATETIME(3), {form})")
    cfg = config(mysql_upstream, target, tmp_path)
    dump(cfg, spark)
    (error,) = LoadUnit(cfg, spark).run().errors
    assert error.code == 34001
    assert "1901" in str(error)
