"""Column definitions: data types and attributes."""

from __future__ import annotations

import re
from dataclasses import replace

from pkg.ddl.statement import ColumnDef, TableRef, TypeSpec
from pkg.ddl.token_cursor import TokenCursor
from pkg.ddl.tokens import Dialect, SessionDefaults, word_set

_SIMPLE_TYPES = word_set(
    """BIT BOOL BOOLEAN TINYINT SMALLINT MEDIUMINT MIDDLEINT INT INTEGER BIGINT INT1 INT2 INT3 INT4 INT8 SERIAL
    DECIMAL DEC NUMERIC FIXED NUMBER FLOAT FLOAT4 FLOAT8 DOUBLE REAL DATE TIME DATETIME TIMESTAMP YEAR CHAR
    CHARACTER VARCHAR VARCHARACTER VARCHAR2 NCHAR NVARCHAR BINARY VARBINARY RAW TINYBLOB BLOB MEDIUMBLOB LONGBLOB
    TINYTEXT TEXT MEDIUMTEXT LONGTEXT CLOB LONG ENUM SET JSON UUID INET4 INET6 VECTOR XMLTYPE GEOMETRY
    GEOMETRYCOLLECTION GEOMCOLLECTION POINT MULTIPOINT LINESTRING MULTILINESTRING POLYGON MULTIPOLYGON NATIONAL"""
)
# Multi-word types → the name of the equivalent simple type.
_PHRASES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("NATIONAL", "CHARACTER", "VARYING"), "NVARCHAR"),
    (("NATIONAL", "CHAR", "VARYING"), "NVARCHAR"),
    (("NATIONAL", "VARCHARACTER"), "NVARCHAR"),
    (("NATIONAL", "VARCHAR"), "NVARCHAR"),
    (("NATIONAL", "CHARACTER"), "NCHAR"),
    (("NATIONAL", "CHAR"), "NCHAR"),
    (("NCHAR", "VARYING"), "NVARCHAR"),
    (("NCHAR", "VARCHARACTER"), "NVARCHAR"),
    (("NCHAR", "VARCHAR"), "NVARCHAR"),
    (("CHARACTER", "VARYING"), "VARCHAR"),
    (("CHAR", "VARYING"), "VARCHAR"),
    (("CHAR", "BYTE"), "BINARY"),
    (("DOUBLE", "PRECISION"), "DOUBLE"),
    (("LONG", "VARBINARY"), "MEDIUMBLOB"),
    (("LONG", "CHARACTER", "VARYING"), "MEDIUMTEXT"),
    (("LONG", "CHAR", "VARYING"), "MEDIUMTEXT"),
    (("LONG", "VARCHARACTER"), "MEDIUMTEXT"),
    (("LONG", "VARCHAR"), "MEDIUMTEXT"),
)


#: A default that MySQL accepts only in parentheses: a call other than the current time, and any default of a large
#: type.
_CALL = re.compile(
    r"(?!(?:current_timestamp|now|localtime|localtimestamp)\b)[a-z_]\w*\s*\(.*\)|current_(?:date|time|user)"
    r"|utc_(?:date|time|timestamp)",
    re.IGNORECASE | re.DOTALL,
)
#: The current time in parentheses: an expression in MySQL, no difference in MariaDB.
_NOW = re.compile(r"\(\s*(?:current_timestamp|now|localtime|localtimestamp)\s*(?:\(\s*(\d*)\s*\))?\s*\)", re.IGNORECASE)
_LARGE = word_set(
    """TINYTEXT TEXT MEDIUMTEXT LONGTEXT TINYBLOB BLOB MEDIUMBLOB LONGBLOB JSON GEOMETRY POINT LINESTRING POLYGON
    MULTIPOINT MULTILINESTRING MULTIPOLYGON GEOMETRYCOLLECTION GEOMCOLLECTION"""
)
#: The target has no sequences: rows contain their values.
_SEQUENCE_WORDS = frozenset({"NEXT", "PREVIOUS", "NEXTVAL", "LASTVAL"})
#: MariaDB's types for types without arguments under sql_mode ORACLE.
_ORACLE_TYPES = {"BLOB": "LONGBLOB", "DATE": "DATETIME", "NUMBER": "DOUBLE"}
_REFERENTIAL_ACTIONS = (("CASCADE",), ("RESTRICT",), ("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"))


