"""The parser of DDL statements from the binlog's QUERY events and from dump files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pkg import errors
from pkg.ddl.alter import keeps_rows, specifications
from pkg.ddl.failure import dml_found, shorten, unsupported
from pkg.ddl.skipped import StatementClass, classify_at, skip_settings
from pkg.ddl.statement import AddIndex, AlterSpec, DDLStatement, DropIndex, IndexDef, TableOptions, TableRef
from pkg.ddl.table import charset_option, index_options, index_type, key_parts, table_body
from pkg.ddl.temporary import temporary_tables
from pkg.ddl.token_cursor import TokenCursor
from pkg.ddl.tokens import NO_DEFAULTS, Dialect, SessionDefaults
from pkg.errors import Code


def classify(sql: str, *, sql_mode: str = "", flavor: str = "") -> StatementClass:
    """*transaction* (BEGIN, COMMIT), *skip*, *dml* or *ddl*; raises 36067 for text with an open quote or comment."""
    cursor = TokenCursor(sql, Dialect.of(sql_mode, flavor), "")
    skip_settings(cursor)
    return classify_at(cursor)


def parse(
    sql: str,
    *,
    sql_mode: str = "",
    default_schema: str = "",
    flavor: str = "",
    version: tuple[int, int, int] | None = None,
    folds_names: bool = False,
    session: SessionDefaults = NO_DEFAULTS,
) -> DDLStatement:
    """One statement.

    ``sql_mode`` and ``default_schema`` are those of the session that ran it; ``flavor`` (mysql, mariadb or '') and
    ``version`` determine which executable comments that server ran; all of them when not given. ``folds_names``: the
    server keeps names of schemas and tables in lower case. ``session`` holds the session's other known settings.
    Statements that need nothing on the target have kind ``skip``.

    Raises 36014 for a statement that changes rows, 36067 for one that is not understood, 36068 for an XA
    transaction and for one rolled back by a statement.
    """
    dialect = replace(Dialect.of(sql_mode, flavor, version), folds_names=folds_names, session=session)
    return parse_dialect(sql, dialect, default_schema)


def parse_dialect(sql: str, dialect: Dialect, default_schema: str) -> DDLStatement:
    """As :func:`parse`, with the session's settings as one value."""
    return read_statement(TokenCursor(sql, dialect, default_schema))


def read_statement(cursor: TokenCursor) -> DDLStatement:
    """As :func:`parse`, from the start of a text; the cursor then knows how each token was read."""
    cuts = skip_settings(cursor)
    statement_class = classify_at(cursor)
    if statement_class == "dml":
        raise dml_found(cursor.sql)
    if statement_class != "ddl":
        effect = temporary_tables(cursor)
        return DDLStatement(
            cursor.sql,
            "skip",
            refs=tuple(cursor.refs),
            temporary=effect,
            default_schema=cursor.default_schema,
            dialect=cursor.dialect,
        )
    statement = _statement(cursor)
    cursor.finish()
    return replace(
        statement,
        refs=tuple(cursor.refs),
        cuts=(*cuts, *statement.cuts, *cursor.cuts),
        marks=tuple(cursor.marks),
        default_schema=cursor.default_schema,
        dialect=cursor.dialect,
    )


