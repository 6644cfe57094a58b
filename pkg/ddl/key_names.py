"""The names that MySQL and MariaDB generate for the unnamed keys of a statement. Pure.

Other servers generate other names. They get these names, so that a later DROP INDEX refers to the same key there.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pkg.ddl.foreign_names import definitions, foreign_key_names
from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import edited
from pkg.ddl.statement import (
    AddColumn,
    ChangeColumn,
    DDLStatement,
    DropColumn,
    DropConstraint,
    DropIndex,
    RenameColumn,
    RenameIndex,
    TableBody,
)
from pkg.mysql.names import quote

#: Offsets in a statement's text where a key's name is missing → the names.
KeyNames = Mapping[int, str]

_OF_EXPRESSION = "functional_index"


def free_key_name(taken: set[str], column: str) -> str:
    """The name for a key that begins with ``column``; ``taken``: the table's other key names, in upper case."""
    names = (column if number == 1 else f"{column}_{number}" for number in count(1))
    return next(name for name in names if name.upper() not in taken and name.upper() != "PRIMARY")


def leaves_names_out(statement: DDLStatement) -> bool:
    """Whether the text has an unnamed key for which a name can be inserted."""
    return any(definition.name_at >= 0 for definition in definitions(statement))


def key_names(statement: DDLStatement, table: TableBody | None, whole: DDLStatement | None = None) -> KeyNames:
    """The names for a CREATE TABLE (``table`` None), an ALTER TABLE or a CREATE INDEX of ``table``.

    ``whole`` is the ALTER TABLE that the statement is a part of, if any: the parts before it have run.
    """
    found = foreign_key_names(statement, table, whole or statement)
    taken = set() if table is None else _kept_names(statement, table)
    columns = _columns(statement, table)
    for definition in definitions(statement):
        if definition.kind in ("check", "foreign"):
            continue
        first = definition.parts[0].column
        name = definition.name or free_key_name(taken, columns.get(first.lower(), first) or _OF_EXPRESSION)
        taken.add(name.upper())
        if definition.name_at >= 0:
            found[definition.name_at] = name
    return found


def with_key_names(statement: DDLStatement, names: KeyNames) -> DDLStatement:
    """The statement with these names in its text."""
    edits = []
    for at, name in names.items():
        gap = "" if statement.sql[at - 1].isspace() else " "
        edits.append((at, at, f"{gap}{quote(name)} "))
    sql = edited(statement.sql, edits)
    return parse_dialect(sql, statement.dialect, statement.default_schema)


def _columns(statement: DDLStatement, table: TableBody | None) -> dict[str, str]:
    """The spelling of columns, by their names in lower case: a key may use another case."""
    bodies = (body for body in (table, statement.body) if body is not None)
    names = [column.name for body in bodies for column in body.columns]
    for action in statement.actions:
        if isinstance(action, AddColumn | ChangeColumn):
            names.append(action.column.name)
        elif isinstance(action, RenameColumn):
            names.append(action.new_name)
    return {name.lower(): name for name in names}


def _kept_names(statement: DDLStatement, table: TableBody) -> set[str]:
    """The table's key names in upper case, after the statement's drops and renames."""
    dropped = {action.name.lower() for action in statement.actions if isinstance(action, DropColumn)}
    taken = {
        definition.name.upper()
        for definition in table.indexes
        if definition.kind not in ("check", "foreign")
        and not {part.column.lower() for part in definition.parts} <= dropped
    }
    for action in statement.actions:
        if isinstance(action, DropIndex | DropConstraint):
            taken.discard(action.name.upper())
        elif isinstance(action, RenameIndex):
            taken.discard(action.old_name.upper())
            taken.add(action.new_name.upper())
    return taken
