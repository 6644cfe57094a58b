"""A dump's Spark tasks: open one snapshot together, then take chunks until none is left.

Runs in Spark's Python workers. Errors are returned as values; a failed task stops the other tasks through a file.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection
from pyspark import BarrierTaskContext

from dm_worker.dumper.chunk_writer import ChunkWriter, schema_text
from dm_worker.dumper.file_names import table_file
from dm_worker.dumper.insert_statements import Statements, statements
from dm_worker.dumper.json_types import TypedDocuments
from dm_worker.dumper.options import DumpOptions
from dm_worker.dumper.session_values import otherwise_computed
from dm_worker.table_reads.chunks import Chunk, list_tables, shape_of
from dm_worker.table_reads.column_literals import ReadColumn
from dm_worker.table_reads.row_stream import stream
from dm_worker.table_reads.session import open_session
from dm_worker.table_reads.snapshot import DumpSnapshot, SnapshotRendezvous, end_of_binlog, join_snapshot, lead_snapshot
from pkg import errors
from pkg.binlog.position import Position
from pkg.errors import Code, DMError
from pkg.mysql import driver
from pkg.mysql.connection import classify, error_number
from pkg.mysql.introspect import fetch_table_info, query, show_create
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import ServerDefaults
from pkg.settings.connections import DBConfig

#: Rows and bytes so far, as one record that is overwritten in place.
PROGRESS = struct.Struct("<qq")
DONE = struct.Struct("<i")
STOP_FILE = "stop"
#: Seconds between two checks for the stop file.
_LOOK_SECONDS = 0.05
#: A table was changed or dropped after the snapshot.
_TABLE_CHANGED = frozenset({1412, 1146})


@dataclass(frozen=True, slots=True)
class DumpSpec:
    """The parameters of a task. ``folder`` is the work folder that all tasks and the driver share.

    ``collations_of`` is the server whose default collations the schema files write explicitly; None for no change.
    ``json_types``: the upstream returns the types of values in its JSON documents.
    """

    upstream: DBConfig
    options: DumpOptions
    rendezvous: SnapshotRendezvous
    chunks: tuple[Chunk, ...]
    folder: str
    collations_of: ServerDefaults | None = None
    json_types: bool = False


@dataclass(slots=True)
class TaskReport:
    """The result of a task; ``size`` are the bytes of the rows it received, ``sizes`` those of the files it wrote;
    ``read_until``: the binlog's end when it had read a table, while it still held the metadata lock; ``otherwise``:
    generated columns with values of another time zone (schema, table, column); ``snapshot`` is set by the leader."""

    index: int
    rows: int = 0
    size: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    read_until: dict[tuple[str, str], Position] = field(default_factory=dict)
    otherwise: set[tuple[str, str, str]] = field(default_factory=set)
    snapshot: DumpSnapshot | None = None
    error: DMError | None = None
    stopped: bool = False


class _Stopped(Exception):
    """The driver, or another task that failed, requested a stop."""


def run_dump_task(spec: DumpSpec, _partition: Iterator[Any]) -> Iterator[TaskReport]:
    """The body of a barrier task."""
    index = BarrierTaskContext.get().partitionId()
    if not claim(Path(spec.folder) / f"task.{index}"):
        # Spark repeats a barrier stage as a whole, but the snapshot was lost with the first attempt.
        lost = errors.new(Code.DumpUnitRuntime, "a task of the dump was lost, and its snapshot with it", retryable=True)
        yield TaskReport(index, error=lost)
        return
    yield DumpTask(spec, index).run()


def claim(path: Path) -> bool:
    """Takes a chunk; False if another task has it (creating a file is atomic) or the folder is gone."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except (FileExistsError, FileNotFoundError):
        return False
    return True


