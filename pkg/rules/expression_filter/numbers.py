"""Arithmetic with the servers' types: 64-bit integers that must not overflow, exact decimals, doubles. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from pkg.rules.expression_filter.syntax import EvaluationError, ExpressionError, ExpressionNode
from pkg.rules.expression_filter.types import CONTEXT, INT, TypedExpression, ValueType, as_exact, lift, made, numeric

_MIN, _MAX, _UMAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
#: Digits that a division adds after the point (div_precision_increment), and digits of a word of decimals.
_INCREMENT, _WORD, _WORDS = 4, 9, 9
#: Servers use 32 bits of the number of decimals.
_SHIFT = 0xFFFFFFFF
_MOST_DIGITS, _MOST_SCALE = 65, 30


def check_int(value: int, unsigned: bool) -> int:
    """``value`` if it is a BIGINT. Servers refuse statements with other results (1690)."""
    low, high = (0, _UMAX) if unsigned else (_MIN, _MAX)
    if not low <= value <= high:
        raise EvaluationError(f"BIGINT{' UNSIGNED' if unsigned else ''} value is out of range: {value}")
    return value


def _check_real(value: float) -> float:
    if not math.isfinite(value):
        raise EvaluationError("DOUBLE value is out of range")
    return value


def _decimal(digits: int, scale: int, at: int) -> ValueType:
    if digits + scale > _MOST_DIGITS or scale > _MOST_SCALE:
        raise ExpressionError(
            at,
            f"the result may have {digits} digits before and {scale} after the point, which is more than decimals have",
        )
    return ValueType("decimal", digits=digits, scale=scale)


_INT_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_DECIMAL_OPS: dict[str, Callable[[Any, Any], Decimal]] = {
    "+": CONTEXT.add,
    "-": CONTEXT.subtract,
    "*": CONTEXT.multiply,
}
_REAL_OPS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


def arithmetic(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """``+``, ``-`` and ``*``."""
    one, other = numeric(one), numeric(other)
    if "real" in (one.kind, other.kind):
        real = _REAL_OPS[node.op]
        return made(ValueType("real"), lambda a, b: _check_real(real(float(a), float(b))), one, other, at=node.at)
    if "decimal" in (one.kind, other.kind):
        a, b = one.type, other.type
        if node.op == "*":
            result = _decimal(a.digits + b.digits, a.scale + b.scale, node.at)
        else:
            result = _decimal(max(a.digits, b.digits) + 1, max(a.scale, b.scale), node.at)
        return made(result, _DECIMAL_OPS[node.op], one, other, at=node.at)
    unsigned = one.type.unsigned or other.type.unsigned
    compute = _INT_OPS[node.op]
    result = ValueType("int", unsigned=unsigned, digits=20)
    return made(result, lambda a, b: check_int(compute(a, b), unsigned), one, other, at=node.at)


def _scale(value: int | Decimal) -> int:
    return -int(value.as_tuple().exponent) if isinstance(value, Decimal) else 0


def _quotient(one: int | Decimal, other: int | Decimal) -> Decimal | None:
    """The servers compute whole words of 9 digits and cut the rest."""
    if not other:
        return None
    a, b = _scale(one), _scale(other)
    rounded = -(-a // _WORD) * _WORD + -(-b // _WORD) * _WORD
    extra = max(0, _INCREMENT - (rounded - a - b))
    places = -(-(rounded + extra) // _WORD) * _WORD
    shifted = abs(int(CONTEXT.scaleb(Decimal(one), a))) * 10 ** (places + b)
    result = shifted // (abs(int(CONTEXT.scaleb(Decimal(other), b))) * 10**a)
    return CONTEXT.scaleb(Decimal(-result if (one < 0) != (other < 0) else result), -places)


def divide(node: ExpressionNode, one: TypedExpression, other: TypedExpression, rounded: bool) -> TypedExpression:
    """``/``: NULL for a division by zero. ``rounded``: comparisons use only the displayed digits (MariaDB)."""
    one, other = numeric(one), numeric(other)
    if "real" in (one.kind, other.kind):
        return made(
            ValueType("real"),
            lambda a, b: _check_real(_real_quotient(float(a), float(b))) if b else None,
            one,
            other,
            at=node.at,
        )
    a, b = one.type, other.type
    places = -(-a.scale // _WORD) - (-b.scale // _WORD) + 1
    if -(-(a.digits + b.scale + 1) // _WORD) + places > _WORDS:
        raise ExpressionError(node.at, "the quotient may have more digits than decimals have")
    shown = a.scale + _INCREMENT
    if a.digits + b.scale + shown > _MOST_DIGITS or shown > _MOST_SCALE:
        raise ExpressionError(node.at, "the quotient may have more digits than decimals have")
    result = ValueType("decimal", digits=a.digits + b.scale, scale=shown, divided=True)
    if not rounded:
        return made(result, _quotient, one, other, at=node.at)
    step = Decimal((0, (1,), -shown))

    def quotient(x: int | Decimal, y: int | Decimal) -> Decimal | None:
        exact = _quotient(x, y)
        return None if exact is None else exact.quantize(step, ROUND_HALF_UP, CONTEXT)

    return made(result, quotient, one, other, at=node.at)


def _real_quotient(one: float, other: float) -> float:
    try:
        return one / other
    except OverflowError:
        return math.inf


def int_divide(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """``DIV``."""
    one, other = _exact_args(node, numeric(one), numeric(other))
    unsigned = one.type.unsigned or other.type.unsigned
    type_ = ValueType("int", unsigned=unsigned, digits=20)

    def compute(a: int | Decimal, b: int | Decimal) -> int | None:
        if not b:
            return None
        x, y = _integers(a, b)
        whole = abs(x) // abs(y)
        return check_int(-whole if (x < 0) != (y < 0) else whole, unsigned)

    return made(type_, compute, one, other, at=node.at)


def _integers(a: int | Decimal, b: int | Decimal) -> tuple[int, int]:
    """Two whole numbers in the same proportion."""
    scale = max(_scale(a), _scale(b))
    return int(CONTEXT.scaleb(Decimal(a), scale)), int(CONTEXT.scaleb(Decimal(b), scale))


def modulo(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """``%``: the sign is the first operand's; NULL for a division by zero."""
    one, other = numeric(one), numeric(other)
    if "real" in (one.kind, other.kind):
        return made(
            ValueType("real"), lambda a, b: math.fmod(float(a), float(b)) if b else None, one, other, at=node.at
        )
    scale = max(one.type.scale, other.type.scale)
    digits = max(one.type.digits, other.type.digits)

    def compute(a: int | Decimal, b: int | Decimal) -> int | Decimal | None:
        if not b:
            return None
        x, y = _integers(a, b)
        rest = -(abs(x) % abs(y)) if x < 0 else x % abs(y)
        places = max(_scale(a), _scale(b))
        return CONTEXT.scaleb(Decimal(rest), -places) if places else rest

    if "decimal" in (one.kind, other.kind):
        return made(_decimal(digits, scale, node.at), compute, one, other, at=node.at)
    return made(ValueType("int", unsigned=one.type.unsigned, digits=20), compute, one, other, at=node.at)


