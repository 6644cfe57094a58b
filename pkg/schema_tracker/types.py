"""Data types as written → in information_schema's form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pkg.binlog.charsets import decode_text
from pkg.ddl.columns import unescaped
from pkg.ddl.statement import ColumnDef, TypeSpec
from pkg.mysql.schema import Column
from pkg.schema_tracker.server import Charset, ServerDefaults

_SYNONYMS = {
    "INTEGER": "INT",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT3": "MEDIUMINT",
    "MIDDLEINT": "MEDIUMINT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "FIXED": "DECIMAL",
    "NUMBER": "DECIMAL",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "CHARACTER": "CHAR",
    "VARCHARACTER": "VARCHAR",
    "VARCHAR2": "VARCHAR",
    "RAW": "VARBINARY",
    "LONG": "MEDIUMTEXT",
    "CLOB": "LONGTEXT",
}
# Display widths: signed, unsigned.
_INTEGERS = {"TINYINT": (4, 3), "SMALLINT": (6, 5), "MEDIUMINT": (9, 8), "INT": (11, 10), "BIGINT": (20, 20)}
_CHARACTER = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_BLOB_LIMITS = (255, 65535, 16777215, 4294967295)
_AS_BINARY = {"char": "binary", "varchar": "varbinary", **dict(zip(_TEXTS, _BLOBS, strict=True))}
_ENUM_ESCAPES = str.maketrans({"'": "''", "\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r"})
_VARCHAR_BYTES = 65535


@dataclass(frozen=True, slots=True)
class ResolvedType:
    """A type in the form of information_schema's columns with the same names."""

    type_name: str
    column_type: str
    unsigned: bool = False
    charset: str = ""
    collation: str = ""


def resolve_column(definition: ColumnDef, inherited: Charset, server: ServerDefaults) -> Column:
    """A column of a table with the default charset ``inherited``. Raises ``ValueError`` for an unknown charset."""
    resolved = resolve_type(definition.type, inherited, server)
    serial = definition.type.name == "SERIAL"
    nullable = definition.nullable
    if nullable is None:
        # Without explicit_defaults_for_timestamp a TIMESTAMP is NOT NULL by default.
        nullable = resolved.type_name != "timestamp" or server.explicit_timestamp
    if serial or definition.primary:
        nullable = False
    return Column(
        name=definition.name,
        type_name=resolved.type_name,
        column_type=resolved.column_type,
        nullable=nullable,
        unsigned=resolved.unsigned,
        charset=resolved.charset,
        collation=resolved.collation,
        generated=definition.generated,
        auto_increment=definition.auto_increment or serial,
        invisible=definition.invisible,
        default=definition.default,
    )


def resolve_type(spec: TypeSpec, inherited: Charset, server: ServerDefaults) -> ResolvedType:
    resolved = _uncompressed(spec, inherited, server)
    if not spec.compressed:
        return resolved
    return replace(resolved, column_type=f"{resolved.column_type} /*M!100301 COMPRESSED*/")


def _uncompressed(spec: TypeSpec, inherited: Charset, server: ServerDefaults) -> ResolvedType:
    name = _SYNONYMS.get(spec.name, spec.name)
    if name in ("GEOMETRYCOLLECTION", "GEOMCOLLECTION"):
        return _plain(server.geometry_collection, [])
    if name in _INTEGERS:
        return _integer(name, spec, server)
    if name == "SERIAL":
        return _integer("BIGINT", replace(spec, unsigned=True), server)
    if name in ("BOOL", "BOOLEAN"):
        return ResolvedType("tinyint", "tinyint(1)")
    if name in ("DECIMAL", "FLOAT", "DOUBLE"):
        return _real(name, spec)
    if name in ("TIME", "DATETIME", "TIMESTAMP"):
        return _plain(name, [arg for arg in spec.args if int(arg)])
    if name == "YEAR":
        return _plain(name, [_year_width(spec, server)] if server.shows_width else [])
    if name == "BIT":
        return _plain(name, [str(_length(spec) or 1)])
    if name == "JSON" and server.mariadb:
        return ResolvedType("longtext", "longtext", False, "utf8mb4", "utf8mb4_bin")
    if name in ("BINARY", "VARBINARY"):
        # As with VARCHAR: without strict mode it becomes a type that can store as much.
        return _blob("blob", _length(spec)) if _length(spec) > _VARCHAR_BYTES else _plain(name, [str(_length(spec, 1))])
    if name.lower() in _BLOBS:
        return _blob(name.lower(), _length(spec))
    if name.lower() in _CHARACTER or name in ("NCHAR", "NVARCHAR"):
        return _character(name, spec, inherited, server)
    return _plain(name, list(spec.args))


