"""``<task>_validator_target`` in the meta schema: up to where the target's binlog was read for foreign writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dm_worker.syncer.checkpoint.meta_connection import SMALL_KEYS, MetaConnection, MetaTransactions
from pkg.binlog.position import FileIdentity, Position, stored_identity
from pkg.config.model import SubTaskConfig
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified, quote


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """All writes before ``position`` are compared. ``file``: which file of that name it is. ``rows``: how many
    changes of the task's rows others have made. ``gap``: what was not read, until a round of the sweep has compared
    it."""

    position: Position
    file: FileIdentity | None = None
    rows: int = 0
    gap: str = ""


class ReadProgressTable:
    """The row of one source. Methods raise DMError; one attempt only, the caller tries again."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._source = cfg.source_id
        self._schema = cfg.meta_schema
        self._name = qualified(cfg.meta_schema, f"{cfg.name}_validator_target")
        self._transactions = MetaTransactions(cfg.to, self._name, lambda: True)

    def read(self) -> ReadProgress | None:
        """Creates the table if it is missing."""

        def work(conn: MetaConnection) -> list[tuple[Any, ...]]:
            query(conn, f"CREATE DATABASE IF NOT EXISTS {quote(self._schema)}")
            query(
                conn,
                f"CREATE TABLE IF NOT EXISTS {self._name} (id VARCHAR(32) NOT NULL PRIMARY KEY, binlog_name"
                " VARCHAR(255) NOT NULL, binlog_pos BIGINT UNSIGNED NOT NULL, detail LONGTEXT CHARACTER SET utf8mb4"
                f" NOT NULL, update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP){SMALL_KEYS}",
            )
            sql = f"SELECT binlog_name, binlog_pos, detail FROM {self._name} WHERE id = %s"
            return query(conn, sql, (self._source,))

        self._transactions.drop_lost()
        rows = self._transactions.run(work)
        if not rows:
            return None
        name, pos, detail = str(rows[0][0]), int(rows[0][1]), str(rows[0][2])
        stored = json.loads(detail)
        file = stored_identity(stored["file"], name)
        return ReadProgress(Position(name, pos), file, stored["rows"], stored["gap"])

    def write(self, progress: ReadProgress) -> None:
        detail = json.dumps({
            "file": progress.file.stored() if progress.file is not None else "",
            "rows": progress.rows,
            "gap": progress.gap,
        })  # fmt: skip
        sql = f"REPLACE INTO {self._name} (id, binlog_name, binlog_pos, detail) VALUES (%s, %s, %s, %s)"
        args = (self._source, progress.position.name, progress.position.pos, detail)
        self._transactions.drop_lost()
        self._transactions.run(lambda conn: query(conn, sql, args))

    def close(self) -> None:
        self._transactions.close()
