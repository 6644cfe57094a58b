"""``<task>_diff_state`` in the target's meta schema: a comparison, its tables and chunks, so that it survives restarts.
``<task>_sweep_state`` has the same of the validation's sweep.

One row per chunk that is done, one per chunk that is repaired (:mod:`repair_notes`), one per table with its chunks
(number -1), and one per comparison (no table, number -1).
``run`` identifies the comparison: a late write of an earlier one is never read as part of a later one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pymysql

from dm_worker.diff.progress import ChunkRepair, ChunkWork, ComparedChunk, DiffProgress, TableProgress
from dm_worker.diff.repair_notes import RepairNotes, repaired_chunk
from dm_worker.syncer.checkpoint.meta_connection import SMALL_KEYS, MetaConnection, MetaTransactions
from pkg.config.model import SubTaskConfig
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified, quote

_MISSING = frozenset({1049, 1146})
#: The number of a table's own row, and the name of the comparison's.
WHOLE_TABLE = -1
NO_TABLE: TableId = ("", "")
#: All sources begin within this many seconds.
_BEGIN_SECONDS = 60.0
#: Seconds of lag above which a sweep waits.
MOST_LAG = 10
RUNNING, FINISHED, STOPPED = "Running", "Finished", "Stopped"
#: The suffixes of the tables' names.
DIFF_TABLE, SWEEP_TABLE = "diff_state", "sweep_state"


@dataclass(frozen=True, slots=True)
class DiffSettings:
    """What an operator asked for. ``sources``: those that take part. ``tables``: patterns of target tables, all without
    any. ``sample``: the share of the chunks in percent, 0 for all. ``redact``: no values of rows in files. ``repair``:
    rows that differ get the upstream's values. ``rows_per_second``: it rests between short jobs, as a sweep does.
    ``chunk_rows``: the most rows of a chunk. Zeros: the worker chooses, or no limit."""

    sources: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    sample: float = 0.0
    lock: bool = False
    redact: bool = False
    repair: bool = False
    threads: int = 0
    bytes_per_second: int = 0
    most_lag: int = 0
    rows_per_second: int = 0
    chunk_rows: int = 0

    @property
    def is_sweep(self) -> bool:
        return self.rows_per_second > 0

    @classmethod
    def of_sweep(cls, sources: tuple[str, ...], rows_per_second: int) -> DiffSettings:
        return cls(sources, threads=1, most_lag=MOST_LAG, rows_per_second=rows_per_second)


@dataclass(frozen=True, slots=True)
class DiffRecord:
    """A comparison as a whole; ``run`` is the same on all of its sources. ``begun``: unix seconds. ``whole``: how many
    seconds it took; of a sweep that is not finished, its last whole round."""

    run: str
    begun: float
    stage: str
    settings: DiffSettings
    whole: float = 0.0

    def at(self, stage: str) -> DiffRecord:
        return replace(self, stage=stage)


class DiffStateTable:
    """The rows of one source. Each method is a transaction of its own, tried again until ``should_stop`` is true.
    Raises DMError."""

    def __init__(self, cfg: SubTaskConfig, should_stop: Callable[[], bool], what: str = DIFF_TABLE) -> None:
        self._schema = cfg.meta_schema
        self._source = cfg.source_id
        self.name = qualified(cfg.meta_schema, f"{cfg.name}_{what}")
        self._transactions = MetaTransactions(cfg.to, self.name, should_stop)

    def close(self) -> None:
        self._transactions.close()

    def replace(self, record: DiffRecord) -> None:
        """Replaces an earlier comparison by a new one."""

        def write(conn: MetaConnection) -> None:
            query(conn, f"CREATE DATABASE IF NOT EXISTS {quote(self._schema)}")
            query(
                conn,
                f"CREATE TABLE IF NOT EXISTS {self.name} (id VARCHAR(32) NOT NULL, run VARCHAR(32) NOT NULL,"
                " target_schema VARCHAR(64) NOT NULL, target_table VARCHAR(64) NOT NULL, chunk INT NOT NULL,"
                " detail LONGTEXT CHARACTER SET utf8mb4 NOT NULL,"
                " update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
                f" PRIMARY KEY (id, run, target_schema, target_table, chunk)){SMALL_KEYS}",
            )
            query(conn, f"DELETE FROM {self.name} WHERE id = %s", (self._source,))
            self._put(conn, record.run, NO_TABLE, WHOLE_TABLE, asdict(record))

        self._transactions.run(write)

    def note(self, record: DiffRecord) -> None:
        """Stores the comparison's new stage."""
        self._transactions.run(lambda conn: self._put(conn, record.run, NO_TABLE, WHOLE_TABLE, asdict(record)))

    def note_table(self, run: str, table: TableProgress) -> None:
        """Stores the table with its chunks, or why it is not compared."""
        self._transactions.run(lambda conn: self._put(conn, run, table.target, WHOLE_TABLE, table_detail(table)))

    def note_chunk(self, run: str, target: TableId, number: int, chunk: ComparedChunk) -> None:
        self._transactions.run(lambda conn: self._put(conn, run, target, number, chunk.to_data()))

    def forget_chunks(self, run: str, chunks: Iterable[ChunkWork]) -> None:
        """Removes the results of these chunks."""

        def delete(conn: MetaConnection) -> None:
            with conn.cursor() as cursor:
                cursor.executemany(
                    f"DELETE FROM {self.name} WHERE id = %s AND run = %s AND target_schema = %s AND target_table = %s"
                    " AND chunk = %s",
                    [(self._source, run, *chunk.target, chunk.number) for chunk in chunks],
                )

        self._transactions.run(delete)

    def repair_notes(self, run: str) -> RepairNotes:
        """For the transactions that repair."""
        return RepairNotes(self.name, self._source, run)

    def plan_repairs(self, run: str, planned: Mapping[ChunkWork, tuple[int, int]]) -> None:
        """Notes that these chunks are about to be repaired; their differences end there in the files."""
        self._transactions.run(lambda conn: self.repair_notes(run).plan(conn, planned))

    def read_repairs(self, run: str) -> dict[TableId, dict[int, ChunkRepair]]:
        return self._transactions.run(self.repair_notes(run).read)

    def others_run(self, record: DiffRecord) -> bool:
        """Whether another source of this comparison is not done: it may need this source's position."""

        def stages(conn: MetaConnection) -> set[str]:
            sql = f"SELECT detail FROM {self.name} WHERE id <> %s AND run = %s AND target_schema = '' AND chunk = -1"
            found = [json.loads(text)["stage"] for (text,) in query(conn, sql, (self._source, record.run))]
            # A source without a row may be about to begin.
            missing = len(record.settings.sources) - 1 > len(found) and time.time() - record.begun < _BEGIN_SECONDS
            return {*found, *([RUNNING] if missing else [])}

        return RUNNING in self._transactions.run(stages)

    def read(self) -> tuple[DiffRecord, DiffProgress] | None:
        """The comparison and its results; None if none was started."""

        def found(conn: MetaConnection) -> list[tuple[Any, ...]]:
            sql = f"SELECT run, target_schema, target_table, chunk, detail FROM {self.name} WHERE id = %s"
            try:
                return query(conn, f"{sql} ORDER BY target_schema, target_table, chunk, update_time", (self._source,))
            except pymysql.Error as exc:
                if error_number(exc) in _MISSING:
                    return []
                raise

        return restored([(str(run), (str(s), str(t)), int(n), json.loads(text)) for run, s, t, n, text in
                         self._transactions.run(found)])  # fmt: skip

    def remove(self) -> None:
        """Deletes the source's comparison. The table may be missing."""

        def delete(conn: MetaConnection) -> None:
            try:
                query(conn, f"DELETE FROM {self.name} WHERE id = %s", (self._source,))
            except pymysql.Error as exc:
                if error_number(exc) not in _MISSING:
                    raise

        self._transactions.run(delete)

    def _put(self, conn: MetaConnection, run: str, target: TableId, number: int, detail: object) -> None:
        query(
            conn,
            f"INSERT INTO {self.name} (id, run, target_schema, target_table, chunk, detail)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE detail = VALUES(detail)",
            (self._source, run, *target, number, json.dumps(detail)),
        )


