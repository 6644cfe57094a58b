"""Values that a target's column changes without an error: it pads, rounds, truncates or misreads them. Pure.

Sessions that write rows are strict, so a server refuses most values that do not fit. This module covers the values that
it accepts silently or with a note. check-task, the full copy and replication use the same functions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from pkg.binlog.charsets import UTF8, decode_text
from pkg.errors import DMError
from pkg.mysql.literal_text import LiteralText, literal_text
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, TableInfo

#: The value of the task's key ``lossy-conversions`` that refuses nothing.
ALLOW = "allow"
SETTING = "lossy-conversions"
#: The kind of a loss where no value certainly stays.
EVERY = "every"
#: The kind where number 0 of an ENUM, written as a number, would become the text 0.
_NUMBER_0 = "number 0"
_GENERATED = " (generated)"

_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64, "bit": 64, "year": 16}
_NUMBERS = frozenset({*_INTEGERS, "decimal", "float", "double"})
_MOMENTS = frozenset({"datetime", "timestamp"})
_TIMES = frozenset({*_MOMENTS, "date", "time"})
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_MEMBERS = frozenset({"enum", "set"})
_ADDRESSES = frozenset({"uuid", "inet4", "inet6"})
#: The capacity of a text column, in bytes.
_TEXT_BYTES = {"tinytext": 255, "text": 65535, "mediumtext": (1 << 24) - 1, "longtext": (1 << 32) - 1}
_BYTES_OF_A_CHARACTER = 4
#: Charsets whose space has more than one byte.
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
#: Digits of a number that a column stores exactly.
_FLOAT_DIGITS, _DOUBLE_DIGITS = 6, 15
_ARGUMENTS = re.compile(r"\(([0-9, ]+)\)")
_WIDTH = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)")
_FRACTION = re.compile(r"\.(\d+)$")
_FORMS = {
    "date": re.compile(r"\d{4}-\d\d-\d\d|\d{8}"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?|\d{14}"),
    "time": re.compile(r"-?\d{2,3}:\d\d:\d\d(\.\d{1,6})?"),
    "uuid": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "year": re.compile(r"\d{4}"),
    "number": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class ColumnLoss:
    """How values of an upstream's column may change in the target's ``column``.

    ``nulls``: NULL becomes another value. ``kind`` names the check of each value (:data:`_CHANGES`), with ``limit`` and
    ``members``: '' no check, :data:`EVERY` when no value is certain.
    """

    column: str
    here: str
    there: str
    nulls: bool = False
    kind: str = ""
    limit: int = 0
    members: tuple[str, ...] = ()

    @property
    def every(self) -> bool:
        return self.kind == EVERY

    def changes(self, literal: bytes) -> bool:
        """Whether the target would store this literal as another value, without an error."""
        try:
            value = literal_text(literal)
            if value is None:
                return self.nulls
            if self.kind == _NUMBER_0:
                return literal == b"0"
            return self.every or (bool(self.kind) and _CHANGES[self.kind](self, value))
        except (ValueError, InvalidOperation, OverflowError, DMError):
            # An expression, or bytes that are no text: it is not certain that the value stays.
            return bool(self.kind)


def table_losses(upstream: TableInfo, target: TableInfo, *, allowed: bool, logged: bool = False) -> list[ColumnLoss]:
    """For the columns in both tables. ``allowed``: the task permits values to change; NULL stays NULL even then.
    ``logged``: the values are from row images, which contain those that the upstream computed."""
    pairs = [(column, target.column(column.name)) for column in upstream.columns]
    if logged:
        pairs = [(as_logged_value(here, there), there) for here, there in pairs]
    found = [loss for here, there in pairs if there is not None and (loss := column_loss(here, there)) is not None]
    return [replace(loss, kind="") for loss in found if loss.nulls] if allowed else found


def column_loss(here: Column, there: Column) -> ColumnLoss | None:
    """None if the target stores every value exactly, or refuses it."""
    filled = there.type_name == "timestamp" or there.auto_increment
    nulls = here.nullable and not there.nullable and filled and not there.generated
    kind, limit, members = _KEPT
    if bool(here.generated) != bool(there.generated):
        kind = EVERY
    elif not here.generated and _type(here) != _type(there):
        kind, limit, members = _pair(here, there)
    if not nulls and not kind:
        return None
    return ColumnLoss(there.name, _shown(here), _shown(there), nulls, kind, limit, members)


def as_logged_value(here: Column, there: Column | None) -> Column:
    """A stored generated column as a plain one, if the target's is plain: rows contain its values."""
    stored = here.generated == "STORED" and there is not None and not there.generated
    return replace(here, generated="") if stored else here


