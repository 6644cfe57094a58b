"""CREATE TABLE: its elements (columns, keys, constraints) and options; ALTER TABLE shares them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pkg.ddl.columns import accept_charset, column_definition, references
from pkg.ddl.failure import unsupported
from pkg.ddl.statement import AddPeriod, ColumnDef, IndexDef, KeyPart, TableBody, TableOptions
from pkg.ddl.token_cursor import TokenCursor
from pkg.ddl.tokens import Dialect, word_set

# Options whose value may follow without "="; any other option is read only with it (engines define their own).
_VALUE_OPTIONS = word_set(
    """AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM COMMENT COMPRESSION CONNECTION DELAY_KEY_WRITE
    ENCRYPTION ENCRYPTED ENCRYPTION_KEY_ID IETF_QUOTES INSERT_METHOD KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS
    PAGE_CHECKSUM PASSWORD ROW_FORMAT STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES TRANSACTIONAL
    AUTOEXTEND_SIZE ENGINE_ATTRIBUTE SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE STORAGE TABLESPACE
    PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL SEQUENCE DATA_DIRECTORY INDEX_DIRECTORY"""
)


def table_body(cursor: TokenCursor, schema: str) -> TableBody:
    """Everything after the new table's name in CREATE TABLE."""
    if cursor.accept("LIKE"):
        return TableBody(like=cursor.table("reference"))
    if not cursor.at_op("("):
        raise unsupported(cursor.sql, _AS_SELECT)
    cursor.expect_op("(")
    if cursor.accept("LIKE"):
        body = TableBody(like=cursor.table("reference"))
        cursor.expect_op(")")
        return body
    if cursor.at_any("SELECT", "WITH", "VALUES") or cursor.at_op("("):
        raise unsupported(cursor.sql, _AS_SELECT)
    columns, indexes, periods = _elements(cursor, schema)
    options_at = cursor.last_end
    options = table_options(cursor)
    if cursor.at_words("PARTITION", "BY"):
        partitioning(cursor)
    if cursor.at_any("SELECT", "AS", "IGNORE", "REPLACE", "WITH", "VALUES") or cursor.at_op("("):
        raise unsupported(cursor.sql, _AS_SELECT)
    return TableBody(columns, indexes, options, options_at=options_at, periods=periods)


_AS_SELECT = (
    "CREATE TABLE … SELECT takes rows from other tables, which the target may not have or may have in another state, "
    "so it cannot be carried over"
)


def _elements(
    cursor: TokenCursor, schema: str
) -> tuple[tuple[ColumnDef, ...], tuple[IndexDef, ...], tuple[AddPeriod, ...]]:
    """``element, element … )``. A column's own PRIMARY KEY or UNIQUE becomes an index at the same position."""
    columns: list[ColumnDef] = []
    indexes: list[IndexDef] = []
    periods: list[AddPeriod] = []
    while True:
        element = table_element(cursor, schema) or column_definition(cursor, schema)
        if isinstance(element, ColumnDef):
            columns.append(element)
            indexes.extend(inline_indexes(element, cursor.dialect))
        elif isinstance(element, IndexDef):
            indexes.append(element)
        else:
            periods.append(element)
        if cursor.accept_op(")"):
            return tuple(columns), tuple(indexes), tuple(periods)
        cursor.expect_op(",")


def inline_indexes(column: ColumnDef, dialect: Dialect) -> list[IndexDef]:
    """The indexes from a column's attributes. In MariaDB, UNIQUE adds nothing to PRIMARY KEY."""
    indexes: list[IndexDef] = []
    parts = (KeyPart(column.name),)
    if column.primary:
        indexes.append(IndexDef("primary", "PRIMARY", parts))
    unique = column.unique or column.type.name == "SERIAL"
    if unique and not (column.primary and dialect.flavor == "mariadb"):
        indexes.append(IndexDef("unique", "", parts))
    if column.reference is not None:
        indexes.append(IndexDef("foreign", "", parts, reference=column.reference))
    return indexes


