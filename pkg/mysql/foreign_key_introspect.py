"""Reads a server's foreign keys, and whether it enforces and logs them.

The source is information_schema, or SHOW CREATE TABLE: MariaDB's information_schema hides them from accounts with only
SELECT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import (
    ServerInfo,
    is_base_table,
    list_all_tables,
    query,
    show_create_if_there,
    variable,
)
from pkg.mysql.names import TableId
from pkg.mysql.schema import ForeignKey

_NAME = r'(?:`(?:[^`]|``)*`|"(?:[^"]|"")*")'
_NAMES = rf"\(({_NAME}(?:, ?{_NAME})*)\)"
_ACTION = r"(RESTRICT|CASCADE|SET NULL|SET DEFAULT|NO ACTION)"
_KEY = re.compile(
    rf"^\s*CONSTRAINT ({_NAME}) FOREIGN KEY {_NAMES} REFERENCES (?:({_NAME})\.)?({_NAME}) {_NAMES}"
    rf"(?: ON DELETE {_ACTION})?(?: ON UPDATE {_ACTION})?",
    re.MULTILINE,
)


def fetch_foreign_keys(conn: Connection[Any]) -> list[ForeignKey]:
    """All foreign keys that the server has, in a stable order."""
    rows = query(
        conn,
        "SELECT k.CONSTRAINT_SCHEMA, k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.COLUMN_NAME,"
        " k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME, r.UPDATE_RULE, r.DELETE_RULE"
        " FROM information_schema.KEY_COLUMN_USAGE k JOIN information_schema.REFERENTIAL_CONSTRAINTS r"
        " ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME"
        " AND r.TABLE_NAME = k.TABLE_NAME WHERE k.REFERENCED_TABLE_NAME IS NOT NULL"
        " ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION",
    )
    parts: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row in rows:
        parts.setdefault(tuple(map(str, row[:4])), []).append(tuple(map(str, row[4:])))
    return [
        ForeignKey(
            child=(names[1], names[2]),
            columns=tuple(part[0] for part in found),
            parent=(found[0][1], found[0][2]),
            parent_columns=tuple(part[3] for part in found),
            acts=any(_action(rule) for rule in found[0][4:]),
            actions=(_action(found[0][5]), _action(found[0][4])),
        )
        for names, found in parts.items()
    ]


def _action(rule: str) -> str:
    """A rule that changes rows; '' for rules that only refuse."""
    return "" if rule in ("RESTRICT", "NO ACTION") else rule


def enforces_foreign_keys(conn: Connection[Any], server: ServerInfo) -> bool:
    """Whether the server enforces foreign keys. TiDB always shows them, and enforces them from 6.6 on."""
    if server.flavor != "tidb":
        return True
    version = re.search(r"TiDB-v(\d+)\.(\d+)", server.version_text)
    enabled = (variable(conn, "tidb_enable_foreign_key") or "OFF").upper() in ("1", "ON")
    return enabled and version is not None and (int(version[1]), int(version[2])) >= (6, 6)


def logs_actions(conn: Connection[Any]) -> bool:
    """Whether the server logs the effects of foreign keys: MySQL from 9.6 on, unless InnoDB handles them as before."""
    return (variable(conn, "innodb_native_foreign_keys") or "ON").upper() in ("0", "OFF")


def shown_foreign_keys(conn: Connection[Any], tables: Iterable[TableId]) -> list[ForeignKey]:
    """The foreign keys of those of ``tables`` that exist. Raises pymysql.Error."""
    return [key for table in tables for key in keys_in(table, show_create_if_there(conn, *table))]


def shown_keys(conn: Connection[Any], table: TableId, *, listed: bool = False) -> list[ForeignKey] | None:
    """The foreign keys of a table; None if it is no existing base table. ``listed``: the server lists it as one.

    Raises pymysql.Error.
    """
    text = show_create_if_there(conn, *table)
    # In SHOW CREATE TABLE, sequences and system-versioned tables look the same.
    return keys_in(table, text) if text and (listed or is_base_table(conn, *table)) else None


def fetch_table_keys(conn: Connection[Any]) -> dict[TableId, list[ForeignKey]]:
    """All base tables that the server has, each with its foreign keys. Raises pymysql.Error."""
    found: dict[TableId, list[ForeignKey]] = {
        (schema, table): [] for schema, tables in list_all_tables(conn).items() for table in tables
    }
    for key in fetch_foreign_keys(conn):
        found.setdefault(key.child, []).append(key)
    return found


def keys_in(child: TableId, create: str) -> list[ForeignKey]:
    """The foreign keys in a table's definition from the server. Pure."""
    found = []
    for name, columns, schema, table, parent_columns, on_delete, on_update in _KEY.findall(create):
        actions = _action(on_delete), _action(on_update)
        found.append(
            ForeignKey(
                child=child,
                columns=_unquoted(columns),
                parent=(_unquoted(schema)[0] if schema else child[0], _unquoted(table)[0]),
                parent_columns=_unquoted(parent_columns),
                acts=any(actions),
                actions=actions,
                name=_unquoted(name)[0],
            )
        )
    return found


def _unquoted(names: str) -> tuple[str, ...]:
    return tuple(name[1:-1].replace(name[0] * 2, name[0]) for name in re.findall(_NAME, names))