def _type(column: Column) -> str:
    """The type, as far as it limits values."""
    if column.type_name in _MEMBERS:
        return column.column_type
    return _WIDTH.sub(r"\1", column.column_type.lower()).replace(" zerofill", "").replace(" unsigned", "")


def _shown(column: Column) -> str:
    return column.column_type + (_GENERATED if column.generated else "")


_Pair = tuple[str, int, tuple[str, ...]]
_KEPT: _Pair = ("", 0, ())
_EVERY: _Pair = (EVERY, 0, ())


def _pair(here: Column, there: Column) -> _Pair:
    one, two = here.type_name, there.type_name
    for kinds, rule in _RULES:
        if two in kinds:
            return rule(here, there)
    if one == two:
        return _KEPT
    # JSON is text in MariaDB; geometries have subtypes, and are sent as bytes.
    return _KEPT if two == "json" or one not in _KNOWN else _EVERY


def _to_number(here: Column, there: Column) -> _Pair:
    one, two = here.type_name, there.type_name
    if one in _TEXT:
        return "number text", _scale(there), (two,)
    if one not in _NUMBERS:
        return _EVERY
    if two == "year":
        return ("year", 0, ()) if one != "year" else _KEPT
    if two in ("float", "double"):
        return _to_float(here, there)
    whole = one in _INTEGERS
    same_scale = one == two == "decimal" and _scale(here) <= _scale(there)
    return _KEPT if whole or same_scale else ("scale", _scale(there), ())


def _to_float(here: Column, there: Column) -> _Pair:
    one, two = here.type_name, there.type_name
    if "(" in there.column_type and "," in there.column_type and one not in _INTEGERS:
        return "scale", _arguments(there)[1], ()
    if one == "float" or one == two or _INTEGERS.get(one, 64) <= (24 if two == "float" else 32):
        return _KEPT
    # The rest: a number of another type into FLOAT, or a BIGINT or DECIMAL into DOUBLE.
    return {"decimal": f"{two} digits", "double": "single"}.get(one, two), 0, ()


def _to_time(here: Column, there: Column) -> _Pair:
    one, two = here.type_name, there.type_name
    if one in _TEXT:
        return "time text", _digits(there), (two,)
    if one in _MOMENTS and two == "date":
        return "time of day", 0, ()
    if (one == two or {one, two} <= _MOMENTS) and one in _TIMES:
        return _KEPT if _digits(here) <= _digits(there) else ("fraction", _digits(there), ())
    return _KEPT if one == "date" and two in _MOMENTS else _EVERY


def _to_text(here: Column, there: Column) -> _Pair:
    one, two = here.type_name, there.type_name
    if one == "bit" or one not in _KNOWN:
        return _EVERY if one == "bit" else _KEPT
    if one == "enum" and "" in here.elements:
        return _NUMBER_0, 0, ()
    if one not in _TEXT | _BYTES or one == "char":
        return _KEPT
    if two == "char":
        return "spaces", 0, ()
    bytes_each = _BYTES_OF_A_CHARACTER if one == "varchar" and two != "varchar" else 1
    kept = _most(one, here) * bytes_each <= _most(two, there)
    return _KEPT if kept else ("cut spaces", _most(two, there), (two,))


def _most(kind: str, column: Column) -> int:
    """The capacity of a text or binary column: in characters, or in bytes if the type counts bytes."""
    if kind in ("varchar", "varbinary", "char", "binary"):
        return _arguments(column)[0]
    return _TEXT_BYTES[kind.replace("blob", "text")]


def _to_bytes(here: Column, there: Column) -> _Pair:
    if here.type_name in _NUMBERS:
        return _EVERY if there.type_name == "binary" or here.type_name == "bit" else _KEPT
    if here.type_name in _TEXT and here.charset not in UTF8 | {"", "binary", "ascii"}:
        # Replication writes the bytes of the upstream's charset; a full copy has text in UTF-8.
        return "letters", _arguments(there)[0] if there.type_name == "binary" else 0, (here.charset,)
    if there.type_name == "binary":
        kept = here.type_name == "binary" and _arguments(here)[0] == _arguments(there)[0]
        return _KEPT if kept else ("length", _arguments(there)[0] if "(" in there.column_type else 1, ())
    return _KEPT


