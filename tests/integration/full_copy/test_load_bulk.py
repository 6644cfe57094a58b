"""Hazard: a bulk execution stores other values than the INSERT of the file, hides an error, or leaves rows twice."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from dm_worker.dumper.metadata import dump_dir
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import bulk_rows
from dm_worker.loader.bulk_rows import BulkRows, TargetTables
from dm_worker.loader.load_plan import SESSION
from dm_worker.loader.load_task import FileReport, FileSpec, LoadSpec, run_load_task
from dm_worker.loader.sql_file import read_statements
from dm_worker.loader.turns import Turn, turn_of
from dm_worker.meta.load_progress import begin_load, progress_table
from pkg.config.model import SubTaskConfig
from pkg.mysql.bulk import PreparedStatement
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info, query
from pkg.mysql.wire import Command
from tests.compiled import required
from tests.harness.full_copy import config, contents, dump
from tests.integration.sql_values import COMMON_COLUMNS, MARIADB_COLUMNS, value_for

pytestmark = pytest.mark.target_with("bulk execution")

required("sqlscan")

_TYPES = (
    "TINYINT", "SMALLINT UNSIGNED", "INT", "INT ZEROFILL", "BIGINT", "BIGINT UNSIGNED", "DECIMAL(65,30)",
    "DECIMAL(5,2)", "DECIMAL(20,0) UNSIGNED", "FLOAT", "FLOAT(7,3)", "DOUBLE", "DOUBLE(15,4)", "BIT(1)", "BIT(64)",
    "YEAR", "DATE", "TIME(3)", "DATETIME", "DATETIME(6)", "TIMESTAMP(6) NULL", "CHAR(10)", "VARCHAR(40)",
    "VARCHAR(40) CHARACTER SET latin1", "VARCHAR(40) CHARACTER SET gbk", "TEXT CHARACTER SET ucs2", "LONGTEXT", "JSON",
    "BINARY(6)", "VARBINARY(40)", "LONGBLOB", "ENUM('a','2','1','')", "SET('x','2','y')", "GEOMETRY", "POINT", "UUID",
    "INET6", "VARCHAR(40) COMPRESSED", "INT NOT NULL", "TIMESTAMP NOT NULL", "VARCHAR(40) NOT NULL",
)  # fmt: skip
_LITERALS = (
    "NULL", "0", "1", "2", "-1", "-0", "007", "0000", "0042", "1999", "2155", "20240229", "127", "128", "2147483648",
    "-9223372036854775808", "18446744073709551615", "18446744073709551616", "9007199254740993", "16777217", "1.5",
    "-1.5", "2.5", "0.005", "-0.0", "99999.99", "344.221435", "0.1", "0.30000000000000004", "1e0", "-0e0", "1e2",
    "1.5E-7", "4.9e-324", "1.7976931348623157e308", "1e400", "33554433.7e0", "0.15e1", "2.675e0",
    "12345678901234567890123456789012345.123456789012345678901234567890",
    "0.1234567890123456789012345678901234567890", "1" * 70, "''", "'a'", '"a"', "'2'", "'0'", "' 1 '", "'1x'", "'1e2'",
    "'-0'", "'it''s'", r"'\0\'\"\b\n\r\t\Z\\'", r"'\%\_'", r"'\N'", r"'\a'", "'tail  '", "'é€😀'", "'汉'", "'a' 'b'",
    "'0000-00-00'", "'2024-02-31'", "'2024-02-29 12:34:56.789012'", "'838:59:59.9'", "'20240229'", "'x,2'",
    "'{\"a\": \"\\\\\\\"\"}'", "'::1'", "'123e4567-e89b-12d3-a456-426655440000'", "x''", "x'00ff'", "X'e9'", "x'41'",
    "0x41", "0xABC", "0x0041", "b'101'", "b'0'", "_binary 'a\\0'", "_utf8mb4 x'c3a9'", "TRUE", "DEFAULT", "1+1", "-(1)",
    "+1", ".5", "5.", "@@version_comment", "x'000000000101000000000000000000f83f00000000000002c0'",
)  # fmt: skip


@pytest.fixture
def conn(target: MariaDBServer) -> Iterator[Connection[Any]]:
    conn = connect(target.db_config, scope="downstream", session=SESSION, bulk=True)
    yield conn
    conn.close()


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The statements that were executed in bulk."""
    found: list[bytes] = []
    command = PreparedStatement.command

    def spy(self: PreparedStatement, types: list[bytes], rows: bytes) -> Command:
        found.append(self.text)
        return command(self, types, rows)

    monkeypatch.setattr(PreparedStatement, "command", spy)
    return found


