"""Which target tables have a DDL of merged shards that is not settled, as any session reads it.

Apart from :mod:`groups_table`, because Spark tasks read it, which must not load protobuf.
"""

from __future__ import annotations

import json
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified

_MISSING = frozenset({1146, 1049})


def groups_table_name(meta_schema: str, task: str) -> str:
    return qualified(meta_schema, f"{task}_syncer_sharding_meta")


def held_targets(session: Connection[Any], meta_schema: str, task: str, source: str) -> frozenset[TableId]:
    """The tables for which rows of ``source`` may be held back, in the session's snapshot. Raises ``pymysql.Error``."""
    sql = f"SELECT data FROM {groups_table_name(meta_schema, task)} WHERE source_id = %s AND is_global = 1"
    try:
        rows = query(session, sql, (source,))
    except pymysql.Error as exc:
        if error_number(exc) in _MISSING:
            return frozenset()
        raise
    return frozenset[TableId]().union(*(held_in(str(data)) for (data,) in rows))


def held_in(progress: str) -> frozenset[TableId]:
    """The tables that the common state of all groups names (:mod:`groups_snapshot` writes it)."""
    data = json.loads(progress)
    held = data.get("held", []) if isinstance(data, dict) else []
    return frozenset((str(schema), str(table)) for (schema, table), _ in held)
