"""How a row without a key is found at the target: by the stored bytes of each of its columns. Pure.

Collations, charset conversions and JSON treat more values as equal than are. So text is compared by the bytes that the
target's own column stores: a literal in the same charset is used unchanged, another one is converted to the column's
charset as an INSERT converts it, and never to a third one, in which two codes may be one character or none.
"""

from __future__ import annotations

import re

from pkg.binlog.charsets import UTF8, same_charset
from pkg.binlog.rows.literals import MembersByName, literal_charset
from pkg.mysql.names import quote
from pkg.mysql.schema import Column
from pkg.mysql.target_values import EXACT_VALUES, TargetValues

#: An SQL expression in parts; the value's literal goes between each two of them.
MatchExpression = tuple[str, ...]
#: For each column of a row, the condition that the target's column has a literal's value exactly.
RowMatch = tuple[MatchExpression, ...]
#: A column's value, and the value of a literal in it, in one form with equal bytes for equal values only.
DigestForm = tuple[str, MatchExpression]

_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})
_TIMES = frozenset({"date", "time", "datetime", "timestamp"})
_CAST_BACK = frozenset({"uuid", "inet4", "inet6"})
#: The most members of a SET whose literals are all numbers.
_NUMBERED_MEMBERS = 63
#: As QUOTE, of which MySQL cuts the result for a LONGTEXT.
_ESCAPED = r"""IFNULL(CONCAT('\'',REPLACE(REPLACE(CAST({} AS BINARY),'\\','\\\\'),'\'','\\\''),'\''),'NULL')"""
_DIGITS = re.compile(r"\((\d+(?:,\d+)?)\)")


def condition(here: Column, there: Column, values: TargetValues = EXACT_VALUES) -> MatchExpression:
    """True for exactly the values in the target's column ``there`` that a literal of the column ``here`` can have."""
    name = quote(there.name)
    if there.type_name in _TEXT or there.type_name == "binary":
        column, literal = _stored_bytes(here, there)
        return (f"{column} <=> {literal[0]}", *literal[1:])
    if there.type_name in _BYTES and here.type_name not in _BYTES | {"binary"}:
        return f"{name} <=> CAST(", " AS BINARY)"
    if there.type_name in _FLOATS and here.type_name in _FLOATS and values.negative_zero:
        # Minus zero equals zero, but is another value.
        return f"({name} <=> ", f" AND LEFT({name}*1e0, 1) <=> LEFT(", "*1e0, 1))"
    if there.type_name == "json":
        # As documents, 1 equals 1.0; as text, a date equals a string.
        text = f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        documents = f" AS JSON) AND {text} <=> CAST(CONVERT(CAST("
        return f"({name} <=> CAST(", documents, " AS JSON) USING utf8mb4) AS BINARY))"
    return f"{name} <=> ", ""


def digest_form(here: Column, there: Column, values: TargetValues = EXACT_VALUES) -> DigestForm | None:
    """The form in which values of the two columns can be part of one text per row; None where there is none."""
    name, kind = quote(there.name), there.type_name
    if kind in _TEXT or kind == "binary":
        return _stored_bytes(here, there)
    if kind in _BYTES:
        return (name, ("", "")) if here.type_name in _BYTES | {"binary"} else None
    if kind in _INTEGERS and here.type_name in _INTEGERS:
        return _number(name)
    if kind in _FLOATS and here.type_name in _FLOATS:
        double = "*1e0" if values.negative_zero else "*1e0+0e0"
        return f"{name}{double}", ("", double)
    if kind != here.type_name:
        return None
    if kind in _CAST_BACK:
        return f"CAST({name} AS CHAR)", ("CAST(CAST(", f" AS {kind}) AS CHAR)")
    if kind in ("enum", "set"):
        numbered = not isinstance(here, MembersByName) and (kind == "enum" or len(here.elements) <= _NUMBERED_MEMBERS)
        return _number(name) if numbered else None
    if kind == "bit" or (kind == "year" and there.column_type != "year(2)"):
        return _number(name)
    same = _digits(here) == _digits(there)
    if kind in _TIMES and same:
        return name, ("", "")
    if kind == "decimal" and same:
        # Without the zeros of a ZEROFILL column.
        return f"CAST({name} AS DECIMAL({_digits(there)}))", ("CAST(", f" AS DECIMAL({_digits(there)}))")
    return None