def type_text(spec: TypeSpec) -> str:
    """The type as SQL, for sessions with backslash escapes."""
    args = spec.args
    if spec.name in ("ENUM", "SET"):
        args = tuple("'" + member.replace("\\", "\\\\").replace("'", "''") + "'" for member in args)
    words = [f"{spec.name}({', '.join(args)})" if args else spec.name]
    words += [word for word, there in (("UNSIGNED", spec.unsigned), ("ZEROFILL", spec.zerofill)) if there]
    words += [f"CHARACTER SET {spec.charset}"] if spec.charset else []
    words += [f"COLLATE {spec.collation}"] if spec.collation else []
    return " ".join(words)


def column_definition(cursor: TokenCursor, schema: str) -> ColumnDef:
    """``name type [attribute …]``; ``schema`` is the table's, and the default for references without one."""
    name = cursor.column()
    return column_after_name(cursor, name, schema)


def column_after_name(cursor: TokenCursor, name: str, schema: str) -> ColumnDef:
    type_ = data_type(cursor)
    column = ColumnDef(name, type_)
    while (changed := _attribute(cursor, column, schema)) is not None:
        column = changed
    return _in_session(replace(column, end=cursor.last_end), cursor.dialect.session)


def _in_session(column: ColumnDef, session: SessionDefaults) -> ColumnDef:
    """The column with the session's choices for it."""
    if column.nullable is None and column.type.name == "TIMESTAMP":
        return replace(column, nullable=session.explicit_timestamp)
    collation = column.type.collation or session.collation_of(column.type.charset)
    return replace(column, type=replace(column.type, collation=collation)) if collation else column


def data_type(cursor: TokenCursor) -> TypeSpec:
    name = _type_name(cursor)
    spec = TypeSpec(name, _arguments(cursor))
    while (changed := _modifier(cursor, spec)) is not None:
        spec = changed
    return replace(spec, name=_name_in_mode(spec, cursor.dialect))


def _name_in_mode(spec: TypeSpec, dialect: Dialect) -> str:
    """The type's name, independent of the session's sql_mode."""
    if spec.name == "REAL":
        return "FLOAT" if dialect.real_as_float else "DOUBLE"
    if spec.name == "TIMESTAMP" and dialect.maxdb:
        return "DATETIME"
    if dialect.oracle and dialect.flavor == "mariadb":
        return spec.name if spec.args else _ORACLE_TYPES.get(spec.name, spec.name)
    return spec.name


def _type_name(cursor: TokenCursor) -> str:
    for phrase, name in _PHRASES:
        if cursor.accept(*phrase):
            return name
    start = cursor.token.start
    name = cursor.accept_any(*_SIMPLE_TYPES)
    if name in ("GEOMCOLLECTION", "JSON", "SERIAL"):
        cursor.mark("type name", start)
    if not name:
        raise cursor.error("expected a data type")
    return name


def _arguments(cursor: TokenCursor) -> tuple[str, ...]:
    arguments: list[str] = []
    if not cursor.accept_op("("):
        return ()
    while not cursor.accept_op(")"):
        cursor.accept_any("_BINARY")
        arguments.append(_argument(cursor))
        if not cursor.at_op(")"):
            cursor.expect_op(",")
    return tuple(arguments)


def _argument(cursor: TokenCursor) -> str:
    token = cursor.token
    if token.kind == "string":
        return cursor.string()
    if token.kind not in ("number", "bits", "word"):
        raise cursor.error("expected the type's length, precision or members")
    cursor.advance()
    return escaped(bytes_of(token.text)) if token.kind == "bits" else token.text


def escaped(data: bytes) -> str:
    """Bytes in the column's charset, which is unknown here, as low surrogates, which no valid text contains."""
    return "".join(chr(0xDC00 + byte) for byte in data)


def unescaped(text: str) -> bytes | None:
    """The bytes that :func:`escaped` encoded; None for text."""
    return bytes(ord(char) - 0xDC00 for char in text) if "\udc00" <= text[:1] <= "\udcff" else None


