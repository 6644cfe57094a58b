"""The names that MySQL gives to unnamed CHECK constraints: the table's name, ``_chk_`` and a number. Pure.

MySQL counts from the highest number in the table, even when the statement drops that constraint. MariaDB generates
other names, and none for a column's own CHECK, which ends when the column is changed. So MariaDB gets these constraints
as table constraints with MySQL's names: later statements then refer to the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import edited
from pkg.ddl.statement import AddColumn, ChangeColumn, ColumnDef, DDLStatement, DropConstraint, Mark, TableBody
from pkg.ddl.token_cursor import TokenCursor
from pkg.mysql.names import quote

_WORD = "_chk_"
_NUMBER = re.compile(r"[1-9]\d*")
#: A name that some server generated: MySQL, or MariaDB.
_FOUND = re.compile(r"constraint_\d+|.*_chk_\d+", re.IGNORECASE | re.DOTALL)
#: A table's constraints in SHOW CREATE TABLE, and any check, also a column's own. MariaDB gives JSON columns checks
#: that can't be dropped by name.
_SHOWN = re.compile(r"^ *CONSTRAINT `((?:[^`]|``)*)` ", re.MULTILINE)
_CHECK = re.compile(r"\bCHECK \((?!json_valid\()")
_TEXT = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
#: The first MySQL version that stores CHECK constraints.
KEPT_SINCE = 80016


def has_checks(statement: DDLStatement) -> bool:
    """Whether the statement adds CHECK constraints that its upstream, a MySQL, stores."""
    kept = statement.dialect.flavor == "mysql" and statement.dialect.version >= KEPT_SINCE
    return kept and any(mark.what in ("column check", "table check") for mark in statement.marks)


def with_check_names(statement: DDLStatement, table: TableBody | None) -> DDLStatement:
    """The statement with each CHECK as a table constraint with MySQL's name; ``table`` is the table before it."""
    own = statement.refs[0].table
    known = [] if table is None else [definition.name for definition in table.indexes if definition.kind == "check"]
    dropped = [action.name for action in statement.actions if isinstance(action, DropConstraint)]
    number = max((_number(name, own) for name in (*known, *dropped)), default=0)
    edits: list[tuple[int, int, str]] = []
    for mark in statement.marks:
        if mark.what not in ("column check", "table check"):
            continue
        name, check = _named(statement, mark)
        if not name:
            number += 1
            name = f"{own}{_WORD}{number}"
        text = f"CONSTRAINT {quote(name)} {statement.sql[check : mark.end]}"
        if mark.what == "table check":
            edits.append((mark.start, mark.end, text))
        else:
            edits += [(mark.start, mark.end, ""), _behind_column(statement, mark, text)]
    sql = edited(statement.sql, edits)
    return parse_dialect(sql, statement.dialect, statement.default_schema)


def _number(name: str, table: str) -> int:
    """The number in a generated name of this table's constraint; 0 for other names."""
    number = name.removeprefix(f"{table}{_WORD}")
    return int(number) if number != name and _NUMBER.fullmatch(number) else 0


def _named(statement: DDLStatement, mark: Mark) -> tuple[str, int]:
    """The given name ('' for none), and the offset where its CHECK begins."""
    cursor = TokenCursor(statement.sql[mark.start : mark.end], statement.dialect, "")
    name = ""
    if cursor.accept("CONSTRAINT") and not cursor.at_any("CHECK"):
        name = cursor.name()
    return name, mark.start + cursor.token.start


def _behind_column(statement: DDLStatement, mark: Mark, text: str) -> tuple[int, int, str]:
    """The edit that moves the constraint from the column's attributes to after the column."""
    end = min(column.end for column in _columns(statement) if column.end >= mark.end)
    spec = next((spec for spec in statement.specs if spec.start <= mark.start < spec.end), None)
    if spec is None or spec.elements:
        return end, end, f", {text}"
    return spec.end, spec.end, f", ADD {text}"


def _columns(statement: DDLStatement) -> Iterator[ColumnDef]:
    if statement.body is not None:
        yield from statement.body.columns
    yield from (action.column for action in statement.actions if isinstance(action, AddColumn | ChangeColumn))


def missing_check(statement: DDLStatement, shown: str) -> str:
    """A server-generated CHECK name that the statement drops and the table does not have, although one of the table's
    checks may be the intended one; '' for none.

    ``shown`` is the table's SHOW CREATE.
    """
    if not _CHECK.search(_TEXT.sub("''", shown)):
        return ""
    present = {name.replace("``", "`").lower() for name in _SHOWN.findall(shown)}
    dropped = (action for action in statement.actions if isinstance(action, DropConstraint) and not action.if_exists)
    names = (action.name for action in dropped if _FOUND.fullmatch(action.name))
    return next((name for name in names if name.lower() not in present), "")
