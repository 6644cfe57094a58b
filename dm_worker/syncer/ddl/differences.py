"""Why a statement may have another effect at the target than upstream, even in the same session. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dm_worker.syncer.ddl.filled_columns import FilledOtherwise, filled_otherwise
from dm_worker.syncer.ddl.variables import (
    EMPTY_STRING_IS_NULL,
    TargetSession,
    UpstreamSession,
    carries_fractions,
    truncates_fractions,
    unknown_modes,
)
from pkg import ddl, errors
from pkg.binlog.events import QueryEvent
from pkg.ddl.columns import bytes_of
from pkg.ddl.statement import AddColumn, ChangeColumn, ColumnDef, DropColumn, NoStructure, RenameTable
from pkg.ddl.tokens import Token, tokenize, word_set
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.schema import Index, TableInfo

#: Functions whose result differs at another time, on another server or in another session, and those of them that need
#: no parentheses. Time functions are not included: the session gets the statement's time.
_FUNCTIONS = word_set(
    """BENCHMARK CONNECTION_ID CURRENT_ROLE CURRENT_USER DATABASE FOUND_ROWS GET_LOCK ICU_VERSION IS_FREE_LOCK
    IS_USED_LOCK LAST_INSERT_ID LASTVAL LOAD_FILE NEXTVAL PS_CURRENT_THREAD_ID RAND RANDOM RANDOM_BYTES
    RELEASE_ALL_LOCKS RELEASE_LOCK ROW_COUNT SCHEMA SESSION_USER SETVAL SLEEP STATEMENT_DIGEST SYS_GUID SYSDATE
    SYSTEM_USER USER UUID UUID_SHORT UUID_V4 UUID_V7 VERSION"""
)
_BARE_FUNCTIONS = word_set("CURRENT_ROLE CURRENT_USER SYSDATE")
_TEMPORAL = word_set("DATE DATETIME TIME TIMESTAMP")
_STRINGS = word_set("BINARY VARBINARY RAW CHAR CHARACTER VARCHAR VARCHARACTER VARCHAR2 NCHAR NVARCHAR")
_MOST_DIGITS = 6
_FRACTION = re.compile(r"\.(\d+)")
_LOCALISED = word_set("DATE_FORMAT DAYNAME MONTHNAME FORMAT TO_CHAR STR_TO_DATE")
_BAD_TABLE = 1051
_NAMES_PARTITIONS = frozenset({"truncate table partition", "exchange table partition"})
_HASHED = re.compile(r"PARTITION BY (?:LINEAR )?(?:HASH|KEY)\b")
_BY_HAND = (
    "Make the target's rows equal to the upstream's by hand: stop writes to the upstream table until they are "
    "equal, or copy the table again. Then skip the statement."
)
_COORDINATED = (
    "If tables of several names merge, run the task with `shard-mode: pessimistic`, which coordinates their DDL."
)
_TAKE_ROWS = frozenset({"drop database", "drop table", "truncate table", "rename table"})


@dataclass(frozen=True, slots=True)
class Doubt:
    """``rows``: it matters only if the target's table has rows that match this SQL condition; '' always. ``filled``:
    nor if the target shows both defaults of this column as the same."""

    what: str
    workaround: str
    rows: str = ""
    filled: FilledOtherwise | None = None


@dataclass(frozen=True, slots=True)
class Sides:
    """The servers, and the table on both before the statement.

    ``source`` is None where the target's rows are not exactly the rows of this one upstream table, and where it is
    unknown, as ``unknown`` then says. ``shown`` is the target's SHOW CREATE of its table. ``had`` are the columns of
    the upstream's table (lower case), None where unknown; ``beside`` is another upstream table whose rows the target's
    table has.
    """

    upstream: UpstreamSession
    target: TargetSession
    source: TableInfo | None = None
    copy: TableInfo | None = None
    shown: str = ""
    unknown: bool = False
    had: frozenset[str] | None = None
    beside: TableId | None = None


def refused(statement: ddl.DDLStatement, doubt: Doubt) -> DMError:
    return errors.new(
        Code.SyncerUnsupportedStmt,
        f"{doubt.what}: {statement.sql[:500]}",
        workaround=doubt.workaround,
    )


def adds_ids(statement: ddl.DDLStatement) -> bool:
    """Whether it numbers existing rows."""
    return any(_numbers(column) for _, column in _columns(statement))


def replaced_columns(statement: ddl.DDLStatement) -> frozenset[str]:
    """The columns that it drops and adds again, in lower case."""
    dropped = {action.name.lower() for action in statement.actions if isinstance(action, DropColumn)}
    return frozenset(dropped & {column.name.lower() for changed, column in _columns(statement) if not changed})


def changes_times(statement: ddl.DDLStatement) -> bool:
    """Whether an existing column gets a date or time type."""
    return any(changed and column.type.name in _TEMPORAL for changed, column in _columns(statement))


def doubts(statement: ddl.DDLStatement, query: QueryEvent, sides: Sides) -> Iterator[Doubt]:
    """All doubts; the caller checks for the rows."""
    yield from _session(statement, query, sides)
    yield from _foreign_keys(statement, sides)
    yield from _checks(statement, sides)
    yield from _merged(statement, sides)
    if not sides.target.alters_like_mysql:
        yield from _partitions(statement, sides)
        yield from _lost_keys(statement, sides)
    for changed, column in _columns(statement):
        if _numbers(column):
            yield from _ids(changed, column, sides, " ".join(statement.tables[0]))
        if sides.target.flavor == "tidb" and not changed and _is_no_text(column, statement):
            yield Doubt(
                f"the rows of the table get bytes for {quote(column.name)} that are not text (DEFAULT "
                f"{column.default}), and TiDB stores other bytes in their place",
                _BY_HAND,
                "TRUE",
            )
        if not changed and column.default is not None and _varies(column.default, statement):
            yield Doubt(
                f"the rows of the table get values for {quote(column.name)} that can't be reproduced (DEFAULT "
                f"{column.default}), and the binlog does not contain them",
                _BY_HAND,
                "TRUE",
            )


def _session(statement: ddl.DDLStatement, query: QueryEvent, sides: Sides) -> Iterator[Doubt]:
    bits, flavor = query.sql_mode or 0, sides.upstream.flavor
    if query.unknown_variable is not None:
        yield Doubt(
            f"the statement's session has an unknown variable (status variable {query.unknown_variable})",
            "Find out what the upstream's version writes there. If it does not affect this statement, give the "
            "statement itself as its replacement (binlog replace).",
        )
    if unknown_modes(bits, flavor):
        yield Doubt(
            f"sql_mode of the statement's session has unknown bits ({unknown_modes(bits, flavor):#x})",
            "Run such statements in sessions without this mode.",
        )
    if query.error_code and not (statement.kind == "drop table" and query.error_code == _BAD_TABLE):
        yield Doubt(
            f"the statement failed upstream with error {query.error_code} and may have been executed in part",
            "Compare the table's structure on both servers. Then skip the statement, or replace it with one that "
            "does what it did.",
        )
    empty_is_null = flavor == "mariadb" and bits & EMPTY_STRING_IS_NULL and not sides.target.knows_empty_as_null
    if empty_is_null and any(token.kind == "string" and len(token.text) == 2 for token in _tokens(statement)):
        yield Doubt(
            "the target does not support sql_mode EMPTY_STRING_IS_NULL, which the statement's session has",
            "Replace the statement with one that has NULL in place of the empty string.",
        )
    localised = query.lc_time_names and "lc_time_names" not in sides.target.variables
    if localised and any(token.word in _LOCALISED for token in _tokens(statement)):
        yield Doubt(
            "the target does not support lc_time_names of the statement's session",
            "Run such statements in sessions with lc_time_names = 'en_US'.",
        )
    if not carries_fractions(bits, sides.upstream, sides.target):
        yield from _fractions(statement, truncates_fractions(bits, flavor), sides.copy)


def _fractions(statement: ddl.DDLStatement, truncates: bool, copy: TableInfo | None) -> Iterator[Doubt]:
    what = "truncates" if truncates else "rounds"
    for changed, column in _columns(statement, new=True):
        if column.type.name not in _TEMPORAL:
            continue
        digits = int(column.type.args[0]) if column.type.args else 0
        literal = any(len(found.rstrip("0")) > digits for found in _FRACTION.findall(column.default or ""))
        rows = _losing_fractions(changed, digits, copy) if changed else ""
        if literal or rows:
            yield Doubt(
                f"the statement's session {what} fractions of seconds, which the target's sessions do not do, so "
                f"values of {quote(column.name)} may differ",
                _BY_HAND,
                "" if literal else rows,
            )


def _losing_fractions(column: str, digits: int, copy: TableInfo | None) -> str:
    """The condition for rows that lose fractional seconds when ``digits`` are left; '' if none can."""
    known = None if copy is None else copy.column(column)
    if known is None or known.type_name.upper() not in _TEMPORAL:
        return "TRUE"
    return f"MICROSECOND({quote(column)}) % {10 ** (_MOST_DIGITS - digits)} <> 0" if digits < _MOST_DIGITS else ""


def _partitions(statement: ddl.DDLStatement, sides: Sides) -> Iterator[Doubt]:
    """Servers of different families put the same row into different partitions by hash."""
    named = [
        action for action in statement.actions if isinstance(action, NoStructure) and action.what in _NAMES_PARTITIONS
    ]
    every = statement.sql.rstrip(" ;").upper().endswith("PARTITION ALL")
    if named and not every and _HASHED.search(sides.shown):
        yield Doubt(
            "the statement is about the rows of partitions by HASH or KEY, which are others at the target",
            _BY_HAND,
            "TRUE",
        )


def _lost_keys(statement: ddl.DDLStatement, sides: Sides) -> Iterator[Doubt]:
    """Upstream, a column that is dropped and added again keeps its position in the keys."""
    replaced = replaced_columns(statement)
    if sides.copy is None or not replaced:
        return
    keys = [index.name for index in sides.copy.indexes if replaced & {name.lower() for name in index.columns}]
    if keys:
        yield Doubt(
            "the statement drops a column and adds it again, which the target does one after the other: the column "
            f"would not be in the keys {', '.join(map(quote, keys))} any more",
            "Change the table at the target by hand: drop these keys, run the statement, add the keys again. Then skip "
            "the statement.",
        )


def _foreign_keys(statement: ddl.DDLStatement, sides: Sides) -> Iterator[Doubt]:
    """A missing foreign key was already dropped, or has another name."""
    missing = ddl.missing_foreign_key(statement, sides.shown)
    if missing is not None:
        name, others = missing
        yield Doubt(
            f"the statement drops the foreign key {quote(name)}, and the target's table has none of this name; it has "
            f"{', '.join(map(quote, others))}",
            "If one of these keys is the one that was dropped upstream, drop it at the target by hand. Then skip the "
            "statement, or replace it with its other parts.",
        )


def _checks(statement: ddl.DDLStatement, sides: Sides) -> Iterator[Doubt]:
    """Servers of different families generate different names for CHECK constraints."""
    name = ddl.missing_check(statement, sides.shown)
    if name and sides.upstream.flavor != sides.target.flavor:
        yield Doubt(
            f"the statement drops the constraint {quote(name)}, and the target's table has none of this name, but "
            "CHECK constraints with others",
            "If one of these is the one that was dropped upstream, drop it at the target by hand. Then skip the "
            "statement, or replace it with its other parts.",
        )


def _merged(statement: ddl.DDLStatement, sides: Sides) -> Iterator[Doubt]:
    """Without shard-mode, each table that merges runs its DDL at the target when it is read."""
    if takes_rows_away(statement) and sides.beside is not None:
        yield Doubt(
            f"the statement would take away rows of {qualified(*sides.beside)} too, which is routed to the same table "
            "of the target",
            "Skip the statement if the target is to keep the rows. Otherwise delete those of this table at the target "
            f"by hand, then skip it. {_COORDINATED}",
        )
    for found in filled_otherwise(statement, sides.shown, sides.target.flavor, sides.had):
        yield Doubt(
            f"the target's table already has the column {quote(found.column)}, and rows that were written there before "
            f"this statement got {found.target}, where the upstream gives them {found.upstream}",
            f"{_BY_HAND} {_COORDINATED}",
            found.rows,
            found,
        )


def takes_rows_away(statement: ddl.DDLStatement) -> bool:
    """Whether the target's table would lose all rows, or its name."""
    renames = any(isinstance(action, RenameTable) for action in statement.actions)
    return renames or statement.kind in _TAKE_ROWS


