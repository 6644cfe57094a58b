"""The validator's tables in the meta schema, with DM's names: progress, errors, and the state of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from dm_worker.syncer.checkpoint.meta_connection import (
    ANY_TEXT,
    SMALL_KEYS,
    MetaConnection,
    MetaTransactions,
    T,
    stored_location,
)
from dm_worker.syncer.figures.batch_report import Changes
from dm_worker.validator.cutover import Cutover
from dm_worker.validator.differences import RowMismatch
from dm_worker.validator.verdicts import RowError
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified, quote

#: A longer key is stored as its digest; the whole key is in ``data``.
_LONGEST_KEY = 255
_NOW = "update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"


NO_CUTOVER = Cutover()


@dataclass(frozen=True, slots=True)
class Progress:
    """All up to ``location`` is compared. ``processed``: row changes by operation; ``notes``: what was left out;
    ``cutover``: where the application switches over."""

    location: Location
    processed: Changes
    notes: tuple[str, ...] = ()
    cutover: Cutover = NO_CUTOVER


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of an upstream table and its target; ``stage`` is Running or Stopped."""

    source: TableId
    target: TableId
    stage: str
    message: str


class ValidatorStore:
    """The rows of one source. Methods raise DMError."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._source = cfg.source_id
        self._schema = cfg.meta_schema
        self._checkpoint, self._errors, self._tables = (
            qualified(cfg.meta_schema, f"{cfg.name}_validator_{what}")
            for what in ("checkpoint", "error_change", "table_status")
        )
        self._transactions = MetaTransactions(cfg.to, self._checkpoint, lambda: True)

    def prepare(self) -> None:
        """Creates the tables where they are missing."""
        source = "source VARCHAR(32) NOT NULL"

        def create(conn: MetaConnection) -> None:
            query(conn, f"CREATE DATABASE IF NOT EXISTS {quote(self._schema)}")
            query(
                conn,
                f"CREATE TABLE IF NOT EXISTS {self._checkpoint} (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,"
                f" {source}, binlog_name VARCHAR(128), binlog_pos BIGINT UNSIGNED, binlog_gtid LONGTEXT,"
                " procd_ins BIGINT UNSIGNED NOT NULL, procd_upd BIGINT UNSIGNED NOT NULL,"
                " procd_del BIGINT UNSIGNED NOT NULL, notes LONGTEXT, cutover_pos LONGTEXT, cutover_gtid LONGTEXT,"
                f" create_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP, {_NOW},"
                f" UNIQUE KEY (source)){ANY_TEXT}",
            )
            query(
                conn,
                f"CREATE TABLE IF NOT EXISTS {self._errors} (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, {source},"
                " src_schema_name VARCHAR(128) NOT NULL, src_table_name VARCHAR(128) NOT NULL,"
                f" row_pk VARCHAR({_LONGEST_KEY}) NOT NULL, dst_schema_name VARCHAR(128) NOT NULL,"
                " dst_table_name VARCHAR(128) NOT NULL, data LONGTEXT CHARACTER SET utf8mb4,"
                " dst_data LONGTEXT CHARACTER SET utf8mb4, error_type INT NOT NULL, status INT NOT NULL,"
                " times BIGINT UNSIGNED NOT NULL, row_check LONGBLOB, hidden BOOLEAN NOT NULL,"
                f" found_time VARCHAR(64) NOT NULL, {_NOW},"
                f" KEY (source)){SMALL_KEYS}",
            )
            query(
                conn,
                f"CREATE TABLE IF NOT EXISTS {self._tables} ({source}, src_schema_name VARCHAR(128) NOT NULL,"
                " src_table_name VARCHAR(128) NOT NULL, dst_schema_name VARCHAR(128) NOT NULL,"
                " dst_table_name VARCHAR(128) NOT NULL, stage VARCHAR(32) NOT NULL,"
                f" message VARCHAR(512) CHARACTER SET utf8mb4, {_NOW},"
                f" PRIMARY KEY (source, src_schema_name, src_table_name)){SMALL_KEYS}",
            )

        self._run(create)

    def progress(self) -> Progress | None:
        """What was stored last."""
        rows = self._run(
            lambda conn: query(
                conn,
                "SELECT binlog_name, binlog_pos, binlog_gtid, procd_ins, procd_upd, procd_del, notes, cutover_pos,"
                " cutover_gtid"
                f" FROM {self._checkpoint} WHERE source = %s",
                (self._source,),
            )
        )
        if not rows:
            return None
        name, pos, gtid, inserts, updates, deletes, notes, *cutover = rows[0]
        location = stored_location(name, pos, gtid)
        processed = int(inserts), int(updates), int(deletes)
        return Progress(location, processed, tuple(json.loads(notes)), Cutover(*map(str, cutover)))

    def errors(self) -> list[RowError]:
        """All stored errors."""
        rows = self._run(
            lambda conn: query(
                conn,
                "SELECT id, src_schema_name, src_table_name, dst_schema_name, dst_table_name, data, dst_data,"
                f" error_type, status, times, row_check, hidden, found_time FROM {self._errors} WHERE source = %s",
                (self._source,),
            )
        )
        return [_error(row) for row in rows]

    def write(
        self,
        progress: Progress,
        changed: Iterable[RowError],
        cleared: Sequence[int],
        tables: Iterable[TableState],
    ) -> list[RowError]:
        """Stores all in one transaction. Returns ``changed``, new errors with their number: it is unique among all
        sources of the task."""
        found, states = list(changed), list(tables)

        def store(conn: MetaConnection) -> list[RowError]:
            at = progress.location
            names = (
                "binlog_name, binlog_pos, binlog_gtid, procd_ins, procd_upd, procd_del, notes, cutover_pos,"
                " cutover_gtid"
            )
            args = (
                self._source, at.position.name, at.position.pos, at.gtid_set, *progress.processed,
                json.dumps(progress.notes), progress.cutover.position, progress.cutover.gtid_set,
            )  # fmt: skip
            assigned = ", ".join(f"{name} = VALUES({name})" for name in names.split(", "))
            query(
                conn,
                f"INSERT INTO {self._checkpoint} (source, {names}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                f" ON DUPLICATE KEY UPDATE {assigned}",
                args,
            )
            with conn.cursor() as cursor:
                cursor.executemany(
                    f"DELETE FROM {self._errors} WHERE source = %s AND id = %s",
                    [(self._source, number) for number in cleared],
                )
                numbered = [self._put(cursor, error) for error in found]
                cursor.executemany(
                    f"REPLACE INTO {self._tables} (source, src_schema_name, src_table_name, dst_schema_name,"
                    " dst_table_name, stage, message) VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    [
                        (self._source, *state.source, *state.target, state.stage, state.message[:512])
                        for state in states
                    ],
                )
            return numbered

        return self._run(store)

    def _put(self, cursor: Any, error: RowError) -> RowError:
        cursor.execute(
            f"REPLACE INTO {self._errors} (id, source, src_schema_name, src_table_name, dst_schema_name,"
            " dst_table_name, row_pk, data, dst_data, error_type, status, times, row_check, hidden, found_time)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (error.number or None, self._source, *_values(error)),
        )
        return error if error.number else replace(error, number=int(cursor.lastrowid))

    def _run(self, work: Callable[[MetaConnection], T]) -> T:
        """Once: an operator waits for it, and the validator itself tries again."""
        self._transactions.drop_lost()
        return self._transactions.run(work)

    def close(self) -> None:
        self._transactions.close()


def _stored_key(key: bytes) -> str:
    text = key.decode("utf-8", "backslashreplace")
    if len(text) <= _LONGEST_KEY and text.isascii():
        return text
    return "digest " + blake2b(key, digest_size=32).hexdigest()


def _values(error: RowError) -> tuple[Any, ...]:
    one = error.difference
    data = json.dumps({"key": one.key.hex(), "row": one.expected, "swept": one.swept})
    return (
        *one.source, *one.target, _stored_key(one.key), data, one.found, one.kind, error.status,
        error.times, one.check, error.hidden, error.time,
    )  # fmt: skip


def _error(row: tuple[Any, ...]) -> RowError:
    number, *names, data, found, kind, status, times, check, hidden, time = row
    source, target = (str(names[0]), str(names[1])), (str(names[2]), str(names[3]))
    stored = json.loads(data)
    # An earlier version had no sweep.
    swept = str(stored.get("swept", ""))
    difference = RowMismatch(
        target, source, bytes.fromhex(stored["key"]), int(kind), stored["row"], str(found), bytes(check), swept
    )
    return RowError(int(number), difference, int(status), int(times), bool(hidden), str(time))
