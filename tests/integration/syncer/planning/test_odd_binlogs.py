"""Hazards: what upstreams log besides plain transactions of InnoDB tables."""

from __future__ import annotations

from collections.abc import Callable

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from pkg.rules.model import BlockAllowList
from tests.integration.syncer.support import assert_equal, rows, running, subtask


def test_several_domains_two_phase_alters_other_engines_and_foreign_statements(
    new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer, spark: SparkEngine
) -> None:
    upstream = new_mariadb(gtid=True, extra=["--binlog-alter-two-phase=1"])
    upstream.execute("SET gtid_domain_id = 9", "CREATE DATABASE other")
    cfg = subtask(upstream, target, enable_gtid=True, block_allow_list=BlockAllowList(do_dbs=("d",)))
    with running(cfg, spark) as run:
        upstream.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE d.m (id INT PRIMARY KEY, v INT) ENGINE=MyISAM",
            "CREATE SEQUENCE other.s",
            "SELECT NEXTVAL(other.s)",
        )
        upstream.execute("SET gtid_domain_id = 7", "INSERT INTO d.m VALUES (1, 1), (2, 2)", "UPDATE d.m SET v = v + 1")
        upstream.execute(
            "BEGIN",
            "INSERT INTO d.t VALUES (1, 1)",
            "SAVEPOINT a",
            "INSERT INTO d.t VALUES (2, 1)",
            "ROLLBACK TO a",
            "SAVEPOINT b",
            "INSERT INTO d.m VALUES (3, 3)",
            "INSERT INTO d.t VALUES (3, 1)",
            "COMMIT",
            "BEGIN",
            "INSERT INTO d.t VALUES (4, 1)",
            "INSERT INTO d.m VALUES (4, 4)",
            "ROLLBACK",
        )
        upstream.execute("ALTER TABLE d.t ADD INDEX (v)")
        with pytest.raises(pymysql.IntegrityError):
            upstream.execute("ALTER TABLE d.t ADD UNIQUE KEY never (v)")
        upstream.execute("SET gtid_domain_id = 3", "INSERT INTO d.t VALUES (5, 5)")
        run.wait_synced(upstream)
        run.stop()
    upstream.execute("SET gtid_domain_id = 9", "INSERT INTO d.t VALUES (6, 6)")
    with running(cfg, spark) as run:
        run.wait_synced(upstream)
        assert run.unit.status().synced
    assert_equal(upstream, target, "d.t", "d.m")
    assert [row[2] for row in target.execute("SHOW INDEX FROM d.t")] == ["PRIMARY", "v"]


def test_rows_undone_by_savepoints_and_xa_do_not_take_effect_and_unknown_xa_commit_is_refused_by_place(
    new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer, spark: SparkEngine
) -> None:
    upstream = new_mariadb(gtid=True)
    upstream.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d.m (id INT PRIMARY KEY, v INT) ENGINE=MyISAM",
    )
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "CREATE TABLE d.m LIKE d.t")
    cfg = subtask(upstream, target, enable_gtid=True)
    with running(cfg, spark) as run:
        upstream.execute(
            "BEGIN",
            "INSERT INTO d.t VALUES (1, 1)",
            "SAVEPOINT `ä``B`",
            "INSERT INTO d.t VALUES (2, 2)",
            "INSERT INTO d.m VALUES (1, 1)",
            "SAVEPOINT c",
            "UPDATE d.t SET v = 9",
            "ROLLBACK WORK TO SAVEPOINT `Ä``b`",
            "INSERT INTO d.t VALUES (3, 3)",
            "COMMIT",
        )
        upstream.execute("XA START 'one'", "INSERT INTO d.t VALUES (4, 4)", "XA END 'one'", "XA COMMIT 'one' ONE PHASE")
        upstream.execute("XA START 'no'", "INSERT INTO d.t VALUES (5, 5)", "XA END 'no'", "XA PREPARE 'no'")
        upstream.execute("INSERT INTO d.t VALUES (6, 6)")
        upstream.execute("XA ROLLBACK 'no'")
        run.wait_synced(upstream)
        assert_equal(upstream, target, "d.t", "d.m")
        run.stop()
    upstream.execute("XA START 'yes'", "INSERT INTO d.t VALUES (7, 7)", "XA END 'yes'", "XA PREPARE 'yes'")
    cfg = subtask(upstream, target, name="t2", enable_gtid=True)
    with running(cfg, spark) as run:
        upstream.execute("INSERT INTO d.t VALUES (8, 8)")
        upstream.execute("XA COMMIT 'yes'", "INSERT INTO d.t VALUES (9, 9)")
        failed = run.wait_ended()
    (error,) = failed.errors
    assert error.kind is Code.SyncerUnsupportedStmt
    assert "XA COMMIT X'796573'" in error.message
    assert "mysql-bin.0" in error.message
    assert error.workaround
    assert [row[0] for row in target.execute("SELECT id FROM d.t ORDER BY id")] == [1, 3, 4, 6, 8]