def _to_member(here: Column, there: Column) -> _Pair:
    if here.type_name in _MEMBERS:
        within = set(here.elements) <= set(there.elements) and here.type_name == there.type_name
        # The text of an ENUM's number 0 is empty, which must not become a member.
        number_0 = here.type_name == "enum" and "" not in here.elements and "" in there.elements
        if within:
            return ("empty", 0, ()) if number_0 else _KEPT
        return "member", 0, (there.type_name, *(one for one in there.elements if one or not number_0))
    return ("member", 0, (there.type_name, *there.elements)) if here.type_name in _TEXT else _EVERY


def _to_address(here: Column, there: Column) -> _Pair:
    if here.type_name == there.type_name:
        return _KEPT
    return ("uuid", 0, ()) if there.type_name == "uuid" and here.type_name in _TEXT else _EVERY


_RULES: tuple[tuple[frozenset[str], Callable[[Column, Column], _Pair]], ...] = (
    (_NUMBERS, _to_number),
    (_TIMES, _to_time),
    (_TEXT, _to_text),
    (_BYTES, _to_bytes),
    (_MEMBERS, _to_member),
    (_ADDRESSES, _to_address),
)
_KNOWN = frozenset().union(*(kinds for kinds, _ in _RULES))


def _arguments(column: Column) -> tuple[int, int]:
    found = _ARGUMENTS.search(column.column_type)
    first, *more = [int(each) for each in found[1].split(",")] if found else [1]
    return first, more[0] if more else 0


def _scale(column: Column) -> int:
    """Digits after the point that the column stores; a FLOAT or DOUBLE without a limit stores any."""
    if column.type_name in ("float", "double"):
        return _arguments(column)[1] if "," in column.column_type else 1000
    return _arguments(column)[1] if column.type_name == "decimal" else 0


def _digits(column: Column) -> int:
    """Digits of a fraction of a second."""
    return _arguments(column)[0] if "(" in column.column_type else 0


# -- how a value changes ------------------------------------------------------------------------------------------


def _text(value: LiteralText) -> str:
    return decode_text(value.data, value.charset or "utf8mb4") if value.charset != "binary" else value.data.decode()


def _decimal(value: LiteralText) -> Decimal:
    return Decimal(value.data.decode("ascii").strip())


def _beyond(number: Decimal, scale: int) -> bool:
    """Whether the number has more fraction digits than that."""
    # Decimal.normalize() would round to the context's 28 digits.
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return True
    zeros = next((n for n, digit in enumerate(reversed(digits)) if digit), -exponent)
    return -exponent - zeros > scale


def _scaled(loss: ColumnLoss, value: LiteralText) -> bool:
    return _beyond(_decimal(value), loss.limit)


def _number_text(loss: ColumnLoss, value: LiteralText) -> bool:
    """The server refuses text that is no number."""
    number = _text(value).strip()
    if _FORMS["number"].fullmatch(number) is None:
        return False
    (kind,) = loss.members
    value = LiteralText(number.encode())
    if kind == "year":
        return _short_year(loss, value)
    return _scaled(loss, value) or (kind in ("float", "double") and _CHANGES[f"{kind} digits"](loss, value))


def _stored_single(number: float) -> float:
    stored: float = struct.unpack("f", struct.pack("f", number))[0]
    return stored


def _single(_: ColumnLoss, value: LiteralText) -> bool:
    """For a DOUBLE, whose literal is the shortest text for it."""
    number = float(value.data)
    return _stored_single(number) != number


def _whole_single(_: ColumnLoss, value: LiteralText) -> bool:
    return Decimal(_stored_single(float(value.data))) != _decimal(value)


def _double(_: ColumnLoss, value: LiteralText) -> bool:
    return Decimal(float(value.data)) != _decimal(value)


def _single_digits(_: ColumnLoss, value: LiteralText) -> bool:
    return _rounded(_stored_single(float(value.data)), _FLOAT_DIGITS) != _decimal(value)


