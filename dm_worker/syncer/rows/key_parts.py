"""The parts of a target's unique keys: comparable values, periods, and columns that other columns decide.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dm_worker.syncer.rows.row_shape import RowShape
from dm_worker.syncer.rows.table_plan import PeriodKey
from pkg.mysql.generated import base_columns
from pkg.mysql.schema import Index, IndexPart, TableInfo
from pkg.mysql.session_expressions import dependent_columns


def trusted_row_key(target: TableInfo) -> Index | None:
    """The index that identifies a row of the target by values that the upstream's image also contains.

    A value that the target computes in a writer's session may differ from the upstream session's.
    """
    dependent = {name.lower() for name in dependent_columns(target)}
    if not dependent:
        return target.row_key()
    trusted = (index for index in target.indexes if dependent.isdisjoint(map(str.lower, index.columns)))
    return replace(target, indexes=tuple(trusted)).row_key()


def compared_parts(index: Index) -> tuple[IndexPart, ...]:
    """The parts by which two rows collide when they are equal.

    Periods are not among them: they collide when they overlap.
    """
    return index.parts[:-2] if index.without_overlaps else index.parts


def periods(target: TableInfo) -> frozenset[str]:
    """The columns (lower case) of periods in unique keys."""
    parts = [part for index in target.unique_keys if index.without_overlaps for part in index.parts[-2:]]
    return frozenset(part.column.lower() for part in parts)


def period_keys(shape: RowShape, target: TableInfo) -> tuple[PeriodKey, ...]:
    """The target's unique keys with periods, if rows contain values for their columns."""
    found = []
    for index in target.unique_keys:
        numbered = [(part.column, shape.index_of(part.column)) for part in index.parts]
        if index.without_overlaps and all(number >= 0 for _, number in numbered):
            *equal, end, start = numbered
            found.append(PeriodKey(tuple(equal), start, end))
    return tuple(found)


def deciding(shape: RowShape, target: TableInfo, written: Sequence[int], parts: Iterable[IndexPart]) -> tuple[int, ...]:
    """The numbers of the literals that decide the values of index parts, which may not be comparable.

    A part that the target computes is decided by the columns that its expression names, or by all that are
    ``written`` when these are unknown. A column that only the target has never changes.
    """
    found: set[int] = set()
    for part in parts:
        column = target.column(part.column)
        if column is not None and not column.generated:
            found.add(shape.index_of(column.name))
            continue
        bases = base_columns(target, column.name) if column is not None else None
        found |= set(written) if bases is None else {shape.index_of(name) for name in bases}
    return tuple(sorted(found - {-1}))
