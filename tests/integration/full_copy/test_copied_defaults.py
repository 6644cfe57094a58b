"""Hazard: a default that the server does not show as it is stops a task, or becomes another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.rules.model import BlockAllowList
from tests.harness.full_copy import config, dump, load
from tests.integration.syncer.support import running

_COLUMNS = (
    "(id INT PRIMARY KEY, b BINARY(4) DEFAULT x'00FF', v VARBINARY(9) NOT NULL DEFAULT x'C328F09F', "
    "t VARBINARY(9) DEFAULT 'text?', n BINARY(2), `e``?` VARCHAR(9) DEFAULT 'a😀''?' COMMENT 'DEFAULT ''?', "
    "q VARCHAR(9) NOT NULL DEFAULT '?\\\\?', l VARCHAR(9) CHARACTER SET latin1 DEFAULT 'ä?', "
    "k ENUM('?', 'b') DEFAULT '?', s VARCHAR(9) CHARACTER SET gbk DEFAULT '丂?') CHARACTER SET utf8mb4"
)
_ROW = "SELECT id, HEX(b), HEX(v), HEX(t), HEX(n), HEX(`e``?`), HEX(q), HEX(l), HEX(k), HEX(s) FROM {}"


def test_defaults_arrive(pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path) -> None:
    upstream, target = pair
    upstream.execute("CREATE DATABASE d", f"CREATE TABLE d.copied {_COLUMNS}", "INSERT INTO d.copied (id) VALUES (1)")
    cfg = config(upstream, target, tmp_path, online_ddl=False)
    dump(cfg, spark)
    load(cfg, spark)
    with running(cfg, spark) as run:
        upstream.execute(
            f"CREATE TABLE d.replicated {_COLUMNS}",
            "INSERT INTO d.replicated (id) VALUES (1)",
            "ALTER TABLE d.copied ADD COLUMN a VARBINARY(3) NOT NULL DEFAULT x'FE00'",
            "INSERT INTO d.copied (id) VALUES (2)",
            "UPDATE d.replicated SET id = 3",
        )
        run.wait_synced(upstream, 120)
    for table in ("d.copied", "d.replicated"):
        # The target's own defaults, too.
        target.execute(f"INSERT INTO {table} (id) VALUES (9)")
        upstream.execute(f"INSERT INTO {table} (id) VALUES (9)")
        assert target.execute(_ROW.format(table)) == upstream.execute(_ROW.format(table))
    assert target.execute("SELECT id, HEX(a) FROM d.copied") == upstream.execute("SELECT id, HEX(a) FROM d.copied")


def test_a_member_that_the_server_does_not_show_stops_the_load(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = pair
    upstream.execute(
        "CREATE DATABASE m",
        "CREATE TABLE m.t (id INT PRIMARY KEY, e ENUM('a', '😀') CHARACTER SET utf8mb4)",
        "INSERT INTO m.t VALUES (1, 'a'), (2, '😀')",
    )
    cfg = config(upstream, target, tmp_path, name="members", block_allow_list=BlockAllowList(do_dbs=("m",)))
    dump(cfg, spark)
    with pytest.raises(AssertionError, match=r"`m`.`t`.*1265"):
        load(cfg, spark)


@pytest.mark.target_with("NULL in AUTO_INCREMENT columns")
def test_null_stays_in_a_column_that_counts(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = pair
    table = "(id INT PRIMARY KEY, n INT UNSIGNED AUTO_INCREMENT NULL, UNIQUE KEY (n))"
    upstream.execute("CREATE DATABASE c", f"CREATE TABLE c.copied {table}", "INSERT INTO c.copied VALUES (1, NULL)")
    cfg = config(upstream, target, tmp_path, name="counters", block_allow_list=BlockAllowList(do_dbs=("c",)))
    dump(cfg, spark)
    load(cfg, spark)
    with running(cfg, spark) as run:
        upstream.execute(f"CREATE TABLE c.replicated {table}")
        for name in ("copied", "replicated"):
            upstream.execute(f"INSERT INTO c.{name} VALUES (2, NULL), (3, 7)", f"UPDATE c.{name} SET id = id + 9")
        run.wait_synced(upstream, 120)
    for name in ("copied", "replicated"):
        rows = f"SELECT id, n FROM c.{name} ORDER BY id"
        found = upstream.execute(rows)
        assert (None in {row[1] for row in found}, target.execute(rows)) == (True, found)
