"""From an upstream's statement to the target's: splits it into single steps and routes names; other text stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pkg.ddl.parser import parse_dialect
from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AlterAction,
    AlterColumn,
    ChangeColumn,
    DDLKind,
    DDLStatement,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    NoStructure,
    RenameColumn,
    RenameIndex,
)
from pkg.ddl.tokens import Dialect, tokenize
from pkg.mysql.names import qualified, quote

TableRewrite = Callable[[str, str], tuple[str, str]]

#: Servers that accept DROP INDEX IF EXISTS.
_GUARDED_DROP_INDEX = ("mariadb", "tidb")

_FOR_TIDB = re.compile(r"/\*T!.*?\*/", re.DOTALL)
_ALTER_ERRORS = frozenset({1054, 1060, 1061, 1068, 1091, 1176, 1507, 1517})
#: MySQL's errors that can mean that a single-step statement already had its effect, by kind of statement.
IGNORABLE_ERRORS: Mapping[DDLKind, frozenset[int]] = MappingProxyType(
    {
        "create database": frozenset({1007}),
        "drop database": frozenset({1008}),
        "create table": frozenset({1050}),
        "drop table": frozenset({1051}),
        "alter table": _ALTER_ERRORS,
        "create index": frozenset({1061}),
        "drop index": frozenset({1091, 1176}),
    }
)

_PART_ERRORS: Mapping[type, frozenset[int]] = MappingProxyType(
    {
        AddColumn: frozenset({1060}),
        RenameColumn: frozenset({1054}),
        AlterColumn: frozenset({1054}),
        DropColumn: frozenset({1091}),
        DropIndex: frozenset({1091, 1176}),
        RenameIndex: frozenset({1176}),
        DropForeignKey: frozenset({1091}),
        DropConstraint: frozenset({1091}),
    }
)
_INDEX_ERRORS: Mapping[str, frozenset[int]] = MappingProxyType(
    {"primary": frozenset({1068}), "check": frozenset[int]()}
)
_PARTITION_ERRORS: Mapping[str, frozenset[int]] = MappingProxyType(
    {"add table partition": frozenset({1517}), "drop table partition": frozenset({1507})}
)


def ignorable_errors(statement: DDLStatement) -> frozenset[int]:
    """The error numbers after which ``statement`` counts as executed.

    None for an ALTER TABLE of several parts: the error shows that one part already had its effect, but nothing about
    the others. Execute the steps of :func:`split_alter` then. DM ignores each number after every ALTER TABLE; here it
    counts only where it proves the effect of this part: an unknown column after ADD COLUMN … AFTER it means that
    nothing was added.
    """
    if statement.kind != "alter table":
        return IGNORABLE_ERRORS.get(statement.kind, frozenset())
    if len(_steps(statement)) > 1:
        return frozenset()
    actions = (a for a in statement.actions if not (isinstance(a, NoStructure) and a.modifier))
    return next((_had_effect(action) for action in actions), frozenset())


def _had_effect(action: AlterAction) -> frozenset[int]:
    if isinstance(action, ChangeColumn):
        # The unknown column may be another one: the one in AFTER, or one in its expression.
        others = action.column.generated or (action.position is not None and action.position.after)
        return frozenset() if others else frozenset({1054})
    if isinstance(action, AddIndex):
        return _INDEX_ERRORS.get(action.index.kind, frozenset({1061}))
    if isinstance(action, NoStructure):
        return _PARTITION_ERRORS.get(action.what, frozenset())
    return next((numbers for kind, numbers in _PART_ERRORS.items() if isinstance(action, kind)), frozenset())


def split(statement: DDLStatement) -> list[DDLStatement]:
    """One statement for each table of DROP TABLE and each pair of RENAME TABLE, in order; others stay unchanged.

    An ALTER TABLE stays whole, as all of its parts belong to one table and the server executes them together.
    """
    if len(statement.items) < 2:
        return [statement]
    sql = _without_comments(statement)
    head, tail = sql[: statement.items[0][0]], sql[statement.items[-1][1] :]
    return [_again(statement, f"{head}{sql[start:end]}{tail}") for start, end in statement.items]


def split_alter(statement: DDLStatement) -> list[DDLStatement]:
    """An ALTER TABLE as one statement for each part, each with the original's ALGORITHM and LOCK."""
    sql = _without_comments(statement)
    steps = _steps(statement)
    if len(steps) < 2:
        return [statement]
    head, tail = sql[: statement.specs[0].start], sql[statement.specs[-1].end :]
    modifiers = "".join(f", {sql[spec.start : spec.end]}" for spec in statement.specs if spec.modifier)
    return [_again(statement, f"{head}{step}{modifiers}{tail}") for step in steps]


