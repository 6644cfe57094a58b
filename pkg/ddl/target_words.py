"""A statement in the words of the target's family: the same meaning, or nothing where only storage was meant. Pure.

What a family cannot do at all stays in the text: its server refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import as_executed, edited
from pkg.ddl.statement import (
    AddIndex,
    AlterAction,
    AlterColumn,
    AlterSpec,
    DDLStatement,
    DropConstraint,
    Mark,
    NoStructure,
    SetOptions,
    Wording,
)
from pkg.ddl.tokens import Dialect, word_set
from pkg.mysql.names import quote

#: Table options that mean something to TiDB; the others are about another server's storage and statistics.
_OPTIONS = word_set(
    "AUTO_INCREMENT COMMENT AUTO_ID_CACHE AUTO_RANDOM_BASE SHARD_ROW_ID_BITS PRE_SPLIT_REGIONS TTL TTL_ENABLE"
)
#: What maintains a table as it is, and what asks for a way to do it.
_MAINTENANCE = frozenset(
    f"{work} table partition" for work in ("analyze", "check", "optimize", "rebuild", "repair")
) | {"force", "order", "keys", "secondary engine", "algorithm and lock", "copy"}
#: Words with others in their place; '' for nothing.
_INSTEAD: dict[tuple[Wording, str], str] = {
    ("generated kind", "PERSISTENT"): "STORED",
    ("plural", "TABLES"): "TABLE",
    ("index visibility", "IGNORED"): "INVISIBLE",
    ("index visibility", "NOT"): "VISIBLE",
}
#: TiDB takes DROP CONSTRAINT for that of a check, and without checks for nothing.
_DROPPED_AS = {"FOREIGN KEY": "FOREIGN KEY", "UNIQUE": "INDEX", "PRIMARY KEY": "INDEX"}
_FAMILY = "tidb"


@dataclass(frozen=True, slots=True)
class TargetWords:
    """The statements that the target gets, in order: none for one that has nothing to do there. ``left_out``: the
    words that it does not get."""

    statements: tuple[str, ...]
    left_out: tuple[str, ...] = ()


#: What kind of constraint the target's table has under a name, as it calls it; '' for none.
ConstraintKind = Callable[[str, str, str], str]


def _unknown(schema: str, table: str, name: str) -> str:
    return ""


def in_target_words(sql: str, dialect: Dialect, family: str, constraint_kind: ConstraintKind = _unknown) -> TargetWords:
    """A statement, already routed, for a target of that family (mysql, mariadb, tidb). Raises 36067.

    ``constraint_kind`` is asked for a table's constraint that a part drops without saying of which kind it is.
    """
    if family != _FAMILY:
        return TargetWords((sql,))
    sql = as_executed(sql, dialect)
    statement = parse_dialect(sql, dialect, "")
    removed = _removed_parts(statement)
    edits = [(start, end, "") for start, end in removed]
    left_out = [sql[start:end].strip(" ,") for start, end in removed]
    for mark in _kept_apart(statement, removed):
        instead = _INSTEAD.get((mark.what, mark.word), "")
        if mark.what == "any constraint":
            instead = _DROPPED_AS.get(constraint_kind(*_dropped(statement, mark)), "CONSTRAINT")
        edits.append((mark.start, mark.end, instead))
        if not instead and mark.what not in ("comma", "or replace"):
            left_out.append(sql[mark.start : mark.end])
    if _is_nothing_at_all(statement):
        return TargetWords((), tuple(left_out))
    return TargetWords((*_made_room(statement), edited(sql, edits)), tuple(left_out))


def _dropped(statement: DDLStatement, mark: Mark) -> tuple[str, str, str]:
    """The table and the constraint that the marked part drops."""
    spec = next(spec for spec in statement.specs if spec.start <= mark.start < spec.end)
    name = next(action.name for action in spec.actions if isinstance(action, DropConstraint))
    return *statement.tables[0], name


def _kept_apart(statement: DDLStatement, removed: list[tuple[int, int]]) -> Iterator[Mark]:
    """The marks that need an edit of their own."""
    for mark in statement.marks:
        inside = any(start <= mark.start and mark.end <= end for start, end in removed)
        kept = mark.what == "attribute key" or (mark.what == "storage" and mark.word in _OPTIONS)
        if not inside and not kept:
            yield mark


def _made_room(statement: DDLStatement) -> Iterator[str]:
    """What OR REPLACE does first."""
    if not statement.or_replace:
        return
    name = statement.sql[statement.refs[0].start : statement.refs[0].end]
    if statement.kind == "create index":
        index = next(action.index.name for action in statement.actions if isinstance(action, AddIndex))
        yield f"DROP INDEX IF EXISTS {quote(index)} ON {name}"
    else:
        yield f"DROP {'TABLE' if statement.kind == 'create table' else 'DATABASE'} IF EXISTS {name}"


def _removed_parts(statement: DDLStatement) -> list[tuple[int, int]]:
    """The parts of an ALTER TABLE that say nothing to the target, each with its comma."""
    specs, found = statement.specs, []
    kept = False
    for at, spec in enumerate(specs):
        if not _is_nothing(spec):
            kept = True
        elif kept:
            found.append((specs[at - 1].end, spec.end))
        else:
            found.append((spec.start, specs[at + 1].start if at + 1 < len(specs) else spec.end))
    return found


def _is_nothing_at_all(statement: DDLStatement) -> bool:
    if statement.kind == "alter database":
        return not (statement.options.charset or statement.options.collation)
    return bool(statement.specs) and all(map(_is_nothing, statement.specs))


def _is_nothing(spec: AlterSpec) -> bool:
    return bool(spec.actions) and all(map(_says_nothing, spec.actions))


def _says_nothing(action: AlterAction) -> bool:
    if isinstance(action, NoStructure):
        return action.what in _MAINTENANCE
    if isinstance(action, AlterColumn):
        return action.invisible is not None
    if not isinstance(action, SetOptions):
        return False
    options = action.options
    return not (options.charset or options.collation or options.engine) and action.word not in _OPTIONS
