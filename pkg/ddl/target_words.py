"""A statement in the syntax of the target's family: the same meaning, or nothing where only storage was meant. Pure.

Syntax for functions that a family lacks stays in the text: its server refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import as_executed, edited
from pkg.ddl.statement import (
    AddIndex,
    AlterAction,
    AlterColumn,
    AlterSpec,
    ChangeColumn,
    DDLStatement,
    DropConstraint,
    Mark,
    NoStructure,
    SetOptions,
    Wording,
)
from pkg.ddl.target_collations import TargetCollations
from pkg.ddl.tokens import Dialect, tokenize, word_set
from pkg.mysql.names import quote

#: Table options that TiDB uses; the others control another server's storage and statistics.
_OPTIONS = word_set(
    "AUTO_INCREMENT COMMENT AUTO_ID_CACHE AUTO_RANDOM_BASE SHARD_ROW_ID_BITS PRE_SPLIT_REGIONS TTL TTL_ENABLE"
)
#: Maintenance of an unchanged table, and hints for the execution.
_MAINTENANCE = frozenset(
    f"{work} table partition" for work in ("analyze", "check", "optimize", "rebuild", "repair")
) | {"force", "order", "keys", "secondary engine", "algorithm and lock", "copy"}
#: In a replacement: the marked keywords themselves.
_AS_IT_IS = "\0"
#: Kind of keywords, or kind and first keyword → their replacement; '' for nothing. Others stay.
_Instead = Mapping[Wording | tuple[Wording, str], str]
_IN_MYSQL_S: _Instead = {
    "generated kind": "STORED",
    "plural": "TABLE",
    ("index visibility", "IGNORED"): "INVISIBLE",
    ("index visibility", "NOT"): "VISIBLE",
    **dict.fromkeys(("or replace", "online", "wait", "if exists", "schema option"), ""),
}
_IN_TIDB: _Instead = {**_IN_MYSQL_S, **dict.fromkeys(("storage", "visibility", "comma"), "")}
_IN_MYSQL: _Instead = {
    **_IN_MYSQL_S,
    "part guard": "",
    "bare default": f"({_AS_IT_IS})",
    # The MariaDB equivalent: MySQL's own type normalizes documents.
    ("type name", "JSON"): "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
}
_IN_MARIADB: _Instead = {
    ("index visibility", "INVISIBLE"): "IGNORED",
    ("index visibility", "VISIBLE"): "NOT IGNORED",
    ("type name", "GEOMCOLLECTION"): "GEOMETRYCOLLECTION",
    # MariaDB accepts no attribute of a number after the short form.
    ("type name", "SERIAL"): "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE",
    # Under its own name, which later statements use.
    "not enforced": " OR TRUE)",
    "drop check": "CONSTRAINT",
    # Before 11.4 it has no syntax for it, and always checks the rows.
    **dict.fromkeys(("schema option", "generated nullability", "column format", "enforced", "validation"), ""),
}
#: MariaDB generates a check's name per table: in MySQL a name is unique in a schema (3822).
_FOUND_NAME = re.compile(r"CONSTRAINT\s+`?CONSTRAINT_\d+`?\s+(?=CHECK\b)", re.IGNORECASE)
#: A charset before a string. MariaDB does not escape such a string when it stores it in an expression.
_INTRODUCERS = frozenset({"_utf8mb4", "_utf8mb3", "_utf8"})
#: MySQL's options that MariaDB lacks, and MariaDB's options that MySQL has too.
_OF_MYSQL_ALONE = word_set(
    """AUTOEXTEND_SIZE COMPRESSION ENCRYPTION ENGINE_ATTRIBUTE SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE TABLESPACE
    STORAGE SRID NOT ALGORITHM LOCK"""
)
_OF_BOTH = word_set(
    """AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM COMMENT CONNECTION DATA INDEX DELAY_KEY_WRITE INSERT_METHOD KEY_BLOCK_SIZE
    MAX_ROWS MIN_ROWS PACK_KEYS PASSWORD ROW_FORMAT STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES UNION"""
)
#: Execution hints, which each family accepts for other statements.
_WAYS = frozenset({"algorithm and lock", "copy", "secondary engine"})
#: TiDB treats DROP CONSTRAINT as DROP CHECK, and without checks as no change.
_DROPPED_AS = {"FOREIGN KEY": "FOREIGN KEY", "UNIQUE": "INDEX", "PRIMARY KEY": "INDEX"}


@dataclass(frozen=True, slots=True)
class TargetWords:
    """The target's statements, in order: none for a statement without effect there. ``left_out``: the keywords that are
    dropped."""

    statements: tuple[str, ...]
    left_out: tuple[str, ...] = ()


#: The kind of the target's constraint under a name, in the target's term; '' for none.
ConstraintKind = Callable[[str, str, str], str]


#: The collations of a target that are unknown.
_AS_THEY_ARE = TargetCollations()


def _unknown(schema: str, table: str, name: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class _Translation:
    """How a family of targets converts another family's keywords."""

    instead: _Instead
    keeps_option: Callable[[str], bool]
    #: Parts of an ALTER TABLE without effect there, and whether a column's visibility is one.
    nothing: frozenset[str]
    hides_columns: bool

    def of(self, mark: Mark) -> str:
        """The replacement for a mark's keywords."""
        if mark.what == "storage":
            return _AS_IT_IS if self.keeps_option(mark.word) else ""
        return self.instead.get((mark.what, mark.word), self.instead.get(mark.what, _AS_IT_IS))


