"""Which logged statements invalidate a dump. Pure.

A session of a dump finds each table by its name when it reads it, long after its snapshot began. Another table may have
got that name, and the server then returns that table's rows of the snapshot. Replication starts at the
snapshot and executes the same statement again: rows are lost or doubled.

A session that reads a table holds its metadata lock, and DDL writes its event while it holds that lock exclusively. So
the end of the binlog, queried under the lock, shows which DDL on that table came before the read and which after:
the latter is harmless, because replication executes it on rows from before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pkg import ddl
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Position
from pkg.ddl import DDLStatement
from pkg.ddl.sql_modes import sql_mode_text
from pkg.errors import DMError
from pkg.mysql.names import TableId

#: They control a transaction, regardless of its rows.
_CONTROL = frozenset({b"BEGIN", b"COMMIT"})
_OF_A_SCHEMA = frozenset({"create database", "alter database", "drop database"})
_UNKNOWN = "\ufffd"


@dataclass(frozen=True, slots=True)
class LoggedDDL:
    """A statement of the binlog, which ends at ``end``. Names are in lower case: servers that distinguish tables by
    case alone are rare, and a wrong match only causes another dump.

    ``tables`` are those whose rows or structure it changes, ``schema`` the one that it creates, alters or drops, as
    written.
    ``parsed`` is False for a statement that is not understood: it may affect each table whose name is in its text.
    """

    sql: str
    end: Position
    tables: frozenset[TableId] = frozenset()
    schema: str = ""
    drops_schema: bool = False
    parsed: bool = True


def logged_ddl(query: QueryEvent, end: Position, flavor: str, version: tuple[int, int, int]) -> LoggedDDL | None:
    """The statement of a QUERY event; None for one that changes no table's name, rows or structure as a whole."""
    if query.statement.strip().upper() in _CONTROL:
        return None
    sql = query.outline
    try:
        sql = query.sql
        mode = sql_mode_text(query.sql_mode)
        if ddl.classify(sql, sql_mode=mode, flavor=flavor) != "ddl":
            return None
        parsed = ddl.parse(sql, sql_mode=mode, default_schema=query.schema, flavor=flavor, version=version)
    except DMError:
        return LoggedDDL(sql, end, parsed=False)
    return _of(parsed, end)


def _of(statement: DDLStatement, end: Position) -> LoggedDDL | None:
    tables = frozenset((schema.lower(), table.lower()) for schema, table in statement.tables)
    if statement.kind in _OF_A_SCHEMA:
        return LoggedDDL(statement.sql, end, schema=statement.tables[0][0], drops_schema=statement.kind[:4] == "drop")
    # A dumped table exists, unless another statement drops it, and then this one finds nothing to do.
    if statement.kind == "skip" or (statement.kind == "create table" and statement.if_not_exists):
        return None
    return LoggedDDL(statement.sql, end, tables)


class ReadTables:
    """The tables of a dump, which has its snapshot at ``snapshot``; each of its sessions has read them ``until`` some
    position of the binlog.

    ``copies_schema``: whether the dump creates the schema of that name at the target.
    """

    def __init__(
        self,
        snapshot: Position,
        until: Iterable[Mapping[TableId, Position]],
        copies_schema: Callable[[str], bool],
    ) -> None:
        self._snapshot = snapshot
        self._copies_schema = copies_schema
        self._until: dict[TableId, Position] = {}
        for (schema, table), position in (item for read in until for item in read.items()):
            name = (schema.lower(), table.lower())
            self._until[name] = max(self._until.get(name, position), position, key=Position.sort_key)

    @property
    def end(self) -> Position:
        """The last relevant position in the binlog."""
        return max((self._snapshot, *self._until.values()), key=Position.sort_key)

    def mixed_by(self, statement: LoggedDDL) -> str:
        """What the statement invalidates, as a message; '' when the dump and replication fit together."""
        if statement.end <= self._snapshot:
            # The file of a database was written before, and replication starts after.
            copied = statement.schema and self._copies_schema(statement.schema)
            return f"database {statement.schema}" if copied else ""
        for name in self._named(statement):
            if statement.end <= self._until[name]:
                return f"table {name[0]}.{name[1]}"
        return ""

    def _named(self, statement: LoggedDDL) -> Iterable[TableId]:
        if not statement.parsed:
            return (name for name in self._until if _may_name(statement.sql, name))
        if statement.drops_schema:
            return (name for name in self._until if name[0] == statement.schema.lower())
        return (name for name in sorted(statement.tables) if name in self._until)


def _may_name(sql: str, name: TableId) -> bool:
    text = sql.lower().replace("``", "`")
    return not text or _UNKNOWN in text or name[1] in text
