"""Hazard: one session of the upstream computes a stored generated column differently than the writers do."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.execution.target_connections import open_writer
from dm_worker.syncer.unit import applying, computed_sampler
from pkg.rules.model import RouteRule
from tests.harness.targets import TARGET
from tests.integration.syncer.support import rows, run_until_synced, running, subtask

_CHARSET = "DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
_TABLE = f"CREATE TABLE d.t (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL, g DATE AS (DATE(ts)) STORED, v INT) {_CHARSET}"
_EASTERN = "SET time_zone = '+08:00'"
#: By UTC, of the day before.
_INSERT = "INSERT INTO d.t (id, ts, v) VALUES (1, '2024-03-01 03:00:00', 0), (2, '2024-03-01 07:00:00', 0)"
_UPDATE = "UPDATE d.t SET ts = '2024-03-01 03:00:00', v = 1"
_ROWS = "SELECT id, UNIX_TIMESTAMP(ts), g, v FROM d.t ORDER BY id"
_KINDS = {
    "i": ("INT", "i * 2", "INT"),
    "u": ("BIGINT UNSIGNED", "u DIV 3", "BIGINT UNSIGNED"),
    "c": ("DECIMAL(20,6)", "c + 1", "DECIMAL(22,6)"),
    "s": ("VARCHAR(40)", "CONCAT(s, 'ö ')", "VARCHAR(50)"),
    "h": ("VARCHAR(9) CHARACTER SET latin1", "LOWER(h)", "CHAR(9) CHARACTER SET latin1"),
    "b": ("VARBINARY(20)", "SUBSTR(b, 2)", "VARBINARY(20)"),
    "x": ("BINARY(4)", "CONCAT(x, 'a')", "BINARY(6)"),
    "e": ("ENUM('a','B','ö')", "UPPER(e)", "VARCHAR(5)"),
    "y": ("SET('a','b','c')", "CONCAT(y, '')", "VARCHAR(9)"),
    "m": ("DATETIME(6)", "DATE(m)", "DATE"),
    "n": ("TIME(3)", "ADDTIME(n, '00:00:01')", "TIME(3)"),
    "z": ("TIMESTAMP(3) NULL", "DATE(z)", "DATE"),
    "t": ("BIT(9)", "t + 0", "INT"),
    "f": ("DOUBLE", "f / 3", "DOUBLE"),
    "j": ("TEXT", "SUBSTR(j, 2, 9)", "TEXT"),
}
#: Per column: values that differ in what a comparison by a collation, or of rounded values, would call equal.
_VALUES = {
    "i": ("-3", "2000000"),
    "u": ("1", "18446744073709551615"),
    "c": ("1.5", "-12345678901234.123456"),
    "s": ("'A'", "'a\\\\'' '"),
    "h": ("'Ä'", "'x  '"),
    "b": ("x'00ff27'", "''"),
    "x": ("'a'", "x'61ff'"),
    "e": ("'a'", "'ö'"),
    "y": ("''", "'a,c'"),
    "m": ("'2024-02-29 23:59:59.999999'", "'1000-01-01'"),
    "n": ("'-12:00:00.5'", "'800:00:00'"),
    "z": ("'2024-02-29 23:30:00.123'", "'1999-12-31 00:10:00'"),
    "t": ("b'101'", "b'111111111'"),
    "f": ("0.1", "-1e300"),
    "j": ("'Text'", "'ß \"x'"),
}


def _stops_and_goes_on(upstream: SQLServer, target: SQLServer, spark: SparkEngine, change: str) -> None:
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", _TABLE, "INSERT INTO d.t (id, ts, v) VALUES (3, '2024-02-01 12:00:00', 0)")
    cfg = subtask(upstream, target)
    # A structure that a run has stored is read without its expressions.
    upstream.execute("INSERT INTO d.t (id, ts, v) VALUES (4, '2024-02-01 12:00:00', 0)", "DELETE FROM d.t WHERE id = 4")
    run_until_synced(cfg, spark, upstream)
    upstream.execute(_EASTERN, change)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.code == 36027
    for part in ("`d`.`t`", "`g`", "computed 2024-02-29 ", "the upstream 2024-03-01,", "rows event that ends at "):
        assert part in error.message
    # The way out that the error names.
    assert "`ALTER TABLE `d`.`t` MODIFY COLUMN `g` date;`" in error.workaround
    if TARGET == "tidb":
        target.execute("ALTER TABLE d.t DROP COLUMN g", "ALTER TABLE d.t ADD COLUMN g date AFTER ts")
    else:
        target.execute("ALTER TABLE d.t MODIFY COLUMN g date")
    target.execute("UPDATE d.t SET g = IF(ts < '2024-02-15', '2024-02-01', '2024-03-01')")
    upstream.execute(_EASTERN, "INSERT INTO d.t (id, ts, v) VALUES (9, '2024-03-05 03:00:00', 0)", "UPDATE d.t SET v=7")
    run_until_synced(cfg, spark, upstream)
    assert target.execute(_ROWS) == upstream.execute(_ROWS)


@pytest.mark.parametrize("change", [_INSERT, _UPDATE], ids=["insert", "update"])
def test_another_time_zone_in_a_session_stops_the_task_by_name(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, change: str
) -> None:
    _stops_and_goes_on(mariadb_upstream, target, spark, change)


@pytest.mark.parametrize("change", [_INSERT, _UPDATE], ids=["insert", "update"])
def test_another_time_zone_in_a_session_of_mysql_stops_the_task_by_name(
    mysql_upstream: SQLServer, target: SQLServer, spark: SparkEngine, change: str
) -> None:
    _stops_and_goes_on(mysql_upstream, target, spark, change)


def test_the_way_out_where_updates_do_not_have_the_value(
    mariadb_11_8_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    for server in (mariadb_11_8_upstream, target):
        server.execute("CREATE DATABASE d", _TABLE)
    cfg = subtask(mariadb_11_8_upstream, target)
    mariadb_11_8_upstream.execute(_EASTERN, _INSERT)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert (error.code, "drop the target's column instead" in error.workaround) == (36027, True)
    target.execute("ALTER TABLE d.t DROP COLUMN g")
    mariadb_11_8_upstream.execute(_EASTERN, _UPDATE)
    run_until_synced(cfg, spark, mariadb_11_8_upstream)
    assert target.execute(_ROWS.replace(" g,", "")) == mariadb_11_8_upstream.execute(_ROWS.replace(" g,", ""))


def test_merged_shards_give_no_alarm(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _watched(monkeypatch)
    names = ("t1", "t2", "t3")
    mariadb_upstream.execute("CREATE DATABASE d", *(_TABLE.replace("d.t", f"d.{name}") for name in names))
    target.execute("CREATE DATABASE d", _TABLE)
    cfg = subtask(mariadb_upstream, target, routes=(RouteRule("d", "d", "t*", "t"),))
    with running(cfg, spark) as run:
        for day in range(1, 5):
            for shard, name in enumerate(names):
                values = ", ".join(f"({10 * day + shard + 1000 * n}, '2024-03-0{day} 03:00:00', 0)" for n in range(9))
                mariadb_upstream.execute(
                    f"INSERT INTO d.{name} (id, ts, v) VALUES {values}",
                    f"UPDATE d.{name} SET ts = ts + INTERVAL {day + shard} DAY",
                    f"DELETE FROM d.{name} WHERE id % 7 = {day}",
                )
            run.wait_synced(mariadb_upstream)
    union = " UNION ALL ".join(f"SELECT id, UNIX_TIMESTAMP(ts), g, v FROM d.{name}" for name in names)
    assert target.execute(_ROWS) == mariadb_upstream.execute(f"{union} ORDER BY id")
    assert len(asked) > len(names)


def _table_of_all_kinds() -> str:
    columns = [
        f"{name} {kind}, g_{name} {result} AS ({expression}) STORED"
        for name, (kind, expression, result) in _KINDS.items()
    ]
    return f"(id INT PRIMARY KEY, {', '.join(columns)}) {_CHARSET}"


@pytest.mark.parametrize("safe", [False, True], ids=["usual", "safe-mode"])
def test_equal_values_of_all_types_give_no_alarm(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, *, safe: bool
) -> None:
    _no_alarm(mariadb_upstream, target, spark, monkeypatch, safe=safe)


def test_equal_values_of_mysql_give_no_alarm(
    mysql_upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_alarm(mysql_upstream, target, spark, monkeypatch, safe=False)


def _no_alarm(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, *, safe: bool
) -> None:
    asked = _watched(monkeypatch)
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", f"CREATE TABLE d.a {_table_of_all_kinds()}")
    cfg = subtask(upstream, target)
    cfg = replace(cfg, syncer=replace(cfg.syncer, safe_mode=safe))
    names = ", ".join(_KINDS)
    first, second = (", ".join(pair[n] for pair in _VALUES.values()) for n in (0, 1))
    swapped = ", ".join(f"{name} = {_VALUES[name][1]}" for name in _KINDS)
    with running(cfg, spark) as run:
        for changes in (
            [f"INSERT INTO d.a (id, {names}) VALUES (1, {first}), (2, {second})", "INSERT INTO d.a (id) VALUES (3)"],
            # The sample's row is another one by the end of its batch, and back again.
            [f"UPDATE d.a SET {swapped} WHERE id = 1", "UPDATE d.a SET i = NULL WHERE id = 1", "UPDATE d.a SET i = -4"],
            [f"REPLACE INTO d.a (id, {names}) VALUES (1, {first})", "DELETE FROM d.a WHERE id = 2"],
            [f"INSERT INTO d.a (id, {names}) VALUES (7, {first})", "UPDATE d.a SET id = 8 WHERE id = 7"],
            [f"INSERT INTO d.a (id, {names}) VALUES (9, {second})"],
        ):
            upstream.execute("SET time_zone = '+00:00'", *changes)
            run.wait_synced(upstream)
    assert rows(target, "d.a") == rows(upstream, "d.a")
    # The samples say something: the last ones have found their row, by all that decides its value.
    last = {_column(statement): statement for statement in asked}
    assert last.keys() == {b"g_%b" % name.encode() for name in _KINDS if name != "f"}
    found = {
        name: _as_written(target, statement.replace(b") IS NOT TRUE", b") IS TRUE")) for name, statement in last.items()
    }
    assert None not in found.values(), found


def _column(question: bytes) -> bytes:
    """Whether any of several rows differs is only asked of columns that depend on the time zone."""
    return b"g_z" if question.startswith(b"SELECT 1, 1 ") else question.split(b"`")[1]


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The questions about computed values; samples are taken from every batch."""
    asked: list[bytes] = []

    def noted(conn: Connection[Any], statement: bytes) -> computed_sampler.BothValues | None:
        asked.append(statement)
        return computed_sampler.first_row(conn, statement)

    monkeypatch.setattr(computed_sampler, "SHARE", 1e9)
    monkeypatch.setattr(computed_sampler, "SELDOM", 0.0)
    monkeypatch.setattr(applying, "first_row", noted)
    return asked


def _as_written(target: SQLServer, statement: bytes) -> computed_sampler.BothValues | None:
    """The first row of an answer, in a writer's session."""
    with closing(open_writer(target.db_config, {}).conn) as conn:
        return computed_sampler.first_row(conn, statement)
