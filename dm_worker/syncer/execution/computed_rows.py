"""Executor side: rows that the target refuses for a generated column's expression, although the upstream took them.

The upstream's session may have let ``a - b`` be negative, or ``d + INTERVAL 1 DAY`` be NULL for a zero date. The strict
session stays for all rows but the refused one. That one is written in a session that lets the expression pass, and
counts only when the table then holds each of its values as it is: so plain columns get no looser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from dm_worker.syncer.execution import refused_rows, row_statements
from dm_worker.syncer.execution.merge import DELETE_KEYS, RowGroup
from dm_worker.syncer.execution.row_statements import RowStatement, StatementForm
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql import generated
from pkg.mysql.connection import error_number, is_retryable
from pkg.mysql.introspect import query
from pkg.mysql.pipeline import Refused


@dataclass(frozen=True, slots=True)
class RowByRow:
    """``send`` runs one statement and raises :class:`Refused`; ``mode`` is the session's own sql_mode."""

    conn: Connection[Any]
    form: StatementForm
    mode: str
    send: Callable[[RowStatement], None]

    def write(self, sql: RowStatement, plan: TablePlan) -> None:
        """Runs a statement. When it is refused for one of its rows, nothing of it is there; then its parts are run.

        Raises :class:`Refused` for the single row at fault, or for the statement where that shows more, and the
        driver's exceptions.
        """
        try:
            self.send(sql)
            return
        except Refused as exc:
            refused = exc
        if is_retryable(refused.cause) or not refused_rows.is_of_a_row(refused.cause):
            raise refused
        group = sql.group
        if group is not None and group.count > 1:
            middle = group.count // 2
            for first, last in ((0, middle), (middle, group.count)):
                self.write(row_statements.for_group(plan, row_statements.part(group, first, last), self.form), plan)
        elif not self._lets_pass(sql, plan, error_number(refused.cause)):
            raise refused

    def _lets_pass(self, sql: RowStatement, plan: TablePlan, number: int) -> bool:
        """Whether the one row of a statement, refused with this error, is written by another sql_mode."""
        if not plan.computed or number not in generated.REFUSALS:
            return False
        if number == generated.OUT_OF_RANGE and self._sent(sql, generated.with_unsigned(self.mode)):
            return True
        if sql.group is None or not plan.key or not plan.alike:
            # Where a column's type is another one than the upstream's, comparing would convert as writing did.
            return False
        # The other way round, differences beyond the signed numbers would be refused.
        if not any(self._sent(sql, mode) for mode in _relaxed(self.mode)):
            return False
        # A DELETE writes no value. TiDB refuses some, because it computes the columns of the indexes again.
        return sql.group.kind == DELETE_KEYS or self._holds(plan, sql.group)

    def _sent(self, sql: RowStatement, mode: str) -> bool:
        self._set(mode)
        try:
            self.send(sql)
        except Refused as exc:
            if is_retryable(exc.cause):
                raise
            taken = False
        else:
            taken = True
        self._set(self.mode)
        return taken

    def _holds(self, plan: TablePlan, group: RowGroup) -> bool:
        """Whether the table has the one row of the group, with all of its values."""
        check = row_statements.count_exact(plan, group.body)
        if check is None:
            return False
        with self.conn.cursor() as cursor:
            cursor.execute(check)
            return list(cursor.fetchall()) == [(1,)]

    def _set(self, mode: str) -> None:
        query(self.conn, "SET SESSION sql_mode = %s", (mode,))


def _relaxed(mode: str) -> Iterator[str]:
    relaxed = generated.relaxed(mode)
    yield relaxed
    yield generated.with_unsigned(relaxed)