def table_detail(table: TableProgress) -> dict[str, Any]:
    """A table's own state, without the results of its chunks; :func:`restored` reads it."""
    return {
        "sources": table.sources,
        "total_rows": table.total_rows,
        "planned": table.planned,
        "spans": table.spans,
        "reason": table.reason,
        "outline": table.outline,
        "unjudged": table.unjudged,
        "first": table.first,
    }


def restored(rows: list[tuple[str, TableId, int, dict[str, Any]]]) -> tuple[DiffRecord, DiffProgress] | None:
    """The comparison that the rows describe; rows of another run do not count."""
    record = next((_record(detail) for _, target, _, detail in rows if target == NO_TABLE), None)
    if record is None:
        return None
    tables: dict[TableId, TableProgress] = {}
    # Those of tables come before those of their chunks.
    for run, target, number, detail in sorted(rows, key=lambda row: row[2] != WHOLE_TABLE):
        if run != record.run or target == NO_TABLE:
            continue
        if number == WHOLE_TABLE:
            tables[target] = _table(target, detail)
        elif target in tables and number < WHOLE_TABLE:
            tables[target].repairs[repaired_chunk(number)] = ChunkRepair.from_data(detail)
        elif target in tables:
            tables[target].done[number] = ComparedChunk.from_data(detail)
    return record, DiffProgress(tables.values())


def _record(detail: dict[str, Any]) -> DiffRecord:
    settings = detail["settings"]
    names = {name: tuple(settings[name]) for name in ("sources", "tables")}
    # An earlier version stored no such time.
    whole = float(detail.get("whole", 0.0))
    return DiffRecord(detail["run"], detail["begun"], detail["stage"], DiffSettings(**(settings | names)), whole)


def _table(target: TableId, detail: dict[str, Any]) -> TableProgress:
    spans = detail["spans"]
    return TableProgress(
        target,
        tuple(detail["sources"]),
        int(detail["total_rows"]),
        int(detail["planned"]),
        None if spans is None else {int(number): str(span) for number, span in spans.items()},
        reason=str(detail["reason"]),
        # An earlier version stored none of them: the table is planned again.
        outline=str(detail.get("outline", "")),
        unjudged=str(detail.get("unjudged", "")),
        first=int(detail.get("first", 0)),
    )
