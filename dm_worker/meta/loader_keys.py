"""The keys that a load's tables get after their rows: table ``<task>_loader_keys`` in the meta schema.

A row is written before a table loses its keys, and removed when the table has them again. It belongs to the table, not
to a run or a source: sources whose shards are merged share it, and ``--remove-meta`` leaves it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.config.model import SubTaskConfig
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified

_MISSING = frozenset({1049, 1146})


def keys_table(meta_schema: str, task: str) -> str:
    return qualified(meta_schema, f"{task}_loader_keys")


class LoaderKeys:
    """The rows of one task, written for one source. Every method raises ``pymysql.Error``."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._source_id = cfg.source_id
        self._table = keys_table(cfg.meta_schema, cfg.name)

    def put(self, conn: Connection[Any], table: TableId, keys: Mapping[str, str]) -> None:
        """Records that the source has created ``table``, which gets ``keys`` (name → clause) later."""
        query(
            conn,
            f"CREATE TABLE IF NOT EXISTS {self._table} (target_schema VARBINARY(256) NOT NULL, target_table"
            " VARBINARY(256) NOT NULL, id VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, detail"
            " LONGTEXT CHARACTER SET utf8mb4 NOT NULL, PRIMARY KEY (target_schema, target_table)) ENGINE=InnoDB",
        )
        query(
            conn,
            f"REPLACE INTO {self._table} (target_schema, target_table, id, detail) VALUES (%s, %s, %s, %s)",
            (*table, self._source_id, json.dumps(list(keys.items()))),
        )

    def read(self, conn: Connection[Any]) -> dict[TableId, dict[str, str]]:
        """The keys of each table that gets keys later."""
        try:
            rows = query(conn, f"SELECT target_schema, target_table, detail FROM {self._table}")
        except pymysql.Error as exc:
            if error_number(exc) not in _MISSING:
                raise
            return {}
        return {(_text(schema), _text(table)): dict(json.loads(detail)) for schema, table, detail in rows}

    def remove(self, conn: Connection[Any], table: TableId, *, own: bool) -> None:
        """``own``: only the row of this source."""
        only, values = (" AND id = %s", (self._source_id,)) if own else ("", ())
        query(
            conn,
            f"DELETE FROM {self._table} WHERE target_schema = %s AND target_table = %s{only}",
            (*table, *values),
        )


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
