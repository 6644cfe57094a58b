"""Compares rows with a snapshot of the target, on the validator's own connection."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR

from dm_worker.syncer.execution.expected_rows import ExpectedRows
from dm_worker.syncer.execution.row_chunks import RowChunk
from dm_worker.syncer.execution.row_look import RowSelects, joined, shown_row, shown_values
from dm_worker.syncer.execution.target_connections import SESSION, TargetSpec
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.validator.differences import (
    CHANGED,
    DELETED_EXISTS,
    MISSING,
    RowId,
    RowMismatch,
    Snapshot,
    Uncompared,
)
from pkg.config.target_session import writing_session
from pkg.mysql.connection import classify, connect, error_number, error_text, is_alive, is_retryable
from pkg.mysql.introspect import query

#: Time limit of a statement that compares rows, in seconds.
READ_TIMEOUT = 20.0
#: The most rows of a bucket whose values in the target are read, to show them to an operator.
MOST_SHOWN = 100
#: Rows of one statement that compares them one by one.
MOST_SINGLE = 100
#: Error: another session changed the table's structure after the snapshot began. A new snapshot can read it.
_TABLE_CHANGED = 1412


class TableChanged(Exception):
    """The snapshot can't read a table whose structure changed after it began."""


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

    def compare(
        self, found: Iterable[ExpectedRows], plans: Mapping[int, TablePlan], watched: Collection[RowId], *, full: bool
    ) -> tuple[list[RowMismatch], list[RowId], list[Uncompared]]:
        """Compares rows with the open snapshot: the differing ones, those of ``watched`` that are right, and what
        could not be compared. Raises DMError, and ``TableChanged``."""
        differences: list[RowMismatch] = []
        right: list[RowId] = []
        uncompared: list[Uncompared] = []
        with self._lock, self._classified() as conn:
            for bucket in found:
                comparison = _Comparison(conn, self._most_bytes, plans, bucket, full=full)
                wrong = comparison.differences()
                differences += wrong
                right += comparison.right(wrong, watched)
                uncompared += comparison.uncompared()
        return differences, right, uncompared

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


class _Comparison:
    """One bucket's rows and one snapshot."""

    def __init__(
        self,
        conn: Connection[Any],
        most_bytes: int,
        plans: Mapping[int, TablePlan],
        expected: ExpectedRows,
        *,
        full: bool,
    ) -> None:
        self._conn = conn
        self._most_bytes = most_bytes
        self._plans = plans
        self._selects = RowSelects(plans)
        self._expected = expected
        singles = expected.single_rows()
        #: The rows that are compared one by one.
        self._rows = list(singles.rows)
        self._queries = list(singles.queries)
        self._full = full
        #: Plan number → why its rows can't be compared.
        self._refused: dict[int, str] = {}

    def differences(self) -> list[RowMismatch]:
        """Raises the driver's exceptions, DMError and ``TableChanged``."""
        for chunk in self._expected.row_chunks():
            text = self._text_of(chunk)
            if text != chunk.text:
                self._look_at_rows(chunk, text)
        right: set[int] = set()
        for plan, _, text in self._queries:
            right.update(self._numbers(plan, text))
        wrong = [
            number
            for number, row in enumerate(self._rows)
            if (number in right) == (row.values is None) and row.plan not in self._refused
        ]
        there: set[int] = set()
        presence = partial(self._selects.there, full=False)
        for plan, _, text in joined(((n, self._rows[n]) for n in wrong), presence, MOST_SINGLE, self._most_text):
            there.update(self._numbers(plan, text))
        found = [self._difference(number, number in there, show=n < MOST_SHOWN) for n, number in enumerate(wrong)]
        return [one for one in found if one is not None]

    @property
    def _most_text(self) -> int:
        return max(1024, self._most_bytes // 4)

    def _text_of(self, chunk: RowChunk) -> bytes | None:
        """The text of a chunk's rows at the target; None when it proves nothing."""
        text = chunk.statement(self._plans[chunk.plan], full=self._full)
        if max(len(text), len(chunk.text)) >= self._most_bytes // 2:
            return None
        try:
            ((found,),) = _rows(self._conn, text)
        except pymysql.Error as exc:
            if error_number(exc) == _TABLE_CHANGED:
                raise TableChanged from exc
            if is_retryable(exc):
                raise
            return None  # comparing row by row finds what is wrong
        # The server cuts an answer at its limit: then the beginning of other rows could be the expected text.
        return None if found and len(found) >= self._most_bytes else found or b""

    def _look_at_rows(self, chunk: RowChunk, text: bytes | None) -> None:
        """Compares those rows of the chunk one by one that the text does not prove right."""
        first = len(self._rows)
        plan = self._plans[chunk.plan]
        self._rows += chunk.rows(plan) if text is None else chunk.doubtful(plan, text, full=self._full)
        numbered = enumerate(self._rows[first:], first)
        select = partial(self._selects.there, full=self._full)
        self._queries += joined(numbered, select, MOST_SINGLE, self._most_text)

    def right(self, wrong: Iterable[RowMismatch], watched: Collection[RowId]) -> list[RowId]:
        """The watched rows that are not ``wrong``."""
        if not watched:
            return []
        differing = {one.row for one in wrong}
        keys = chain(
            ((row.plan, row.key) for row in self._rows),
            ((chunk.plan, key) for chunk in self._expected.row_chunks() for key in chunk.row_keys()),
        )
        rows = {(self._plans[plan].target, key) for plan, key in keys if plan not in self._refused}
        return sorted(row for row in rows if row in watched and row not in differing)

    def uncompared(self) -> list[Uncompared]:
        found = []
        for number, reason in self._refused.items():
            plan = self._plans[number]
            rows = sum(row.plan == number for row in self._rows)
            found.append(Uncompared(plan.target, plan.source, rows, reason))
        return found

    def _numbers(self, plan: int, text: bytes) -> list[int]:
        return [int(number) for (number,) in self._ask(plan, text)]

    def _ask(self, plan: int, text: bytes) -> list[tuple[Any, ...]]:
        """The answer to a statement; none when the target refuses to read the table."""
        if plan in self._refused:
            return []
        if len(text) >= self._most_bytes:
            self._refused[plan] = "a row is too long to compare: the target's max_allowed_packet limits statements"
            return []
        try:
            return _rows(self._conn, text)
        except pymysql.Error as exc:
            if error_number(exc) == _TABLE_CHANGED:
                raise TableChanged from exc
            if is_retryable(exc):
                raise
            self._refused[plan] = f"the target refused to read it: {error_text(exc)}"[:400]
            return []

    def _difference(self, number: int, there: bool, *, show: bool) -> RowMismatch | None:
        row = self._rows[number]
        plan = self._plans[row.plan]
        if row.plan in self._refused or (row.optional and not there):
            return None
        kind = DELETED_EXISTS if row.values is None else CHANGED if there else MISSING
        found = self._ask(row.plan, self._selects.values(row)) if show and there else []
        return RowMismatch(
            plan.target,
            plan.source,
            row.key,
            kind,
            shown_row(plan.write_names, row.values),
            shown_values(plan.write_names, found[0]) if found else "",
            self._selects.is_right(row, full=self._full),
        )


def _is_right(conn: Connection[Any], check: bytes) -> bool:
    try:
        return bool(_rows(conn, check))
    except pymysql.Error as exc:
        if is_retryable(exc):
            raise
        # The table is gone, or has other columns.
        return False


def _rows(conn: Connection[Any], text: bytes) -> list[tuple[Any, ...]]:
    with conn.cursor() as cursor:
        cursor.execute(text)  # type: ignore[arg-type]
        return list(cursor.fetchall())
