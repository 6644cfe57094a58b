"""Hazard: a table that can't roll back keeps rows of a transaction that never came to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

pytestmark = pytest.mark.target_with("storage engines")


def engine(server: SQLServer, schema: str, table: str) -> str:
    sql = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{}'"
    return str(server.execute(sql.format(schema, table))[0][0])


@pytest.mark.parametrize("name", ["MyISAM", "Aria", "MEMORY"])
def test_a_target_table_that_cannot_roll_back_is_refused_until_it_can(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, name: str
) -> None:
    create = "CREATE TABLE d.t (id INT PRIMARY KEY)"
    mariadb_upstream.execute("CREATE DATABASE d", create)
    target.execute("CREATE DATABASE d", f"{create} ENGINE={name}")
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1)")
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncUnitNotSupportedDML
    assert f"`d`.`t` has the engine {name}" in error.message
    assert target.execute("SELECT * FROM d.t") == []
    target.execute("ALTER TABLE `d`.`t` ENGINE=InnoDB")
    assert "ALTER TABLE `d`.`t` ENGINE=InnoDB" in error.workaround
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_an_operator_may_answer_for_such_a_table(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    create = "CREATE TABLE d.t (id INT PRIMARY KEY)"
    mariadb_upstream.execute("CREATE DATABASE d", create)
    target.execute("CREATE DATABASE d", f"{create} ENGINE=MyISAM")
    with running(subtask(mariadb_upstream, target, ignore_checking_items=("table_engine",)), spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1)")
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_tables_that_come_with_statements_can_roll_back_whatever_their_engine_and_the_servers_default(
    mariadb_upstream: SQLServer, new_mariadb: Callable[..., MariaDBServer], spark: SparkEngine
) -> None:
    target = new_mariadb(binlog=False, extra=["--default-storage-engine=MyISAM"])
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.a (id INT PRIMARY KEY, v CHAR(5)) ENGINE=MyISAM ROW_FORMAT=FIXED CHECKSUM=1",
            "CREATE TABLE d.b (id INT PRIMARY KEY) ENGINE=Aria TRANSACTIONAL=1 PAGE_CHECKSUM=1 ROW_FORMAT=PAGE",
            "CREATE TABLE d.c (id INT PRIMARY KEY)",
            "ALTER TABLE d.c ENGINE=MEMORY, ADD COLUMN v INT",
            "INSERT INTO d.a VALUES (1, 'x')",
            "INSERT INTO d.b VALUES (1)",
            "INSERT INTO d.c VALUES (1, 2)",
        )
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.a", "d.b", "d.c")
    assert {engine(target, "d", name) for name in "abc"} == {"InnoDB"}
    meta = [row[0] for row in target.execute("SHOW TABLES FROM dm_meta")]
    assert {engine(target, "dm_meta", name) for name in meta} == {"InnoDB"}


def test_a_meta_table_that_cannot_roll_back_is_refused(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d")
    cfg = subtask(mariadb_upstream, target)
    run_until_synced(cfg, spark, mariadb_upstream)
    target.execute("ALTER TABLE dm_meta.t_syncer_marker ENGINE=MyISAM")
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncUnitNotSupportedDML
    assert "`dm_meta`.`t_syncer_marker` has the engine MyISAM" in error.message
    target.execute("ALTER TABLE dm_meta.t_syncer_marker ENGINE=InnoDB")
    with running(replace(cfg), spark) as run:
        run.wait_synced(mariadb_upstream)