def _stored(conn: Connection[Any], text: bytes, rows: BulkRows | None) -> str:
    """What the statement leaves in d.t, by bulk execution or as it is; the error otherwise; '' when not in bulk."""
    statement = next(read_statements(io.BytesIO(text + b";"), 0, "f"))
    conn.begin()
    try:
        if rows is None:
            conn.query(text)
        elif not rows.write(b"INSERT INTO d.t", statement, b""):
            return ""
        return str(query(conn, "SELECT HEX(v), HEX(CAST(v AS BINARY)), v + 0e0 FROM d.t"))
    except (bulk_rows.BulkFailed, pymysql.Error):
        return "error"
    finally:
        conn.rollback()


def _rows(conn: Connection[Any], kind: str, names: str) -> BulkRows:
    """A new table d.t, and its bulk executions."""
    conn.query("SET NAMES utf8mb4")
    conn.query(f"CREATE OR REPLACE TABLE d.t (v {kind}) CHARACTER SET utf8mb4")
    rows = BulkRows(conn, TargetTables(), ("d", "t"))
    conn.query(f"SET NAMES {names}")
    return rows


@pytest.mark.parametrize("names", ["utf8mb4", "binary"])
def test_a_literal_is_stored_as_by_an_insert_or_left_to_it(
    target: MariaDBServer, conn: Connection[Any], monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setattr(bulk_rows, "LEAST_BYTES", 0)
    target.execute("CREATE DATABASE d")
    taken = 0
    for kind in _TYPES:
        rows = _rows(conn, kind, names)
        for literal in _LITERALS:
            text = f"INSERT INTO d.t (`v`) VALUES ({literal})".encode()
            found = _stored(conn, text, rows)
            if found:
                taken += 1
                assert found == _stored(conn, text, None), (kind, literal)
    assert taken > len(_TYPES) * len(_LITERALS) // 4


@pytest.mark.parametrize("byte", [0x80, 0xC3, 0xFF])
def test_bytes_that_cannot_be_decoded_are_accepted_or_refused_alike(
    target: MariaDBServer, conn: Connection[Any], monkeypatch: pytest.MonkeyPatch, byte: int
) -> None:
    monkeypatch.setattr(bulk_rows, "LEAST_BYTES", 0)
    target.execute("CREATE DATABASE d")
    for names in ("utf8mb4", "binary"):
        for kind in ("VARBINARY(9)", "BLOB", "VARCHAR(9) CHARACTER SET utf8mb4", "VARCHAR(9) CHARACTER SET latin1"):
            rows = _rows(conn, kind, names)
            text = b"INSERT INTO d.t VALUES\n('a%cb')" % byte
            found = _stored(conn, text, rows)
            assert found in ("", _stored(conn, text, None)), (names, kind)


def _progress(target: MariaDBServer, cfg: SubTaskConfig, name: str, size: int) -> LoadSpec:
    conn = connect(cfg.to, scope="downstream")
    epoch = begin_load(conn, cfg, name, {name: size}, None, None)
    conn.close()
    folder, on_duplicate = cfg.loader.dir, cfg.loader.on_duplicate_logical
    return LoadSpec(cfg.to, SESSION, progress_table(cfg), cfg.source_id, epoch, on_duplicate, folder, 20_000, 5.0)


def _load(target: MariaDBServer, cfg: SubTaskConfig, name: str, table: str) -> FileReport:
    """Loads one file of the table d.t of a dump into ``table`` of schema d, in this process."""
    size = (Path(cfg.loader.dir) / name).stat().st_size
    cfg = replace(cfg, name=table)
    spec = _progress(target, cfg, name, size)
    reports = list(run_load_task(spec, iter([[FileSpec(name, size, "d", "t", "d", table)]])))
    return reports[0]


def _fill(server: MariaDBServer, rows: int, without: tuple[str, ...]) -> dict[str, str]:
    """A table d.t of all types but some."""
    columns = {name: kind for name, kind in (COMMON_COLUMNS | MARIADB_COLUMNS).items() if kind not in without}
    fields = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, {fields})")
    written = {name: kind for name, kind in columns.items() if not name.startswith("gen")}
    rnd = random.Random(7)
    mode = "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"
    for n in range(rows):
        values = ",".join(value_for(kind, rnd) for kind in written.values())
        server.execute(mode, f"INSERT INTO d.t (id,{','.join(written)}) VALUES ({n},{values})")
    return columns


