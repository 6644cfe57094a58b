"""Executor side: writes changes of rows without a key as a multiset, within the bucket's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.execution import keyless, row_statements
from dm_worker.syncer.execution.digest_counter import DigestCounter
from dm_worker.syncer.execution.keyless import DistinctImages, ImageDigests, KeylessRows, MissingRow, Search
from dm_worker.syncer.execution.merge import INSERT_ROWS
from dm_worker.syncer.execution.row_statements import RowStatement, StatementForm
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.table_reads import row_stream
from pkg.mysql import driver
from pkg.mysql.connection import is_retryable

#: Timeout in seconds: a scan of a large table may take long.
SCAN_SECONDS = 3600.0
#: Where rows are still as the transaction found them.
_SAVEPOINT = b"dm_keyless"


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
        with driver.reading_for(conn, SCAN_SECONDS):
            return _KeylessWriter(conn, step.plan, form, most).write(step)
    except (pymysql.Error, OSError) as exc:
        if is_retryable(exc):
            raise
        raise NeedsSingleRows from exc


class _KeylessWriter:
    def __init__(self, conn: Connection[Any], plan: TablePlan, form: StatementForm, most: int) -> None:
        self._conn, self._plan, self._form, self._most = conn, plan, form, most
        self._statements = 0
        #: Whether a DELETE can return what it deletes.
        self._returns = driver.is_mariadb(conn)

    def write(self, step: KeylessRows) -> int:
        images = keyless.images_of(self._plan, step.rows)
        digests = keyless.digests_of_literals(self._plan, images)
        if digests is not None:
            # A missing row may be there with another text.
            with suppress(MissingRow):
                self._exchange(images, digests)
                return self._statements
        digests = keyless.merge_equal(self._plan, images, list(self._digests(images)))
        try:
            self._exchange(images, digests)
        except MissingRow as exc:
            raise self._explained(step, images, exc) from exc
        return self._statements

    def _exchange(self, images: DistinctImages, digests: ImageDigests) -> None:
        """Writes the rows. Raises ``MissingRow``; then nothing has changed."""
        column = keyless.distinguishing_column(self._plan, images)
        exchange = self._exchange_returned if self._returns else self._exchange_counted
        self._insert(images, exchange(images, digests, column))

    def _exchange_returned(
        self, images: DistinctImages, digests: ImageDigests, column: int | None
    ) -> list[tuple[int, int]]:
        """Deletes the rows and counts them in one scan; returns the images to insert, with their numbers."""
        self._rows(b"SAVEPOINT " + _SAVEPOINT)
        found, strangers = self._removed(images, digests, column)
        if strangers and column is not None:
            self._rows(b"ROLLBACK TO SAVEPOINT " + _SAVEPOINT)
            found, strangers = self._removed(images, digests, None)
        if strangers:
            raise NeedsSingleRows
        try:
            return keyless.play_changes(images, found)
        except MissingRow:
            self._rows(b"ROLLBACK TO SAVEPOINT " + _SAVEPOINT)
            raise

    def _removed(
        self, images: DistinctImages, digests: ImageDigests, column: int | None
    ) -> tuple[Mapping[int, int], int]:
        """Deletes the rows that a search finds; see :func:`_by_number`."""
        found = Counter[bytes | None]()
        for search in self._searches(images, digests, column):
            found += self._count(keyless.returning_removal(self._plan, images, search))
            self._statements += 1
        return _by_number(found, digests, images.looked_for)

    def _exchange_counted(
        self, images: DistinctImages, digests: ImageDigests, column: int | None
    ) -> list[tuple[int, int]]:
        """The same for a server that does not return what it deletes."""
        counts: dict[int, int] = {}
        searches: list[tuple[Search, int]] = []
        for search in self._searches(images, digests, column):
            found = self._count(keyless.digest_query(self._plan, images, search))
            known, strangers = _by_number(found, digests, search.numbers)
            counts |= known
            searches.append((replace(search, column=None) if strangers else search, sum(known.values())))
        copies = keyless.play_changes(images, counts)
        for search, count in searches:
            if self._execute(keyless.removal(self._plan, images, search)) != count:
                raise NeedsSingleRows
        return copies

    def _searches(self, images: DistinctImages, digests: ImageDigests, column: int | None) -> Iterator[Search]:
        for part in keyless.scans(images.looked_for, self._most):
            yield Search(digests, part, column, self._most)

    def _count(self, text: bytes) -> Counter[bytes | None]:
        """Runs a statement that returns digests; how often it returns each."""
        self._check_size(text)
        row_stream.send(self._conn, text)
        counter = DigestCounter()
        for _ in row_stream.stream(self._conn, "digests of rows", lambda _: counter, sent=True, optional=True):
            continue
        return counter.counts

    def _digests(self, images: DistinctImages) -> Iterator[bytes]:
        for text in keyless.digest_queries(self._plan, images, min(self._most, self._form.limit)):
            ((value,),) = self._rows(text)
            if value is None:
                raise NeedsSingleRows
            for start in range(0, len(value), keyless.DIGEST_BYTES):
                yield value[start : start + keyless.DIGEST_BYTES]

    def _insert(self, images: DistinctImages, copies: Sequence[tuple[int, int]]) -> None:
        rows = keyless.new_rows(images, copies)
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

    def _explained(self, step: KeylessRows, images: DistinctImages, missing: MissingRow) -> Exception:
        """The exception for a change whose row is missing: the exact comparison must find the same."""
        (single,) = row_statements.for_ordered(
            {row[2]: self._plan for row in step.rows}, [step.rows[missing.change]], self._form
        )
        before, _ = images.changes[missing.change]
        assert before is not None
        ((there,),) = self._rows(row_statements.count_like(self._plan, images.values[before]))
        return NoSuchRow(single) if int(there) == missing.found else NeedsSingleRows()

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
        self._check_size(text)
        cursor.execute(text)

    def _check_size(self, text: bytes) -> None:
        if len(text) > self._most:
            raise NeedsSingleRows


def _by_number(
    found: Mapping[bytes | None, int], digests: ImageDigests, numbers: Iterable[int]
) -> tuple[dict[int, int], int]:
    """The counts of the images with these numbers, and how many other rows were found."""
    known = {number: found[digest] for number in numbers if (digest := digests.of[number]) in found}
    return known, sum(found.values()) - sum(known.values())
