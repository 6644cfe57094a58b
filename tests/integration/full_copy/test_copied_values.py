# ruff: noqa: E501 - statements and rows read best on one line
"""Hazard: a value of any type, at the edges of its range, changes on its way through dump and load."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, contents, dump, load

_NUMBERS = """CREATE TABLE v.numbers (id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT UNSIGNED,
 i INT, b BIGINT, bu BIGINT UNSIGNED, d DECIMAL(65,30), d2 DECIMAL(10,2) UNSIGNED, f FLOAT, f2 FLOAT(10,3), g DOUBLE,
 g2 DOUBLE(20,4), b1 BIT(1), b9 BIT(9), b64 BIT(64), y YEAR, z INT(8) UNSIGNED ZEROFILL)"""
_NUMBER_ROWS = (
    "INSERT INTO v.numbers VALUES (1,-128,255,-32768,16777215,-2147483648,-9223372036854775808,18446744073709551615,"
    " -12345678901234567890123456789012345.123456789012345678901234567890,99999999.99,344.221435,1234567.891,"
    " 1.7976931348623157e308,1234567890123456.7891,b'1',b'101010101',b'1111111111111111111111111111111111111111111111111111111111111111',2155,42)",
    "INSERT INTO v.numbers VALUES (2,0,0,0,0,0,0,0,0,0,-0e0,0,-0e0,0,b'0',b'0',b'0',0,0)",
    "INSERT INTO v.numbers (id) VALUES (3)",
    "INSERT INTO v.numbers (id,f,g) VALUES (4,3.402823466e38,2.2250738585072014e-308),(5,1.17549435e-38,4.9e-324),"
    " (6,0.1,0.1),(7,16777217,9007199254740993),(8,1e-45,-1.5e-7),(9,33554433.7,0.30000000000000004)",
)
_TEXTS = """CREATE TABLE v.texts (id INT PRIMARY KEY, c CHAR(20), v VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, l VARCHAR(200) CHARACTER SET latin1,
 g VARCHAR(200) CHARACTER SET gbk, u VARCHAR(100) CHARACTER SET ucs2, sj VARCHAR(100) CHARACTER SET sjis, b VARBINARY(300), bb BINARY(8),
 bl LONGBLOB, tx MEDIUMTEXT, tl TEXT CHARACTER SET latin1, e ENUM('a','it''s','ä,b'), st SET('x','y','z''z'))"""
_TEMPORAL = """CREATE TABLE v.temporal (id INT PRIMARY KEY, d DATE, t TIME(6), dt DATETIME(6), dt0 DATETIME,
 ts TIMESTAMP(6) NULL, ts0 TIMESTAMP NOT NULL DEFAULT '1970-01-01 00:00:01')"""
_TEMPORAL_ROWS = (
    "INSERT INTO v.temporal VALUES (1,'0000-00-00','-838:59:59.000000','0000-00-00 00:00:00','0000-00-00',NULL,0)",
    "INSERT INTO v.temporal VALUES (2,'9999-12-31','838:59:58.999999','9999-12-31 23:59:59.999999','1000-01-01',"
    "'2038-01-19 03:14:07.999999','1970-01-01 00:00:01')",
    "INSERT INTO v.temporal VALUES (3,'2024-00-10','00:00:00.000001','2024-02-00 01:02:03.000004','2024-02-31 00:00:00',"
    "'2021-10-31 00:30:00.5','2021-10-31 01:30:00')",
    "INSERT INTO v.temporal (id,ts0) VALUES (4,'2021-03-28 01:30:00')",
)


def _text_rows() -> list[tuple[object, ...]]:
    """Rows of ``v.texts``: an id and 13 values that quoting, charsets or NULL could change."""
    nasty = "'\"\\`\0\n\r\x1a\t%_;-- x /* y */ # z"
    every_byte = bytes(range(256))
    return [
        (
            1,
            "a",
            nasty + "😀é",
            nasty + "éÿ€",
            "汉字\\'",
            "ǅ\u0000x",
            "ソ表十\\",
            every_byte,
            b"\0\1\\'\"\n\r\x1a",
            every_byte * 4,
            nasty,
            "ß\\'",
            "it's",
            "x,z'z",
        ),
        (2, "", "", "", "", "", "", b"", b"", b"", "", "", "ä,b", ""),
        (3, *([None] * 13)),
        (
            4,
            " lead",
            "trail  ",
            "%s %b %(x)s",
            "NULL",
            "null",
            "\\N",
            b"NULL",
            b"\xff" * 8,
            b"'",
            "x'41'",
            "0x41",
            "a",
            "x,y,z'z",
        ),
    ]


def _fill(server: SQLServer) -> None:
    lax = "SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'"
    server.execute(lax, "CREATE DATABASE v", _NUMBERS, *_NUMBER_ROWS)
    server.execute(lax, _TEMPORAL, *_TEMPORAL_ROWS)
    server.execute(
        "CREATE TABLE v.shapes (id INT PRIMARY KEY, g GEOMETRY, p POINT, PRIMARY_ INT)",
        "INSERT INTO v.shapes VALUES (1,ST_GeomFromText('POLYGON((0 0,0 3,3 3,0 0))', 4326),ST_GeomFromText('POINT(1.5 -2.25)'),1),"
        " (2,NULL,NULL,NULL)",
    )
    conn = server.connect()
    with conn.cursor() as cursor:
        cursor.execute(_TEXTS)
        cursor.executemany("INSERT INTO v.texts VALUES (" + ",".join(["%s"] * 14) + ")", _text_rows())
    conn.close()


def _tables(server: SQLServer) -> list[str]:
    return [f"v.{row[0]}" for row in server.execute("SHOW TABLES FROM v")]


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


@pytest.mark.target_with("geometry")
@pytest.mark.parametrize("extra_args", ["", "--escape-backslash=false -s 200"])
def test_every_type_arrives_bit_for_bit(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, extra_args: str
) -> None:
    _fill(upstream)
    cfg = config(upstream, target, tmp_path, extra_args=extra_args)
    dump(cfg, spark)
    load(cfg, spark)
    assert _tables(upstream) == _tables(target)
    for table in _tables(upstream):
        assert contents(target, table) == contents(upstream, table), table


#: An ENUM with the member '' that the text of its number 0 looks like, by what decides how its values are read.
_MEMBERS_WITHOUT_TEXT = {
    "UTF-8": "ENUM('', 'a') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "latin1": "ENUM('ü', '') CHARACTER SET latin1",
    "gbk": "ENUM('', '汉') CHARACTER SET gbk",
    "bytes": "ENUM('', 'a') CHARACTER SET binary",
}


@pytest.mark.parametrize("extra_args", ["", "--escape-backslash=false -s 200"])
def test_number_0_of_an_enum_is_not_taken_for_its_member_without_text(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, extra_args: str
) -> None:
    columns = [f"c{n} {kind}" for n, kind in enumerate(_MEMBERS_WITHOUT_TEXT.values())]
    rows = [[n, *([value] * len(columns))] for n, value in enumerate(("0", "1", "2", "NULL"))]
    upstream.execute(
        "SET sql_mode = ''",
        "CREATE DATABASE e",
        f"CREATE TABLE e.e (id INT PRIMARY KEY, {', '.join(columns)})",
        *(f"INSERT IGNORE INTO e.e VALUES ({', '.join(map(str, row))})" for row in rows),
    )
    numbers = "SELECT id, " + ", ".join(f"c{n} + 0, HEX(c{n})" for n in range(len(columns))) + " FROM e.e ORDER BY id"
    assert [row[1] for row in upstream.execute(numbers)] == [0, 1, 2, None]
    cfg = config(upstream, target, tmp_path, extra_args=extra_args)
    dump(cfg, spark)
    with pytest.raises(AssertionError, match="1265"):
        load(cfg, spark)
    # As the way out says: the target accepts the values unchecked.
    lenient = replace(cfg.to, session=(("sql_mode", "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"),))
    load(replace(cfg, to=lenient), spark)
    assert target.execute(numbers) == upstream.execute(numbers)


def test_float_keeps_bits_that_its_text_drops(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    values = [
        struct.unpack("<f", struct.pack("<I", bits))[0] for bits in range(0x3F000000, 0x3F000000 + 997 * 65537, 65537)
    ]
    mariadb_upstream.execute(
        "CREATE DATABASE f", "CREATE TABLE f.f (id INT PRIMARY KEY, f FLOAT)",
        "INSERT INTO f.f VALUES " + ",".join(f"({i},{value!r})" for i, value in enumerate(values)),
    )  # fmt: skip
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    assert [row[0] for row in target.execute("SELECT f*1e0 FROM f.f ORDER BY id")] == values


@pytest.mark.target_with("MariaDB's words")
def test_columns_that_cannot_be_written_are_left_out_and_hidden_ones_are_not(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE g",
        "CREATE TABLE g.g (id INT PRIMARY KEY, a INT, v INT AS (a+1) VIRTUAL, s INT AS (a*2) STORED,"
        " h INT INVISIBLE DEFAULT 5, j JSON, `odd ``name` INT, CHECK (a < 100))",
        'INSERT INTO g.g (id,a,h,j,`odd ``name`) VALUES (1,2,77,\'{"k": "\\\\"q\\\\" \\\\n"}\',3),(0,4,DEFAULT,NULL,NULL)',
    )
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    fields = "SELECT id,a,v,s,h,j,`odd ``name` FROM g.g ORDER BY id"
    assert target.execute(fields) == mariadb_upstream.execute(fields)


def test_odd_names_survive_the_file_system(
    mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    names = ["a.b", "a%b", "x-schema", "späß", "q`t", "sp ace", "x-schema-create", "1.000000001"]
    mysql_upstream.execute("CREATE DATABASE `d.b-schema`")
    for i, name in enumerate(names):
        quoted = "`d.b-schema`.`" + name.replace("`", "``") + "`"
        mysql_upstream.execute(f"CREATE TABLE {quoted} (id INT)", f"INSERT INTO {quoted} VALUES ({i})")
    cfg = config(mysql_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    for i, name in enumerate(names):
        quoted = "`d.b-schema`.`" + name.replace("`", "``") + "`"
        assert target.execute(f"SELECT id FROM {quoted}") == [(i,)]


@pytest.mark.target_with("rows over 6 MB")
def test_a_row_larger_than_a_packet_arrives(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE big", "CREATE TABLE big.b (id INT PRIMARY KEY, b LONGTEXT, c INT)",
        "INSERT INTO big.b VALUES (1, REPEAT('ab', 9000000), 7), (2, 'x', 8), (3, REPEAT('z', 16777215 - 7), 9)",
    )  # fmt: skip
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    check = "SELECT id, LENGTH(b), MD5(b), c FROM big.b ORDER BY id"
    assert target.execute(check) == mariadb_upstream.execute(check)


def test_a_row_of_64_mib_takes_bounded_memory(new_mariadb: Callable[..., MariaDBServer], tmp_path: Path) -> None:
    server = new_mariadb(extra=["--max-allowed-packet=1G"])
    # In the dump a byte takes two: the statement has 128 MiB.
    server.execute(
        "CREATE DATABASE big", "CREATE TABLE big.b (id INT PRIMARY KEY, b LONGBLOB)", "CREATE DATABASE copy",
        "CREATE TABLE copy.b LIKE big.b", "INSERT INTO big.b VALUES (1, REPEAT('ab', 32 << 20)), (2, 'x')",
    )  # fmt: skip
    script = Path(__file__).with_name("copy_memory.py")
    root = script.parents[3]
    command = [sys.executable, str(script), str(server.port), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(root), "DM_KERNEL": "native"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    dumped, both = map(int, done.stdout.split())
    assert dumped <= 16  # statement-size, and what is read at once
    assert both <= 16 + 1.5 * 128  # one statement, and what is read of the file beyond it
    check = "SELECT id, LENGTH(b), MD5(b) FROM {}.b ORDER BY id"
    assert server.execute(check.format("copy")) == server.execute(check.format("big"))