def _ids(changed: str, column: ColumnDef, sides: Sides, table: str) -> Iterator[Doubt]:
    """A new AUTO_INCREMENT column numbers the rows in the order of their primary key, if they have one."""
    if _same_order(sides.source, sides.copy, sides.upstream.engine):
        return
    what = f"the rows of the table get numbers for {quote(column.name)} (AUTO_INCREMENT) in an order that the target "
    if sides.unknown:
        what += "may not repeat: it is not known which primary key the upstream table had before the statement"
        way_out = (
            f"If it had the target's: {Advice.STRUCTURE_OF_TARGET.about(table)}, then resume the task. If it had "
            "another one, or none: "
            f"{_BY_HAND[0].lower()}{_BY_HAND[1:]}"
        )
    else:
        what += "cannot repeat: the table has no primary key that is the same on both servers"
        way_out = _BY_HAND
    yield Doubt(
        what,
        way_out,
        f"{quote(changed)} = 0 OR {quote(changed)} IS NULL" if changed else "TRUE",
    )


def _same_order(source: TableInfo | None, copy: TableInfo | None, engine: str) -> bool:
    """Whether both servers store the rows in the order of the same primary key. ``engine``: the upstream's default."""
    if source is None or copy is None or {(source.engine or engine).lower(), copy.engine.lower()} != {"innodb"}:
        return False
    one, other = source.primary_key, copy.primary_key
    return one is not None and other is not None and _ordering(one, source) == _ordering(other, copy)


