"""Hazards: replication after a full copy begins elsewhere than the copy ends, or takes tables' present structure for
the one they had then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.dumper import DumpUnit
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from pkg.config.model import LoaderConfig
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, refusal, running, subtask


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_copy_then_replication_gives_equal_tables(
    kind: str,
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: MariaDBServer,
    spark: SparkEngine,
    tmp_path: Path,
) -> None:
    upstream: SQLServer = mariadb_upstream if kind == "mariadb" else mysql_upstream
    make_tables(upstream)
    scramble(upstream, 11)
    cfg = replace(
        subtask(upstream, target), task_mode="all", meta=None, loader=LoaderConfig(dir=str(tmp_path / "dump"))
    )
    dumped = DumpUnit(cfg, spark).run()
    assert dumped.finished, dumped.errors
    scramble(upstream, 12)
    # The structure after this is not the one of the rows before it.
    upstream.execute("ALTER TABLE d.plain MODIFY v VARCHAR(300), ADD COLUMN first BIGINT UNSIGNED FIRST")
    scramble(upstream, 13)
    loaded = LoadUnit(cfg, spark).run()
    assert loaded.finished, loaded.errors
    with running(cfg, spark) as run:
        run.wait_synced(upstream, 240)
    assert_equal(upstream, target, *[f"d.{name}" for name in TABLES])


def test_the_dump_does_not_mention_names_that_were_given_up_before_a_restart(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    tables = ("d.dropped", "d.moved", "e.gone")
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE DATABASE e")
    mariadb_upstream.execute(*(f"CREATE TABLE {table} (id INT PRIMARY KEY)" for table in tables))
    cfg = replace(
        subtask(mariadb_upstream, target), task_mode="all", meta=None, loader=LoaderConfig(dir=str(tmp_path / "dump"))
    )
    dumped = DumpUnit(cfg, spark).run()
    assert dumped.finished, dumped.errors
    loaded = LoadUnit(cfg, spark).run()
    assert loaded.finished, loaded.errors
    mariadb_upstream.execute("DROP TABLE d.dropped", "RENAME TABLE d.moved TO d.moved_1", "DROP DATABASE e")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        run.stop()
    mariadb_upstream.execute("CREATE DATABASE e")
    mariadb_upstream.execute(*(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)" for table in tables))
    mariadb_upstream.execute(*(f"INSERT INTO {table} VALUES (1, 1)" for table in tables))
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        run.stop()
    assert_equal(mariadb_upstream, target, *tables)
    # The names tell of their new tables from here on.
    mariadb_upstream.execute("DROP TABLE d.dropped", "INSERT INTO e.gone VALUES (2, 2)")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        run.stop()
        with run.unit.structures() as structures:
            assert "`v`" in structures.show("e", "gone")
            refusal(44005, lambda: structures.show("d", "dropped"))
