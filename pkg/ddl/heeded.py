"""Reduces a statement to the parts that its server applied: other servers apply more, or less, of it. Pure.

MySQL before 8.0.16 parses CHECK constraints and stores none. MySQL before 9.0 and MariaDB before 10.5 parse a column's
own REFERENCES and create no foreign key; later versions do, and TiDB does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import as_executed, edited
from pkg.ddl.statement import AddColumn, AddIndex, AlterSpec, ChangeColumn, DDLStatement, Mark
from pkg.ddl.tokens import Dialect, Token, tokenize
from pkg.mysql.names import quote

_CHECKS = ("column check", "table check")
_REFERENCE = "column reference"

Edit = tuple[int, int, str]


def as_heeded(statement: DDLStatement) -> DDLStatement | None:
    """The statement without the parts that its server ignored; a column's own foreign key becomes one of the table.

    None if nothing is left. A statement of an unknown server stays unchanged.
    """
    dialect = statement.dialect
    marks = [
        mark for mark in statement.marks if mark.what == _REFERENCE or (mark.what in _CHECKS and _no_checks(dialect))
    ]
    if not marks or not dialect.version or not dialect.flavor:
        return statement
    sql = as_executed(statement.sql, dialect)
    only_checks = [spec for spec in statement.specs if _no_checks(dialect) and _is_checks(spec)]
    if statement.specs and len(only_checks) == len(statement.specs):
        return None
    elements = [(spec.start, spec.end) for spec in only_checks]
    elements += [(m.start, m.end) for m in marks if m.what == "table check" and not _within(m, only_checks)]
    edits: list[Edit] = [(start, end, "") for start, end in _with_commas(sql, dialect, sorted(elements))]
    edits += [(mark.start, mark.end, "") for mark in marks if mark.what in ("column check", _REFERENCE)]
    if _makes_keys(dialect):
        edits += _keys(statement, sql, [mark for mark in marks if mark.what == _REFERENCE])
    return parse_dialect(edited(sql, edits), dialect, statement.default_schema)


def _no_checks(dialect: Dialect) -> bool:
    return dialect.flavor == "mysql" and dialect.version < 80016


def _makes_keys(dialect: Dialect) -> bool:
    return dialect.version >= (100500 if dialect.flavor == "mariadb" else 90000)


def _is_checks(spec: AlterSpec) -> bool:
    """Whether a part of an ALTER TABLE only adds checks."""
    return bool(spec.actions) and all(isinstance(a, AddIndex) and a.index.kind == "check" for a in spec.actions)


def _within(mark: Mark, specs: Sequence[AlterSpec]) -> bool:
    return any(spec.start <= mark.start < spec.end for spec in specs)


def _with_commas(sql: str, dialect: Dialect, elements: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Elements of lists, each with one comma: the one before it, or the one after it where nothing before it stays."""
    tokens: list[Token] = list(tokenize(sql, dialect)) if elements else []
    gone = -1
    for start, end in elements:
        before = next((token for token in reversed(tokens) if token.start < start), None)
        if before is not None and before.text == "," and before.start >= gone:
            start = before.start
        else:
            behind = next((token for token in tokens if token.start >= end), None)
            end = behind.start + 1 if behind is not None and behind.text == "," else end
        gone = end
        yield start, end


def _keys(statement: DDLStatement, sql: str, references: Sequence[Mark]) -> Iterator[Edit]:
    """The foreign keys after their columns' definitions: the server counts them there for generated names."""
    columns = [(column.end, column.name, column.end, "") for column in statement.body.columns] if statement.body else []
    for spec in statement.specs:
        for action in spec.actions:
            if isinstance(action, AddColumn | ChangeColumn):
                column = action.column
                insertion = (column.end, "") if spec.elements else (spec.end, "ADD ")
                columns.append((column.end, column.name, *insertion))
    for mark in references:
        _, name, at, head = next(column for column in columns if mark.end <= column[0])
        clause = sql[mark.start : mark.end]
        first = clause.upper().find("REFERENCES")
        yield at, at, f", {head}{clause[:first]}FOREIGN KEY ({quote(name)}) {clause[first:]}"