def literal_text(here: Column, there: Column) -> str:
    """The literal of a value of the target's column, as the row decoder writes it for an equal value of ``here``; ''
    where no such expression is known. Different values never have one text. A value may have another text than its
    literal, for example with rare characters."""
    name, kind = quote(there.name), there.type_name
    if kind in _TEXT:
        utf8 = here.type_name in _TEXT and literal_charset(here) in UTF8 and there.charset in UTF8
        return (_ESCAPED if kind == "longtext" else "QUOTE(CAST({} AS BINARY))").format(name) if utf8 else ""
    if kind in _BYTES or kind == "binary":
        plain = here.type_name in _BYTES or here.type_name == "binary"
        return f"IFNULL(CONCAT('x''',LOWER(HEX({name})),''''),'NULL')" if plain else ""
    if kind in _INTEGERS and here.type_name in _INTEGERS:
        return f"IFNULL({name}{'+0' * ('zerofill' in there.column_type.lower())},'NULL')"
    if kind != here.type_name:
        return ""
    if kind in _TIMES:
        return f"IFNULL(CONCAT('''',{name},''''),'NULL')"
    if kind == "decimal":
        return f"IFNULL(CAST({name} AS DECIMAL({_digits(there) or 10})),'NULL')"
    if kind in ("bit", "year") or (kind in ("enum", "set") and not isinstance(here, MembersByName)):
        return f"IFNULL({name}+0,'NULL')"
    return ""


def around(expression: MatchExpression, literal: bytes) -> bytes:
    """The expression with the literal in its gaps."""
    return literal.join(map(str.encode, expression))


def is_searchable(here: Column, there: Column) -> bool:
    """Whether the target's column is equal to the literal that it stores, so that an index may find it."""
    kind = there.type_name
    if kind in _INTEGERS:
        return here.type_name in _INTEGERS
    if kind in _TEXT:
        return literal_charset(here) in UTF8 and _same_bytes(here, there)
    same = kind == here.type_name and _digits(here) == _digits(there)
    return same and (kind in _TIMES or kind in ("decimal", "varbinary", "binary"))


def is_listable(here: Column, there: Column, values: TargetValues = EXACT_VALUES) -> bool:
    """Whether ``(there, …) IN ((literal, …), (literal, …))`` finds the values of literals of the column ``here``.

    Measured: from two rows on, MariaDB 10.11 and 11.8, MySQL 5.7 and 8.0.12 do not convert the parts of such a list to
    the charset or type of their column, so they find none of other charsets, without an error; MySQL 8.0.46, 8.4 and
    9.7 find these, but not all of other types.
    """
    kind = there.type_name
    if kind in _INTEGERS:
        return here.type_name in _INTEGERS
    if kind in _TEXT:
        return _same_bytes(here, there)
    if kind in _BYTES:
        return here.type_name in _BYTES or here.type_name == "binary"
    if kind != here.type_name:
        return False
    if kind in ("enum", "set"):
        return values.lists_members and not isinstance(here, MembersByName)
    return kind not in _TIMES or _fraction(here) <= _fraction(there)


def _fraction(column: Column) -> int:
    """The digits after a time's seconds."""
    return int(_digits(column) or 0)


def _number(name: str) -> DigestForm:
    """An integer without the zeros of a ZEROFILL column, rather than the bytes of a BIT or a member's name."""
    return f"{name}+0", ("", "+0")


def _digits(column: Column) -> str:
    found = _DIGITS.search(column.column_type)
    return found[1] if found else ""


def _stored_bytes(here: Column, there: Column) -> DigestForm:
    """The bytes that a text or BINARY column stores, and those that it would store for a literal."""
    name = quote(there.name)
    if there.type_name == "binary":
        return name, ("CAST(", f" AS BINARY({_digits(there) or 1}))")
    head, tail = "", ""
    if not _same_bytes(here, there):
        head, tail = "CONVERT(", f" USING {there.charset})"
    if there.type_name == "char" and here.type_name != "char":
        # A CHAR column returns its values without trailing spaces.
        head, tail = f"RTRIM({head}", f"{tail})"
    return f"CAST({name} AS BINARY)", (f"CAST({head}", f"{tail} AS BINARY)")


def _same_bytes(here: Column, there: Column) -> bool:
    """Whether the column's literals have the same bytes as the stored values."""
    if here.type_name not in _TEXT:
        return False
    charset = literal_charset(here)
    return same_charset(charset, there.charset) or (charset in UTF8 and there.charset in UTF8)
