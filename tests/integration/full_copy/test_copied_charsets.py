"""Hazard: a code that has no character, or shares one with another code, arrives as ``?`` or as the other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, dump, load
from tests.integration.charset_codes import DIGEST, STEPS, charsets, fill

pytestmark = pytest.mark.target_with("every charset")


def _copy_codes(upstream: SQLServer, target: SQLServer, spark: SparkEngine, folder: Path, step: int) -> None:
    both = charsets(target)
    found = {name: width for name, width in charsets(upstream).items() if name in both and name != "binary"}
    assert len(found) > 35
    upstream.execute("CREATE DATABASE cs CHARACTER SET latin1")
    for charset, width in found.items():
        fill(upstream, charset, width, charset, step)
    if upstream.flavor != target.flavor:
        # MySQL keeps a code that MariaDB calls none: the load would stop with 1300.
        upstream.execute(*(f"DELETE FROM cs.{name} WHERE HEX(v) LIKE '8EA0%'" for name in ("eucjpms", "ujis")))
    cfg = config(upstream, target, folder)
    dump(cfg, spark)
    # Other text is still readable.
    texts = b"".join(file.read_bytes() for file in folder.rglob("cs.cp1251.0*.sql"))
    assert "'ЖA'".encode() in texts
    assert texts.count(b"_cp1251 x'") <= 2
    load(cfg, spark)
    differ = [
        name
        for name in found
        if target.execute(f"SELECT {DIGEST} FROM cs.{name}") != upstream.execute(f"SELECT {DIGEST} FROM cs.{name}")
    ]
    assert differ == []


@pytest.mark.parametrize("step", STEPS)
def test_the_codes_of_every_charset_of_mariadb_are_copied(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, step: int
) -> None:
    _copy_codes(mariadb_upstream, target, spark, tmp_path, step)


@pytest.mark.parametrize("step", STEPS)
def test_the_codes_of_every_charset_of_mysql_are_copied(
    mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, step: int
) -> None:
    _copy_codes(mysql_upstream, target, spark, tmp_path, step)


def test_a_table_is_cut_at_keys_that_unicode_can_not_express(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    rows = ",".join(f"(0x{high:02X}{low:02X},{low})" for high in range(0xA1, 0xAA) for low in range(0x40, 0xA1))
    mariadb_upstream.execute(
        "SET SESSION sql_mode = ''",
        "CREATE DATABASE k",
        "CREATE TABLE k.k (v VARCHAR(9) CHARACTER SET gbk COLLATE gbk_bin PRIMARY KEY, n INT)",
        f"INSERT IGNORE INTO k.k VALUES {rows}",
    )
    cfg = config(mariadb_upstream, target, tmp_path, rows=40)
    dump(cfg, spark)
    assert len(list(tmp_path.rglob("k.k.0*.sql"))) > 10
    load(cfg, spark)
    check = "SELECT HEX(v), n FROM k.k ORDER BY 1"
    assert target.execute(check) == mariadb_upstream.execute(check)


def test_a_code_without_a_character_is_refused_where_the_target_has_another_charset(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE o",
        "CREATE TABLE o.o (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET gbk)",
        "INSERT INTO o.o VALUES (1, _utf8mb4'中文')",
    )
    target.execute("CREATE DATABASE o", "CREATE TABLE o.o (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET utf8mb4)")
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    assert target.execute("SELECT v FROM o.o") == [("中文",)]
    mariadb_upstream.execute("UPDATE o.o SET v = 0xA140", "INSERT INTO o.o VALUES (2, 0xA140)")
    target.execute("DELETE FROM o.o")
    again = config(mariadb_upstream, target, tmp_path / "again", name="again")
    dump(again, spark)
    with pytest.raises(AssertionError, match=r"Error (1366|1977) "):
        load(again, spark)
    assert target.execute("SELECT COUNT(*) FROM o.o") == [(0,)]
