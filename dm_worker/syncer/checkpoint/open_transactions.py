"""Ends the transactions that processes of an earlier run left open on the meta tables' rows.

A frozen process, or one without a network, holds its rows for hours, and a takeover would wait for them. Each of our
transactions first changes its batch or marker row and records its connection there. A reader of the uncommitted row
learns which connection holds it.
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
    """Ends those that changed rows of ``source`` in the tables: their epoch is over, so they could only fail.

    Raises DMError and driver errors.
    """
    # The columns that differ between two changes of a row, and from a takeover, which only raises the epoch.
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
        return set()  # a server that shows only committed rows: TiDB
    written = set(query(conn, f"{sql} WHERE id = %s", (source,)))
    query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return {int(row[0]) for row in written - set(query(conn, f"{sql} WHERE id = %s", (source,))) if row[0]}
