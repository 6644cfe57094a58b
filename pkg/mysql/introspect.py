"""What a server tells of itself and its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.binlog.position import Location, Position
from pkg.mysql.connection import error_number
from pkg.mysql.names import SYSTEM_SCHEMAS
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

_UNKNOWN_VARIABLE = 1193


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """``flavor`` is mysql, mariadb or tidb; ``gtid_on`` tells whether replication by GTID is possible."""

    flavor: str
    version: tuple[int, int, int]
    version_text: str
    server_id: int
    server_uuid: str
    gtid_on: bool


def query(conn: Connection[Any], sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All rows of one statement."""
    with conn.cursor() as cursor:
        cursor.execute(sql, args or None)
        return list(cursor.fetchall())


def variable(conn: Connection[Any], name: str) -> str | None:
    """A global variable's value as text, None when this server has no such variable."""
    try:
        rows = query(conn, f"SELECT @@GLOBAL.{name}")
    except pymysql.Error as exc:
        if error_number(exc) == _UNKNOWN_VARIABLE:
            return None
        raise
    return None if rows[0][0] is None else str(rows[0][0])


def server_info(conn: Connection[Any]) -> ServerInfo:
    text = str(query(conn, "SELECT VERSION()")[0][0])
    flavor = "mariadb" if "mariadb" in text.lower() else "tidb" if "tidb" in text.lower() else "mysql"
    # Replication-prefixed MariaDB versions read 5.5.5-10.11.6-MariaDB.
    numbers = re.findall(r"(\d+)\.(\d+)\.(\d+)", text)
    major, minor, patch = numbers[1] if flavor == "mariadb" and len(numbers) > 1 else numbers[0]
    gtid = True if flavor == "mariadb" else (variable(conn, "gtid_mode") or "OFF").upper() == "ON"
    return ServerInfo(
        flavor=flavor,
        version=(int(major), int(minor), int(patch)),
        version_text=text,
        server_id=int(variable(conn, "server_id") or 0),
        server_uuid=(variable(conn, "server_uuid") or "") if flavor != "mariadb" else "",
        gtid_on=gtid,
    )


def master_status(conn: Connection[Any], flavor: str) -> Location | None:
    """Where the server's binlog ends, with its executed GTID set; None when it writes none."""
    try:
        rows = query(conn, "SHOW MASTER STATUS")
    except pymysql.Error as exc:
        if error_number(exc) != 1064:  # MySQL 8.4 knows only the new words
            raise
        rows = query(conn, "SHOW BINARY LOG STATUS")
    if not rows:
        return None
    row = rows[0]
    if flavor == "mariadb":
        gtid = variable(conn, "gtid_binlog_pos") or ""
    else:
        gtid = str(row[4]).replace("\n", "") if len(row) > 4 and row[4] else ""
    return Location(Position(str(row[0]), int(row[1])), gtid)


def list_schemas(conn: Connection[Any]) -> list[str]:
    """The schemas that could be migrated, sorted."""
    names = [str(row[0]) for row in query(conn, "SHOW DATABASES")]
    return sorted(name for name in names if name.lower() not in SYSTEM_SCHEMAS)


def list_tables(conn: Connection[Any], schema: str) -> list[str]:
    """The base tables of ``schema`` (no views), sorted."""
    rows = query(
        conn,
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'",
        (schema,),
    )
    return sorted(str(row[0]) for row in rows)


def fetch_table_info(conn: Connection[Any], schema: str, table: str) -> TableInfo | None:
    """The structure of a base table as the server has it now; None when there is no such table."""
    head = query(
        conn,
        "SELECT t.ENGINE, t.TABLE_COLLATION, c.CHARACTER_SET_NAME FROM information_schema.TABLES t"
        " LEFT JOIN information_schema.COLLATION_CHARACTER_SET_APPLICABILITY c ON c.COLLATION_NAME = t.TABLE_COLLATION"
        " WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s AND t.TABLE_TYPE = 'BASE TABLE'",
        (schema, table),
    )
    if not head:
        return None
    engine, collation, charset = (str(value or "") for value in head[0])
    return TableInfo(
        schema=schema,
        name=table,
        columns=_columns(conn, schema, table),
        indexes=_indexes(conn, schema, table),
        # MariaDB lists its newest collations there by a shorter name.
        charset=charset or collation.partition("_")[0],
        collation=collation,
        foreign_keys=_foreign_keys(conn, schema, table),
        engine=engine,
    )


def _columns(conn: Connection[Any], schema: str, table: str) -> tuple[Column, ...]:
    rows = query(
        conn,
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA,"
        " COLUMN_DEFAULT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " ORDER BY ORDINAL_POSITION",
        (schema, table),
    )
    return tuple(_column(*row) for row in rows)


def _column(name: str, data_type: str, column_type: str, nullable: str, *rest: Any) -> Column:
    charset, collation, extra, default = rest
    extra = str(extra or "").upper()
    generated = ""
    if "VIRTUAL" in extra:
        generated = "VIRTUAL"
    elif "STORED GENERATED" in extra or "PERSISTENT" in extra:
        generated = "STORED"
    column_type = str(column_type)
    return Column(
        name=str(name),
        type_name=str(data_type).lower(),
        column_type=column_type,
        nullable=nullable == "YES",
        unsigned="unsigned" in column_type.lower().split(")")[-1] or column_type.lower().endswith("unsigned"),
        charset=str(charset or ""),
        collation=str(collation or ""),
        generated=generated,
        auto_increment="AUTO_INCREMENT" in extra,
        invisible="INVISIBLE" in extra,
        default=None if default is None else str(default),
    )


def _indexes(conn: Connection[Any], schema: str, table: str) -> tuple[Index, ...]:
    rows = query(
        conn,
        "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        (schema, table),
    )
    parts: dict[str, list[IndexPart]] = {}
    unique: dict[str, bool] = {}
    for name, non_unique, column, length in rows:
        # A functional key part (MySQL 8) has no column name: such an index identifies no row for us.
        parts.setdefault(str(name), []).append(IndexPart(str(column or ""), int(length or 0)))
        unique[str(name)] = not int(non_unique)
    return tuple(Index(name, tuple(members), unique[name]) for name, members in parts.items())


def _foreign_keys(conn: Connection[Any], schema: str, table: str) -> tuple[tuple[str, str], ...]:
    rows = query(
        conn,
        "SELECT DISTINCT REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND REFERENCED_TABLE_NAME IS NOT NULL",
        (schema, table),
    )
    return tuple(sorted((str(ref_schema), str(ref_table)) for ref_schema, ref_table in rows))
