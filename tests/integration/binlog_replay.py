"""Reads a real server's binlog and applies the decoded literals to another table of the same server: the oracle is
the server itself, which must find both tables equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from pkg.binlog import constants as c
from pkg.binlog.events import Event, ensure_supported, parse_rotate
from pkg.binlog.position import Location, Position
from pkg.binlog.row_decoder import RowChange, RowImages
from pkg.binlog.server_position import master_status
from pkg.binlog.server_stream import open_upstream
from pkg.binlog.stream import BinlogStream
from pkg.binlog.table_map import TableMap, parse_table_map, table_map_id
from pkg.mysql.introspect import fetch_table_info
from tests.both_decoders import BothDecoders
from tests.harness.mysql import SQLServer

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


def decode(server: SQLServer, events: list[Event], schema: str, table: str, key: list[int]) -> Decoded:
    conn = server.connect()
    info = fetch_table_info(conn, schema, table)
    conn.close()
    assert info is not None
    write = [i for i, column in enumerate(info.columns) if not column.generated]
    current: Decoded | None = None
    decoder: BothDecoders | None = None
    for event in events:
        if event.type == c.TABLE_MAP_EVENT:
            table_map = parse_table_map(event)
            if (table_map.schema, table_map.table) != (schema, table):
                continue
            current = current or Decoded(table_map)
            current.table_map = table_map
            decoder = BothDecoders(table_map, info.columns, key=key, write=write)
        elif event.is_rows and current and decoder and table_map_id(event.data) == current.table_map.table_id:
            current.changes += decoder.changes(event.data)
            current.images += decoder.images(event.data)
    assert current is not None, f"no rows of {schema}.{table}"
    return current


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
