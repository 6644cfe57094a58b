"""Ends a connection that an earlier run left open at the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.connection import error_text
from pkg.mysql.introspect import query
from pkg.process.log import Logger


def end_connection(
    conn: Connection[Any], connection: int, log: Logger, *, passes_on: Callable[[BaseException], bool]
) -> None:
    """Kills the connection with this number. A refusal is only logged: the connection has ended by itself, or belongs
    to another user, and the locks that it holds show that next.

    Raises the driver's exceptions that ``passes_on`` names: they concern ``conn``.
    """
    try:
        query(conn, f"KILL {connection}")
    except pymysql.Error as exc:
        if passes_on(exc):
            raise
        log.warning("cannot end a connection at the target", connection=connection, error=error_text(exc))