def table_element(cursor: TokenCursor, schema: str) -> IndexDef | AddPeriod | None:
    """A key, constraint or period; None when a column definition is next."""
    symbol, start = "", cursor.token.start
    if cursor.accept("CONSTRAINT"):
        cursor.if_not_exists(rare=True)
        if not cursor.at_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            symbol = cursor.name()
        if not cursor.at_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            raise cursor.error("expected PRIMARY, UNIQUE, FOREIGN or CHECK")
    if cursor.accept("PRIMARY", "KEY"):
        return _key(cursor, "primary", "PRIMARY")
    if cursor.accept("UNIQUE"):
        cursor.optional("INDEX", "KEY")
        return _key(cursor, "unique", symbol)
    if cursor.accept("FOREIGN", "KEY"):
        return _foreign_key(cursor, symbol, schema)
    if cursor.accept("CHECK"):
        cursor.expression()
        cursor.enforcement()
        cursor.mark("table check", start)
        return IndexDef("check", symbol)
    if cursor.at_any("INDEX", "KEY"):
        cursor.optional("INDEX", "KEY")
        return _key(cursor, "index", "")
    special = _special_key(cursor)
    if special:
        cursor.optional("INDEX", "KEY")
        return _key(cursor, special, "")
    if cursor.accept("PERIOD", "FOR") or cursor.accept("PERIOD", "IF", "NOT", "EXISTS", "FOR"):
        return _period(cursor)
    return None


def _special_key(cursor: TokenCursor) -> Literal["", "fulltext", "spatial", "index"]:
    if cursor.accept("FULLTEXT"):
        return "fulltext"
    if cursor.accept("SPATIAL"):
        return "spatial"
    # VECTOR is a type's name and no reserved word: it may be a column's name.
    if cursor.at_any("VECTOR") and cursor.ahead(1).word in ("INDEX", "KEY"):
        cursor.accept("VECTOR")
        return "index"
    return ""


def _period(cursor: TokenCursor) -> AddPeriod:
    if cursor.at_any("SYSTEM_TIME"):
        raise cursor.error("system-versioned tables are not supported")
    cursor.name()
    cursor.expect_op("(")
    start = cursor.name()
    cursor.expect_op(",")
    end = cursor.name()
    cursor.expect_op(")")
    return AddPeriod(start, end)


def _key(
    cursor: TokenCursor, kind: Literal["primary", "unique", "index", "fulltext", "spatial"], name: str
) -> IndexDef:
    if_not_exists = cursor.if_not_exists(rare=kind != "index")
    # All servers accept a name before the kind of the index.
    name_at = -1 if name else cursor.token.start
    hashed = index_type(cursor)
    if not cursor.at_op("("):
        name_at = -1
        given = cursor.name()
        # The name of a primary key is always PRIMARY, even when another name is given.
        name = name if kind == "primary" else given
    hashed |= index_type(cursor)
    parts = key_parts(cursor)
    hashed |= index_options(cursor)
    return IndexDef(kind, name, parts, if_not_exists=if_not_exists, hashed=hashed, name_at=name_at)


def index_type(cursor: TokenCursor) -> bool:
    """Reads ``USING BTREE`` and the like, if present; returns whether it is HASH."""
    return bool(cursor.accept_any("USING", "TYPE")) and cursor.setting().upper() == "HASH"


def _foreign_key(cursor: TokenCursor, symbol: str, schema: str) -> IndexDef:
    if_not_exists = cursor.if_not_exists(rare=True)
    name = "" if cursor.at_op("(") else cursor.name()
    name = symbol or name
    name_at = -1 if name else cursor.token.start
    parts = key_parts(cursor)
    cursor.expect("REFERENCES")
    return IndexDef("foreign", name, parts, references(cursor, schema), if_not_exists, name_at=name_at)


def key_parts(cursor: TokenCursor) -> tuple[KeyPart, ...]:
    """``(column [(length)] [ASC | DESC], …)``; a part may be an expression in parentheses."""
    cursor.expect_op("(")
    parts: list[KeyPart] = []
    while True:
        if cursor.at_op("("):
            cursor.parenthesised()
            parts.append(KeyPart(""))
        else:
            parts.append(_key_part(cursor))
        cursor.accept_any("ASC", "DESC")
        if cursor.accept_op(")"):
            return tuple(parts)
        cursor.expect_op(",")


def _key_part(cursor: TokenCursor) -> KeyPart:
    part = KeyPart(cursor.name())
    if cursor.accept("WITHOUT", "OVERLAPS"):
        # Such a key accepts a value twice in different periods: it identifies no row.
        return KeyPart("")
    if cursor.accept_op("("):
        part = replace(part, length=cursor.integer())
        cursor.expect_op(")")
    return part