def _statement(cursor: TokenCursor) -> DDLStatement:
    if cursor.accept("CREATE"):
        return _create(cursor)
    if cursor.accept("ALTER"):
        return _alter(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("RENAME"):
        return _rename_tables(cursor)
    if cursor.accept("TRUNCATE"):
        cursor.accept("TABLE")
        cursor.table()
        cursor.wait_option()
        return DDLStatement(cursor.sql, "truncate table")
    if cursor.at_any("ROLLBACK"):
        raise errors.new(
            Code.SyncerUnsupportedStmt,
            f"the binlog has rows that were rolled back, ended by the statement {shorten(cursor.sql)}: a "
            "transaction changed tables of transactional and of other engines",
            workaround="Convert the tables of other engines to InnoDB, and copy the tables of this transaction again.",
        )
    if cursor.at_any("XA"):
        raise errors.new(
            Code.SyncerUnsupportedStmt,
            f"the rows of this XA transaction are in the binlog before the task's start: {shorten(cursor.sql)}",
            workaround="Copy the tables of this transaction again when XA RECOVER on the upstream shows no prepared "
            "transaction.",
        )
    raise cursor.error("an unknown statement")


@dataclass(frozen=True, slots=True)
class _Guard:
    """Whether IF [NOT] EXISTS is present; otherwise the offset to insert it."""

    present: bool
    offset: int


def _guard(cursor: TokenCursor, *keywords: str) -> _Guard:
    offset = cursor.token.start
    present = cursor.accept(*keywords)
    return _Guard(present, -1 if present else offset)


def _create(cursor: TokenCursor) -> DDLStatement:
    or_replace = cursor.accept_marked("or replace", "OR", "REPLACE")
    if cursor.accept_any("DATABASE", "SCHEMA"):
        guard = _guard(cursor, "IF", "NOT", "EXISTS")
        _schema(cursor)
        return DDLStatement(
            cursor.sql,
            "create database",
            guard=-1 if or_replace else guard.offset,
            options=_schema_options(cursor),
            if_not_exists=guard.present,
            or_replace=or_replace,
        )
    if cursor.accept("TABLE"):
        return _create_table(cursor, or_replace)
    return _create_index(cursor, or_replace)


def _create_table(cursor: TokenCursor, or_replace: bool) -> DDLStatement:
    guard = _guard(cursor, "IF", "NOT", "EXISTS")
    table = cursor.table()
    body = table_body(cursor, table.schema)
    # MySQL 8 writes CREATE TABLE … SELECT as CREATE TABLE … START TRANSACTION, then rows, in one transaction.
    start = cursor.token.start
    cuts = ((start, cursor.last_end),) if cursor.accept("START", "TRANSACTION") else ()
    return DDLStatement(
        cursor.sql,
        "create table",
        guard=-1 if or_replace else guard.offset,
        body=body,
        cuts=cuts,
        if_not_exists=guard.present,
        or_replace=or_replace,
    )


def _create_index(cursor: TokenCursor, or_replace: bool) -> DDLStatement:
    _online(cursor)
    word = cursor.accept_any("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
    start = cursor.token.start
    if not cursor.accept("INDEX"):
        raise cursor.error("an unknown statement")
    if_not_exists = cursor.if_not_exists()
    name = cursor.name()
    hashed = index_type(cursor)
    cursor.expect("ON")
    cursor.table()
    parts = key_parts(cursor)
    cursor.wait_option()
    hashed |= _index_modifiers(cursor)
    kinds = {"UNIQUE": "unique", "FULLTEXT": "fulltext", "SPATIAL": "spatial"}
    kind = kinds.get(word, "index")
    index = IndexDef(kind, name, parts, None, if_not_exists, or_replace, hashed)  # type: ignore[arg-type]
    spec = AlterSpec(start, cursor.last_end, (AddIndex(index),))
    return DDLStatement(cursor.sql, "create index", specs=(spec,), if_not_exists=if_not_exists, or_replace=or_replace)


def _online(cursor: TokenCursor) -> None:
    _ = cursor.accept_marked("online", "ONLINE") or cursor.accept_marked("online", "OFFLINE")


def _index_modifiers(cursor: TokenCursor) -> bool:
    """Reads the options after CREATE INDEX and DROP INDEX, in any order; returns whether one is HASH."""
    hashed = index_options(cursor)
    while cursor.at_any("ALGORITHM", "LOCK"):
        start = cursor.advance().start
        cursor.accept_op("=")
        cursor.setting()
        cursor.mark("storage", start)
        hashed |= index_options(cursor)
    return hashed


def _schema(cursor: TokenCursor) -> TableRef:
    start = cursor.token.start
    return cursor.record_name(TableRef(cursor.name(), "", start, cursor.last_end))


def _schema_options(cursor: TokenCursor) -> TableOptions:
    options = TableOptions()
    while True:
        start = cursor.token.start
        cursor.accept("DEFAULT")
        changed = charset_option(cursor, options)
        if changed is not None:
            options = changed
        elif cursor.at_any("ENCRYPTION", "COMMENT"):
            cursor.advance()
            cursor.accept_op("=")
            cursor.string()
            cursor.mark("schema option", start)
        elif cursor.at_words("READ", "ONLY"):
            cursor.accept("READ", "ONLY")
            cursor.accept_op("=")
            cursor.advance()
            cursor.mark("schema option", start)
        else:
            return options


_REMOVES_ROWS = (
    "ALTER IGNORE TABLE removes rows with equal unique values, and cuts values; which rows stay depends on the order "
    "in which a server has them, so the target would keep others. Make the target's rows by hand what the upstream's "
    "are now, then replace the statement with the same one without IGNORE"
)


def _alter(cursor: TokenCursor) -> DDLStatement:
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return _alter_database(cursor)
    _online(cursor)
    ignores = cursor.accept("IGNORE")
    cursor.expect("TABLE")
    if_exists = cursor.if_exists(rare=True) or cursor.dialect.session.if_exists
    table = cursor.table()
    cursor.wait_option()
    specs = specifications(cursor, table.schema)
    if ignores and not all(keeps_rows(action) for spec in specs for action in spec.actions):
        raise unsupported(cursor.sql, _REMOVES_ROWS)
    return DDLStatement(cursor.sql, "alter table", specs=specs, if_exists=if_exists)


def _alter_database(cursor: TokenCursor) -> DDLStatement:
    option_first = cursor.at_any("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "COMMENT", "READ")
    if option_first:
        if not cursor.default_schema:
            raise cursor.error("no schema is given, and none was selected")
        cursor.record_name(TableRef(cursor.default_schema, "", cursor.token.start, cursor.token.start))
    else:
        _schema(cursor)
    return DDLStatement(cursor.sql, "alter database", options=_schema_options(cursor))


def _drop(cursor: TokenCursor) -> DDLStatement:
    if cursor.accept_any("DATABASE", "SCHEMA"):
        guard = _guard(cursor, "IF", "EXISTS")
        _schema(cursor)
        return DDLStatement(cursor.sql, "drop database", guard=guard.offset, if_exists=guard.present)
    if cursor.accept_any("TABLE", "TABLES"):
        return _drop_tables(cursor)
    _online(cursor)
    start = cursor.token.start
    if not cursor.accept("INDEX"):
        raise cursor.error("an unknown statement")
    guard = _guard(cursor, "IF", "EXISTS")
    name = cursor.name()
    cursor.expect("ON")
    cursor.table()
    cursor.wait_option()
    _index_modifiers(cursor)
    spec = AlterSpec(start, cursor.last_end, (DropIndex(name, guard.present),))
    return DDLStatement(cursor.sql, "drop index", guard=guard.offset, specs=(spec,), if_exists=guard.present)


def _drop_tables(cursor: TokenCursor) -> DDLStatement:
    guard = _guard(cursor, "IF", "EXISTS")
    items: list[tuple[int, int]] = []
    while True:
        table = cursor.table()
        items.append((table.start, table.end))
        if not cursor.accept_op(","):
            break
    cursor.wait_option()
    cursor.accept_any("RESTRICT", "CASCADE")
    return DDLStatement(cursor.sql, "drop table", guard=guard.offset, items=tuple(items), if_exists=guard.present)


def _rename_tables(cursor: TokenCursor) -> DDLStatement:
    if not (cursor.accept("TABLE") or cursor.accept_marked("plural", "TABLES")):
        raise cursor.error("an unknown statement")
    if_exists = cursor.if_exists(rare=True) or cursor.dialect.session.if_exists
    items: list[tuple[int, int]] = []
    while True:
        source = cursor.table()
        cursor.wait_option()
        cursor.expect("TO")
        target = cursor.table("target")
        items.append((source.start, target.end))
        if not cursor.accept_op(","):
            break
    return DDLStatement(cursor.sql, "rename table", items=tuple(items), if_exists=if_exists)
