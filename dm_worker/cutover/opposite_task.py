"""Which writes in an upstream's binlog are those of the task of the way back, which has this upstream as its target.

Its rows are in transactions that begin with a bucket's marker. Its statements run on a connection that has written the
number of itself into the batch row. Anything else is written by others. Pure, except for structures that it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_worker.meta.syncer_tables import syncer_table
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import TableMap
from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.mysql.schema import Column

#: The column of the batch row with the connection that wrote it.
_CONNECTION = "connection"
#: A QUERY event has this many bits of a connection's number.
_THREAD_BITS = 0xFFFFFFFF


class OppositeTask:
    """Reads the events of one stream in order. ``columns``: those of a meta table at present, None without one."""

    def __init__(self, task: str, meta_schema: str, columns: Callable[[str, str], Sequence[Column] | None]) -> None:
        self.task = task
        # Some servers write names in lower case.
        self._marker, self._batch = (
            (meta_schema.lower(), syncer_table(task, what).lower()) for what in ("marker", "batch")
        )
        self._columns = columns
        #: Those of the task since the server's start; a server begins again with the same numbers.
        self._connections: set[int] = set()
        #: Whether the present transaction is of the task.
        self.writes = False

    def server_started(self) -> None:
        self._connections.clear()

    def transaction_begins(self) -> None:
        self.writes = False

    def rows(self, table_map: TableMap, event: Event, file: str) -> None:
        """A rows event of any table."""
        name = (table_map.schema.lower(), table_map.table.lower())
        if name == self._marker:
            self.writes = True
        elif name == self._batch:
            self._connections |= self._connections_in((table_map.schema, table_map.table), table_map, event, file)

    def runs(self, statement: ev.QueryEvent) -> bool:
        """Whether it runs on a connection of the task."""
        return statement.thread_id in self._connections

    def _connections_in(self, name: TableId, table_map: TableMap, event: Event, file: str) -> set[int]:
        # Later versions add columns at the end.
        columns = (self._columns(*name) or ())[: table_map.column_count]
        place = next((number for number, column in enumerate(columns) if column.name == _CONNECTION), None)
        if place is None:
            return set()
        try:
            images = RowDecoder(table_map, columns, key=(), write=()).images(event.data, file)
            return {int(after[place]) & _THREAD_BITS for _, _, after in images if after is not None}
        except DMError:
            # Its statements then count as those of others: reported, never left out.
            return set()
