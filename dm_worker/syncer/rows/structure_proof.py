"""Proves which structure the rows after a TABLE_MAP have, when it was not followed up to there. Pure.

The upstream shows its table as it is now. A statement that is read later may have changed it: moved a column, renamed
one, or put another one of the same type in its place. Types alone do not prove it.
There are three proofs: names in the TABLE_MAP; the target's own columns, because that table is as the statements before
these rows left it; and that no statement about the table follows up to now (:mod:`look_ahead`).
A column that both servers have, and whose values are other ones by the one's definition than by the other's (members of
an ENUM, charset, sign), is proven by the last alone. So are keys: rows do not have them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pkg.binlog.charsets import same_charset
from pkg.binlog.rows.table_check import fits, fits_anywhere, fits_at
from pkg.binlog.table_map import TableMap
from pkg.ddl.statement import AddColumn, AddIndex, AlterAction, ChangeColumn, DropIndex, NoStructure
from pkg.mysql.schema import Column, TableInfo

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"})


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
    differing = differing_columns(table_map, upstream, target)
    if table_map.names is not None:
        named = (info for info in (upstream, target) if info is not None and fits(table_map, info.columns))
        return None if differing else next(named, None)
    if target is None or differing:
        return None
    now = [] if upstream is None else _names(upstream.columns)
    if upstream is not None and fits(table_map, upstream.columns):
        return upstream if _told_by(table_map, upstream.columns, target.columns) else None
    # The upstream's table was altered since. Columns that are left must not have changed places.
    names = _names(target.columns)
    same_order = [name for name in now if name in names] == [name for name in names if name in now]
    return target if same_order and fits(table_map, target.columns) else None


def differing_columns(table_map: TableMap, upstream: TableInfo | None, target: TableInfo | None) -> list[str]:
    """The columns of both tables whose values have different meanings by the two definitions, although rows of
    ``table_map`` fit both."""
    if upstream is None or target is None:
        return []
    found = []
    for info, other in ((upstream, target), (target, upstream)):
        if not fits(table_map, info.columns):
            continue
        for number, column in enumerate(info.columns):
            twin = other.column(column.name)
            if (
                twin is not None
                and fits_at(table_map, number, twin)
                and not _mean_the_same(table_map, number, column, twin)
            ):
                found.append(column.name)
    return list(dict.fromkeys(found))


def _mean_the_same(table_map: TableMap, number: int, one: Column, other: Column) -> bool:
    if bool(one.generated) != bool(other.generated):
        return False
    if one.elements or other.elements:
        return one.elements == other.elements
    if one.type_name in _INTEGERS:
        told = table_map.unsigned is not None and table_map.unsigned[number] is not None
        return told or one.unsigned == other.unsigned
    told = table_map.collations is not None and table_map.collations[number] != 0
    return told or same_charset(_charset(one), _charset(other))


def _charset(column: Column) -> str:
    return "utf8mb4" if column.type_name == "json" else column.charset


def keeps_primary_key(actions: Collection[AlterAction], after: TableInfo) -> bool:
    """Whether a table's primary key and engine are certainly the same before an ALTER TABLE. ``after``: after it."""
    changed: set[str] = set()
    for action in actions:
        if isinstance(action, AddColumn | ChangeColumn):
            changed.add(action.column.name.lower())
        elif isinstance(action, AddIndex):
            changed.update(("",) if action.index.kind == "primary" else ())
        elif not isinstance(action, NoStructure) and not (isinstance(action, DropIndex) and action.name != "PRIMARY"):
            return False
    key = after.primary_key
    return "" not in changed and (key is None or changed.isdisjoint(name.lower() for name in key.columns))


def _told_by(table_map: TableMap, columns: Sequence[Column], target: Sequence[Column]) -> bool:
    """Whether the target has these columns in this order, and no other one that the rows might bring instead."""
    there = _names(target)
    names = [column.name.lower() for column in columns if not column.generated or column.name.lower() in there]
    if [name for name in there if name in names] != names:
        return False
    return not any(fits_anywhere(table_map, column) for column in target if column.name.lower() not in names)


def lacks_columns(target: TableInfo | None, upstream: TableInfo) -> bool:
    """Whether rows of ``upstream`` can't be written at all; the error is raised when they are to be written."""
    if target is None:
        return True
    there = _names(target.columns)
    return any(not column.generated and column.name.lower() not in there for column in upstream.columns)


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name.lower() for column in columns]
