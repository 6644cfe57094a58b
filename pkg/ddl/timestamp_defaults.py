"""Writes the implicit meaning of TIMESTAMP columns without explicit_defaults_for_timestamp into the text. Pure.

MySQL before 8.0 and MariaDB before 10.10 have it off by default; TiDB always has it on, and is not settable. The
rule: https://dev.mysql.com/doc/refman/5.7/en/server-system-variables.html#sysvar_explicit_defaults_for_timestamp
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import edited
from pkg.ddl.statement import (
    AddColumn,
    ChangeColumn,
    ColumnDef,
    ColumnPlacement,
    DDLStatement,
    DropColumn,
    RenameColumn,
    TableBody,
)

_ZERO = "DEFAULT '0000-00-00 00:00:00'"


def leaves_timestamps_open(statement: DDLStatement) -> bool:
    """Whether the text has a TIMESTAMP column without NULL."""
    return any(map(_is_open, _timestamps(statement)))


def with_timestamp_defaults(statement: DDLStatement, whole: DDLStatement, table: TableBody | None) -> DDLStatement:
    """The statement with NOT NULL and the default of each TIMESTAMP column that depends on its session.

    The table's first TIMESTAMP column has another default than the others. ``table`` is the table of an ALTER TABLE,
    None for CREATE TABLE; ``whole`` is the ALTER TABLE that the statement is a part of, or the statement.
    """
    after = _columns_after(whole, table)
    first = next((column.name.lower() for column in after if _is_timestamp(column)), "")
    edits = [
        (column.end, column.end, _meaning(column, first=column.name.lower() == first))
        for column in _timestamps(statement)
        if _is_open(column)
    ]
    return parse_dialect(edited(statement.sql, edits), statement.dialect, statement.default_schema)


def _columns_after(statement: DDLStatement, table: TableBody | None) -> list[ColumnDef]:
    """The table's columns after the statement. The effects of an earlier part of it are kept."""
    columns = [*(table.columns if table else ()), *(statement.body.columns if statement.body else ())]
    for action in statement.actions:
        if isinstance(action, DropColumn):
            columns = [column for column in columns if not _is_named(column, action.name)]
        elif isinstance(action, RenameColumn):
            named = {action.old_name.lower(): action.new_name}
            columns = [replace(column, name=named.get(column.name.lower(), column.name)) for column in columns]
        elif isinstance(action, AddColumn):
            columns = _put(columns, action.column, action.column.name, action.position)
        elif isinstance(action, ChangeColumn):
            columns = _put(columns, action.column, action.old_name, action.position)
    return columns


def _put(columns: list[ColumnDef], new: ColumnDef, former: str, position: ColumnPlacement | None) -> list[ColumnDef]:
    """The columns with ``new`` instead of ``former``, at its position, or at the end."""
    at = next((i for i, old in enumerate(columns) if _is_named(old, former) or _is_named(old, new.name)), len(columns))
    others = [*columns[:at], *columns[at + 1 :]]
    if position is not None:
        at = next((i + 1 for i, old in enumerate(others) if _is_named(old, position.after)), len(others))
        at = at if position.after else 0
    return [*others[:at], new, *others[at:]]


def _is_named(column: ColumnDef, name: str) -> bool:
    return column.name.lower() == name.lower()


def _timestamps(statement: DDLStatement) -> Iterator[ColumnDef]:
    columns = [] if statement.body is None else list(statement.body.columns)
    columns += [action.column for action in statement.actions if isinstance(action, AddColumn | ChangeColumn)]
    yield from filter(_is_timestamp, columns)


def _is_timestamp(column: ColumnDef) -> bool:
    return column.type.name == "TIMESTAMP"


def _is_open(column: ColumnDef) -> bool:
    return not column.nullable and not column.generated


def _meaning(column: ColumnDef, *, first: bool) -> str:
    """The text after the column's attributes."""
    parts = ["", "NOT NULL"]
    if column.default is None:
        now = f"CURRENT_TIMESTAMP({', '.join(column.type.args)})"
        parts.append(f"DEFAULT {now} ON UPDATE {now}" if first and not column.on_update else _ZERO)
    return " ".join(parts) + " "