def _steps(statement: DDLStatement) -> list[str]:
    """The text of every part that can be a separate ALTER TABLE."""
    sql = _without_comments(statement)
    steps: list[str] = []
    for spec in statement.specs:
        if spec.elements:
            steps += [f"{head} {sql[start:end]}" for head, start, end in spec.elements]
        elif not spec.modifier:
            steps.append(sql[spec.start : spec.end])
    return steps


def _without_comments(statement: DDLStatement) -> str:
    return as_executed(statement.sql, statement.dialect)


def as_executed(sql: str, dialect: Dialect) -> str:
    """The text with blanks for the delimiters of executable comments, which may enclose several parts, and for comments
    that the server did not execute; offsets stay. Comments for TiDB stay too."""
    if "/*!" not in sql and "/*M!" not in sql:
        return sql
    out = [" "] * len(sql)
    at = 0
    for token in tokenize(sql, dialect):
        for note in _FOR_TIDB.finditer(sql, at, token.start):
            out[note.start() : note.end()] = note[0]
        out[token.start : token.end] = token.text
        at = token.end
    return "".join(out)


def _again(statement: DDLStatement, sql: str) -> DDLStatement:
    return parse_dialect(sql, statement.dialect, statement.default_schema)


def rewrite(
    statement: DDLStatement, route: TableRewrite, *, target_flavor: str = "", inherited: tuple[str, str] | None = None
) -> str:
    """The statement's text for the target.

    Every schema and table name is routed, qualified and quoted; IF NOT EXISTS and IF EXISTS are added where they make a
    repetition harmless; the rest of the text stays. ``route(schema, table)`` gets table '' for a schema.
    ``target_flavor`` (mariadb, tidb or '') determines whether DROP INDEX may have IF EXISTS. ``inherited`` is the
    charset and collation that a CREATE TABLE without its own inherits from the upstream's schema: they are added to the
    text, as the target's schema may have another default. Without it the target's default applies.
    """
    edits: list[tuple[int, int, str]] = []
    for ref in statement.refs:
        schema, table = route(ref.schema, ref.table)
        name = qualified(schema, table) if ref.table else quote(schema)
        edits.append((ref.start, ref.end, name + " " if ref.start == ref.end else name))
    if statement.guard >= 0 and (statement.kind != "drop index" or target_flavor in _GUARDED_DROP_INDEX):
        keywords = "IF NOT EXISTS " if statement.kind.startswith("create") else "IF EXISTS "
        edits.append((statement.guard, statement.guard, keywords))
    body = statement.body
    if inherited and body is not None and body.options_at >= 0 and not (body.options.charset or body.options.collation):
        charset, collation = inherited
        edits.append((body.options_at, body.options_at, f" DEFAULT CHARSET={charset} COLLATE={collation}"))
    edits.extend((start, end, "") for start, end in statement.cuts)
    return edited(statement.sql, edits)


def edited(sql: str, edits: list[tuple[int, int, str]]) -> str:
    """Applies edits that do not overlap; an insertion goes before the replacement that starts at the same offset."""
    out: list[str] = []
    at = 0
    for start, end, text in sorted(edits, key=lambda edit: edit[:2]):
        out += [sql[at:start], text]
        at = end
    out.append(sql[at:])
    return "".join(out)