def _ordering(index: Index, table: TableInfo) -> list[tuple[str, int, str, str]]:
    columns = [(part, table.column(part.column)) for part in index.parts]
    return [(part.column.lower(), part.length, c.type_name, c.collation) for part, c in columns if c is not None]


def _columns(statement: ddl.DDLStatement, *, new: bool = False) -> Iterator[tuple[str, ColumnDef]]:
    """Columns with the name of the column that they change, '' for added ones; ``new``: also those of a new table."""
    if new and statement.body is not None:
        yield from (("", column) for column in statement.body.columns)
    for action in statement.actions:
        if isinstance(action, AddColumn | ChangeColumn):
            yield action.old_name if isinstance(action, ChangeColumn) else "", action.column


def _numbers(column: ColumnDef) -> bool:
    return column.auto_increment or column.type.name == "SERIAL"


def _is_no_text(column: ColumnDef, statement: ddl.DDLStatement) -> bool:
    """Whether a string column's default is given by bytes that are not UTF-8."""
    if column.type.name not in _STRINGS:
        return False
    tokens = tokenize(column.default or "", statement.dialect)
    try:
        return any(bytes_of(token.text).decode() is None for token in tokens if token.kind == "bits")
    except UnicodeDecodeError:
        return True


def _varies(default: str, statement: ddl.DDLStatement) -> bool:
    tokens = tokenize(default, statement.dialect)
    for at, token in enumerate(tokens):
        called = tokens[min(at + 1, len(tokens) - 1)].text == "("
        if token.word in (_FUNCTIONS if called else _BARE_FUNCTIONS) or token.text == "@":
            return True
    return False


def _tokens(statement: ddl.DDLStatement) -> list[Token]:
    return tokenize(statement.sql, statement.dialect)