def bytes_of(literal: str) -> bytes:
    """The value of ``x'…'``, ``0x…``, ``b'…'`` or ``0b…``, the text of a token of kind ``bits``."""
    digits = literal[2:].strip("'")
    if "x" in literal[:2].lower():
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")


def accept_charset(cursor: TokenCursor) -> str:
    """Reads CHARACTER SET x, CHARSET x, ASCII or UNICODE; '' when none of them is next."""
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET"):
        cursor.accept_op("=")
        return cursor.name_or_string()
    word = cursor.accept_any("ASCII", "UNICODE")
    return {"ASCII": "latin1", "UNICODE": "ucs2"}.get(word, "")


def _modifier(cursor: TokenCursor, spec: TypeSpec) -> TypeSpec | None:
    charset = accept_charset(cursor)
    if charset:
        return replace(spec, charset=charset, bare_charset=-1 if spec.collation else cursor.last_end)
    if cursor.accept("UNSIGNED"):
        return replace(spec, unsigned=True)
    if cursor.accept("SIGNED"):
        return spec
    if cursor.accept("ZEROFILL"):
        return replace(spec, zerofill=True, unsigned=True)
    if cursor.accept("BINARY"):
        return replace(spec, binary=True)
    if cursor.accept("BYTE"):
        return replace(spec, charset="binary")
    if cursor.accept("COLLATE"):
        return replace(spec, collation=cursor.name_or_string(), bare_charset=-1)
    start = cursor.token.start
    if cursor.accept("COMPRESSED"):
        if cursor.accept_op("="):
            cursor.advance()
        cursor.mark("storage", start)
        return replace(spec, compressed=True)
    return None


def _attribute(cursor: TokenCursor, column: ColumnDef, schema: str) -> ColumnDef | None:
    """Reads one attribute; None when none is next."""
    for read in (_nullability, _key, _value, _generation, _visibility, _storage):
        changed = read(cursor, column)
        if changed is not None:
            return changed
    return _constraint(cursor, column, schema)


