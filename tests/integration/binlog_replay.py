"""Reads a real server's binlog and applies the decoded literals to another table of the same server: the oracle is
the server itself, which must find both tables equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.binlog import constants as c
from pkg.binlog.events import Event, ensure_supported, parse_rotate
from pkg.binlog.position import Location, Position
from pkg.binlog.rows.row_decoder import RowChange, RowDecoder, RowImages
from pkg.binlog.streams.server_position import master_status
from pkg.binlog.streams.server_stream import open_upstream
from pkg.binlog.streams.stream import BinlogStream
from pkg.binlog.table_map import TableMap, parse_table_map
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import Column
from tests.both_decoders import BothDecoders
from tests.compiled import kernels
from tests.harness import binlog_bytes

SESSION = (
    "SET SESSION time_zone='+00:00', foreign_key_checks=0, "
    "sql_mode='STRICT_TRANS_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'"
)


def here(server: SQLServer) -> Location:
    """Where the server's binlog ends now."""
    conn = server.connect()
    try:
        location = master_status(conn, server.flavor)
    finally:
        conn.close()
    assert location is not None
    return location


def open_at(server: SQLServer, location: Location, *, use_gtid: bool = False) -> BinlogStream:
    return open_upstream(
        server.db_config,
        location,
        flavor=server.flavor,
        server_id=4_000_000_000 + server.port,
        use_gtid=use_gtid,
        heartbeat=0.5,
    )


def events_between(server: SQLServer, start: Location, end: Position) -> list[Event]:
    """All events from ``start`` to ``end``."""
    if start.position == end:
        return []
    stream = open_at(server, start)
    found: list[Event] = []
    file = start.position.name
    try:
        while True:
            events = stream.read(1 << 20, 20.0)
            assert events, f"the server sent nothing before {end}"
            for event in events:
                ensure_supported(event, stream.file)
                found.append(event)
                if event.type == c.ROTATE_EVENT:
                    file = parse_rotate(event).file
                elif not event.artificial and file == end.name and event.log_pos >= end.pos:
                    return found
    finally:
        stream.close()


@dataclass
class Decoded:
    """What the rows events of one table became."""

    table_map: TableMap
    changes: list[RowChange] = field(default_factory=list)
    images: list[RowImages] = field(default_factory=list)


def _rows_events(events: Iterable[Event], schema: str, table: str) -> Iterator[tuple[TableMap, bytes]]:
    """The rows events of one table, each with its table map; there must be some."""
    current: TableMap | None = None
    for event in events:
        if event.type == c.TABLE_MAP_EVENT:
            table_map = parse_table_map(event)
            if (table_map.schema, table_map.table) == (schema, table):
                current = table_map
        elif event.is_rows and current and binlog_bytes.table_id(event.data) == current.table_id:
            yield current, event.data
    assert current is not None, f"no rows of {schema}.{table}"


def _columns(server: SQLServer, schema: str, table: str) -> tuple[Sequence[Column], list[int]]:
    """A table's columns, and which of them can be written."""
    conn = server.connect()
    info = fetch_table_info(conn, schema, table)
    conn.close()
    assert info is not None
    return info.columns, [i for i, column in enumerate(info.columns) if not column.generated]


def decode(server: SQLServer, events: list[Event], schema: str, table: str, key: list[int]) -> Decoded:
    columns, write = _columns(server, schema, table)
    current: Decoded | None = None
    for table_map, data in _rows_events(events, schema, table):
        if current is None or current.table_map is not table_map:
            current = Decoded(table_map, *((current.changes, current.images) if current else ()))
            decoder = BothDecoders(table_map, columns, key=key, write=write)
        current.changes += decoder.changes(data)
        current.images += decoder.images(data)
    assert current is not None, f"no rows of {schema}.{table}"
    return current


def decode_images(server: SQLServer, events: list[Event], schema: str, table: str) -> list[RowImages]:
    """The images as one decoder reads them, the compiled one if there is one: for tests of what comes after it."""
    columns, write = _columns(server, schema, table)
    found: list[RowImages] = []
    known: TableMap | None = None
    for table_map, data in _rows_events(events, schema, table):
        if table_map is not known:
            known = table_map
            decoder = RowDecoder(table_map, columns, key=[], write=write, kernel=kernels()[-1])
        found += decoder.images(data)
    return found


def apply_changes(
    conn: Connection[Any], table: str, columns: list[str], key: list[str], changes: list[RowChange]
) -> None:
    """One statement a change: DELETE by the old key, INSERT of the new values."""
    head = f"INSERT INTO {table} ({','.join(f'`{name}`' for name in columns)}) VALUES ".encode()
    where = f"DELETE FROM {table} WHERE ({','.join(f'`{name}`' for name in key)}) IN ((".encode()
    with conn.cursor() as cursor:
        cursor.execute(SESSION)
        for op, new_key, values, old_key in changes:
            if op != c.OP_INSERT:
                cursor.execute(where + (old_key if op == c.OP_UPDATE else new_key) + b"))")
                assert cursor.rowcount == 1
            if op != c.OP_DELETE:
                cursor.execute(head + values)


def checksum(conn: Connection[Any], table: str) -> int:
    with conn.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {table} EXTENDED")
        (row,) = cursor.fetchall()
    assert row[1] is not None, f"no checksum of {table}"
    return int(row[1])
