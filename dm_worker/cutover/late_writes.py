"""Finds writes to a task's tables in the binlog of its upstream. Pure, except for reading structures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dm_worker.cutover.opposite_task import OppositeTask
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.position import Position
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import TableMap, parse_rows_header, parse_table_map
from pkg.ddl.parser import classify, parse
from pkg.errors import DMError
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import Column

_KINDS = {c.OP_INSERT: "insert", c.OP_UPDATE: "update", c.OP_DELETE: "delete"}
_TRANSACTION_BEGINS = frozenset({c.GTID_EVENT, c.GTID_TAGGED_EVENT, c.MARIADB_GTID_EVENT, c.ANONYMOUS_GTID_EVENT})
_ColumnsOf = Callable[[str, str], Sequence[Column] | None]
#: SQL literals by column.
_ValuesByColumn = dict[str, str] | None


@dataclass(frozen=True, slots=True)
class LateWrite:
    """A row that was written, or a statement. ``before``, ``after``: SQL literals by column; None where there is none.
    ``note``: why the values are not known."""

    position: Position
    gtid: str
    timestamp: int
    server_id: int
    kind: str
    table: str
    before: dict[str, str] | None = None
    after: dict[str, str] | None = None
    statement: str = ""
    note: str = ""

    def to_line(self) -> str:
        shown = {
            "table": self.table,
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "statement": self.statement,
            "note": self.note,
        }
        head = {
            "position": str(self.position),
            "gtid": self.gtid,
            "timestamp": self.timestamp,
            "server-id": self.server_id,
        }
        return json.dumps({name: value for name, value in (head | shown).items() if value}, ensure_ascii=False)


class LateWrites:
    """Reads the events of one stream. ``takes``: whether the task migrates a table, or with '' anything of a schema;
    ``columns``: those of a table at present, None where it is not there, asked again after each statement;
    ``earlier``: those at the cutover, for rows that have others than the present ones. ``opposite``: the task that may
    write."""

    def __init__(
        self,
        start: Position,
        takes: Callable[[str, str], bool],
        columns: _ColumnsOf,
        earlier: _ColumnsOf,
        flavor: str,
        opposite: OppositeTask | None = None,
    ) -> None:
        self._takes = takes
        self._looks = (columns, earlier)
        self._flavor = flavor
        self._opposite = opposite
        self.position = start
        self._gtid = ""
        self._maps: dict[int, TableMap] = {}
        self._known: dict[tuple[_ColumnsOf, TableId], Sequence[Column] | None] = {}

    def find(self, events: Sequence[Event]) -> Iterator[LateWrite]:
        """The writes in these events, which continue those of the previous call. Raises 11071 for damaged events."""
        for event in events:
            yield from self._found(event)
            if event.type == c.ROTATE_EVENT:
                rotate = ev.parse_rotate(event, self.position.name)
                self.position = Position(rotate.file, rotate.position)
            else:
                self.position = Position(self.position.name, ev.end_position(self.position.pos, event))

    def _found(self, event: Event) -> Iterator[LateWrite]:
        file = self.position.name
        if event.type in _TRANSACTION_BEGINS:
            if self._opposite is not None:
                self._opposite.transaction_begins()
            self._gtid = "" if event.type == c.ANONYMOUS_GTID_EVENT else ev.parse_gtid(event, file).text
        elif event.type == c.FORMAT_DESCRIPTION_EVENT:
            if self._opposite is not None and ev.parse_format_description(event, file).created:
                self._opposite.server_started()
        elif event.type == c.TABLE_MAP_EVENT:
            table_map = parse_table_map(event, file)
            self._maps[table_map.table_id] = table_map
        elif event.is_rows:
            yield from self._rows(event)
        elif event.type in c.QUERY_EVENTS:
            statement = ev.parse_query(event, file)
            table = self._statement_of(statement)
            if table:
                self._known.clear()
            if table and not (self._opposite is not None and self._opposite.runs(statement)):
                yield self._write(event, "statement", table, statement=statement.outline)

    def _rows(self, event: Event) -> Iterator[LateWrite]:
        header = parse_rows_header(event, self.position.name)
        table_map = self._maps.get(header.table_id)
        if table_map is None:
            return
        if self._opposite is not None:
            self._opposite.rows(table_map, event, self.position.name)
            if self._opposite.writes:
                return
        if not self._takes(table_map.schema, table_map.table):
            return
        name, kind = qualified(table_map.schema, table_map.table), _KINDS[header.op]
        images, note = self._images(table_map, event)
        if note:
            yield self._write(event, kind, name, note=note)
        for before, after in images:
            yield self._write(event, kind, name, before=before, after=after)

    def _images(
        self, table_map: TableMap, event: Event
    ) -> tuple[Sequence[tuple[_ValuesByColumn, _ValuesByColumn]], str]:
        """Each row before and after, or why the values are not known."""
        notes = []
        for look in self._looks:
            columns = self._columns_of(look, (table_map.schema, table_map.table))
            if columns is None:
                continue
            names = [column.name for column in columns]
            try:
                images = RowDecoder(table_map, columns, key=(), write=()).images(event.data, self.position.name)
            except DMError as exc:
                notes.append(f"rows that can't be read: {exc.message}")
                continue
            return [(_row(names, before), _row(names, after)) for _, before, after in images], ""
        return (), next(iter(notes), "rows of a table that does not exist any more")

    def _columns_of(self, look: _ColumnsOf, table: TableId) -> Sequence[Column] | None:
        if (look, table) not in self._known:
            self._known[look, table] = look(*table)
        return self._known[look, table]

    def _statement_of(self, statement: ev.QueryEvent) -> str:
        """The table or schema of the task that a statement is about; '' for none. A statement that can't be parsed
        counts."""
        try:
            kind = classify(statement.sql, flavor=self._flavor)
            if kind in ("transaction", "skip"):
                return ""
            if kind == "dml":
                return f"a table, with the default schema {statement.schema!r}"
            tables = parse(statement.sql, default_schema=statement.schema, flavor=self._flavor).tables
        except DMError:
            return f"not understood, with the default schema {statement.schema!r}"
        return next((qualified(*each) if each[1] else each[0] for each in tables if self._takes(*each)), "")

    def _write(self, event: Event, kind: str, table: str, **more: object) -> LateWrite:
        return LateWrite(self.position, self._gtid, event.timestamp, event.server_id, kind, table, **more)  # type: ignore[arg-type]


def _row(names: Sequence[str], literals: Sequence[bytes] | None) -> _ValuesByColumn:
    if literals is None:
        return None
    return {name: literal.decode("utf-8", "backslashreplace") for name, literal in zip(names, literals, strict=True)}
