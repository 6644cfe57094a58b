"""The form of a column's values: bytes that are equal on both servers exactly if the target's value is the one it must
have. Pure.

A form is an SQL expression for each side. ``SAME`` forms of different values are always different, so that digests of
them prove equality on any two servers; where two servers may write one value in two ways, :class:`Reading` says how
forms are read before a difference is reported.

The target must have what an INSERT of the upstream's value stores: text in another charset is converted, a grown
type has the same number. Stored bytes are compared, never values under a collation: collations treat more values as
equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dm_worker.table_reads.column_literals import TOO_LONG
from pkg.binlog.charsets import UTF8, same_charset
from pkg.mysql.schema import GEOMETRIES, Column


class Reading(Enum):
    """How two forms are read. ``SAME``: unchanged. ``WRITTEN_DOCUMENT``: the target keeps a document as text."""

    SAME = "same"
    FLOAT = "float"
    NUMBER = "number"
    MEMBERS = "members"
    DOCUMENT = "document"
    WRITTEN_DOCUMENT = "written document"
    ADDRESS = "address"


@dataclass(frozen=True, slots=True)
class ComparedServer:
    """The traits of a server that decide forms and digests. ``unicode_only``: text of every charset is stored in UTF-8
    (TiDB). ``negative_zero``: a double may be -0. ``sha1``: it has SHA1; since MySQL 9.6 only a component has it."""

    flavor: str
    json_types: bool = False
    unicode_only: bool = False
    negative_zero: bool = True
    sha1: bool = True


@dataclass(frozen=True, slots=True)
class SideColumn:
    """A column on one side: ``value`` is the SQL expression of its value, a quoted name or what column mapping makes of
    it; ``column`` describes that value."""

    column: Column
    value: str
    server: ComparedServer


@dataclass(frozen=True, slots=True)
class ColumnForms:
    """``upstream``: one expression for each side given. ``free``: forms may have any bytes, so a length must precede
    them. ``bulky``: they may be long. ``guarded``: an expression may be NULL for a value that is not. ``utf8``: on all
    sides they are text in UTF-8, which servers verify when they store it."""

    upstream: tuple[str, ...]
    target: str
    reading: Reading = Reading.SAME
    free: bool = False
    bulky: bool = False
    guarded: bool = False
    utf8: bool = False


_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_STAMPS = frozenset({"datetime", "timestamp"})
_ADDRESSES = frozenset({"inet4", "inet6"})
#: Types with short values, or with a short declared length.
_BULKY = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"})
_SHORT = 1024
_NUMBERS = re.compile(r"\((\d+)(?:,(\d+))?\)")
#: The most members of a SET whose number a double represents exactly.
_DOUBLE_BITS = 53
#: The most digits of a DECIMAL, and of an integer.
_DECIMAL_DIGITS, _INTEGER_DIGITS = 65, 20


def column_forms(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    """The forms of a column of all upstream tables and of the target, or the reason why they can't be compared."""
    maker = _MAKERS.get(target.column.type_name)
    if maker is None:
        return f"the type {target.column.column_type} is unknown"
    return maker(upstream, target)


def _kinds(sides: Sequence[SideColumn]) -> frozenset[str]:
    return frozenset(side.column.type_name for side in sides)


def _unlike(upstream: Sequence[SideColumn], target: SideColumn) -> str:
    others = sorted({side.column.column_type for side in upstream})
    return f"{', '.join(others)} in the upstream can't be compared with {target.column.column_type} at the target"


def _numbers(column: Column, *default: int) -> tuple[int, ...]:
    """The numbers in the parentheses of a type, ``default`` for missing ones."""
    found = _NUMBERS.search(column.column_type)
    given = tuple(int(part) for part in found.groups() if part is not None) if found else ()
    return given + default[len(given) :]


def _each(sides: Sequence[SideColumn], expression: Callable[[SideColumn], str]) -> tuple[str, ...]:
    return tuple(map(expression, sides))


# -- numbers --------------------------------------------------------------------------------------------------------