def _double_digits(_: ColumnLoss, value: LiteralText) -> bool:
    return _rounded(float(value.data), _DOUBLE_DIGITS) != _decimal(value)


def _rounded(value: float, digits: int) -> Decimal:
    return Decimal(f"{value:.{digits}g}")


def _short_year(_: ColumnLoss, value: LiteralText) -> bool:
    number = _decimal(value)
    return number != 0 and not 1901 <= number <= 2155


def _fraction(loss: ColumnLoss, value: LiteralText) -> bool:
    found = _FRACTION.search(value.data.decode("ascii"))
    return found is not None and found[1][loss.limit :].strip("0") != ""


def _time_of_day(_: ColumnLoss, value: LiteralText) -> bool:
    return value.data[10:].strip(b" :.0") != b""


def _time_text(loss: ColumnLoss, value: LiteralText) -> bool:
    (kind,) = loss.members
    form = _FORMS["datetime" if kind == "timestamp" else kind]
    return form.fullmatch(_text(value)) is None or _fraction(loss, value)


def _spaces(_: ColumnLoss, value: LiteralText) -> bool:
    if value.charset in _WIDE:
        return _text(value).endswith(" ")
    # Strings may be in any other charset, and none has this byte within a character.
    return value.data.endswith(b" ")


def _cut_spaces(loss: ColumnLoss, value: LiteralText) -> bool:
    if not _spaces(loss, value):
        return False
    in_bytes = loss.members != ("varchar",)
    text = value.data if in_bytes else value.data.decode("utf-8", "replace") if not value.charset else _text(value)
    return len(text) > loss.limit


def _length(loss: ColumnLoss, value: LiteralText) -> bool:
    return len(value.data) < loss.limit


def _letters(loss: ColumnLoss, value: LiteralText) -> bool:
    other_bytes = not value.charset and (loss.members[0] in _WIDE or not value.data.isascii())
    return (other_bytes and bool(value.data)) or _length(loss, value)


def _member(loss: ColumnLoss, value: LiteralText) -> bool:
    kind, *members = loss.members
    text = _text(value)
    if kind == "enum":
        return text not in members
    parts = text.split(",") if text else []
    return not set(parts) <= set(members)


def _empty(_: ColumnLoss, value: LiteralText) -> bool:
    return not value.data


def _uuid(_: ColumnLoss, value: LiteralText) -> bool:
    return _FORMS["uuid"].fullmatch(_text(value)) is None


_CHANGES: dict[str, Callable[[ColumnLoss, LiteralText], bool]] = {
    "scale": _scaled,
    "number text": _number_text,
    "single": _single,
    "float": _whole_single,
    "double": _double,
    "float digits": _single_digits,
    "double digits": _double_digits,
    "year": _short_year,
    "fraction": _fraction,
    "time of day": _time_of_day,
    "time text": _time_text,
    "spaces": _spaces,
    "cut spaces": _cut_spaces,
    "length": _length,
    "letters": _letters,
    "member": _member,
    "empty": _empty,
    "uuid": _uuid,
}


# -- messages ---------------------------------------------------------------------------------------------------


def describe(loss: ColumnLoss) -> str:
    """``the column `dt` is datetime(6) upstream and datetime in the target``"""
    return f"the column {quote(loss.column)} is {loss.here} upstream and {loss.there} in the target"


def way_out(target: tuple[str, str], loss: ColumnLoss) -> str:
    """The operator action so that the target stores each value exactly, or the task permits the change."""
    altered = f"ALTER TABLE {qualified(*target)} MODIFY {quote(loss.column)}"
    if not loss.kind:
        return (
            f"Let the target's column be NULL, as it may be upstream: `{altered} {_plain(loss.there)} NULL;` "
            "(AUTO_INCREMENT has to go too), then resume the task."
        )
    allowed = f"set `{SETTING}: {ALLOW}` in the task file, then stop the task and start it again with that file"
    if loss.every:
        return (
            "Give the target's column the upstream's definition, then resume the task. Or let values change: "
            f"{allowed}."
        )
    return (
        f"Give the target's column the upstream's type: `{altered} {_plain(loss.here)};`, then resume the task. Or let "
        f"values change: {allowed}."
    )


def _plain(shown: str) -> str:
    return shown.removesuffix(_GENERATED)
