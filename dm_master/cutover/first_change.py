"""When a table of the target was first written after the cutover, from the target's own binlog."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

import pymysql

from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.binlog.streams.server_stream import open_upstream, replica_id
from pkg.binlog.table_map import parse_rows_header, parse_table_map
from pkg.ddl.parser import classify, parse
from pkg.errors import DMError
from pkg.mysql.connection import classify as classify_error
from pkg.mysql.connection import connect
from pkg.mysql.introspect import server_info
from pkg.mysql.names import TableId
from pkg.settings.connections import DBConfig

_READ_BYTES, _WAIT = 1 << 20, 1.0
#: Time limit of the whole search, in seconds.
_MOST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class FirstChange:
    """The event that wrote the table first; ``timestamp`` in unix seconds."""

    position: Position
    timestamp: int

    def __str__(self) -> str:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.timestamp))
        return f"{moment} UTC, {self.position} of the target's binlog"


class FirstChanges:
    """Finds the first change of each of the tables in a stream that begins at ``start``. Pure."""

    def __init__(self, tables: Iterable[TableId], start: Position, flavor: str) -> None:
        self._wanted = set(tables)
        self._flavor = flavor
        self._tables: dict[int, TableId] = {}
        self.position = start
        self.found: dict[TableId, FirstChange] = {}

    @property
    def is_complete(self) -> bool:
        return self._wanted == self.found.keys()

    def read(self, events: Sequence[Event]) -> None:
        """Raises 11071 for damaged events."""
        for event in events:
            for table in self._changed(event):
                if table in self._wanted:
                    self.found.setdefault(table, FirstChange(self.position, event.timestamp))
            if event.type == c.ROTATE_EVENT:
                rotate = ev.parse_rotate(event, self.position.name)
                self.position = Position(rotate.file, rotate.position)
            else:
                self.position = Position(self.position.name, ev.end_position(self.position.pos, event))

    def _changed(self, event: Event) -> Iterable[TableId]:
        file = self.position.name
        if event.type == c.TABLE_MAP_EVENT:
            table_map = parse_table_map(event, file)
            self._tables[table_map.table_id] = (table_map.schema, table_map.table)
        elif event.is_rows:
            table = self._tables.get(parse_rows_header(event, file).table_id)
            return () if table is None else (table,)
        elif event.type in c.QUERY_EVENTS:
            return self._of_statement(ev.parse_query(event, file))
        return ()

    def _of_statement(self, statement: ev.QueryEvent) -> Iterable[TableId]:
        """The tables of a statement. A statement that can't be parsed is ignored: it may concern any table."""
        try:
            if classify(statement.sql, flavor=self._flavor) != "ddl":
                return ()
            return parse(statement.sql, default_schema=statement.schema, flavor=self._flavor).tables
        except DMError:
            return ()


def find_first_changes(target: DBConfig, start: Location, tables: Iterable[TableId]) -> dict[TableId, FirstChange]:
    """Reads the target's binlog from ``start`` to its end, or until the time limit. Raises DMError if it can't be
    read."""
    try:
        with closing(connect(target, scope="downstream")) as conn:
            flavor = server_info(conn).flavor
            end = None if flavor == "tidb" else master_status(conn, flavor)
    except pymysql.Error as exc:
        raise classify_error(exc, scope="downstream") from exc
    finder = FirstChanges(tables, start.position, flavor)
    if end is None:
        return finder.found
    stream = open_upstream(
        target, start, flavor=flavor, server_id=replica_id("cutover", target.host, str(target.port)), use_gtid=False
    )
    limit = time.monotonic() + _MOST_SECONDS
    with closing(stream):
        while not finder.is_complete and finder.position < end.position and time.monotonic() < limit:
            finder.read(stream.read(_READ_BYTES, _WAIT))
    return finder.found