def _dump(tool: str, server: MariaDBServer, cfg: SubTaskConfig, spark: SparkEngine) -> list[str]:
    """The names of the data files of d.t."""
    folder = Path(cfg.loader.dir)
    address = ["-h", "127.0.0.1", "-P", str(server.port), "-u", "root"]
    if tool == "own":
        dump(cfg, spark)
        shutil.copytree(dump_dir(cfg), folder, dirs_exist_ok=True)
        return [path.name for path in folder.glob("d.t.0*.sql")]
    folder.mkdir(parents=True)
    if tool == "mydumper":
        subprocess.run(["mydumper", *address, "-B", "d", "-o", str(folder)], check=True, capture_output=True)
        return [path.name for path in folder.glob("d.t*.sql") if "schema" not in path.name]
    options = ["--no-create-info", "--skip-add-locks", "--skip-triggers", *tool.split()[1:]]
    done = subprocess.run(["mariadb-dump", *address, *options, "d", "t"], check=True, capture_output=True)
    (folder / "d.t.sql").write_bytes(done.stdout)
    return ["d.t.sql"]


#: Kinds of columns whose values would be written otherwise.
LEFT_OUT = {
    # The server itself refuses these as text after SET NAMES binary.
    "mydumper": ("UUID", "INET6", "INET4"),
    # A backslash of sjis is carried as bytes, with an introducer, which is left to INSERT.
    "own": ("VARCHAR(20) CHARACTER SET sjis",),
}


@pytest.mark.parametrize("tool", ["own", "mydumper", "mariadb-dump", "mariadb-dump --hex-blob"])
def test_a_table_of_all_types_is_the_same_in_bulk_and_by_inserts(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, executed: list[bytes], tool: str,
) -> None:  # fmt: skip
    columns = _fill(mariadb_upstream, 30, LEFT_OUT.get(tool, ()))
    cfg = config(mariadb_upstream, target, tmp_path, extra_args="-s 1000000")
    names = _dump(tool, mariadb_upstream, cfg, spark)
    create = mariadb_upstream.execute("SHOW CREATE TABLE d.t")[0][1]
    target.execute("CREATE DATABASE d")
    for table, least in (("bulk", 0), ("plain", 1 << 40)):
        monkeypatch.setattr(bulk_rows, "LEAST_BYTES", least)
        target.execute("USE d", str(create).replace("TABLE `t`", f"TABLE `{table}`"))
        for name in names:
            report = _load(target, cfg, name, table)
            assert report.error is None, str(report.error)
        # Raw bytes among text are left to INSERT.
        assert bool(executed) == (table == "bulk" and tool != "mariadb-dump")
        executed.clear()
    same = " AND ".join(
        f"HEX(CAST({value} AS BINARY)) <=> HEX(CAST({value.replace('a.', 'b.')} AS BINARY))"
        for value in (f"a.{name}*1e0" if kind.startswith("FLOAT") else f"a.{name}" for name, kind in columns.items())
    )
    assert target.execute(f"SELECT COUNT(*) FROM d.bulk a JOIN d.plain b USING (id) WHERE {same}") == [(30,)]
    if tool == "own":
        assert contents(target, "d.bulk") == contents(mariadb_upstream, "d.t")


def _file(cfg: SubTaskConfig, rows: list[str], head: str = "") -> str:
    folder = Path(cfg.loader.dir)
    folder.mkdir(parents=True, exist_ok=True)
    name = "d.t.000000000.sql"
    lines = [f"INSERT INTO `t` VALUES\n{','.join(rows[n : n + 500])};\n" for n in range(0, len(rows), 500)]
    (folder / name).write_text(head + "".join(lines))
    return name


@pytest.mark.parametrize(
    ("column", "bad", "number"),
    [("v SMALLINT", "99999", 1264), ("v INT UNIQUE", "3", 1062), ("v INT CHECK (v < 10000)", "10000", 4025)],
)
def test_an_error_in_bulk_is_that_of_the_insert_and_leaves_no_row_behind(
    target: MariaDBServer, tmp_path: Path, executed: list[bytes], column: str, bad: str, number: int
) -> None:
    cfg = config(target, target, tmp_path)
    target.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, {column}, w CHAR(30))")
    rows = [f"({n},{n},'{'x' * 30}')" for n in range(1, 2001)]
    rows[1499] = rows[1499].replace("1500,1500", f"1500,{bad}")
    report = _load(target, cfg, _file(cfg, rows), "t")
    assert f"Error {number} " in str(report.error)
    assert executed
    assert target.execute("SELECT COUNT(*), MAX(id) FROM d.t") == [(1000, 1000)]