def convert_column(column: Column, charset: Charset, server: ServerDefaults) -> Column:
    """A column after CONVERT TO CHARACTER SET: text types grow so that as many characters fit as before."""
    if column.type_name not in _CHARACTER or column.charset in ("", "binary"):
        return column
    if column.type_name in _TEXTS and charset.name != "binary":
        old = server.resolve(column.charset, column.collation, None)
        limit = _BLOB_LIMITS[_TEXTS.index(column.type_name)]
        grown = _TEXTS[_size_class(min(limit // old.max_bytes * charset.max_bytes, _BLOB_LIMITS[-1]))]
        type_ = ResolvedType(grown, column.column_type.replace(column.type_name, grown, 1))
    elif column.type_name in ("char", "varchar"):
        length = column.column_type[column.column_type.index("(") + 1 : column.column_type.index(")")]
        type_ = _character(column.type_name.upper(), TypeSpec("", (length,)), charset, server)
        type_ = replace(type_, column_type=type_.column_type + column.column_type.partition(")")[2])
    else:
        type_ = _in_charset(ResolvedType(column.type_name, column.column_type), charset)
    return replace(
        column,
        type_name=type_.type_name,
        column_type=type_.column_type,
        charset="" if charset.name == "binary" and type_.type_name in _AS_BINARY.values() else charset.name,
        collation="" if charset.name == "binary" and type_.type_name in _AS_BINARY.values() else charset.collation,
    )


def character_length(column: Column) -> int:
    """The length in characters (bytes) of CHAR, VARCHAR (BINARY, VARBINARY); 0 for other types."""
    if column.type_name not in ("char", "varchar", "binary", "varbinary"):
        return 0
    return int(column.column_type[column.column_type.index("(") + 1 : column.column_type.index(")")])


def _length(spec: TypeSpec, default: int = 0) -> int:
    return int(spec.args[0]) if spec.args else default


def _plain(name: str, args: list[str]) -> ResolvedType:
    base = name.lower()
    return ResolvedType(base, f"{base}({','.join(args)})" if args else base)


def _signedness(spec: TypeSpec) -> str:
    return (" unsigned" if spec.unsigned else "") + (" zerofill" if spec.zerofill else "")


def _integer(name: str, spec: TypeSpec, server: ServerDefaults) -> ResolvedType:
    base = name.lower()
    width = _length(spec) or _INTEGERS[name][spec.unsigned]
    # MySQL 8 dropped the widths except where they have a meaning: booleans and ZEROFILL.
    shown = server.shows_width or spec.zerofill or (base == "tinyint" and width == 1 and not spec.unsigned)
    text = f"{base}({width})" if shown else base
    return ResolvedType(base, text + _signedness(spec), spec.unsigned)


def _real(name: str, spec: TypeSpec) -> ResolvedType:
    base, args = name.lower(), list(spec.args)
    if base == "decimal":
        args = [str(_length(spec) or 10), args[1] if len(args) > 1 else "0"]
    elif len(args) == 1:
        base = "double" if int(args[0]) > 24 else base
        args = []
    text = f"{base}({','.join(args)})" if args else base
    return ResolvedType(base, text + _signedness(spec), spec.unsigned)


def _year_width(spec: TypeSpec, server: ServerDefaults) -> str:
    return "2" if server.mariadb and spec.args == ("2",) else "4"


def _size_class(length: int) -> int:
    """The smallest type for ``length`` bytes, or the largest: TEXT(n) counts characters, of up to 4 bytes each."""
    return next((i for i, limit in enumerate(_BLOB_LIMITS) if length <= limit), len(_BLOB_LIMITS) - 1)


def _blob(base: str, length: int) -> ResolvedType:
    """BLOB(n) is the smallest type for n bytes."""
    return _plain(_BLOBS[_size_class(length)] if base == "blob" and length else base, [])


def _character(name: str, spec: TypeSpec, inherited: Charset, server: ServerDefaults) -> ResolvedType:
    if name in ("NCHAR", "NVARCHAR"):
        name = name.removeprefix("N")
        spec = replace(spec, charset="utf8")
    charset = server.resolve(spec.charset, spec.collation, inherited)
    if spec.binary:
        charset = server.binary_collation(charset)
    base = name.lower()
    if base in ("enum", "set"):
        spelled = [_member(member, charset.name) for member in spec.args]
        trimmed = spelled if charset.name == "binary" else [member.rstrip(" ") for member in spelled]
        members = ",".join(f"'{member.translate(_ENUM_ESCAPES)}'" for member in trimmed)
        return _in_charset(ResolvedType(base, f"{base}({members})"), charset)
    if base == "text" and spec.args:
        base = _TEXTS[_size_class(_length(spec) * charset.max_bytes)] if _length(spec) else base
    if base == "varchar" and _length(spec) * charset.max_bytes > _VARCHAR_BYTES:
        # Without strict mode, a VARCHAR that is too long for a row becomes a text type.
        base = _TEXTS[_size_class(_length(spec) * charset.max_bytes)]
    if base in _TEXTS:
        return _in_charset(_plain(base, []), charset)
    return _in_charset(_plain(base, [str(_length(spec, 1))]), charset)


def _member(member: str, charset: str) -> str:
    """A member's text, also from a hex or bit literal."""
    data = unescaped(member)
    return member if data is None else decode_text(data, charset)


def _in_charset(type_: ResolvedType, charset: Charset) -> ResolvedType:
    """The charset ``binary`` turns character types into binary types, except ENUM and SET."""
    if charset.name == "binary" and type_.type_name in _AS_BINARY:
        base = _AS_BINARY[type_.type_name]
        return ResolvedType(base, type_.column_type.replace(type_.type_name, base, 1))
    return replace(type_, charset=charset.name, collation=charset.collation)
