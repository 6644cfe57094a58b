"""Which SQL literals can be sent in bulk: as parameters of a bulk execution, or as the rows of a LOAD DATA.

In both ways the column converts the value from text. Only for some forms of literals and types of columns does this
give the literal's value. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pkg.mysql.bulk import BYTES, TEXT
from pkg.mysql.schema import GEOMETRIES, Column

#: Forms of literals; pkg/native/sqlscan/bulk_rows.c has the same numbers.
NULL, INTEGER, FOUR_DIGITS, FRACTION, EXPONENT, STRING, BINARY, EMPTY = (1 << n for n in range(8))
_TEXT = STRING | EMPTY
_WHOLE = INTEGER | FOUR_DIGITS | _TEXT
#: Literals that are stored the same as text. The text 0 is the year 2000; a member of an ENUM may have the name 1; a
#: DECIMAL rounds a literal with an exponent as a DOUBLE.
_LIKE_TEXT = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _WHOLE),
    "decimal": _WHOLE | FRACTION,
    **dict.fromkeys(("float", "double"), _WHOLE | FRACTION | EXPONENT),
    "year": FOUR_DIGITS | _TEXT,
    **dict.fromkeys(
        ("date", "datetime", "timestamp", "time", "char", "varchar", "tinytext", "text", "mediumtext", "longtext",
         "enum", "set", "uuid", "inet6", "inet4"),
        _TEXT,
    ),
}  # fmt: skip
#: Text in the connection's charset. Sent as bytes, the server checks it when it stores it, and does not read it
#: another time before, which takes 6 to 11 % of its work (sysbench's table). Other charsets need the conversion.
_TEXT_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_CONNECTION_CHARSET = "utf8mb4"
_BINARY_TYPES = GEOMETRIES | frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"})

_LOADED_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
#: Numbers whose literals a load reads as the same value when the target's column has the same type. Excluded: YEAR (the
#: text 0 is 2000), BIT (reads text as bytes), ENUM and SET (a number may be a member's name).
_LOADED_NUMBERS = frozenset({"decimal", "float", "double"})
#: Types whose literals are strings: a load and an INSERT convert these in the same way.
_LOADED_STRINGS = frozenset({"date", "datetime", "timestamp", "time"})
#: Text in other charsets may come as hex with an introducer.
_LOADED_CHARSETS = frozenset({"utf8", "utf8mb3", "utf8mb4"})


def types_of(columns: Sequence[Column], forms: bytes, *, raw: bool) -> list[bytes] | None:
    """The parameters' types for columns with literals of these forms; None when an INSERT may store other values.

    ``raw``: strings are bytes (SET NAMES binary), so that they may be anything in a binary column.
    """
    types = []
    for column, form in zip(columns, forms, strict=True):
        if form & NULL and not column.nullable:
            return None
        if column.type_name in _BINARY_TYPES:
            allowed, kind = BINARY | EMPTY | (STRING if raw else 0), BYTES
        else:
            unchanged = column.type_name in _TEXT_TYPES and column.charset == _CONNECTION_CHARSET
            allowed, kind = _LIKE_TEXT.get(column.type_name, 0), BYTES if unchanged else TEXT
        if form & ~(allowed | NULL):
            return None
        types.append(kind)
    return types


def can_load(columns: Iterable[tuple[Column, Column]]) -> bool:
    """Whether a load reads the literals of these (upstream, target) columns as an INSERT does."""
    pairs = list(columns)
    return bool(pairs) and all(_loads_alike(here, there) for here, there in pairs)


def _loads_alike(here: Column, there: Column) -> bool:
    if here.nullable and not there.nullable:
        # A load would write a value other than NULL.
        return False
    kind, target = here.type_name, there.type_name
    if kind in _LOADED_INTEGERS:
        return target in _LOADED_INTEGERS
    if kind in _LOADED_NUMBERS:
        return kind == target
    return kind in _LOADED_STRINGS or (kind in _TEXT_TYPES and here.charset in _LOADED_CHARSETS)