def index_options(cursor: TokenCursor) -> bool:
    """Reads the options after a key's columns, none of which changes what it identifies; returns whether one is
    HASH."""
    hashed = False
    while True:
        if cursor.at_any("USING", "TYPE"):
            hashed |= index_type(cursor)
        elif cursor.accept("WITH"):
            cursor.accept("PARSER")
            cursor.setting()
        elif cursor.accept("COMMENT"):
            cursor.string()
        elif accept_visibility(cursor):
            continue
        elif cursor.at_any("KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "CLUSTERING") or (
            # MariaDB quotes the name of an engine's option.
            cursor.token.kind in ("word", "name") and cursor.ahead(1).text == "="
        ):
            if cursor.at_any("ALGORITHM", "LOCK"):
                return hashed
            start = cursor.advance().start
            cursor.accept_op("=")
            cursor.advance()
            cursor.mark("storage", start)
        else:
            return hashed


def accept_visibility(cursor: TokenCursor) -> bool:
    """Reads MySQL's and MariaDB's keywords for an index that the optimizer ignores or uses."""
    phrases = (("VISIBLE",), ("INVISIBLE",), ("IGNORED",), ("NOT", "IGNORED"))
    return any(cursor.accept_marked("index visibility", *phrase) for phrase in phrases)


def table_options(cursor: TokenCursor) -> TableOptions:
    """All following table options; commas between them are optional."""
    options = TableOptions()
    while True:
        comma = cursor.at_op(",")
        if comma:
            start = cursor.advance().start
            cursor.mark("comma", start)
        changed = table_option(cursor, options)
        if changed is None:
            if comma:
                raise cursor.error("expected a table option")
            return options
        options = changed


def table_option(cursor: TokenCursor, options: TableOptions) -> TableOptions | None:
    """Reads one table option into ``options``; None when none is next."""
    if cursor.accept("DEFAULT"):
        changed = charset_option(cursor, options)
        if changed is None:
            raise cursor.error("expected CHARACTER SET or COLLATE")
        return changed
    changed = charset_option(cursor, options)
    if changed is not None:
        return changed
    if cursor.accept_any("ENGINE", "TYPE"):
        cursor.accept_op("=")
        return replace(options, engine=cursor.name_or_string())
    start = cursor.token.start
    if cursor.accept("UNION"):
        _union(cursor)
        cursor.mark("storage", start)
        return options
    if cursor.at_words("WITH", "SYSTEM", "VERSIONING"):
        raise cursor.error("system-versioned tables are not supported")
    return options if _other_option(cursor) else None


def charset_option(cursor: TokenCursor, options: TableOptions) -> TableOptions | None:
    """CHARACTER SET or COLLATE, which schemas also have; None when neither is next."""
    charset = accept_charset(cursor)
    if charset:
        # In MySQL a charset cancels a collation named before it.
        mysql = cursor.dialect.flavor == "mysql"
        collation = ("" if mysql else options.collation) or cursor.dialect.session.collation_of(charset)
        bare = cursor.last_end if mysql or not options.collation else -1
        return replace(options, charset=charset, collation=collation, bare_charset=bare)
    if cursor.accept("COLLATE"):
        cursor.accept_op("=")
        return replace(options, collation=cursor.name_or_string(), bare_charset=-1)
    return None


def _other_option(cursor: TokenCursor) -> bool:
    start = cursor.token.start
    if cursor.accept("DATA", "DIRECTORY") or cursor.accept("INDEX", "DIRECTORY"):
        pass
    elif cursor.token.kind in ("word", "name") and (cursor.ahead(1).text == "=" or cursor.token.word in _VALUE_OPTIONS):
        # ALGORITHM and LOCK belong to ALTER TABLE, which reads them itself.
        if cursor.at_any("ALGORITHM", "LOCK"):
            return False
        cursor.advance()
    else:
        return False
    cursor.accept_op("=")
    _ = cursor.accept_op("-") or cursor.accept_op("+")
    if cursor.advance().kind not in ("word", "name", "string", "number", "bits"):
        raise cursor.error("expected an option's value")
    cursor.mark("storage", start)
    return True


def _union(cursor: TokenCursor) -> None:
    cursor.accept_op("=")
    cursor.expect_op("(")
    while not cursor.accept_op(")"):
        cursor.table("reference")
        if not cursor.at_op(")"):
            cursor.expect_op(",")


def partitioning(cursor: TokenCursor) -> None:
    """``PARTITION BY …``: no column, no key; read up to the end or to a SELECT."""
    while not cursor.at_end and not cursor.at_op(";"):
        if cursor.at_any("SELECT", "IGNORE", "REPLACE") or (cursor.at_any("AS") and cursor.ahead(1).word == "SELECT"):
            return
        if cursor.at_op("("):
            cursor.parenthesised()
        elif cursor.at_op(")"):
            raise cursor.error("a parenthesis that was not opened")
        else:
            cursor.advance()
