"""The sessions that read tables: they see the same values under all settings of a server."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.connection import Scope, connect, error_number
from pkg.mysql.introspect import query
from pkg.settings.connections import DBConfig

#: A scan with a filter may take long to find its first row.
_READ_TIMEOUT = 3600.0
_PRIVILEGE_NEEDED = 1227


def open_session(server: DBConfig, scope: Scope = "upstream") -> Connection[Any]:
    """A session that reads every value the same way under all settings of the server. Raises DMError 10001."""
    conn = connect(
        server,
        scope=scope,
        session={"time_zone": "+00:00", "sql_mode": "", "net_write_timeout": "3600"},
        read_timeout=_READ_TIMEOUT,
    )
    conn.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if "mariadb" in str(query(conn, "SELECT VERSION()")[0][0]).lower():
        conn.query("SET SESSION max_statement_time = 0")
        _keep_off_binlog(conn)
    return conn


def _keep_off_binlog(conn: Connection[Any]) -> None:
    """Such a session writes nothing. While a MariaDB could log for one, a rollback to its savepoint keeps metadata
    locks: DDL on a table then waits for the end of the reads, and all other sessions wait for the DDL."""
    try:
        conn.query("SET SESSION sql_log_bin = 0")
    except pymysql.Error as exc:
        if error_number(exc) != _PRIVILEGE_NEEDED:
            raise
