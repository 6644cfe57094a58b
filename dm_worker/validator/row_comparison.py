"""Compares rows with a snapshot of the target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.execution.expected_rows import ExpectedRows, SingleRows
from dm_worker.syncer.execution.row_chunks import DoubtfulRow, RowChunk
from dm_worker.syncer.execution.row_look import ExpectedRow, Presence, RowSelects, joined, shown_row, shown_values
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.validator.differences import CHANGED, DELETED_EXISTS, MISSING, RowId, RowMismatch, Uncompared
from pkg.mysql.connection import error_number, error_text, is_retryable
from pkg.mysql.names import TableId

#: The most rows of a look whose values in the target are read, to show them to an operator.
MOST_SHOWN = 400
#: Rows of one statement that compares them one by one.
MOST_SINGLE = 100
#: Doubtful rows whose statements are in memory at a time.
_AT_ONCE = 5_000
#: Limit for the bytes of doubtful rows, and the bytes that each takes beside its values.
MOST_DOUBTFUL, _ROW_BYTES = 32 << 20, 300
#: Why a row of a table with filters may differ from the binlog.
LEFT_OUT = "a filter may have left out earlier changes of them"
#: Error: another session changed the table's structure after the snapshot began. A new snapshot can read it.
_TABLE_CHANGED = 1412


class TableChanged(Exception):
    """The snapshot can't read a table whose structure changed after it began."""


