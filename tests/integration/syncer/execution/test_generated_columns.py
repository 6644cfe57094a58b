"""Hazards: the strict session refuses what a generated column's expression makes of rows that the upstream took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.mysql import MYSQL_8_COLLATION, MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from dm_worker.subtask.unit import UnitOutcome
from tests.harness.full_copy import config, dump, load
from tests.harness.targets import TARGET
from tests.integration.syncer.support import assert_equal, rows, running, subtask

_DATES = """CREATE TABLE d.{} (id INT {}, d DATE, s VARCHAR(20), e VARCHAR(9) CHARACTER SET latin1,
    later DATE AS (d + INTERVAL 1 DAY) STORED, last DATE AS (LAST_DAY(d)) VIRTUAL, n INT AS (CAST(s AS SIGNED)) STORED,
    day DATE AS (STR_TO_DATE(s, '%Y-%m-%d')) VIRTUAL, cut VARCHAR(3) AS (s) STORED, small TINYINT AS (id) STORED,
    KEY (day))"""
_DIFFERENCES = """CREATE TABLE d.{} (id INT {}, a INT UNSIGNED, b INT UNSIGNED, c BIGINT AS (a - b) STORED,
    v BIGINT AS (a - b) VIRTUAL, k BIGINT AS (b - a) VIRTUAL, KEY (k))"""
_NOT_STRICT = "SET SESSION sql_mode = 'NO_UNSIGNED_SUBTRACTION,ALLOW_INVALID_DATES'"
#: So many rows are loaded or executed in bulk where the server can.
_MANY = 1200
_DAYS = ("2020-02-29", "0000-00-00", "2020-02-31", "2020-00-01")
#: STR_TO_DATE of an empty text is NULL in TiDB, and a zero date elsewhere.
_TEXTS = ("2020-01-01", "12x", "x" if TARGET == "tidb" else "", "2020-13-77")


@pytest.fixture(scope="module")
def mysql_8() -> Iterator[MySQLServer]:
    server = MySQLServer(version="8.0", binlog=False, extra=[MYSQL_8_COLLATION])
    with up(server):
        yield server


def _make(text: str, *servers: SQLServer) -> None:
    for server in servers:
        server.execute("SET SESSION sql_mode = ''", "CREATE DATABASE IF NOT EXISTS d", text)


def _insert_dates(server: SQLServer, table: str, first: int, count: int) -> None:
    values = ",".join(f"({n}, '{_DAYS[n % 4]}', '{_TEXTS[n // 4 % 4]}', 'é{n}')" for n in range(first, first + count))
    server.execute(_NOT_STRICT, f"INSERT INTO d.{table} (id, d, s, e) VALUES {values}")


def _insert_differences(server: SQLServer, table: str, first: int, count: int) -> None:
    values = ",".join(f"({n}, {n % 7}, 3)" for n in range(first, first + count))
    server.execute(_NOT_STRICT, f"INSERT INTO d.{table} (id, a, b) VALUES {values}")


def _change_dates(server: SQLServer, between: Callable[[], None] = lambda: None) -> None:
    """``between`` is called between the changes, which are in one batch at times."""
    _insert_dates(server, "t", 0, _MANY)
    _insert_dates(server, "t", 5000, 3)
    for change in (
        "UPDATE d.t SET d = '0000-00-00', s = CONCAT('9', id, 'x') WHERE id < 40",
        "UPDATE d.t SET id = id + 10000 WHERE id < 5",
        "DELETE FROM d.t WHERE id BETWEEN 100 AND 140",
        "UPDATE d.t SET s = '2021-01-01' WHERE id BETWEEN 200 AND 240",
    ):
        between()
        server.execute(_NOT_STRICT, change)


def test_rows_whose_expressions_only_warn_upstream_arrive_with_equal_values(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    _make(_DATES.format("t", "PRIMARY KEY"), mariadb_upstream, target)
    with running(subtask(mariadb_upstream, target), spark) as run:
        _change_dates(mariadb_upstream, lambda: run.wait_synced(mariadb_upstream))
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_the_same_with_mysql_and_differences_below_zero(
    mysql_upstream: MySQLServer, mysql_8: MySQLServer, spark: SparkEngine
) -> None:
    mysql_8.wipe()
    _make(_DATES.format("t", "PRIMARY KEY"), mysql_upstream, mysql_8)
    for table, key in (("minus", "PRIMARY KEY"), ("keyless", "")):
        _make(_DIFFERENCES.format(table, key), mysql_upstream, mysql_8)
    with running(subtask(mysql_upstream, mysql_8), spark) as run:
        _change_dates(mysql_upstream)
        for table in ("minus", "keyless"):
            _insert_differences(mysql_upstream, table, 0, 300)
            run.wait_synced(mysql_upstream)
            mysql_upstream.execute(
                _NOT_STRICT,
                f"UPDATE d.{table} SET a = 0, b = b + id WHERE id < 50",
                f"DELETE FROM d.{table} WHERE id BETWEEN 40 AND 60",
            )
        run.wait_synced(mysql_upstream)
    for server in (mysql_upstream, mysql_8):
        server.execute("SET GLOBAL sql_mode = 'NO_UNSIGNED_SUBTRACTION'")
    try:
        assert_equal(mysql_upstream, mysql_8, "d.t", "d.minus", "d.keyless")
    finally:
        for server in (mysql_upstream, mysql_8):
            server.execute("SET GLOBAL sql_mode = DEFAULT")


def _advice(outcome: UnitOutcome) -> str:
    (error,) = outcome.errors
    return error.workaround


@pytest.mark.target_with("stored columns added by ALTER")
def test_where_no_proof_is_possible_the_advice_leads_past(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    text = "CREATE TABLE d.t (s VARCHAR(20), n INT AS (CAST(s AS SIGNED)) STORED)"
    _make(text, mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("SET sql_mode = ''", "INSERT INTO d.t (s) VALUES ('1'), ('12x')")
        advice = _advice(run.wait_ended())
    assert "computes `n` of `d`.`t`" in advice
    (drop,) = (part for part in advice.replace(")", "(").split("(") if part.startswith("ALTER TABLE"))
    assert rows(target, "d.t") == []
    target.execute(drop)
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        run.stop()
    target.execute("SET sql_mode = ''", "ALTER TABLE d.t ADD COLUMN n INT AS (CAST(s AS SIGNED)) STORED")
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t (s) VALUES ('7')", "DELETE FROM d.t WHERE s = '1'")
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_a_load_takes_differences_below_zero_and_names_other_expressions(
    mysql_upstream: MySQLServer, mysql_8: MySQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mysql_8.wipe()
    _make(_DIFFERENCES.format("minus", "PRIMARY KEY"), mysql_upstream)
    _make("CREATE TABLE d.t (id INT PRIMARY KEY, s VARCHAR(20), n INT AS (CAST(s AS SIGNED)) STORED)", mysql_upstream)
    _insert_differences(mysql_upstream, "minus", 0, 3000)
    mysql_upstream.execute("SET sql_mode = ''", "INSERT INTO d.t (id, s) VALUES (1, '1'), (2, '12x')")
    cfg = config(mysql_upstream, mysql_8, tmp_path)
    dump(cfg, spark)
    advice = _advice(LoadUnit(cfg, spark).run())
    assert "computes `n` of `d`.`t`" in advice
    mysql_8.execute("ALTER TABLE d.t DROP COLUMN n")
    load(cfg, spark)
    mysql_8.execute("SET sql_mode = ''", "ALTER TABLE d.t ADD COLUMN n INT AS (CAST(s AS SIGNED)) STORED")
    assert_equal(mysql_upstream, mysql_8, "d.t")
    stored = "(SELECT id, a, b, c FROM d.minus) x"
    assert rows(mysql_8, stored) == rows(mysql_upstream, stored)
