"""Hazard: triggers, checks, versions, periods or session defaults of the target change what is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SyncerConfig
from tests.integration.syncer.support import assert_equal, rows, run_until_synced, running, subtask

pytestmark = pytest.mark.target_with("MariaDB's tables")

ROWS = (
    "INSERT INTO d.t (id, v) VALUES (1, 1), (2, 2), (3, 3)",
    "UPDATE d.t SET v = 10 WHERE id = 1",
    "REPLACE INTO d.t (id, v) VALUES (2, 20)",
    "DELETE FROM d.t WHERE id = 3",
)


def test_a_trigger_of_the_target_runs_for_what_is_written_and_cannot_hide_a_row(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    target.execute(
        "CREATE TABLE d.log (id INT)",
        "CREATE TRIGGER d.on_insert AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (NEW.id)",
    )
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(*ROWS)
        run.wait_synced(mariadb_upstream)
        assert {row[0] for row in rows(target, "d.log")} >= {1, 2}
        assert_equal(mariadb_upstream, target, "d.t")
        target.execute(
            "CREATE TRIGGER d.refuse BEFORE INSERT ON d.t FOR EACH ROW SIGNAL SQLSTATE '45000'"
            " SET MESSAGE_TEXT = 'not here'"
        )
        mariadb_upstream.execute("INSERT INTO d.t VALUES (9, 9)")
        (error,) = run.wait_ended().errors
    assert "not here" in error.message
    assert "`d`.`t`" in error.message
    target.execute("DROP TRIGGER d.refuse")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_a_check_that_the_upstreams_session_switched_off_refuses_the_row_by_name(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute(
            "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, CONSTRAINT low CHECK (v < 100))"
        )
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("SET check_constraint_checks = 0", "INSERT INTO d.t VALUES (7, 700)")
        (error,) = run.wait_ended().errors
    assert "low" in error.message
    assert "(7)" in error.message
    assert "CHECK" in error.workaround
    target.execute("ALTER TABLE d.t DROP CONSTRAINT low")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


@pytest.mark.parametrize("safe", [False, True], ids=["exact", "safe"])
def test_invisible_columns_and_defaults_by_expression_get_the_upstreams_values(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, safe: bool
) -> None:
    for server in (mariadb_upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, h INT INVISIBLE DEFAULT 5, u VARCHAR(36) DEFAULT UUID(),"
            " r DOUBLE DEFAULT (RAND()), n DATETIME(6) DEFAULT NOW(6) ON UPDATE NOW(6))",
            "CREATE TABLE d.k (v INT, h INT INVISIBLE DEFAULT 5, u VARCHAR(36) DEFAULT UUID())",
        )
    with running(subtask(mariadb_upstream, target, syncer=SyncerConfig(safe_mode=safe)), spark) as run:
        mariadb_upstream.execute(
            *ROWS,
            "INSERT INTO d.t (id, v, h) VALUES (8, 8, NULL)",
            "UPDATE d.t SET h = 6 WHERE id = 2",
            "INSERT INTO d.k (v) VALUES (1), (1)",
            "UPDATE d.k SET h = 7 LIMIT 1",
        )
        run.wait_synced(mariadb_upstream)
    both = [server.execute("SELECT id, v, h, u, r, n FROM d.t ORDER BY id") for server in (mariadb_upstream, target)]
    assert both[0] == both[1]
    both = [server.execute("SELECT v, h, u FROM d.k ORDER BY u") for server in (mariadb_upstream, target)]
    assert both[0] == both[1]


def test_a_versioned_target_is_refused_with_a_way_out_that_works(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING")
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(*ROWS)
        (error,) = run.wait_ended().errors
    assert "system-versioned" in error.message
    assert "`ALTER TABLE `d`.`t` DROP SYSTEM VERSIONING;`" in error.workaround
    target.execute("ALTER TABLE `d`.`t` DROP SYSTEM VERSIONING;")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_periods_of_an_upstream_are_rows_like_others(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    spec = "id INT, s DATE, e DATE, v INT, PERIOD FOR p (s, e)"
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({spec})")
        server.execute(f"CREATE TABLE d.k ({spec}, PRIMARY KEY (id, s))")
    with running(subtask(mariadb_upstream, target), spark) as run:
        for name in ("t", "k"):
            mariadb_upstream.execute(
                f"INSERT INTO d.{name} VALUES (1, '2000-01-01', '2010-01-01', 1), (2, '2000-01-01', '2001-01-01', 2)",
                f"UPDATE d.{name} FOR PORTION OF p FROM '2003-01-01' TO '2004-01-01' SET v = 9",
                f"DELETE FROM d.{name} FOR PORTION OF p FROM '2000-06-01' TO '2002-01-01'",
            )
        run.wait_synced(mariadb_upstream)
    assert len(rows(target, "d.t")) > 3
    assert_equal(mariadb_upstream, target, "d.t", "d.k")


#: What an administrator may set for all new sessions of the target.
DEFAULTS = (
    "SET GLOBAL sql_auto_is_null = 1, GLOBAL sql_mode = '', GLOBAL foreign_key_checks = 1, GLOBAL completion_type = 1,"
    " GLOBAL sql_safe_updates = 1, GLOBAL unique_checks = 0, GLOBAL time_zone = '+09:00', GLOBAL autocommit = 0,"
    " GLOBAL character_set_server = latin1, GLOBAL max_error_count = 0,"
    " GLOBAL collation_connection = latin1_swedish_ci, GLOBAL sql_select_limit = 1"
)


@pytest.fixture
def strange_target(target: SQLServer) -> Iterator[SQLServer]:
    """A target whose new sessions have :data:`DEFAULTS`."""
    target.execute(DEFAULTS)
    yield target
    target.execute(re.sub(r"= [^,]+", "= DEFAULT", DEFAULTS))


def test_session_defaults_of_the_target_change_nothing(
    mariadb_upstream: SQLServer, strange_target: SQLServer, spark: SparkEngine
) -> None:
    target = strange_target
    for server in (mariadb_upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, ts TIMESTAMP NULL, s VARCHAR(9) CHARACTER SET utf8mb4)",
            "CREATE TABLE d.k (id INT NULL, v INT, KEY (id))",
        )
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute(
            *ROWS,
            "UPDATE d.t SET ts = '2001-01-01', s = 'ü€'",
            "INSERT INTO d.k VALUES (NULL, 1), (NULL, 1), (3, NULL)",
            *(f"INSERT INTO d.k VALUES (NULL, {n})" for n in range(10, 40)),
            "UPDATE d.k SET v = v + 1 WHERE v >= 10",
            "DELETE FROM d.k WHERE id IS NULL AND v = 1 LIMIT 1",
        )
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("ALTER TABLE d.t ADD c INT DEFAULT 4", "INSERT INTO d.t (id) VALUES (50)")
        run.wait_synced(mariadb_upstream)
    target.execute("SET GLOBAL sql_select_limit = DEFAULT")
    assert_equal(mariadb_upstream, target, "d.t", "d.k")
