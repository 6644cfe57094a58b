"""Which structure the rows behind a TABLE_MAP have, when it was not followed up to there. Pure.

The upstream shows its table as it is now. A statement that is read later may have changed it: moved a column, renamed
one, or put another one of the same type in its place. Types alone do not prove it.
There are three proofs: names in the TABLE_MAP; the target's own columns, because that table is as the statements before
these rows left it; and that no statement about the table follows up to now (:mod:`look_ahead`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pkg.binlog.table_check import fits, fits_anywhere
from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, TableInfo


def brought(target: TableInfo | None, upstream: TableInfo | None, filled: Collection[str]) -> TableInfo | None:
    """``target`` as rows can bring it: without the columns (in lower case) that the task's rules fill, in its keys too.

    A column that the upstream has now is kept.
    """
    if target is None:
        return None
    now = [] if upstream is None else _names(upstream.columns)
    gone = set(filled).difference(now)
    keys = (
        replace(index, parts=tuple(part for part in index.parts if part.column.lower() not in gone))
        for index in target.indexes
    )
    columns = tuple(column for column in target.columns if column.name.lower() not in gone)
    return replace(target, columns=columns, indexes=tuple(index for index in keys if index.parts))


def proven(table_map: TableMap, upstream: TableInfo | None, target: TableInfo | None) -> TableInfo | None:
    """``upstream`` (as it is now) or ``target`` (as rows can bring it, :func:`brought`), if it certainly is what the
    rows have; None when that is not certain."""
    if table_map.names is not None:
        return next((info for info in (upstream, target) if info is not None and fits(table_map, info.columns)), None)
    if target is None:
        return None
    now = [] if upstream is None else _names(upstream.columns)
    if upstream is not None and fits(table_map, upstream.columns):
        return upstream if _told_by(table_map, upstream.columns, target.columns) else None
    # The upstream's table was altered since. Columns that are left must not have changed places.
    names = _names(target.columns)
    same_order = [name for name in now if name in names] == [name for name in names if name in now]
    return target if same_order and fits(table_map, target.columns) else None


def _told_by(table_map: TableMap, columns: Sequence[Column], target: Sequence[Column]) -> bool:
    """Whether the target has these columns in this order, and no other one that the rows might bring instead."""
    there = _names(target)
    names = [column.name.lower() for column in columns if not column.generated or column.name.lower() in there]
    if [name for name in there if name in names] != names:
        return False
    return not any(fits_anywhere(table_map, column) for column in target if column.name.lower() not in names)


def lacks_columns(target: TableInfo | None, upstream: TableInfo) -> bool:
    """Whether rows of ``upstream`` can't be written at all; the error comes where they are to be written."""
    if target is None:
        return True
    there = _names(target.columns)
    return any(not column.generated and column.name.lower() not in there for column in upstream.columns)


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name.lower() for column in columns]