#: What MySQL refuses with GTIDs.
MIXED = [
    "CREATE TEMPORARY TABLE x (id INT)",
    "INSERT INTO x VALUES (1)",
    "BEGIN",
    "INSERT INTO t VALUES (2, 2)",
    "DROP TEMPORARY TABLE x",
    "INSERT INTO t VALUES (3, 3)",
    "COMMIT",
    "BEGIN",
    "INSERT INTO t VALUES (4, 4)",
    "INSERT INTO m VALUES (4, 4)",
    "ROLLBACK",
]


#: They write no rows, or none that change anything.
WITHOUT_ROWS = [
    "USE d",
    "UPDATE t SET v = 9 WHERE id = 77",
    "INSERT INTO t SELECT 5, 5 FROM t WHERE 1 = 0",
    "INSERT IGNORE INTO t VALUES (1, 8)",
    "UPDATE t SET v = v",
    "DELETE FROM m",
    "BEGIN",
    "SAVEPOINT a",
    "COMMIT",
    "ANALYZE TABLE t",
    "OPTIMIZE TABLE t",
    "FLUSH TABLES",
    "CREATE VIEW w AS SELECT * FROM t",
    "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
    "DROP TRIGGER g",
    "DROP VIEW w",
]


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_statements_that_write_no_rows_do_not_stop_or_change_anything(
    flavor: str,
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: MariaDBServer,
    spark: SparkEngine,
) -> None:
    upstream: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    upstream.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d.m (id INT PRIMARY KEY, v INT) ENGINE=MyISAM",
        "INSERT INTO d.t VALUES (1, 1)",
    )
    target.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d.m LIKE d.t",
        "INSERT INTO d.t VALUES (1, 1)",
    )
    modern = not str(upstream.execute("SELECT VERSION()")[0][0]).startswith("5.6")
    with running(subtask(upstream, target), spark) as run:
        upstream.execute(
            *WITHOUT_ROWS,
            "CREATE USER nobody_writes",
            "GRANT SELECT ON d.* TO nobody_writes",
            *(
                ["ALTER USER nobody_writes IDENTIFIED BY 'x'"]
                if modern
                else ["SET PASSWORD FOR nobody_writes = PASSWORD('x')"]
            ),
            "DROP USER nobody_writes",
            *(MIXED if flavor == "mariadb" else ["INSERT INTO t VALUES (2, 2), (3, 3)"]),
        )
        run.wait_synced(upstream)
        assert_equal(upstream, target, "d.t", "d.m")
        assert len(target.execute("SELECT * FROM d.t")) == 3
        # The one that wrote its rows as a statement is no such thing.
        upstream.execute("USE d", "SET SESSION binlog_format=STATEMENT", "UPDATE t SET v = 6 WHERE id = 1")
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncUnitDMLStatementFound
    assert "binlog_format" in error.workaround


def test_a_time_in_the_zone_of_the_upstreams_host_is_the_same_at_the_target(
    new_mariadb: Callable[..., MariaDBServer],
    target: MariaDBServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "ABC-5:30ABD-7,M3.5.0,M10.5.0")
    upstream = new_mariadb()
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    cfg = subtask(upstream, target)
    january, july = 1735689600, 1751328000
    with running(cfg, spark) as run:
        upstream.execute(
            "INSERT INTO d.t VALUES (1)",
            f"SET timestamp = {january}",
            "ALTER TABLE d.t ADD a DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",
            f"SET timestamp = {july}",
            "ALTER TABLE d.t ADD b DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",
            "ALTER TABLE d.t ADD c TIMESTAMP NOT NULL DEFAULT '2025-07-20 00:00:00'",
        )
        run.wait_synced(upstream)
    assert_equal(upstream, target, "d.t")
    ((_, a, b, c),) = rows(target, "d.t")
    assert [str(a), str(b), str(c)] == ["2025-01-01 05:30:00", "2025-07-01 07:00:00", "2025-07-19 17:00:00"]


def test_an_upstream_that_folds_the_names_of_tables(
    new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer, spark: SparkEngine
) -> None:
    upstream = new_mariadb(extra=["--lower-case-table-names=1"])
    cfg = subtask(upstream, target)
    with running(cfg, spark) as run:
        upstream.execute(
            "CREATE DATABASE Shop",
            "CREATE TABLE SHOP.Orders (id INT PRIMARY KEY)",
            "INSERT INTO Shop.ORDERS VALUES (1)",
            "ALTER TABLE Shop.Orders ADD v INT",
            "INSERT INTO shop.orders VALUES (2, 2)",
            "RENAME TABLE Shop.Orders TO Shop.Sales",
            "INSERT INTO Shop.Sales VALUES (3, 3)",
        )
        run.wait_synced(upstream)
    assert_equal(upstream, target, "shop.sales")
