"""Static types of expressions, and the conversions between them in which the servers agree.

Values: int, ``Decimal``, float, ``str`` (text), bytes (binary strings), ``(year, month, day)`` for DATE, the same with
``hour, minute, second, microsecond`` for DATETIME, signed microseconds for TIME, the number of an ENUM,
SET or BIT. NULL is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Literal

from pkg.rules.expression_filter.syntax import ExpressionError

ValueKind = Literal[
    "null", "int", "decimal", "real", "text", "binary", "date", "datetime", "time", "enum", "set", "bit"
]
#: From a row's literals to the value.
Evaluate = Callable[[Sequence[bytes]], Any]

#: How strongly a string keeps its collation; the lowest wins.
EXPLICIT, IMPLICIT, LITERAL = 0, 2, 4
#: The collation of strings that come from no column: the session's.
SESSION_COLLATION = "utf8mb4_general_ci"
EXACT = ("int", "decimal")
STRINGS = ("text", "binary", "enum", "set")
TEMPORAL = ("date", "datetime", "time")
CONTEXT = Context(prec=200, rounding=ROUND_HALF_UP)
_LARGEST = 1.7976931348623157e308
_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueType:
    """``digits`` are the maximum digits before the point, ``scale`` those after it (of seconds, for times).

    ``divided``: an exact quotient, for which servers compute more digits than they show.
    """

    kind: ValueKind
    unsigned: bool = False
    digits: int = 0
    scale: int = 0
    collation: str = SESSION_COLLATION
    derivation: int = LITERAL
    elements: tuple[str, ...] = ()
    year: bool = False
    divided: bool = False

    @property
    def charset(self) -> str:
        return "binary" if self.kind == "binary" else self.collation.partition("_")[0]


@dataclass(frozen=True, slots=True)
class TypedExpression:
    """An expression that can be evaluated. ``constant``: it reads no column. ``at``: its offset in the text."""

    type: ValueType
    get: Evaluate
    at: int
    constant: bool = False
    column: bool = False
    #: A literal that acts as a number next to numbers: 0x… or b'…'.
    bits: bool = False

    @property
    def kind(self) -> ValueKind:
        return self.type.kind

    def refuse(self, why: str) -> ExpressionError:
        return ExpressionError(self.at, why)


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """Other inputs of results. ``zone`` is the session's; ``flavor`` the upstream's, mysql or mariadb."""

    zone: tzinfo
    flavor: str = "mysql"
    digits: Context = field(default=CONTEXT, repr=False)


INT = ValueType("int", digits=19)
BOOL = ValueType("int", digits=1)


def lift(function: Callable[..., Any], *args: TypedExpression) -> Evaluate:
    """A function of non-NULL values; the result is NULL when one is NULL."""
    gets = [arg.get for arg in args]
    if len(gets) == 1:
        (only,) = gets

        def one(row: Sequence[bytes]) -> Any:
            value = only(row)
            return None if value is None else function(value)

        return one

    def several(row: Sequence[bytes]) -> Any:
        values = []
        for get in gets:
            value = get(row)
            if value is None:
                return None
            values.append(value)
        return function(*values)

    return several


def made(type_: ValueType, function: Callable[..., Any], *args: TypedExpression, at: int) -> TypedExpression:
    """The result of ``function`` over ``args``, NULL when one is."""
    return TypedExpression(type_, lift(function, *args), at, constant=all(arg.constant for arg in args))


def text_number(text: str) -> float:
    """The number at the start of a text, 0 if there is none."""
    match = _NUMBER.match(text)
    return max(-_LARGEST, min(_LARGEST, float(match[1]))) if match else 0.0


def _not_divided(arg: TypedExpression) -> None:
    if arg.type.divided:
        raise arg.refuse("a quotient can only be compared with exact numbers: beyond that servers differ in its digits")


def as_real(arg: TypedExpression) -> TypedExpression:
    """As a double."""
    _not_divided(arg)
    if arg.kind == "text":
        return made(ValueType("real"), text_number, arg, at=arg.at)
    if arg.kind == "binary" and arg.bits:
        return as_real(as_exact(arg))
    if arg.kind == "binary":
        if arg.constant:
            raise arg.refuse("x'…' as a number has different meanings on different servers; write 0x…")
        return made(ValueType("real"), lambda raw: text_number(raw.decode("latin-1")), arg, at=arg.at)
    if arg.kind in TEMPORAL:
        raise arg.refuse("a date or time as a number is not supported; compare it with a quoted date or time")
    return arg if arg.kind == "real" else made(ValueType("real"), float, arg, at=arg.at)


def as_exact(arg: TypedExpression) -> TypedExpression:
    """As an integer or a decimal; ``arg`` is one, or an ENUM, SET, BIT or hex literal, which have a number."""
    if arg.kind in EXACT or arg.kind == "null":
        return arg
    if arg.kind in ("enum", "set", "bit"):
        return TypedExpression(ValueType("int", unsigned=True, digits=20), arg.get, arg.at, arg.constant)
    if arg.bits:
        value = arg.get(())
        if len(value) > 8:
            raise arg.refuse("a hex literal of more than 8 bytes is not a number")
        return made(ValueType("int", unsigned=True, digits=20), lambda raw: int.from_bytes(raw, "big"), arg, at=arg.at)
    raise arg.refuse("a whole or decimal number is needed here; use CAST")


def numeric(arg: TypedExpression) -> TypedExpression:
    """As the number for arithmetic: exact if possible, otherwise a double."""
    if arg.kind in ("enum", "set") or arg.bits:
        raise arg.refuse(
            "arithmetic over ENUM, SET, and hex and bit literals differs between servers; use CAST AS SIGNED"
        )
    _not_divided(arg)
    return as_exact(arg) if arg.kind in (*EXACT, "bit", "null") else as_real(arg)


def as_text(arg: TypedExpression) -> TypedExpression:
    """As text, or as a binary string if it is one."""
    kind = arg.kind
    _not_divided(arg)
    if kind in ("text", "binary", "null"):
        return arg
    text = ValueType("text", collation=arg.type.collation, derivation=arg.type.derivation)
    if kind == "enum":
        names = ("", *arg.type.elements)
        return made(text, lambda number: names[number], arg, at=arg.at)
    if kind == "set":
        members = arg.type.elements
        return made(text, lambda bits: ",".join(m for i, m in enumerate(members) if bits >> i & 1), arg, at=arg.at)
    if kind == "int" and not arg.type.year:
        return made(text, str, arg, at=arg.at)
    if kind == "decimal":
        return made(text, lambda number: f"{Decimal(number):f}", arg, at=arg.at)
    if kind in TEMPORAL:
        scale = arg.type.scale
        return made(text, lambda value: temporal_text(value, scale), arg, at=arg.at)
    raise arg.refuse(
        f"the text of a value of this kind ({'year' if arg.type.year else kind}) is not supported; use CAST"
    )


def temporal_text(value: tuple[int, ...] | int, scale: int) -> str:
    """A DATE, DATETIME or TIME as servers print it."""
    if isinstance(value, int):
        seconds, micros = divmod(abs(value), 1_000_000)
        sign = "-" if value < 0 else ""
        text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    elif len(value) == 3:
        return "{:04d}-{:02d}-{:02d}".format(*value)
    else:
        text = "{:04d}-{:02d}-{:02d} {:02d}:{:02d}:{:02d}".format(*value[:6])
        micros = value[6]
    return f"{text}.{f'{micros:06d}'[:scale]}" if scale else text


def truth(arg: TypedExpression) -> Evaluate:
    """True, False or None (unknown): the value as a condition."""
    if arg.kind == "null":
        return arg.get
    if arg.kind in TEMPORAL:
        raise arg.refuse("a date or time is not a condition; compare it with a value")
    return lift(bool, as_exact(arg) if arg.bits or arg.kind in ("enum", "set") else numeric(arg))
