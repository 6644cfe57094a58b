"""Tables into which rows are loaded while their dump still runs: their names, and their removal."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import query
from pkg.mysql.names import qualified

_PREFIX = "_dm_early_"
#: Of the digests in the names, which have at most 64 characters.
_DIGEST_BYTES = 6


def early_prefix(meta_schema: str, task: str, source_id: str = "") -> str:
    """What the names of the early tables of a task begin with, or of one of its sources."""
    prefix = f"{_PREFIX}{_digest(meta_schema, task)}_"
    return f"{prefix}{_digest(source_id)}_" if source_id else prefix


def drop_early_tables(conn: Connection[Any], prefix: str) -> None:
    """Drops all tables of the server whose names begin with ``prefix``. Raises ``pymysql.Error``."""
    sql = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE LEFT(TABLE_NAME, %s) = %s"
    for schema, name in query(conn, sql, (len(prefix), prefix)):
        query(conn, f"DROP TABLE IF EXISTS {qualified(str(schema), str(name))}")


def table_comment(conn: Connection[Any], schema: str, table: str) -> str | None:
    """A table's comment; None without the table. Raises ``pymysql.Error``."""
    sql = "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    rows = query(conn, sql, (schema, table))
    return str(rows[0][0]) if rows else None


def set_table_comment(conn: Connection[Any], schema: str, table: str, comment: str) -> None:
    """Raises ``pymysql.Error``."""
    query(conn, f"ALTER TABLE {qualified(schema, table).replace('%', '%%')} COMMENT = %s", (comment,))


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
