"""Writes the collations that a statement leaves to the server's defaults into the statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pkg.ddl.failure import unsupported
from pkg.ddl.rewrite import edited
from pkg.ddl.statement import AddColumn, ChangeColumn, ConvertCharset, DDLStatement, SetOptions, TableOptions, TypeSpec

#: Keywords that name no charset, and the charset with only one collation.
_UNNAMED = ("", "default")
_SINGLE = "binary"
#: Characters that need a blank between them and the collation's name.
_JOINING = re.compile(r"[\w$'\"`]")

_Clause = TypeSpec | TableOptions | ConvertCharset


def with_collations(statement: DDLStatement, default: Callable[[str], str], schema_collation: str = "") -> str:
    """The statement with ``COLLATE …`` after every charset without a collation.

    ``default`` gives the default collation of a charset, and raises ``ValueError`` for an unknown one;
    ``schema_collation`` is that of a CREATE DATABASE that names neither, '' leaves it unchanged. The rest of the
    statement stays: named collations (COLLATE DEFAULT as well), CHARACTER SET DEFAULT in tables, columns that inherit
    from their table. This is DM's rule for CREATE statements; here it applies to ALTER as well.

    Raises 36067 for an unknown charset.
    """
    try:
        positions = [(clause.bare_charset, default(clause.charset)) for clause in _open_clauses(statement)]
    except ValueError as exc:
        raise unsupported(statement.sql, f"the charset's default collation can't be determined: {exc}") from exc
    if schema_collation and _names_neither(statement):
        # Directly after the name: the rest may be in comments for versions other than the target's.
        positions.append((max(statement.options.bare_charset, statement.refs[0].end), schema_collation))
    return edited(statement.sql, [(at, at, _insertion(statement.sql, at, collation)) for at, collation in positions])


def _insertion(sql: str, at: int, collation: str) -> str:
    return f" COLLATE {collation}" + (" " if _JOINING.match(sql, at) else "")


def _names_neither(statement: DDLStatement) -> bool:
    options = statement.options
    return statement.kind == "create database" and options.charset.lower() in _UNNAMED and not options.collation


def _open_clauses(statement: DDLStatement) -> Iterator[_Clause]:
    """The clauses that name only a charset."""
    for clause in _clauses(statement):
        if clause.bare_charset >= 0 and clause.charset.lower() not in (*_UNNAMED, _SINGLE):
            yield clause


def _clauses(statement: DDLStatement) -> Iterator[_Clause]:
    body, actions = statement.body, statement.actions
    yield statement.options
    columns = [action.column for action in actions if isinstance(action, AddColumn | ChangeColumn)]
    if body is not None:
        yield body.options
        columns += body.columns
    # The attribute BINARY also selects a collation.
    yield from (column.type for column in columns if not column.type.binary)
    yield from (action for action in actions if isinstance(action, ConvertCharset))
    set_options = (action.options for action in actions if isinstance(action, SetOptions))
    yield _together(set_options, takes_back=statement.dialect.flavor == "mysql")


def _together(options: Iterable[TableOptions], *, takes_back: bool) -> TableOptions:
    """The charset from all options of an ALTER TABLE. ``takes_back``: a charset cancels a collation before it, as in
    MySQL."""
    found, collated = TableOptions(), False
    for option in options:
        if option.charset:
            collated = collated and not takes_back
            found = replace(option, bare_charset=-1 if collated else option.bare_charset)
        elif option.collation:
            collated = True
            found = replace(found, bare_charset=-1)
    return found
