"""Hazard: the target decides what is stored: it fills in the time or a number, rounds, cuts or pads a value."""

from __future__ import annotations

import itertools

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SyncerConfig
from pkg.errors import Code
from tests.integration.syncer.support import assert_equal, rows, run_until_synced, running, subtask

FORMS = {
    "upserts": SyncerConfig(),
    "safe": SyncerConfig(safe_mode=True),
    "in order": SyncerConfig(compact=False),
    "in order, safe": SyncerConfig(compact=False, safe_mode=True),
    "single rows": SyncerConfig(multiple_rows=False),
}
NOW = "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_key_with_the_time_of_its_update_stays_what_it_is_upstream(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, form: SyncerConfig
) -> None:
    tables = {
        "alone": f"ts {NOW}, v INT, PRIMARY KEY (ts)",
        "second": f"id INT, ts {NOW}, v INT, PRIMARY KEY (id, ts)",
        "moment": f"ts {NOW.replace('TIMESTAMP', 'DATETIME')}, v INT, PRIMARY KEY (ts)".replace(
            "CURRENT_DATETIME", "CURRENT_TIMESTAMP"
        ),
        "further": f"id INT PRIMARY KEY, ts {NOW}, v INT, UNIQUE KEY (ts)",
        "keyless": f"ts {NOW}, v INT",
        "plain": f"id INT PRIMARY KEY, ts {NOW}, v INT",
    }
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", *(f"CREATE TABLE d.{name} ({spec})" for name, spec in tables.items()))
    moments = [f"2001-02-0{day} 03:04:05" for day in range(1, 7)]
    with running(subtask(mariadb_upstream, target, syncer=form), spark) as run:
        for name, spec in tables.items():
            number = "id, " if spec.startswith("id") else ""
            values = [f"({f'{n}, ' if number else ''}'{moment}', 0)" for n, moment in enumerate(moments)]
            mariadb_upstream.execute(f"INSERT INTO d.{name} ({number}ts, v) VALUES {', '.join(values)}")
        run.wait_synced(mariadb_upstream)
        for name, spec in tables.items():
            number = "id, " if spec.startswith("id") else ""
            first = f"({'0, ' if number else ''}'{moments[0]}', 7)"
            second = f"({'1, ' if number else ''}'{moments[1]}', 8)"
            mariadb_upstream.execute(
                f"REPLACE INTO d.{name} ({number}ts, v) VALUES {first}",
                f"INSERT INTO d.{name} ({number}ts, v) VALUES {second}"
                " ON DUPLICATE KEY UPDATE v = VALUES(v), ts = VALUES(ts)",
                f"UPDATE d.{name} SET v = 9, ts = ts WHERE ts = '{moments[2]}'",
                f"UPDATE d.{name} SET v = 10 WHERE ts = '{moments[3]}'",
                f"DELETE FROM d.{name} WHERE ts = '{moments[4]}'",
            )
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, *(f"d.{name}" for name in tables))


NULLS = {
    "timestamp": ("id INT PRIMARY KEY, c TIMESTAMP NULL", "id INT PRIMARY KEY, c TIMESTAMP NOT NULL DEFAULT NOW()"),
    "counter": ("id INT PRIMARY KEY, c INT NULL", "id INT PRIMARY KEY, c INT NOT NULL AUTO_INCREMENT, KEY (c)"),
    "keyless": ("id INT, c TIMESTAMP NULL", "id INT, c TIMESTAMP NOT NULL DEFAULT '2000-01-01'"),
}


@pytest.mark.target_with("MariaDB's tables")
@pytest.mark.parametrize(("kind", "change"), [*itertools.product(NULLS, ("INSERT", "UPDATE"))])
def test_null_is_not_filled_in(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, kind: str, change: str
) -> None:
    for server, spec in zip((mariadb_upstream, target), NULLS[kind], strict=True):
        server.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({spec})")
    value = "1" if kind == "counter" else "'2001-01-01'"
    cfg = subtask(mariadb_upstream, target, lossy_conversions="allow")
    with running(cfg, spark) as run:
        mariadb_upstream.execute(f"INSERT INTO d.t VALUES (1, {value})")
        run.wait_synced(mariadb_upstream)
        before = rows(target, "d.t")
        mariadb_upstream.execute(
            "UPDATE d.t SET c = NULL" if change == "UPDATE" else "INSERT INTO d.t VALUES (2, NULL)"
        )
        (error,) = run.wait_ended().errors
        assert error.code == Code.SyncerUnitDMLColumnNotMatch.code
        assert "`d`.`t`" in error.message
        assert "`c`" in error.message
        assert "NULL" in error.workaround
        assert rows(target, "d.t") == before
    spec = NULLS[kind][0]
    target.execute("ALTER TABLE d.t MODIFY " + spec.split(", ")[1])
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


#: Upstream's type, the target's, a value that stays, one that would change.
LOSSES = {
    "fraction": ("DATETIME(6)", "DATETIME", "'2020-01-01 00:00:00.000000'", "'2020-01-01 00:00:00.600000'"),
    "timestamp": ("TIMESTAMP(6) NULL", "TIMESTAMP(3) NULL", "'2020-01-01 00:00:00.123'", "'2020-01-01 00:00:00.1239'"),
    "time": ("TIME(3)", "TIME", "'-01:00:00'", "'00:00:00.5'"),
    "day": ("DATETIME", "DATE", "'2020-01-01'", "'2020-01-01 10:00:00'"),
    "scale": ("DECIMAL(9,4)", "DECIMAL(9,2)", "1.5", "1.255"),
    "whole": ("DECIMAL(9,2)", "INT", "-2", "1.5"),
    "float": ("DOUBLE", "FLOAT", "0.5", "0.1"),
    "large": ("BIGINT", "DOUBLE", "9007199254740992", "9007199254740993"),
    "rounded": ("DOUBLE", "DOUBLE(9,1)", "0.5", "0.25"),
    "spaces": ("VARCHAR(9)", "CHAR(9)", "'a b'", "'a  '"),
    "cut": ("VARCHAR(9)", "VARCHAR(3)", "'abc'", "'abc  '"),
    "padded": ("VARBINARY(4)", "BINARY(4)", "x'61626364'", "x'6162'"),
    "member": ("VARCHAR(9)", "ENUM('a','1')", "'a'", "'A'"),
    "year": ("INT", "YEAR", "1999", "99"),
    "number": ("VARCHAR(9)", "INT", "'12'", "'1.5'"),
}  # fmt: skip


@pytest.mark.target_with("MariaDB's tables")
@pytest.mark.parametrize("kind", LOSSES)
def test_a_value_that_the_target_would_change_stops_the_task(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, kind: str
) -> None:
    here, there, kept, changed = LOSSES[kind]
    mariadb_upstream.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, c {here})")
    target.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, c {there})")
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(f"INSERT INTO d.t VALUES (1, {kept}), (2, NULL)")
        run.wait_synced(mariadb_upstream)
        assert target.execute(f"SELECT COUNT(*) FROM d.t WHERE id = 1 AND c = {kept}") == [(1,)]
        mariadb_upstream.execute(f"INSERT INTO d.t VALUES (3, {changed})")
        (error,) = run.wait_ended().errors
    assert error.code == Code.SyncerUnitDMLColumnNotMatch.code
    assert "`d`.`t`" in error.message
    assert "`c`" in error.message
    assert "lossy-conversions: allow" in error.workaround
    assert len(rows(target, "d.t")) == 2
