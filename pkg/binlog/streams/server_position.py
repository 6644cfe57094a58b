"""The position at which a server's binlog ends."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.binlog.position import Location, Position
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query, variable


def master_status(conn: Connection[Any], flavor: str) -> Location | None:
    """Where the server's binlog ends, with its executed GTID set; None when the server writes no binlog."""
    row = _status_row(conn)
    if row is None:
        return None
    if flavor == "mariadb":
        gtid = variable(conn, "gtid_binlog_pos") or ""
    else:
        gtid = str(row[4]).replace("\n", "") if len(row) > 4 and row[4] else ""
    return Location(Position(str(row[0]), int(row[1])), gtid)


def binlog_filters(conn: Connection[Any]) -> str:
    """The schemas that the server's binlog is limited to, or leaves out; '' where it has all of them."""
    row = _status_row(conn) or ()
    named = zip(("binlog_do_db", "binlog_ignore_db"), row[2:4], strict=False)
    return ", ".join(f"{name}={value}" for name, value in named if value)


def _status_row(conn: Connection[Any]) -> tuple[Any, ...] | None:
    try:
        rows = query(conn, "SHOW MASTER STATUS")
    except pymysql.Error as exc:
        if error_number(exc) != 1064:  # MySQL 8.4 knows only the new syntax
            raise
        rows = query(conn, "SHOW BINARY LOG STATUS")
    return rows[0] if rows else None
