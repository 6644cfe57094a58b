"""Binlog files of servers that can't be started here, checked against MariaDB's own tools and its own row applier."""

from __future__ import annotations

import gzip
import os
import re
import struct
import subprocess
from calendar import timegm
from collections import Counter
from pathlib import Path
from time import strptime
from zlib import crc32

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import binary
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import Event, ensure_supported, parse_previous_gtids, parse_query
from pkg.binlog.streams.stream import BinlogStream
from pkg.binlog.streams.transaction_payload import ExpandingStream
from pkg.binlog.table_map import TableMap, parse_table_map
from pkg.errors import Code
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import Column
from tests.both_decoders import BothDecoders
from tests.harness import binlog_bytes
from tests.integration.binlog_replay import SESSION, checksum
from tests.unit.pkg.binlog.file_stream import FileStream

FOLDER = Path(os.environ.get("DM_TEST_BINLOGS", Path(__file__).parents[3] / "shared" / "data" / "binlogs"))
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no recorded binlogs in {FOLDER}; DM_TEST_BINLOGS names another folder"
)
#: A plausible definition for each type of a table whose own definition is lost.
_GUESSES = {
    c.TYPE_TINY: ("tinyint", "tinyint(4)"),
    c.TYPE_SHORT: ("smallint", "smallint(6)"),
    c.TYPE_LONG: ("int", "int(11)"),
    c.TYPE_LONGLONG: ("bigint", "bigint(20)"),
    c.TYPE_DOUBLE: ("double", "double"),
    c.TYPE_VARCHAR: ("varchar", "varchar(20)"),
    c.TYPE_TIMESTAMP2: ("timestamp", "timestamp"),
    c.TYPE_DATETIME2: ("datetime", "datetime"),
    c.TYPE_STRING: ("char", "char(20)"),
}
_TEXTS = {1: "tinytext", 2: "text", 3: "mediumtext", 4: "longtext"}


def _events(path: Path) -> list[Event]:
    return _read_all(ExpandingStream(FileStream(path)))


def _read_all(stream: BinlogStream) -> list[Event]:
    found: list[Event] = []
    try:
        while True:
            found += stream.read(1 << 20, 0)
    except errors.DMError as exc:
        if exc.kind is not Code.ReaderReachEndOfFile:
            raise
    stream.close()
    return found


def _guess(table_map: TableMap) -> list[Column]:
    columns = []
    for i, (kind, meta) in enumerate(zip(table_map.types, table_map.metas, strict=True)):
        if kind == c.TYPE_BLOB:
            name = whole = _TEXTS[meta]
        elif kind == c.TYPE_NEWDECIMAL:
            name, whole = "decimal", f"decimal({meta >> 8},{meta & 255})"
        elif kind == c.TYPE_BIT:
            name, whole = "bit", f"bit({(meta >> 8) * 8 + (meta & 255)})"
        else:
            name, whole = _GUESSES[kind]
        columns.append(Column(f"c{i}", name, whole, charset="utf8mb4"))
    return columns


def _ours(path: Path) -> list[tuple[str, str, list[str]]]:
    """Table, operation and values, in the form of mariadb-binlog."""
    decoders: dict[int, BothDecoders] = {}
    found = []
    for event in _events(path):
        ensure_supported(event, path.name)
        if event.type == c.TABLE_MAP_EVENT:
            table_map = parse_table_map(event)
            decoders[table_map.table_id] = BothDecoders(table_map, _guess(table_map), key=[], write=[0])
        elif event.is_rows:
            decoder = decoders[binlog_bytes.table_id(event.data)]
            for op, before, after in decoder.images(event.data):
                values = [_as_shown(lit) for image in (before, after) if image is not None for lit in image]
                found.append((str(decoder.table_map), ("INSERT INTO", "UPDATE", "DELETE FROM")[op], values))
    return found