@pytest.mark.parametrize("choice", ["replace", "ignore"])
def test_duplicates_are_settled_in_bulk_as_by_inserts(
    target: MariaDBServer, tmp_path: Path, executed: list[bytes], choice: str
) -> None:
    cfg = config(target, target, tmp_path, on_duplicate=choice)
    target.execute(
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT UNIQUE, w CHAR(30))",
        "INSERT INTO d.t VALUES (5,5,'old'),(-1,700,'old')",
    )  # fmt: skip
    rows = [f"({n},{n},'{'x' * 30}')" for n in range(1, 1001)]
    assert _load(target, cfg, _file(cfg, rows), "t").error is None
    assert len(executed) == 2
    kept = target.execute("SELECT id FROM d.t WHERE w = 'old' ORDER BY id")
    assert kept == ([(-1,), (5,)] if choice == "ignore" else [])
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(1000,)]


@pytest.mark.parametrize(
    "head", ["SET NAMES latin1;\n", "SET sql_mode = 'NO_BACKSLASH_ESCAPES';\n", "SET character_set_client = latin1;\n"]
)
def test_a_session_that_reads_literals_differently_gets_inserts(
    target: MariaDBServer, tmp_path: Path, executed: list[bytes], head: str
) -> None:
    cfg = config(target, target, tmp_path)
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(200))")
    rows = [f"({n},'{'é' * 30}\\\\')" for n in range(1000)]
    assert _load(target, cfg, _file(cfg, rows, head), "t").error is None
    assert not executed


def test_a_server_that_cannot_roll_back_the_rows_gets_inserts(
    target: MariaDBServer, tmp_path: Path, executed: list[bytes]
) -> None:
    cfg = config(target, target, tmp_path)
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(60)) ENGINE=MyISAM")
    assert _load(target, cfg, _file(cfg, [f"({n},'{'x' * 30}')" for n in range(1000)]), "t").error is None
    assert not executed


def _turn(cfg: SubTaskConfig) -> Turn:
    """The turn for the table d.t."""
    with closing(connect(cfg.to, scope="downstream")) as conn:
        info = fetch_table_info(conn, "d", "t")
    turn = turn_of(info) if info is not None else None
    assert turn is not None
    return turn


def _waiting(target: MariaDBServer) -> bool:
    """Whether a writer waits for its turn."""
    found = target.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'")
    return found == [(1,)]


@pytest.mark.parametrize("end", ["leaves", "dies", "stays"])
def test_writers_of_a_table_that_counts_take_turns_but_do_not_wait_for_ever(
    target: MariaDBServer, tmp_path: Path, executed: list[bytes], end: str
) -> None:
    cfg = config(target, target, tmp_path)
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))")
    name = _file(cfg, [f"({n},'{'x' * 30}')" for n in range(1, 501)])
    turn = _turn(cfg)
    with closing(connect(cfg.to, scope="downstream")) as other, ThreadPoolExecutor(1) as threads:
        other.query(turn.begin)
        ended = query(other, "SELECT CONNECTION_ID()")[0][0]
        report = threads.submit(_load, target, cfg, name, "t")
        wait_until(lambda: _waiting(target), "the writer waits for the other one", 60.0, step=0.01)
        if end == "leaves":
            other.query(turn.end)
        elif end == "dies":
            target.end_connections(lambda row: row[0] == ended)
        assert report.result().error is None
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(500,)]
    assert len(executed) == 1


def test_a_table_with_partitions_takes_no_turns(target: MariaDBServer, tmp_path: Path) -> None:
    cfg = config(target, target, tmp_path)
    target.execute(
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT) PARTITION BY HASH (id) PARTITIONS 2",
        "CREATE TABLE d.u LIKE d.t", "ALTER TABLE d.u REMOVE PARTITIONING",
    )  # fmt: skip
    with closing(connect(cfg.to, scope="downstream")) as conn:
        tables = TargetTables()
        found = {name: tables.turn(conn, info) for name in "tu" if (info := fetch_table_info(conn, "d", name))}
    assert found["t"] is None
    assert found["u"] is not None


def test_a_refused_row_ends_the_turn(target: MariaDBServer, tmp_path: Path, executed: list[bytes]) -> None:
    cfg = config(target, target, tmp_path)
    target.execute(
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))",
        "INSERT INTO d.t VALUES (250,'old')",
    )  # fmt: skip
    name = _file(cfg, [f"({n},'{'x' * 30}')" for n in range(1, 501)])
    assert "1062" in str(_load(target, cfg, name, "t").error)
    assert executed
    lock = _turn(cfg).begin.decode().split("'")[1]
    assert target.execute(f"SELECT IS_FREE_LOCK('{lock}')") == [(1,)]