def _nullability(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    start = cursor.token.start
    said = cursor.accept("NOT", "NULL")
    if not said and not cursor.accept("NULL"):
        return None
    if column.generated:
        cursor.mark("generated nullability", start)
    return replace(column, nullable=not said)


def _key(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    start = cursor.token.start
    if cursor.accept("UNIQUE"):
        cursor.accept_any("KEY", "INDEX")
        cursor.mark("attribute key", start)
        return replace(column, unique=True)
    if cursor.accept("PRIMARY", "KEY") or cursor.accept("PRIMARY") or cursor.accept("KEY"):
        return replace(column, primary=True)
    return None


def _value(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    if cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        return replace(column, nullable=False, auto_increment=True, unique=True)
    if cursor.accept("DEFAULT"):
        start = cursor.token.start
        default = default_value(cursor, column.type.name)
        now = _NOW.fullmatch(default)
        if (
            now
            and column.type.name in ("DATETIME", "TIMESTAMP")
            and _digits(now[1] or "") == _digits(*column.type.args)
        ):
            cursor.mark("current time", start)
        return replace(column, default=default)
    if cursor.accept("ON", "UPDATE"):
        default_value(cursor)
        return replace(column, on_update=True)
    if cursor.accept("AUTO_INCREMENT"):
        # Only a NULL after it counts.
        return replace(column, auto_increment=True, nullable=False)
    return None


def _digits(digits: str = "") -> int:
    return int(digits or "0")


def _generation(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    always = cursor.accept("GENERATED", "ALWAYS")
    if always and cursor.at_words("AS", "ROW"):
        raise cursor.error("system-versioned tables are not supported")
    if not cursor.accept("AS"):
        if always:
            raise cursor.error("expected AS")
        return None
    cursor.expression()
    kind = cursor.accept_any("VIRTUAL", "STORED")
    if cursor.accept_marked("generated kind", "PERSISTENT"):
        kind = "STORED"
    return replace(column, generated="STORED" if kind == "STORED" else "VIRTUAL")


def _visibility(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    invisible = cursor.accept_marked("visibility", "INVISIBLE")
    return replace(column, invisible=invisible) if invisible or cursor.accept_marked("visibility", "VISIBLE") else None


def _constraint(cursor: TokenCursor, column: ColumnDef, schema: str) -> ColumnDef | None:
    start = cursor.token.start
    if cursor.accept("CONSTRAINT"):
        if not cursor.at_any("CHECK", "REFERENCES"):
            cursor.name()
        if not cursor.at_any("CHECK", "REFERENCES"):
            raise cursor.error("expected CHECK or REFERENCES")
    if cursor.accept("CHECK"):
        cursor.expression()
        cursor.enforcement()
        cursor.mark("column check", start)
        return column
    if cursor.accept("REFERENCES"):
        column = replace(column, reference=references(cursor, schema))
        cursor.mark("column reference", start)
        return column
    return None


def _storage(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    if cursor.accept("COMMENT"):
        cursor.string()
        return column
    if cursor.accept("COLLATE"):
        return replace(column, type=replace(column.type, collation=cursor.name_or_string(), bare_charset=-1))
    start = cursor.token.start
    if cursor.accept_any("COLUMN_FORMAT", "STORAGE"):
        cursor.advance()
        cursor.mark("column format", start)
        return column
    if cursor.at_any("SRID", "REF_SYSTEM_ID", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        start = cursor.advance().start
        cursor.accept_op("=")
        cursor.advance()
        cursor.mark("storage", start)
        return column
    without = ("WITHOUT", "SYSTEM", "VERSIONING")
    if cursor.accept_marked("storage", *without) or cursor.accept_marked("storage", "NOT", "SECONDARY"):
        return column
    return column if accept_engine_option(cursor) else None


def accept_engine_option(cursor: TokenCursor) -> bool:
    """Reads ``name = value``, an attribute that MariaDB's engines define; False when none is next."""
    if cursor.token.kind not in ("word", "name") or cursor.ahead(1).text != "=":
        return False
    start = cursor.advance().start
    cursor.accept_op("=")
    if cursor.advance().kind not in ("word", "name", "string", "number", "bits"):
        raise cursor.error("expected an option's value")
    cursor.mark("storage", start)
    return True


def default_value(cursor: TokenCursor, type_name: str = "") -> str:
    """Reads the value of DEFAULT or ON UPDATE: a literal, a call, or an expression in parentheses; its text.

    ``type_name``: the column's type, if known.
    """
    start = cursor.token.start
    _default_tokens(cursor)
    if any(token.word in _SEQUENCE_WORDS for token in cursor.read_since(start)):
        raise cursor.error("a default value from a sequence is not supported")
    text = cursor.sql[start : cursor.last_end]
    if _CALL.fullmatch(text) or (type_name in _LARGE and text[0] != "(" and text.upper() != "NULL"):
        cursor.mark("bare default", start)
    return text


def _default_tokens(cursor: TokenCursor) -> None:
    if cursor.at_op("("):
        cursor.expression()
        return
    _ = cursor.accept_op("-") or cursor.accept_op("+")
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.name()
        return
    token = cursor.advance()
    if token.kind == "word":
        if cursor.at_op("("):
            cursor.parenthesised()
        elif token.word.startswith("_") or token.word in ("DATE", "TIME", "TIMESTAMP", "N"):
            cursor.advance()
    elif token.kind not in ("string", "number", "bits", "name"):
        raise cursor.error("expected a default value")
    while token.kind == "string" and cursor.token.kind == "string":
        cursor.advance()


def references(cursor: TokenCursor, schema: str) -> TableRef:
    """The part after REFERENCES; a table without a schema is in ``schema``."""
    ref = cursor.table("reference", schema)
    if cursor.at_op("("):
        cursor.parenthesised()
    if cursor.accept("MATCH"):
        cursor.advance()
    while cursor.at_words("ON", "DELETE") or cursor.at_words("ON", "UPDATE"):
        cursor.advance()
        cursor.advance()
        if not any(cursor.accept(*action) for action in _REFERENTIAL_ACTIONS):
            raise cursor.error("expected CASCADE, RESTRICT, SET NULL, SET DEFAULT or NO ACTION")
    return ref