class RowComparison:
    """Compares the rows of one or several jobs with the open snapshot.

    The snapshot has the rows of the last job. A row of an earlier one that differs is in doubt: only if no later job
    touches it, it is compared by itself, at the end. All methods raise DMError and ``TableChanged``.

    ``watched``: rows that :meth:`result` names if they are right; ``required``: those that were missing, or had other
    values, where they had to be there: an UPDATE that does not find them shows that they still are missing.
    """

    def __init__(
        self,
        connection: Callable[[], AbstractContextManager[Connection[Any]]],
        most_bytes: int,
        watched: Collection[RowId],
        required: Collection[RowId] = (),
        *,
        full: bool,
    ) -> None:
        self._connection = connection
        self._most_bytes = most_bytes
        self._watched = watched
        self._required: defaultdict[TableId, set[bytes]] = defaultdict(set)
        for target, key in required:
            self._required[target].add(key)
        self._full = full
        self._plans: dict[int, TablePlan] = {}
        self._selects = RowSelects(self._plans)
        self._doubtful: defaultdict[TableId, dict[bytes, DoubtfulRow]] = defaultdict(dict)
        self._doubtful_bytes = 0
        #: The watched rows that were touched, with their plans.
        self._met: dict[RowId, int] = {}
        #: Plan number → why its rows can't be compared.
        self._refused: dict[int, str] = {}
        #: Plan number → how many rows may be as they are because of the task's filters.
        self._unjudged: Counter[int] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether no more jobs are to be added."""
        return self._doubtful_bytes >= MOST_DOUBTFUL

    def add(self, found: Iterable[ExpectedRows], plans: Mapping[int, TablePlan]) -> None:
        """Compares the rows of the next job."""
        self._plans.update(plans)
        with self._connection() as conn:
            for bucket in found:
                for chunk in bucket.row_chunks():
                    self._compare_chunk(conn, chunk)
                self._compare_singles(conn, bucket.single_rows())

    def result(self) -> tuple[list[RowMismatch], list[RowId], list[Uncompared]]:
        """The differing rows, the watched ones that are right or must no longer be as they had to be, and what could
        not be compared."""
        differences: list[RowMismatch] = []
        left_out: Counter[int] = Counter()
        rows = sorted(row for found in self._doubtful.values() for row in found.values())
        with self._connection() as conn:
            for start in range(0, len(rows), _AT_ONCE):
                expected = [row.expected() for row in rows[start : start + _AT_ONCE]]
                differences += self._differences(conn, expected, MOST_SHOWN - len(differences))
                left_out.update(row.plan for row in expected if row.plan in self._refused)
        differing = {one.row for one in differences}
        right = [row for row, plan in self._met.items() if row not in differing and plan not in self._refused]
        uncompared = [self._left_out(plan, left_out[plan], reason) for plan, reason in self._refused.items()]
        uncompared += [self._left_out(plan, number, LEFT_OUT) for plan, number in self._unjudged.items()]
        return differences, sorted(right), uncompared

    def _left_out(self, plan: int, rows: int, reason: str) -> Uncompared:
        return Uncompared(self._plans[plan].target, self._plans[plan].source, rows, reason)

    def _compare_chunk(self, conn: Connection[Any], chunk: RowChunk) -> None:
        self._touch(chunk.plan, chunk.row_keys())
        plan = self._plans[chunk.plan]
        text = self._text_of(conn, chunk)
        if text is None:
            self._doubt(chunk.rows(plan))
        elif text != chunk.text:
            self._doubt(chunk.doubtful(plan, text, full=self._full))

    def _compare_singles(self, conn: Connection[Any], singles: SingleRows) -> None:
        right: set[int] = set()
        for plan, _, text in singles.queries:
            right.update(self._numbers(conn, plan, text))
        for number, row in enumerate(singles.rows):
            was_required = bool(self._touch(row.plan, [row.key]))
            if row.plan in self._refused or (number in right) == (row.values is None):
                certain = was_required and row.presence is Presence.IF_THERE
                self._doubt([DoubtfulRow.of(row._replace(presence=Presence.SURE) if certain else row)])

    def _touch(self, plan: int, keys: Sequence[bytes]) -> set[bytes]:
        """What was found out about these rows no longer counts. Returns those that had to be there before."""
        target = self._plans[plan].target
        if self._watched:
            self._met.update(((target, key), plan) for key in keys if (target, key) in self._watched)
        required = self._required[target]
        found = required.intersection(keys) if required else set()
        required -= found
        doubtful = self._doubtful[target]
        for key in doubtful.keys() & keys if doubtful else ():
            row = doubtful.pop(key)
            self._doubtful_bytes -= _size(row)
            if row.values is not None and row.presence is Presence.SURE:
                found.add(key)
        return found

    def _doubt(self, rows: Iterable[DoubtfulRow]) -> None:
        for row in rows:
            self._doubtful[self._plans[row.plan].target][row.key] = row
            self._doubtful_bytes += _size(row)

    def _text_of(self, conn: Connection[Any], chunk: RowChunk) -> bytes | None:
        """The text of a chunk's rows at the target; None when it proves nothing."""
        text = chunk.statement(self._plans[chunk.plan], full=self._full)
        if max(len(text), len(chunk.text)) >= self._most_bytes // 2:
            return None
        try:
            ((found,),) = rows_of(conn, text)
        except pymysql.Error as exc:
            if error_number(exc) == _TABLE_CHANGED:
                raise TableChanged from exc
            if is_retryable(exc):
                raise
            return None  # comparing row by row finds what is wrong
        # The server cuts an answer at its limit: then the beginning of other rows could be the expected text.
        return None if found and len(found) >= self._most_bytes else found or b""

    def _differences(self, conn: Connection[Any], rows: Sequence[ExpectedRow], most_shown: int) -> list[RowMismatch]:
        """Compares rows one by one; ``most_shown`` of them have the target's values."""
        right = self._found(conn, enumerate(rows), full=self._full)
        wrong = [
            number
            for number, row in enumerate(rows)
            if (number in right) == (row.values is None) and row.plan not in self._refused
        ]
        there = self._found(conn, ((number, rows[number]) for number in wrong), full=False)
        found: list[RowMismatch] = []
        for number in wrong:
            shown = len(found) < most_shown
            found += self._difference(conn, rows[number], there=number in there, show=shown)
        return found

    def _found(self, conn: Connection[Any], rows: Iterable[tuple[int, ExpectedRow]], *, full: bool) -> set[int]:
        """The numbers of the rows that the target has."""
        select = partial(self._selects.there, full=full)
        found: set[int] = set()
        for plan, _, text in joined(rows, select, MOST_SINGLE, max(1024, self._most_bytes // 4)):
            found.update(self._numbers(conn, plan, text))
        return found

    def _difference(self, conn: Connection[Any], row: ExpectedRow, *, there: bool, show: bool) -> Iterator[RowMismatch]:
        plan = self._plans[row.plan]
        if row.plan in self._refused:
            return
        if row.presence is Presence.UNKNOWN or (row.presence is Presence.IF_THERE and not there):
            self._unjudged[row.plan] += 1
            return
        found = self._ask(conn, row.plan, self._selects.values(row)) if show and there else []
        yield RowMismatch(
            plan.target,
            plan.source,
            row.key,
            DELETED_EXISTS if row.values is None else CHANGED if there else MISSING,
            shown_row(plan.write_names, row.values),
            shown_values(plan.write_names, found[0]) if found else "",
            self._selects.is_right(row, full=self._full),
        )

    def _numbers(self, conn: Connection[Any], plan: int, text: bytes) -> list[int]:
        return [int(number) for (number,) in self._ask(conn, plan, text)]

    def _ask(self, conn: Connection[Any], plan: int, text: bytes) -> list[tuple[Any, ...]]:
        """The answer to a statement; none when the target refuses to read the table."""
        if plan in self._refused:
            return []
        if len(text) >= self._most_bytes:
            self._refused[plan] = "a row is too long to compare: the target's max_allowed_packet limits statements"
            return []
        try:
            return rows_of(conn, text)
        except pymysql.Error as exc:
            if error_number(exc) == _TABLE_CHANGED:
                raise TableChanged from exc
            if is_retryable(exc):
                raise
            self._refused[plan] = f"the target refused to read it: {error_text(exc)}"[:400]
            return []


def _size(row: DoubtfulRow) -> int:
    return _ROW_BYTES + len(row.key) + len(row.values or b"")


def rows_of(conn: Connection[Any], text: bytes) -> list[tuple[Any, ...]]:
    """The answer to a SELECT. Raises the driver's exceptions."""
    with conn.cursor() as cursor:
        cursor.execute(text)  # type: ignore[arg-type]
        return list(cursor.fetchall())
