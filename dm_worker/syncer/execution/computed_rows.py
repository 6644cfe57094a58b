"""Executor side: rows that the target refuses for a generated column's expression, although the upstream took them.

The upstream's session may have allowed a negative ``a - b``, or NULL for ``d + INTERVAL 1 DAY`` of a zero date. All
other rows keep the strict session. The refused row is written in a session that accepts the expression, and
counts only if the table then holds its exact values: so plain columns are checked as strictly as before.
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
        """Runs a statement. If the target refuses it for one of its rows, it had no effect; then runs its parts.

        Raises :class:`Refused` for the single refused row, or for the statement where that shows more, and driver
        exceptions.
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
        """Whether another sql_mode writes the one row of a statement that was refused with this error."""
        if not plan.computed or number not in generated.REFUSALS:
            return False
        if number == generated.OUT_OF_RANGE and self._sent(sql, generated.with_unsigned(self.mode)):
            return True
        if sql.group is None or not plan.key or not plan.alike:
            # If a column's type differs from the upstream's, comparing would convert the value as writing did.
            return False
        # In the other order of modes, differences beyond the signed range would be refused.
        if not any(self._sent(sql, mode) for mode in _relaxed(self.mode)):
            return False
        # A DELETE writes no value. TiDB refuses some, because it recomputes the columns of the indexes.
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