class DumpTask:
    """One connection of the dump."""

    def __init__(self, spec: DumpSpec, index: int) -> None:
        self._spec = spec
        self._folder = Path(spec.folder)
        self._stop_file = self._folder / STOP_FILE
        self._report = TaskReport(index)
        self._tables: dict[tuple[str, str], TableInfo] = {}
        self._looked = 0.0

    def run(self) -> TaskReport:
        report = self._report
        try:
            self._dump()
        except _Stopped:
            report.stopped = True
        except DMError as exc:
            report.error = exc
        except pymysql.Error as exc:
            report.error = classify(exc, scope="upstream")
        except OSError as exc:
            report.error = errors.new(
                Code.DumpUnitRuntime,
                f"cannot write the dump to {self._folder.parent}: {exc}",
                raw=exc,
                workaround="Check that the folder is writable and has space, then resume the task.",
            )
        if report.error is not None and self._folder.exists():
            self._stop_file.touch()
        return report

    def _should_stop(self) -> bool:
        return self._stop_file.exists() or not self._folder.exists()

    def _dump(self) -> None:
        index, spec = self._report.index, self._spec
        conn = open_session(spec.upstream)
        progress = os.open(self._folder / f"progress.{index}", os.O_CREAT | os.O_WRONLY)
        done = os.open(self._folder / f"done.{index}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            self._open_snapshot(conn)
            for number, chunk in enumerate(spec.chunks):
                if self._should_stop():
                    raise _Stopped
                if claim(self._folder / f"claim.{number}"):
                    self._dump_chunk(conn, chunk, progress)
                    os.write(done, DONE.pack(number))
        finally:
            os.close(progress)
            os.close(done)
            driver.drop(conn)  # a QUIT could wait behind unread rows

    def _open_snapshot(self, conn: Connection[Any]) -> None:
        spec, index = self._spec, self._report.index
        if index:
            join_snapshot(conn, spec.rendezvous, index, self._should_stop)
            return
        self._report.snapshot = lead_snapshot(
            conn, lambda: open_session(spec.upstream), spec.rendezvous, self._should_stop
        )
        tables = tuple((stat.schema, stat.table) for stat in list_tables(conn, spec.options.filter.allows))
        if tables != spec.rendezvous.tables:
            changed = sorted(set(tables) ^ set(spec.rendezvous.tables))
            raise errors.new(
                Code.DumpUnitRuntime,
                "tables were created or dropped while the dump began: "
                f"{', '.join('.'.join(name) for name in changed[:5])}",
                scope="upstream",
                workaround="Resume the task, and run no DDL on the upstream until the dump has begun.",
                retryable=True,
            )

    def _dump_chunk(self, conn: Connection[Any], chunk: Chunk, progress: int) -> None:
        name = qualified(chunk.schema, chunk.table)
        # A rollback to here releases the table's metadata lock, so that DDL on it need not wait for the whole dump.
        conn.query("SAVEPOINT dm_dump")
        try:
            info = self._table(conn, chunk)
            self._copy_rows(conn, chunk, info, progress)
            self._note_other_values(conn, chunk, info)
            meeting = self._spec.rendezvous
            end = end_of_binlog(conn, meeting.flavor, needed=meeting.needs_position)
            if end is not None:
                self._report.read_until[chunk.schema, chunk.table] = end.position
        except pymysql.Error as exc:
            raise self._explain(exc, name) from exc
        conn.query("ROLLBACK TO SAVEPOINT dm_dump")

    def _explain(self, exc: pymysql.Error, name: str) -> DMError:
        return (
            _changed(name, exc) if error_number(exc) in _TABLE_CHANGED else classify(exc, scope="upstream", table=name)
        )

    def _table(self, conn: Connection[Any], chunk: Chunk) -> TableInfo:
        """The structure of the snapshot's rows; the first chunk of a table also writes its schema file."""
        known = self._tables.get((chunk.schema, chunk.table))
        # Reading a row first fixes the structure. The server then refuses most changes since the snapshot, but
        # not those that rewrite no rows (instant ADD or DROP COLUMN): replication would read them a second time.
        query(conn, f"SELECT 1 FROM {qualified(chunk.schema, chunk.table)} LIMIT 1")
        created = show_create(conn, chunk.schema, chunk.table)
        if shape_of(created) != chunk.shape:
            raise _changed(qualified(chunk.schema, chunk.table))
        if chunk.number == 0:
            file_name = table_file(chunk.schema, chunk.table)
            text = schema_text(created, chunk.schema, self._spec.collations_of)
            (self._folder / file_name).write_bytes(text)
            self._report.sizes[file_name] = len(text)
        info = known or fetch_table_info(conn, chunk.schema, chunk.table)
        if info is None:
            raise errors.new(
                Code.DumpUnitRuntime, f"table {chunk.schema}.{chunk.table} does not exist any more", retryable=True
            )
        self._tables[chunk.schema, chunk.table] = info
        return info

    def _where(self, chunk: Chunk, *further: str) -> str:
        conditions = [f"({text})" for text in (chunk.condition, self._spec.options.where, *further) if text]
        return " WHERE " + " AND ".join(conditions) if conditions else ""

    def _note_other_values(self, conn: Connection[Any], chunk: Chunk, info: TableInfo) -> None:
        """Notes generated columns of which a row has another value than a session in UTC computes."""
        for column, differs in otherwise_computed(info):
            place = (chunk.schema, chunk.table, column)
            sql = f"SELECT 1 FROM {qualified(info.schema, info.name)}{self._where(chunk, differs)} LIMIT 1"
            if place not in self._report.otherwise and query(conn, sql):
                self._report.otherwise.add(place)

    def _copy_rows(self, conn: Connection[Any], chunk: Chunk, info: TableInfo, progress: int) -> None:
        options = self._spec.options
        columns = [column for column in info.columns if not column.generated]
        names = ",".join(quote(column.name) for column in columns)
        typed = self._spec.json_types
        read = [ReadColumn.of(column, json_types=typed) for column in columns]
        fields = ",".join(column.expression for column in read)
        rendered: Statements = statements(
            [column.kind for column in read],
            [column.introducer for column in read],
            f"INSERT INTO {quote(chunk.table)} ({names}) VALUES\n".encode(),
            options.statement_size,
            backslash=options.escape_backslash,
        )
        if typed and any(column.type_name == "json" for column in columns):
            rendered = TypedDocuments(rendered, backslash=options.escape_backslash)
        writer = ChunkWriter(
            self._folder,
            chunk.schema,
            chunk.table,
            chunk.number,
            statement_size=options.statement_size,
            file_size=options.chunk_filesize,
        )
        sql = f"SELECT {fields} FROM {qualified(info.schema, info.name)}{self._where(chunk)}"
        before = self._report.rows
        try:
            for pieces, size in stream(conn, sql, lambda _: rendered):
                for starts, text in pieces:
                    writer.write(starts, text)
                self._report.rows = before + rendered.rows
                self._report.size += size
                self._look_around(progress)
            for starts, text in rendered.finish():
                writer.write(starts, text)
        finally:
            writer.close()
        self._report.sizes |= writer.sizes

    def _look_around(self, progress: int) -> None:
        """Records the progress and checks for a stop at intervals: each check takes system calls."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        os.pwrite(progress, PROGRESS.pack(self._report.rows, self._report.size), 0)
        if self._should_stop():
            raise _Stopped


def _changed(name: str, exc: pymysql.Error | None = None) -> DMError:
    return errors.new(
        Code.DumpUnitRuntime,
        f"the structure of {name} changed while it was dumped",
        raw=exc,
        scope="upstream",
        workaround="Resume the task to dump again, and run no DDL on the upstream until the dump is complete.",
        retryable=True,
    )
