"""Indexes as the server stores them: generates names, normalises parts, follows changes of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pkg.ddl.key_names import free_key_name
from pkg.ddl.statement import AddPeriod, IndexDef
from pkg.mysql.schema import Column, Index, IndexPart
from pkg.schema_tracker.types import character_length


def find_index(indexes: Sequence[Index], name: str) -> Index | None:
    return next((index for index in indexes if index.name.upper() == name.upper()), None)


def add_index(indexes: list[Index], definition: IndexDef, columns: Sequence[Column], *, certain: bool = True) -> None:
    """Adds the result of ``definition``: an index, for a foreign key one if no other serves it, nothing for a check.

    Not ``certain``: the indexes may be those that this statement, or a later one, has created.
    Raises ``ValueError`` for a name that is taken, and for a column that the table lacks.
    """
    if definition.kind == "check":
        return
    parts = tuple(_part(part.column, part.length, columns) for part in definition.parts)
    if definition.kind == "foreign" and any(_serves(index, parts) for index in indexes):
        return
    unique = definition.kind in ("primary", "unique")
    if not certain and not definition.name and any((i.parts, i.unique) == (parts, unique) for i in indexes):
        return
    taken = find_index(indexes, definition.name) if definition.name else None
    if taken is not None:
        if definition.if_not_exists and not definition.or_replace:
            return
        # The server silently drops the index that it created for a foreign key as soon as another index serves it: an
        # index that identifies no row may be such a one.
        if taken.unique and certain and not definition.or_replace:
            raise ValueError(f"the key {definition.name!r} exists already")
        indexes.remove(taken)
    names = {index.name.upper() for index in indexes}
    name = definition.name or free_key_name(names, parts[0].column or "functional_index")
    # A part without a column is an expression or a period: such an index identifies no row.
    indexes.append(Index(name, parts, unique, definition.hashed))


def _part(name: str, length: int, columns: Sequence[Column]) -> IndexPart:
    if not name:
        return IndexPart("")
    column = next((column for column in columns if column.name.lower() == name.lower()), None)
    if column is None:
        raise ValueError(f"the key column {name!r} does not exist")
    return normalised(IndexPart(column.name, length), column)


def normalised(part: IndexPart, column: Column) -> IndexPart:
    """A prefix of the column's full length is not a prefix."""
    limit = character_length(column)
    return replace(part, length=0) if limit and part.length >= limit else part


def _serves(index: Index, parts: tuple[IndexPart, ...]) -> bool:
    """Whether the index begins with these columns, so that a foreign key needs no other index."""
    return [part.column.lower() for part in index.parts[: len(parts)]] == [part.column.lower() for part in parts]


def without_nulls(
    columns: Sequence[Column], indexes: Sequence[Index], periods: Iterable[AddPeriod] = ()
) -> tuple[Column, ...]:
    """The columns, with those of the primary key and of periods NOT NULL."""
    primary = find_index(indexes, "PRIMARY")
    members = {name.lower() for name in primary.columns} if primary else set()
    members |= {name.lower() for period in periods for name in (period.start, period.end)}
    return tuple(replace(c, nullable=False) if c.name.lower() in members else c for c in columns)
