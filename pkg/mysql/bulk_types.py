"""Which SQL literals may become parameters of a bulk execution.

A column converts a parameter from text. That is the same as what the literal gives only for some forms of literals and
types of columns. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from pkg.mysql.bulk import BYTES, TEXT
from pkg.mysql.schema import Column

#: Forms of literals as pkg/native/sqlscan.c numbers them.
NULL, INTEGER, FOUR_DIGITS, FRACTION, EXPONENT, STRING, BINARY, EMPTY = (1 << n for n in range(8))
_TEXT = STRING | EMPTY
_WHOLE = INTEGER | FOUR_DIGITS | _TEXT
#: What is stored alike as a literal and as text. The text 0 is the year 2000; a member of an ENUM may be called 1; a
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
_BINARY_TYPES = frozenset(
    {
        "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "geometry", "point", "linestring",
        "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    }
)  # fmt: skip


def types_of(columns: Sequence[Column], forms: bytes, *, raw: bool) -> list[bytes] | None:
    """The parameters' types for columns whose literals have these forms; None when an INSERT may store other values.

    ``raw``: strings are bytes (SET NAMES binary), so that they may be anything in a binary column.
    """
    types = []
    for column, form in zip(columns, forms, strict=True):
        if form & NULL and not column.nullable:
            return None
        if column.type_name in _BINARY_TYPES:
            allowed, kind = BINARY | EMPTY | (STRING if raw else 0), BYTES
        else:
            allowed, kind = _LIKE_TEXT.get(column.type_name, 0), TEXT
        if form & ~(allowed | NULL):
            return None
        types.append(kind)
    return types