def _as_shown(literal: bytes) -> str:
    text = literal.decode()
    if re.fullmatch(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d'", text):
        return str(timegm(strptime(text, "'%Y-%m-%d %H:%M:%S'")))
    return text


def _theirs(path: Path) -> list[tuple[str, str, list[str]]]:
    command = [binary("mariadb-binlog", "mysqlbinlog"), "-vv", "--base64-output=decode-rows", str(path)]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if head := re.match(r"### (INSERT INTO|UPDATE|DELETE FROM) (\S+)$", line):
            found.append((head[2], head[1], []))
        elif value := re.match(r"###   @\d+=(.*) /\* (\w+).* \*/$", line):
            shown = re.sub(r"^(-\d+) \(\d+\)$", r"\1", value[1])
            if value[2] == "DATETIME":
                shown = str(timegm(strptime(shown.strip("'"), "%Y-%m-%d %H:%M:%S")))
            elif value[2] == "DOUBLE":
                shown = f"{float(shown)!r}e0"
            elif value[2] == "BIT":
                shown = str(int(shown[2:-1], 2))
            found[-1][2].append(shown)
    return found


@pytest.mark.parametrize("name", ["mysql-bin.checksum-crc32", "mysql-bin.checksum-none"])
def test_mysql_5_7_rows_read_as_mariadb_binlog_reads_them(name: str) -> None:
    ours, theirs = _ours(FOLDER / name), _theirs(FOLDER / name)
    assert len(ours) > 30
    assert Counter(op for _, op, _ in ours)["UPDATE"] > 1
    assert ours == theirs


def test_sakila_equals_what_the_servers_own_applier_makes_of_it(target: MariaDBServer, tmp_path: Path) -> None:
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(gzip.decompress((FOLDER / "mysql-bin.sakila.gz").read_bytes()))
    dump = subprocess.run([binary("mariadb-binlog", "mysqlbinlog"), str(path)], capture_output=True, check=True).stdout
    client = [binary("mariadb", "mysql"), "-h127.0.0.1", f"-P{target.port}", "-uroot", "--binary-mode"]
    subprocess.run(client, input=dump, check=True)
    target.execute("CREATE DATABASE ours")
    conn = target.connect()
    decoders: dict[int, BothDecoders] = {}
    rows: Counter[str] = Counter()
    with conn.cursor() as cursor:
        cursor.execute(SESSION)
        for event in _events(path):
            if event.type == c.TABLE_MAP_EVENT:
                table_map = parse_table_map(event)
                info = fetch_table_info(conn, "sakila", table_map.table)
                assert info is not None
                everything = range(len(info.columns))
                decoders[table_map.table_id] = BothDecoders(table_map, info.columns, key=[0], write=everything)
                cursor.execute(f"CREATE TABLE IF NOT EXISTS ours.{info.name} LIKE sakila.{info.name}")
            elif event.is_rows:
                table = decoders[binlog_bytes.table_id(event.data)].table_map.table
                changes = decoders[binlog_bytes.table_id(event.data)].changes(event.data)
                assert {op for op, *_ in changes} == {c.OP_INSERT}
                cursor.execute(
                    f"INSERT INTO ours.{table} VALUES ".encode() + b",".join(values for _, _, values, _ in changes)
                )
                rows[table] += len(changes)
    assert sum(rows.values()) > 40_000
    for table in rows:
        assert checksum(conn, f"sakila.{table}") == checksum(conn, f"ours.{table}"), table
    conn.close()


def test_compressed_transaction_of_mysql_8_reads_as_if_it_were_plain(tmp_path: Path) -> None:
    """mariadb-binlog can't read it, so it gets the same file with the transaction unpacked."""
    source = FOLDER / "mysql-bin.compressed"
    plain = tmp_path / source.name
    stream = FileStream(source)
    file = c.MAGIC
    raw = [stream.read(1, 0)[0] for _ in range(4)]
    stream.close()
    assert [event.type for event in raw] == [15, 35, 34, c.TRANSACTION_PAYLOAD_EVENT]
    inner = _read_all(ExpandingStream(FileStream(source)))[3:-1]
    assert [event.type for event in inner] == [c.QUERY_EVENT, c.TABLE_MAP_EVENT, c.UPDATE_ROWS_EVENT, c.XID_EVENT]
    assert {event.log_pos for event in inner} == {raw[3].log_pos}
    for event in (*raw[:3], *inner):
        size = len(event.data) + c.CHECKSUM_SIZE
        data = event.data[:9] + struct.pack("<II", size, len(file) + size) + event.data[17:]
        file += data + struct.pack("<I", crc32(data))
    plain.write_bytes(file)
    ours, theirs = _ours(source), _theirs(plain)
    assert ours == theirs == _ours(plain)
    assert ours[0][1] == "UPDATE"
    assert "'Once Upon a Time in the West'" in ours[0][2]


def test_padding_of_aurora_is_skipped() -> None:
    found = _events(FOLDER / "mysql-bin.aurora-padding")
    assert c.AURORA_PADDING_EVENT in {event.type for event in found}
    for event in found:
        ensure_supported(event)
    assert any(parse_query(event).sql for event in found if event.type == c.QUERY_EVENT)
    assert not any(parse_previous_gtids(event) for event in found if event.type == c.PREVIOUS_GTIDS_EVENT)