def _integer(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    if not _kinds(upstream) <= _INTEGERS:
        return _unlike(upstream, target)
    return ColumnForms(_each(upstream, _plain_integer), _plain_integer(target))


def _plain_integer(side: SideColumn) -> str:
    """Without the zeros of a ZEROFILL column."""
    return f"{side.value}+0" if "zerofill" in side.column.column_type.lower() else side.value


def _decimal(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    if not _kinds(upstream) <= _INTEGERS | {"decimal"}:
        return _unlike(upstream, target)
    sizes = [_digits(side.column) for side in (*upstream, target)]
    whole, scale = max(size[0] for size in sizes), max(size[1] for size in sizes)
    if whole + scale > _DECIMAL_DIGITS:
        return ColumnForms(_each(upstream, _text_of), _text_of(target), Reading.NUMBER)

    def form(side: SideColumn) -> str:
        same = _digits(side.column) == (whole, scale) and side.column.type_name == "decimal"
        plain = same and "zerofill" not in side.column.column_type.lower()
        return side.value if plain else f"CAST({side.value} AS DECIMAL({whole + scale},{scale}))"

    return ColumnForms(_each(upstream, form), form(target))


def _digits(column: Column) -> tuple[int, int]:
    """Digits before and after the point."""
    if column.type_name in _INTEGERS:
        return _INTEGER_DIGITS, 0
    precision, scale = _numbers(column, 10, 0)
    return precision - scale, scale


def _text_of(side: SideColumn) -> str:
    return f"CAST({side.value} AS CHAR)"


def _float(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    if not _kinds(upstream) <= _FLOATS | _INTEGERS | {"decimal"}:
        return _unlike(upstream, target)
    # Servers of one flavor write a double in one way.
    alike = len({side.server.flavor for side in (*upstream, target)}) == 1
    signed = all(side.server.negative_zero for side in (*upstream, target))

    def form(side: SideColumn) -> str:
        """A FLOAT's own text has too few digits. The text of a double gives back every bit, and keeps the sign of zero,
        which does not count where a server has no zero below zero."""
        return f"{side.value}*1e0" + ("" if signed else "+0e0")

    return ColumnForms(_each(upstream, form), form(target), Reading.SAME if alike else Reading.FLOAT)


def _bit(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    if _kinds(upstream) != {"bit"}:
        return _unlike(upstream, target)
    return ColumnForms(_each(upstream, _as_number), _as_number(target))


def _as_number(side: SideColumn) -> str:
    return f"{side.value}+0"


def _as_unsigned(side: SideColumn) -> str:
    # Adding makes a SET of more than 53 members inexact.
    return f"CAST({side.value} AS UNSIGNED)"


def _year(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    short = any(side.column.column_type == "year(2)" for side in (*upstream, target))
    if _kinds(upstream) != {"year"} or short:
        return _unlike(upstream, target)
    return ColumnForms(_each(upstream, _as_number), _as_number(target))


# -- times ----------------------------------------------------------------------------------------------------------


def _date(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    if _kinds(upstream) != {"date"}:
        return _unlike(upstream, target)
    return ColumnForms(_each(upstream, lambda side: side.value), target.value)


def _time(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    """With all digits of the longest: a text with more digits is made of the shorter ones by zeros, not by a cast, for
    which a zero date is no date. Both sessions read TIMESTAMPs in UTC."""
    stamps = target.column.type_name in _STAMPS
    if not _kinds(upstream) <= (_STAMPS | {"date"} if stamps else {"time"}):
        return _unlike(upstream, target)
    most = max(_fraction(side.column) for side in (*upstream, target))

    def form(side: SideColumn) -> str:
        digits = _fraction(side.column)
        more = " 00:00:00" if side.column.type_name == "date" else ""
        if digits < most:
            more += "." * (digits == 0) + "0" * (most - digits)
        return f"CONCAT({side.value},'{more}')" if more else side.value

    return ColumnForms(_each(upstream, form), form(target))


def _fraction(column: Column) -> int:
    return 0 if column.type_name == "date" else _numbers(column, 0)[0]


# -- text and bytes -------------------------------------------------------------------------------------------------


def _text(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    kinds = _kinds(upstream)
    if "json" in kinds:
        if not kinds <= _TEXTS | {"json"}:
            return _unlike(upstream, target)
        return _documents(upstream, target)
    if kinds & _BYTES:
        return _bytes(upstream, target) if kinds <= _BYTES | _TEXTS else _unlike(upstream, target)
    spelled = _INTEGERS | _STAMPS | {"date", "time", "decimal", "uuid", "enum", "set", *_ADDRESSES}
    if not kinds <= _TEXTS | spelled:
        return _unlike(upstream, target)
    by_bytes = all(_same_bytes(side, target) for side in upstream)

    def form(side: SideColumn) -> str:
        if side.column.type_name not in _TEXTS:
            return f"CAST(CAST({_spelled(side)} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
        text = side.value
        if _charset(side) != side.column.charset and side.column.charset not in UTF8:
            # TiDB's cast to BINARY gives gbk its own bytes.
            text = f"CONVERT({text} USING utf8mb4)"
        if target.column.type_name == "char" and side.column.type_name != "char":
            # A CHAR column returns its values without trailing spaces.
            text = f"RTRIM({text})"
        return _stored(text, side) if by_bytes else _unicode(text, side)

    bulky = _is_bulky(upstream, target)
    utf8 = by_bytes and _charset(target) in UTF8
    return ColumnForms(_each(upstream, form), form(target), free=True, bulky=bulky, guarded=not by_bytes, utf8=utf8)


def _spelled(side: SideColumn) -> str:
    return f"{side.value}+0" if "zerofill" in side.column.column_type.lower() else side.value


def _charset(side: SideColumn) -> str:
    return "utf8mb4" if side.server.unicode_only and side.column.charset != "binary" else side.column.charset


def _same_bytes(here: SideColumn, there: SideColumn) -> bool:
    """Whether the bytes are the same for the same characters."""
    mine = _charset(here) if here.column.type_name in _TEXTS else "utf8mb4"
    theirs = _charset(there)
    return same_charset(mine, theirs) or (mine in UTF8 and theirs in UTF8)


def _stored(text: str, side: SideColumn) -> str:
    """The stored bytes. The comparison's sessions speak utf8mb4, so that such a text is not converted: a cast, which
    copies it, would cost a third of a digest."""
    return text if _charset(side) == "utf8mb4" else f"CAST({text} AS BINARY)"


def _unicode(text: str, side: SideColumn) -> str:
    """Text in UTF-8 if each character is known there; else a byte that no such text has, the charset and the stored
    bytes. Several codes of a charset may have one character: these are equal."""
    charset = _charset(side)
    if charset in UTF8:
        return f"CAST({text} AS BINARY)"
    stored, there = f"CAST({text} AS BINARY)", f"CONVERT({text} USING utf8mb4)"
    back = f"CAST(CONVERT({there} USING {charset}) AS BINARY)"
    odd = f"CONCAT(x'FF',CAST('{charset} ' AS BINARY),{stored})"
    # A code without a character becomes a question mark.
    asked, unknown = (f"CHAR_LENGTH(REPLACE({one},'?',''))" for one in (text, there))
    lost = f"CHAR_LENGTH({text})-{asked}<CHAR_LENGTH({there})-{unknown}"
    return f"IF({back} <=> {stored} OR NOT {lost},CAST({there} AS BINARY),{odd})"


def _bytes(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    if not _kinds(upstream) <= _BYTES | _TEXTS:
        return _unlike(upstream, target)
    size = _numbers(target.column, 1)[0] if target.column.type_name == "binary" else 0

    def form(side: SideColumn) -> str:
        value = f"CAST({side.value} AS BINARY)" if side.column.type_name in _TEXTS else side.value
        own = _numbers(side.column, 1)[0]
        if not size or (side.column.type_name == "binary" and own == size):
            return value
        padded = f"CAST({value} AS BINARY({size}))"
        # A cast also cuts a value that is longer.
        short = side.column.type_name in ("binary", "varbinary") and own <= size
        return padded if short else f"IF(LENGTH({value})>{size},{value},{padded})"

    return ColumnForms(_each(upstream, form), form(target), free=True, bulky=_is_bulky(upstream, target))


def _is_bulky(upstream: Sequence[SideColumn], target: SideColumn) -> bool:
    return any(side.column.type_name in _BULKY or _numbers(side.column, 1)[0] > _SHORT for side in (*upstream, target))


def _raw(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    """Geometries and vectors: servers store the same bytes."""
    family = GEOMETRIES if target.column.type_name in GEOMETRIES else {target.column.type_name}
    if not _kinds(upstream) <= family:
        return _unlike(upstream, target)
    return ColumnForms(_each(upstream, lambda side: side.value), target.value, free=True, bulky=True)


# -- members, documents, addresses ----------------------------------------------------------------------------------


def _members(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    kind = target.column.type_name
    if _kinds(upstream) != {kind}:
        return _unlike(upstream, target)
    there = target.column.elements
    same_order = all(there[: len(side.column.elements)] == side.column.elements for side in upstream)
    # A TiDB makes a double of the number of a SET.
    exact = len(there) <= _DOUBLE_BITS or not any(side.server.unicode_only for side in (*upstream, target))
    if same_order and (kind == "enum" or exact):
        return ColumnForms(_each(upstream, _as_unsigned), _as_unsigned(target))

    def form(side: SideColumn) -> str:
        name = f"CAST(CONVERT({side.value} USING utf8mb4) AS BINARY)"
        # Number 0 of an ENUM reads as the empty text, which may be a member as well.
        return f"IF({_as_unsigned(side)}=0,'',CONCAT('=',{name}))"

    reading = Reading.SAME if kind == "enum" or same_order else Reading.MEMBERS
    return ColumnForms(_each(upstream, form), form(target), reading, free=True)


def _documents(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    """JSON of one flavor is the same text for the same document. MariaDB keeps the text that was written."""
    sides = (*upstream, target)
    if not _kinds(sides) <= _TEXTS | {"json"}:
        return _unlike(upstream, target)
    alike = _kinds(sides) == {"json"} and len({side.server.flavor for side in sides}) == 1
    types = alike and all(side.server.json_types for side in sides)

    def form(side: SideColumn) -> str:
        text = f"CAST(CONVERT({side.value} USING utf8mb4) AS BINARY)"
        return f"CONCAT({_json_types(side.value)},'\\n',{text})" if types else text

    kept = Reading.DOCUMENT if target.column.type_name == "json" else Reading.WRITTEN_DOCUMENT
    reading = Reading.SAME if alike else kept
    return ColumnForms(_each(upstream, form), form(target), reading, free=True, bulky=True, guarded=True)


def _json_types(value: str) -> str:
    """The types of all values in a document, which its text does not show: DECIMAL and DOUBLE, dates and strings."""
    kinds = (
        "SELECT CONCAT(IFNULL(JSON_ARRAYAGG(JSON_TYPE(COALESCE(`dm member`,`dm cell`))),'')) FROM JSON_TABLE("
        f"{value},'$' COLUMNS(NESTED PATH '$**.*' COLUMNS(`dm member` JSON PATH '$'),"
        "NESTED PATH '$**[*]' COLUMNS(`dm cell` JSON PATH '$'))) `dm values`"
    )
    return f"CAST(CONCAT(JSON_TYPE({value}),IF(JSON_TYPE({value}) IN ('OBJECT','ARRAY'),({kinds}),'')) AS BINARY)"


def _spoken(upstream: Sequence[SideColumn], target: SideColumn) -> ColumnForms | str:
    """Types of MariaDB that are read as text."""
    kind = target.column.type_name
    if _kinds(upstream) != {kind}:
        return _unlike(upstream, target)
    reading = Reading.ADDRESS if kind in _ADDRESSES else Reading.SAME
    return ColumnForms(_each(upstream, _text_of), _text_of(target), reading)


_Maker = Callable[[Sequence[SideColumn], SideColumn], ColumnForms | str]
_MAKERS: Mapping[str, _Maker] = {
    **dict.fromkeys(_INTEGERS, _integer),
    "decimal": _decimal,
    **dict.fromkeys(_FLOATS, _float),
    "bit": _bit,
    "year": _year,
    "date": _date,
    **dict.fromkeys((*_STAMPS, "time"), _time),
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_BYTES, _bytes),
    **dict.fromkeys((*GEOMETRIES, "vector"), _raw),
    **dict.fromkeys(("enum", "set"), _members),
    "json": _documents,
    **dict.fromkeys(("uuid", *_ADDRESSES), _spoken),
}


def read_whole(form: str, value: str, *, guarded: bool, mark: str) -> str:
    """The form as a SELECT reads it: NULL only for NULL. One that the server could not make is ``TOO_LONG`` and
    ``mark``, hexadecimal digits that differ on the two sides: such values are not equal."""
    return f"IF({value} IS NULL,NULL,IFNULL({form},x'{TOO_LONG.hex()}{mark}'))" if guarded else form
