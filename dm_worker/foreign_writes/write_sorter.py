"""Decides which transactions of the target's binlog others have written. Pure.

Each transaction in which the task writes rows also writes a table of its own (exactly-once.md): the marker of a bucket,
the progress of a load. So a transaction is foreign if it changes a table that may get rows of the task and none that
only this program writes. Foreign statements (DDL, or DML that is logged as text) are taken without parsing; statements
of the task are not told from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dm_worker.foreign_writes.known_tables import KnownTables, WriterKind
from dm_worker.foreign_writes.suspects import RowKey, Suspects, TableWrites
from dm_worker.syncer.planning.xa import Xid, prepared_xid, xa_statement
from pkg.binlog import constants as c
from pkg.binlog.events import Event, parse_query
from pkg.binlog.gtid_event import GTID_EVENTS, is_standalone
from pkg.binlog.position import Position
from pkg.binlog.table_map import TableMap, parse_table_map, table_map_name

_NAMES = c.HEADER_SIZE + 8
_ENDS = frozenset({b"COMMIT", b"ROLLBACK"})
#: Statements that change no rows of a table that exists. CREATE OR REPLACE does.
_HARMLESS = (
    "CREATE ", "OPTIMIZE ", "ANALYZE ", "SAVEPOINT", "ROLLBACK", "XA ", "GRANT ", "REVOKE ", "FLUSH ", "SET ",
    "DROP USER",
)  # fmt: skip


class RowKeys(Protocol):
    """Reads the keys of changed rows."""

    def __call__(self, table_map: TableMap, event: Event, file: str, /) -> tuple[tuple[str, ...], list[RowKey], int]:
        """The names of the key's columns, the keys before and after, and the number of changes. No names where the rows
        can't be told."""
        ...


@dataclass(slots=True)
class WriteSorter:
    """Takes events in order. ``boundary``: the end of the last whole transaction. ``own``: the current one is the
    task's; ``inside``: it ends with a COMMIT, not with its only statement. The compiled scan reads and sets these."""

    known: KnownTables
    keys: RowKeys
    boundary: Position
    own: bool = False
    inside: bool = False
    _writes: Suspects = field(default_factory=Suspects)
    _maps: dict[int, TableMap] = field(default_factory=dict)
    #: Prepared XA transactions: where each begins, and what it writes.
    _prepared: dict[Xid, tuple[Position, Suspects]] = field(default_factory=dict)

    @property
    def is_collecting(self) -> bool:
        """Whether the current transaction may be foreign: then each event of it must be taken."""
        return bool(self._writes or self._maps)

    @property
    def safe(self) -> Position:
        """Where reading must begin again so that no foreign transaction is missed that is not reported yet."""
        return min([self.boundary, *(start for start, _ in self._prepared.values())], key=Position.sort_key)

    def begin_file(self, start: Position) -> Suspects | None:
        """The next event is at ``start`` of another file: no transaction is in two."""
        return self._ended(start)

    def take(self, event: Event, end: Position) -> Suspects | None:
        """Takes an event that ends at ``end``; what others wrote, at the end of their transaction. Raises 11071."""
        kind = event.type
        if kind in GTID_EVENTS:
            found = self._ended(self.boundary)
            self.inside = not is_standalone(event)
            return found
        if kind == c.TABLE_MAP_EVENT:
            self._take_table(event, end.name)
        elif kind in c.ROWS_EVENTS:
            self._take_rows(event, end.name)
        elif kind in c.QUERY_EVENTS:
            return self._take_query(event, end)
        elif kind == c.XID_EVENT:
            return self._ended(end)
        elif kind == c.XA_PREPARE_EVENT:
            return self._prepare(event, end)
        return None

    def _take_table(self, event: Event, file: str) -> None:
        self.inside = True
        if self.own:
            return
        name = table_map_name(event, file)
        raw = event.data[_NAMES : _NAMES + sum(len(part.encode()) for part in name) + 4]
        match self.known.kind(name, raw):
            case WriterKind.OWN:
                self.own, self._writes = True, Suspects()
                self._maps.clear()
            case WriterKind.OTHER:
                self._maps.pop(_table_id(event), None)
            case WriterKind.TARGET:
                self._maps[_table_id(event)] = parse_table_map(event, file)

    def _take_rows(self, event: Event, file: str) -> None:
        table_map = self._maps.get(_table_id(event))
        if self.own or table_map is None:
            return
        name = self.known.folded((table_map.schema, table_map.table))
        writes = self._writes.tables.setdefault(name, TableWrites())
        writes.add(*self.keys(table_map, event, file))

    def _take_query(self, event: Event, end: Position) -> Suspects | None:
        query = parse_query(event, end.name)
        word = query.statement.strip().upper()
        if word == b"BEGIN":
            found = self._ended(self.boundary)
            self.inside = True
            return found
        if word in _ENDS:
            return self._ended(end)
        xa = xa_statement(event, end.name)
        if xa is not None and xa.kind in ("commit", "rollback"):
            _, prepared = self._prepared.pop(xa.xid, (end, Suspects()))
            if xa.kind == "commit":
                self._writes.merge(prepared)
            return self._ended(end)
        text = query.outline
        if _replaces(text) or not text.lstrip().upper().startswith(_HARMLESS):
            self._writes.add_statement(text)
        # An XA transaction ends with XA PREPARE.
        return None if self.inside or xa is not None else self._ended(end)

    def _prepare(self, event: Event, end: Position) -> Suspects | None:
        at_once, xid = prepared_xid(event, end.name)
        start = self.boundary
        found = self._ended(end)
        if at_once or found is None:
            return found
        self._prepared[xid] = start, found
        return None

    def _ended(self, end: Position) -> Suspects | None:
        found, own = self._writes, self.own
        self._writes, self.own, self.inside = Suspects(), False, False
        self._maps.clear()
        self.boundary = end
        return found if found and not own else None


def _table_id(event: Event) -> int:
    return int.from_bytes(event.data[c.HEADER_SIZE : c.HEADER_SIZE + 6], "little")


def _replaces(text: str) -> bool:
    words = text.upper().split(maxsplit=3)
    return words[:3] == ["CREATE", "OR", "REPLACE"]
