"""Hazard: what stops a load into TiDB is an error of the COMMIT, or of one row among thousands, and says nothing of the
file or of what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from pkg.errors import Code
from tests.harness.full_copy import config, dump, load


@pytest.mark.parametrize(
    ("before", "number", "advice"),
    [
        ("INSERT INTO d.t VALUES (700, 'mine')", 1062, "on-duplicate-logical"),
        ("SET GLOBAL tidb_txn_entry_size_limit = 100000", 8025, "tidb_txn_entry_size_limit"),
    ],
)
def test_the_file_and_the_way_out_are_named(
    mariadb_upstream: MariaDBServer,
    tidb: TiDBServer,
    spark: SparkEngine,
    tmp_path: Path,
    before: str,
    number: int,
    advice: str,
) -> None:
    definition = "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)"
    for server in (mariadb_upstream, tidb):
        server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", definition)
    mariadb_upstream.execute(
        "USE d", "INSERT INTO t SELECT seq, REPEAT('x', IF(seq = 900, 200000, 9)) FROM seq_1_to_1000"
    )
    tidb.execute(before)
    cfg = config(mariadb_upstream, tidb, tmp_path)
    dump(cfg, spark)
    try:
        outcome = LoadUnit(cfg, spark).run()
    finally:
        tidb.execute("SET GLOBAL tidb_txn_entry_size_limit = 0")
    (error,) = outcome.errors
    assert f"Error {number} " in error.message
    assert "d.t.0" in error.message
    assert advice in error.workaround
    assert tidb.execute("SELECT COUNT(*) FROM d.t") == [(int(number == 1062),)]


@pytest.mark.parametrize("charset", ["latin1", "utf8mb4"])
def test_text_that_comes_as_bytes_is_refused_for_latin1_alone(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path, charset: str
) -> None:
    """TiDB keeps latin1 in UTF-8, and would store the bytes of a file after SET NAMES binary without an error."""
    tidb.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {charset})")
    raw = "\u00e9".encode("latin1" if charset == "latin1" else "utf-8")
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "d.t.sql").write_bytes(b"/*!40101 SET NAMES binary*/;\nINSERT INTO `t` VALUES (1,'%b');\n" % raw)
    cfg = config(mariadb_upstream, tidb, tmp_path, mode="load")
    cfg = replace(cfg, loader=replace(cfg.loader, dir=str(folder)))
    if charset == "utf8mb4":
        load(cfg, spark)
        assert tidb.execute("SELECT v FROM d.t") == [("\u00e9",)]
        return
    (error,) = LoadUnit(cfg, spark).run().errors
    assert error.kind is Code.LoadUnitInvalidInsertSQL
    assert "latin1 (`v`)" in error.message
    assert "--default-character-set=utf8mb4" in error.workaround
    assert tidb.execute("SELECT * FROM d.t") == []
