"""Rows events of a part of a server's binlog, with the decoder of their table."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.streams.server_position import master_status
from pkg.binlog.streams.server_stream import open_upstream
from pkg.binlog.table_map import TableMap, parse_table_map
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import TableInfo
from tests.harness import binlog_bytes

_PIECE = 1 << 20


def end_of_binlog(server: SQLServer) -> Location:
    conn = connect(server.db_config, scope="upstream")
    location = master_status(conn, server.flavor)
    conn.close()
    if location is None:
        raise HarnessError("the server writes no binlog")
    return location


def events(server: SQLServer, start: Location, end: Position) -> Iterator[list[Event]]:
    """The events from ``start`` to ``end`` in pieces of about 1 MiB, as a server sends them to a replica."""
    stream = open_upstream(
        server.db_config, start, flavor=server.flavor, server_id=4_000_000_000 + server.port, use_gtid=False
    )
    try:
        while True:
            piece = stream.read(_PIECE, 20.0)
            if not piece:
                raise HarnessError(f"the server sent nothing before {end}")
            yield piece
            if stream.file == end.name and piece[-1].log_pos >= end.pos:
                return
    finally:
        stream.close()


class Tables:
    """Decoders for the current tables of ``schema`` on the server."""

    def __init__(self, server: SQLServer, schema: str) -> None:
        self._conn = server.connect()
        self._schema = schema
        self._infos: dict[str, TableInfo] = {}
        self._decoders: dict[bytes, tuple[RowDecoder, TableInfo]] = {}
        self._current: dict[int, tuple[RowDecoder, TableInfo]] = {}

    def close(self) -> None:
        self._conn.close()

    def learn(self, event: Event) -> None:
        """Reads a TABLE_MAP event."""
        made = self._decoders.get(event.data[c.HEADER_SIZE :])
        if made is None:
            table_map = parse_table_map(event)
            if table_map.schema != self._schema:
                return
            made = self._make(table_map)
            self._decoders[event.data[c.HEADER_SIZE :]] = made
        self._current[binlog_bytes.table_id(event.data)] = made

    def of(self, event: Event) -> tuple[RowDecoder, TableInfo] | None:
        """The decoder for a rows event; None if its table is in another schema."""
        return self._current.get(binlog_bytes.table_id(event.data))

    def _make(self, table_map: TableMap) -> tuple[RowDecoder, TableInfo]:
        info = fetch_table_info(self._conn, table_map.schema, table_map.table)
        if info is None:
            raise HarnessError(f"no table {table_map}")
        row_key = info.row_key()
        if row_key is None:
            raise HarnessError(f"{table_map} has no key")
        key = [info.index_of(name) for name in row_key.columns]
        return RowDecoder(table_map, info.columns, key=key, write=range(len(info.columns))), info
