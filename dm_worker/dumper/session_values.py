"""Stored generated columns whose values a session of the upstream may have computed in its own time zone. Pure.

A dump has no values of generated columns: the target computes them in UTC. So the dump, which reads in UTC too, asks
the upstream whether a stored value is another one than its expression gives now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pkg.mysql.names import quote
from pkg.mysql.schema import Column, TableInfo
from pkg.mysql.session_expressions import TIME_ZONE, variables_of

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_MOMENTS = frozenset({"datetime", "timestamp"})
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_ARGUMENTS = re.compile(r"\([0-9, ]+\)")


def otherwise_computed(table: TableInfo) -> Iterator[tuple[str, str]]:
    """The columns in question, each with a condition for rows whose value is not that of a session in UTC.

    Left out are types whose values no cast gives as a column stores them: FLOAT, DOUBLE, BIT, JSON, ENUM, SET, bytes.
    """
    for column in table.columns:
        expression, kind = table.expression_of(column.name), _cast_type(column)
        if column.generated == "STORED" and expression and kind and TIME_ZONE in variables_of(table, column.name):
            yield column.name, f"NOT ({quote(column.name)} <=> CAST({expression} AS {kind}))"


def _cast_type(column: Column) -> str:
    """The type in CAST that rounds and cuts as the column does; '' if there is none."""
    kind, unsigned = column.type_name, "unsigned" in column.column_type.lower()
    arguments = _ARGUMENTS.search(column.column_type)
    digits = arguments[0] if arguments is not None else ""
    if kind in _INTEGERS:
        return "UNSIGNED" if unsigned or kind == "year" else "SIGNED"
    if kind in _MOMENTS:
        return f"DATETIME{digits}"
    if kind in ("date", "time", "decimal"):
        return f"{kind.upper()}{digits}"
    return "CHAR" if kind in _TEXT else ""
