"""A known structure with what a TABLE_MAP says of the rows after it. Pure."""

from __future__ import annotations

from dataclasses import replace

from dm_worker.syncer.rows.hidden_keys import with_hidden_keys
from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import TableInfo


def as_logged(info: TableInfo, table_map: TableMap) -> TableInfo:
    """The structure with the hidden columns and the nullable columns of ``table_map``, as far as it may fit.

    A structure that was taken from the target, or from an upstream table that was altered since, may have NOT NULL
    where rows have NULL: such a column must not be in the key that finds them.
    """
    whole = with_hidden_keys(info, table_map)
    if len(whole.columns) != table_map.column_count:
        return whole
    columns = (
        column if column.nullable == nullable else replace(column, nullable=nullable)
        for column, nullable in zip(whole.columns, table_map.nullable, strict=True)
    )
    return replace(whole, columns=tuple(columns))