_TIDB = _Translation(_IN_TIDB, lambda word: word in _OPTIONS, _MAINTENANCE, hides_columns=False)
#: Families of upstream ('': any) and target.
_TRANSLATED: Mapping[tuple[str, str], _Translation] = {
    ("", "tidb"): _TIDB,
    ("mysql", "tidb"): _TIDB,
    ("mariadb", "tidb"): _TIDB,
    ("mariadb", "mysql"): _Translation(_IN_MYSQL, lambda word: word in _OF_BOTH, _WAYS, hides_columns=True),
    ("mysql", "mariadb"): _Translation(
        _IN_MARIADB, lambda word: word not in _OF_MYSQL_ALONE, _WAYS | {"validation"}, hides_columns=False
    ),
}


def in_target_words(
    sql: str,
    dialect: Dialect,
    family: str,
    constraint_kind: ConstraintKind = _unknown,
    collations: TargetCollations = _AS_THEY_ARE,
) -> TargetWords:
    """A statement, already routed, for a target of that family (mysql, mariadb, tidb). Raises 36067.

    ``constraint_kind`` returns the kind of a table's constraint that a part drops without its kind.
    """
    sql = collations.in_text(sql, dialect)
    translation = _TRANSLATED.get((dialect.flavor, family))
    if translation is None:
        return TargetWords((sql,))
    sql = as_executed(sql, dialect)
    statement = parse_dialect(sql, dialect, "")
    removed = _removed_parts(statement, translation)
    edits = [(start, end, "") for start, end in removed]
    left_out = [sql[start:end].strip(" ,") for start, end in removed]
    for mark in statement.marks:
        if any(start <= mark.start and mark.end <= end for start, end in removed):
            continue
        instead = translation.of(mark)
        if mark.what == "any constraint":
            instead = _DROPPED_AS.get(constraint_kind(*_dropped(statement, mark)), "CONSTRAINT")
        elif mark.what == "or replace" and family == "mysql" and statement.kind == "create index":
            continue  # it drops no index that may be missing
        elif mark.what == "current time" and family == "mysql":
            instead = sql[mark.start + 1 : mark.end - 1]  # without the parentheses
        elif mark.what == "table check" and (dialect.flavor, family) == ("mariadb", "mysql"):
            name = _FOUND_NAME.match(sql, mark.start)
            edits += [(name.start(), name.end(), "")] if name else []
        elif mark.what == "column check" and family == "tidb" and _changes_column(statement, mark):
            instead = ""  # refused there, but ignored for a new column
        if instead != _AS_IT_IS:
            edits.append((mark.start, mark.end, instead.replace(_AS_IT_IS, sql[mark.start : mark.end])))
        if not instead and mark.what not in ("comma", "or replace", "part guard"):
            left_out.append(sql[mark.start : mark.end])
    if family == "mariadb":
        edits += [(start, end, "") for start, end in _introducers(sql, dialect)]
    if _is_nothing_at_all(statement, translation):
        return TargetWords((), tuple(left_out))
    room = _made_room(statement, family) if translation.instead.get("or replace") == "" else ()
    return TargetWords((*room, edited(sql, edits)), tuple(left_out))


def _dropped(statement: DDLStatement, mark: Mark) -> tuple[str, str, str]:
    """The table and the constraint that the marked part drops."""
    spec = next(spec for spec in statement.specs if spec.start <= mark.start < spec.end)
    name = next(action.name for action in spec.actions if isinstance(action, DropConstraint))
    return *statement.tables[0], name


def _changes_column(statement: DDLStatement, mark: Mark) -> bool:
    specs = (spec for spec in statement.specs if spec.start <= mark.start < spec.end)
    return any(isinstance(action, ChangeColumn) for spec in specs for action in spec.actions)


def _introducers(sql: str, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """The offsets of strings that declare UTF-8, in which the statement is sent."""
    if "_utf8" not in sql.lower():
        return
    for token, text in pairwise(tokenize(sql, dialect)):
        if text.kind == "string" and token.kind == "word" and token.text.lower() in _INTRODUCERS:
            yield token.start, token.end


def _made_room(statement: DDLStatement, family: str) -> Iterator[str]:
    """The first effect of OR REPLACE."""
    if not statement.or_replace:
        return
    name = statement.sql[statement.refs[0].start : statement.refs[0].end]
    if statement.kind != "create index":
        yield f"DROP {'TABLE' if statement.kind == 'create table' else 'DATABASE'} IF EXISTS {name}"
    elif family != "mysql":
        index = next(action.index.name for action in statement.actions if isinstance(action, AddIndex))
        yield f"DROP INDEX IF EXISTS {quote(index)} ON {name}"


def _removed_parts(statement: DDLStatement, translation: _Translation) -> list[tuple[int, int]]:
    """The parts of an ALTER TABLE that have no effect at the target, each with its comma."""
    specs, found = statement.specs, []
    kept = False
    for at, spec in enumerate(specs):
        if not _is_nothing(spec, translation):
            kept = True
        elif kept:
            found.append((specs[at - 1].end, spec.end))
        else:
            found.append((spec.start, specs[at + 1].start if at + 1 < len(specs) else spec.end))
    return found


def _is_nothing_at_all(statement: DDLStatement, translation: _Translation) -> bool:
    if statement.kind == "alter database":
        return not (statement.options.charset or statement.options.collation)
    return bool(statement.specs) and all(_is_nothing(spec, translation) for spec in statement.specs)


def _is_nothing(spec: AlterSpec, translation: _Translation) -> bool:
    return bool(spec.actions) and all(_says_nothing(action, translation) for action in spec.actions)


def _says_nothing(action: AlterAction, translation: _Translation) -> bool:
    if isinstance(action, NoStructure):
        return action.what in translation.nothing
    if isinstance(action, AlterColumn):
        return action.invisible is not None and not translation.hides_columns
    if not isinstance(action, SetOptions):
        return False
    options = action.options
    return not (options.charset or options.collation or options.engine) and not translation.keeps_option(action.word)
