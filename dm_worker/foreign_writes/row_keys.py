"""Reads the keys of rows that others have changed, from rows events of the target's binlog."""

from __future__ import annotations

from functools import lru_cache

import pymysql

from dm_worker.foreign_writes.suspects import RowKey
from dm_worker.table_reads.session import open_session
from pkg.binlog.events import Event
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import TableMap
from pkg.errors import Code, DMError
from pkg.mysql import driver
from pkg.mysql.connection import classify
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import TableInfo
from pkg.settings.connections import DBConfig

#: The event does not have the structure that the table has now, or lacks columns, or has values without literals.
_UNREADABLE = frozenset({Code.SyncerUnitDMLColumnNotMatch, Code.BinlogNotLogColumn, Code.BinlogExpectRowsEv})
_NO_ROWS: tuple[tuple[str, ...], list[RowKey], int] = ((), [], 1)


class BinlogKeys:
    """See :class:`RowKeys`. Raises DMError when the target can't be read."""

    def __init__(self, target: DBConfig) -> None:
        self._target = target
        # A changed structure has another TABLE_MAP, or another id in it.
        self._decoder = lru_cache(256)(self._make_decoder)

    def __call__(self, table_map: TableMap, event: Event, file: str, /) -> tuple[tuple[str, ...], list[RowKey], int]:
        try:
            decoder, names, numbers = self._decoder(table_map)
            if decoder is None:
                return _NO_ROWS
            changes = decoder.images(event.data, file)
        except DMError as exc:
            if exc.kind in _UNREADABLE:
                return _NO_ROWS
            raise
        images = (image for _, before, after in changes for image in (before, after) if image is not None)
        return names, [tuple(image[number] for number in numbers) for image in images], len(changes)

    def _make_decoder(self, table_map: TableMap) -> tuple[RowDecoder | None, tuple[str, ...], tuple[int, ...]]:
        info = self._structure(table_map.schema, table_map.table)
        if info is None:
            return None, (), ()
        index = info.row_key()
        names = tuple(index.columns) if index is not None else ()
        numbers = tuple(info.index_of(name) for name in names)
        return RowDecoder(table_map, info.columns, key=numbers, write=numbers), names, numbers

    def _structure(self, schema: str, table: str) -> TableInfo | None:
        conn = open_session(self._target, scope="downstream")
        try:
            return fetch_table_info(conn, schema, table)
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream") from exc
        finally:
            driver.drop(conn)