def _exact_args(node: ExpressionNode, *args: TypedExpression) -> tuple[TypedExpression, ...]:
    done = tuple(as_exact(arg) for arg in args)
    if any(arg.type.divided for arg in done):
        raise ExpressionError(node.at, f"{node.op} over a division differs between servers")
    return done


def negate(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """Unary minus."""
    arg = numeric(arg)
    if arg.kind != "int":
        return made(arg.type, lambda value: -value if value else value, arg, at=node.at)
    if arg.constant and (value := arg.get(())) is not None and value > _MAX + 1:
        return made(ValueType("decimal", digits=20), lambda number: Decimal(-number), arg, at=node.at)
    return made(ValueType("int", digits=arg.type.digits), lambda number: check_int(-number, False), arg, at=node.at)


def _out(count: int) -> bool:
    """Whether a shift gives 0. Raises :class:`EvaluationError` where only MySQL 8 uses all bits of the count."""
    if count >= 64 and count & _SHIFT < 64:
        raise EvaluationError(f"a shift by {count} depends on the server's version")
    return count >= 64


_BIT_OPS: dict[str, Callable[[int, int], int]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: 0 if _out(b) else a << b & _UMAX,
    ">>": lambda a, b: 0 if _out(b) else a >> b,
}


def bits(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    """``&``, ``|``, ``^``, ``<<``, ``>>`` and ``~``, over 64 bits."""
    whole = list(_exact_args(node, *args))
    for arg in whole:
        if arg.kind == "decimal":
            raise arg.refuse("bits of a number with a point are not supported; use CAST AS SIGNED")
    type_ = ValueType("int", unsigned=True, digits=20)
    if node.op == "~":
        return made(type_, lambda a: ~a & _UMAX, *whole, at=node.at)
    compute = _BIT_OPS[node.op]
    return made(type_, lambda a, b: compute(a & _UMAX, b & _UMAX), *whole, at=node.at)


def absolute(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    arg = numeric(arg)
    if arg.kind != "int":
        return made(arg.type, abs, arg, at=node.at)
    return made(arg.type, lambda value: check_int(abs(value), arg.type.unsigned), arg, at=node.at)


def sign(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    return made(INT, lambda value: (value > 0) - (value < 0), numeric(arg), at=node.at)


def round_to_whole(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """FLOOR and CEIL."""
    arg = numeric(arg)
    up = node.op == "CEIL"
    if arg.kind == "int":
        return made(arg.type, int, arg, at=node.at)
    if arg.kind == "real":
        whole: Callable[[float], float] = math.ceil if up else math.floor
        return made(arg.type, lambda value: float(whole(value)), arg, at=node.at)
    mode = ROUND_CEILING if up else ROUND_FLOOR
    return made(
        _decimal(arg.type.digits + 1, 0, node.at), lambda value: value.to_integral_value(rounding=mode), arg, at=node.at
    )


def round_number(node: ExpressionNode, arg: TypedExpression, places: TypedExpression | None) -> TypedExpression:
    """ROUND, half away from zero."""
    (arg,) = _exact_args(node, arg)
    if places is not None and not (places.constant and places.kind == "int"):
        raise ExpressionError(node.at, "ROUND needs a whole number as its second argument")
    count = places.get(()) if places is not None else 0
    if not 0 <= count <= _MOST_SCALE:
        raise ExpressionError(node.at, f"ROUND to {count} digits is not supported")
    if arg.kind == "int":
        return arg
    count = min(count, arg.type.scale)
    step = Decimal((0, (1,), -count))
    result = _decimal(arg.type.digits + 1, count, node.at)
    return made(result, lambda value: value.quantize(step, ROUND_HALF_UP, CONTEXT), arg, at=node.at)


def cast_number(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """CAST to SIGNED, UNSIGNED or DECIMAL."""
    (arg,) = _exact_args(node, arg)
    if node.text == "DECIMAL":
        return _cast_decimal(node, arg)
    unsigned = node.text == "UNSIGNED"
    type_ = ValueType("int", unsigned=unsigned, digits=20)
    if arg.kind == "int":
        wrap = (lambda v: v & _UMAX) if unsigned else (lambda v: (v + _MAX + 1 & _UMAX) - _MAX - 1)
        return made(type_, wrap, arg, at=node.at)
    if unsigned:
        raise arg.refuse("CAST AS UNSIGNED of a number with a point is not supported; CAST AS SIGNED is")
    return made(
        type_, lambda v: max(_MIN, min(_MAX, int(v.to_integral_value(rounding=ROUND_HALF_UP)))), arg, at=node.at
    )


def _cast_decimal(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    digits, scale = (*node.numbers, *(10, 0)[len(node.numbers) :])
    if not (0 < digits <= _MOST_DIGITS and scale <= min(_MOST_SCALE, digits)):
        raise ExpressionError(node.at, f"DECIMAL({digits},{scale}) does not exist")
    most = Decimal((0, (9,) * digits, -scale))
    step = Decimal((0, (1,), -scale))

    def cast(value: int | Decimal) -> Decimal:
        rounded = Decimal(value).quantize(step, ROUND_HALF_UP, CONTEXT)
        return max(-most, min(most, rounded))

    return made(ValueType("decimal", digits=digits - scale, scale=scale), cast, arg, at=node.at)


def common_number(args: list[TypedExpression], at: int) -> tuple[ValueType, list[TypedExpression]]:
    """The result type of IF, COALESCE and the like for numbers of several types."""
    real = [arg.type for arg in args if arg.kind != "null"]
    if any(type_.kind == "real" for type_ in real):
        return ValueType("real"), [arg if arg.kind == "null" else _float(arg) for arg in args]
    scale = max(type_.scale for type_ in real)
    digits = max(type_.digits for type_ in real)
    if any(type_.kind == "decimal" for type_ in real):
        return _decimal(digits, scale, at), args
    return ValueType("int", unsigned=any(type_.unsigned for type_ in real), digits=digits), args


def _float(arg: TypedExpression) -> TypedExpression:
    return TypedExpression(ValueType("real"), lift(float, arg), arg.at, arg.constant)
