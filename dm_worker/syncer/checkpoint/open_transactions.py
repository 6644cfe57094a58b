"""Ends the transactions that processes of an earlier run have left open on the meta tables' rows.

A process that is frozen, or behind a link that is down, holds its rows for hours, and whoever takes over would wait for
them. Each of our transactions first changes its batch or marker row and notes its connection there. Whoever
reads it before it is committed learns which connection holds the row now.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.end_connection import end_connection
from pkg.mysql.connection import connect, is_lost
from pkg.mysql.introspect import query
from pkg.process.log import get_logger
from pkg.settings.connections import DBConfig

log = get_logger("syncer.frozen")


def end_open_transactions(cfg: DBConfig, source: str, *, batches: str, markers: str) -> None:
    """Ends those that have changed rows of ``source`` in the tables: their epoch is over, so they could only fail.

    Raises DMError, and what the driver raises.
    """
    # The columns by which one change of a row differs from the next, and from a takeover that only raises the epoch.
    questions = (f"SELECT connection, writes FROM {batches}", f"SELECT connection, batch, bucket FROM {markers}")
    with closing(connect(cfg, scope="downstream")) as conn:
        for connection in sorted({found for sql in questions for found in _holders(conn, sql, source)}):
            log.info("ending an open transaction of an earlier run", connection=connection)
            end_connection(conn, connection, log, passes_on=is_lost)


def _holders(conn: Connection[Any], sql: str, source: str) -> set[int]:
    """The connections whose changes of rows are not committed."""
    try:
        query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    except pymysql.Error as exc:
        if is_lost(exc):
            raise
        return set()  # a server that shows only what is committed: TiDB
    written = set(query(conn, f"{sql} WHERE id = %s", (source,)))
    query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return {int(row[0]) for row in written - set(query(conn, f"{sql} WHERE id = %s", (source,))) if row[0]}
