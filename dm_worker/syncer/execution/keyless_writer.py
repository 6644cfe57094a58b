"""Executor side: writes changes of rows without a key as a multiset, within the bucket's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.execution import keyless, row_statements
from dm_worker.syncer.execution.keyless import DistinctImages, ImageChanges, ImageDigests, KeylessRows, MissingRow
from dm_worker.syncer.execution.merge import INSERT_ROWS
from dm_worker.syncer.execution.row_statements import RowStatement, StatementForm
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.connection import is_retryable
from pkg.mysql.driver import reading_for

#: Timeout in seconds: a scan of a large table may take long.
SCAN_SECONDS = 3600.0


class NeedsSingleRows(Exception):
    """Digests can't identify the rows here, or the server refused a statement with them: write rows one by one."""


class RowRefused(Exception):
    """The server refused to insert ``row`` (its literals); ``cause`` is the driver's exception."""

    def __init__(self, row: bytes, cause: Exception) -> None:
        super().__init__(row, cause)
        self.row = row
        self.cause = cause


class NoSuchRow(Exception):
    """The change that ``statement`` makes for a single row finds no row."""

    def __init__(self, statement: RowStatement) -> None:
        super().__init__(statement)
        self.statement = statement


def write(conn: Connection[Any], step: KeylessRows, form: StatementForm, most: int) -> int:
    """Writes the rows; returns the number of statements that changed something. ``conn`` must have no pending answers.

    ``most``: the server's limit for a statement, in bytes. Raises :class:`NoSuchRow`, :class:`RowRefused`,
    :class:`NeedsSingleRows`, and the driver's exceptions for transient errors.
    """
    try:
        with reading_for(conn, SCAN_SECONDS):
            return _KeylessWriter(conn, step.plan, form, most).write(step)
    except (pymysql.Error, OSError) as exc:
        if is_retryable(exc):
            raise
        raise NeedsSingleRows from exc


class _KeylessWriter:
    def __init__(self, conn: Connection[Any], plan: TablePlan, form: StatementForm, most: int) -> None:
        self._conn, self._plan, self._form, self._most = conn, plan, form, most
        self._statements = 0

    def write(self, step: KeylessRows) -> int:
        images = keyless.images_of(self._plan, step.rows)
        digests = keyless.digests_of_literals(self._plan, images)
        if digests is not None:
            # A missing row may be there with another text.
            with suppress(MissingRow):
                self._exchange(images, digests, self._counts(images, digests))
                return self._statements
        digests = keyless.merge_equal(self._plan, images, list(self._digests(images)))
        counts = self._counts(images, digests)
        try:
            self._exchange(images, digests, counts)
        except MissingRow as exc:
            raise self._explained(step, images, counts, exc.change) from exc
        return self._statements

    def _exchange(self, images: DistinctImages, digests: ImageDigests, counts: Mapping[int, int]) -> None:
        """Writes the rows. Raises ``MissingRow`` before it writes any."""
        outcome = keyless.play_changes(images, counts)
        self._remove(images, digests, outcome, counts)
        self._insert(images, outcome)

    def _digests(self, images: DistinctImages) -> Iterator[bytes]:
        for text in keyless.digest_queries(self._plan, images, min(self._most, self._form.limit)):
            ((value,),) = self._rows(text)
            if value is None:
                raise NeedsSingleRows
            for start in range(0, len(value), keyless.DIGEST_BYTES):
                yield value[start : start + keyless.DIGEST_BYTES]

    def _counts(self, images: DistinctImages, digests: ImageDigests) -> dict[int, int]:
        numbers = {digest: number for number, digest in digests.of.items()}
        counts: dict[int, int] = {}
        for part in keyless.scans(images.looked_for, self._most):
            for digest, count in self._rows(keyless.count_query(self._plan, images, digests, part, self._most)):
                counts[numbers[digest]] = int(count)
        return counts

    def _remove(
        self, images: DistinctImages, digests: ImageDigests, outcome: ImageChanges, counts: Mapping[int, int]
    ) -> None:
        for part in keyless.scans(outcome.fewer, self._most):
            removed = self._execute(keyless.removal(self._plan, images, digests, part, self._most))
            if removed != sum(counts[number] for number in part):
                raise NeedsSingleRows

    def _insert(self, images: DistinctImages, outcome: ImageChanges) -> None:
        rows = keyless.new_rows(images, outcome)
        for whole in row_statements.of_kind(self._plan, INSERT_ROWS, rows, self._form):
            for sql in row_statements.fitting(self._plan, whole, self._form, self._most):
                try:
                    self._execute(sql.text)
                except (pymysql.Error, OSError) as exc:
                    if is_retryable(exc):
                        raise
                    self._find_refused(sql)
                    raise NeedsSingleRows from exc

    def _find_refused(self, sql: RowStatement) -> None:
        """Raises :class:`RowRefused` for the refused row. The statement had no effect."""
        for row in sql.group.rows() if sql.group is not None else ():
            for single in row_statements.of_kind(self._plan, INSERT_ROWS, [row], self._form):
                try:
                    self._execute(single.text)
                except pymysql.Error as exc:
                    if is_retryable(exc):
                        raise
                    raise RowRefused(row[1:-1], exc) from exc

    def _explained(
        self, step: KeylessRows, images: DistinctImages, counts: Mapping[int, int], change: int
    ) -> Exception:
        """The exception for a change whose row is missing: the exact comparison must find the same."""
        (single,) = row_statements.for_ordered(
            {row[2]: self._plan for row in step.rows}, [step.rows[change]], self._form
        )
        before, _ = images.changes[change]
        assert before is not None
        ((there,),) = self._rows(row_statements.count_like(self._plan, images.values[before]))
        return NoSuchRow(single) if int(there) == counts.get(before, 0) else NeedsSingleRows()

    def _rows(self, text: bytes) -> list[tuple[Any, ...]]:
        with self._conn.cursor() as cursor:
            self._run(cursor, text)
            return list(cursor.fetchall())

    def _execute(self, text: bytes) -> int:
        with self._conn.cursor() as cursor:
            self._run(cursor, text)
            self._statements += 1
            return int(cursor.rowcount)

    def _run(self, cursor: Any, text: bytes) -> None:
        if len(text) > self._most:
            raise NeedsSingleRows
        cursor.execute(text)
