"""Rows of one statement as a bulk execution of MariaDB, where the result is the same as the statement's. Pure.

The server spends a quarter less per row than on an INSERT of many rows. Errors stay errors; the writer then repeats
the transaction without bulk executions to find the refused row.
"""

from __future__ import annotations

from dataclasses import replace

from dm_worker.syncer.execution.merge import RowGroup
from dm_worker.syncer.execution.row_statements import RowStatement
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.bulk import PreparedStatement
from pkg.mysql.bulk_types import types_of
from pkg.native import load

_NATIVE = load("sqlscan")
#: Fewer rows are not worth a prepared statement.
LEAST_ROWS = 100


def in_bulk(
    plan: TablePlan, sql: RowStatement, group: RowGroup, statement: PreparedStatement, most: int
) -> RowStatement:
    """The statement of a group with its bulk execution, if that has at most ``most`` bytes; otherwise unchanged."""
    found = _NATIVE.bulk_rows(group.body, 0, len(plan.bulk)) if _NATIVE is not None else None
    if found is None:
        return sql
    _, forms, rows = found
    types = types_of(plan.bulk, forms, raw=False)
    if types is None or statement.size(rows) > most:
        return sql
    return replace(sql, bulk=statement.command(types, rows))
