"""The validator's own connection to the target, and the snapshots that it opens."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR

from dm_worker.syncer.execution.target_connections import SESSION, TargetSpec
from dm_worker.validator.differences import RowId, Snapshot
from dm_worker.validator.row_comparison import RowComparison, rows_of
from pkg.config.target_session import writing_session
from pkg.mysql.connection import classify, connect, is_alive, is_retryable
from pkg.mysql.introspect import query

#: Time limit of a statement that compares rows, in seconds.
READ_TIMEOUT = 20.0


class TargetReads:
    """One connection that opens a snapshot, compares rows with it, and ends it. Any thread may open it; one thread
    compares."""

    def __init__(self, spec: TargetSpec, source_id: str) -> None:
        self._spec = spec
        self._source = source_id
        self._lock = threading.Lock()
        self._conn: Connection[Any] | None = None
        self._most_bytes = 0

    def prepare(self) -> None:
        """Opens the connection, so that a snapshot needs only one statement. Raises DMError."""
        with self._lock:
            if self._conn is not None and is_alive(self._conn):
                return
            self._drop()
            self._conn = connect(
                self._spec.config,
                scope="downstream",
                session=writing_session(SESSION, dict(self._spec.session)),
                read_timeout=READ_TIMEOUT,
            )
            with self._classified() as conn:
                query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                ((most,),) = query(conn, "SELECT @@max_allowed_packet")
                query(conn, f"SET SESSION group_concat_max_len = {int(most)}")
            self._most_bytes = int(most)

    def open(self) -> None:
        """Begins a snapshot. Raises DMError."""
        with self._lock, self._classified() as conn:
            query(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def contained(self) -> Snapshot:
        """What the open snapshot contains. Raises DMError."""
        with self._lock, self._classified() as conn:
            markers = f"SELECT COALESCE(MAX(batch), 0) FROM {self._spec.markers} WHERE id = %s"
            intents = f"SELECT batch, state FROM {self._spec.batches} WHERE id = %s"
            ((batch,),) = query(conn, markers, (self._source,))
            ((intent, state),) = query(conn, intents, (self._source,))
        return Snapshot(int(batch), int(intent), str(state) == "ddl")

    def look(self, watched: Collection[RowId], required: Collection[RowId] = (), *, full: bool) -> RowComparison:
        """Compares rows with the open snapshot; see :class:`RowComparison`."""
        return RowComparison(self._connection, self._most_bytes, watched, required, full=full)

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        with self._lock, self._classified() as conn:
            yield conn

    def end(self) -> None:
        """Ends the snapshot; the connection stays."""
        with self._lock:
            if self._conn is not None:
                try:
                    self._conn.rollback()
                except (pymysql.Error, OSError):
                    self._drop()

    def are_right(self, checks: Sequence[bytes]) -> list[bool]:
        """Whether rows are right now: the ``check`` of each one's difference. A row that can't be read is not. Raises
        DMError."""
        with self._lock, self._classified() as conn:
            return [_is_right(conn, check) for check in checks]

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None and conn.open:
            conn.close()

    @contextmanager
    def _classified(self) -> Iterator[Connection[Any]]:
        """Turns the driver's exceptions into DMError, and closes the connection after one."""
        try:
            if self._conn is None:
                raise pymysql.OperationalError(CR.CR_SERVER_LOST, "the connection was closed")
            yield self._conn
        except (pymysql.Error, OSError) as exc:
            self._drop()
            raise classify(exc, scope="downstream") from exc


def _is_right(conn: Connection[Any], check: bytes) -> bool:
    try:
        return bool(rows_of(conn, check))
    except pymysql.Error as exc:
        if is_retryable(exc):
            raise
        # The table is gone, or has other columns.
        return False
