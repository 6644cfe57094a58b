"""Comparisons, three-valued logic, and functions that select values. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pkg.rules.expression_filter import collations, numbers, times
from pkg.rules.expression_filter.syntax import ExpressionError, ExpressionNode
from pkg.rules.expression_filter.types import (
    BOOL,
    IMPLICIT,
    STRINGS,
    TEMPORAL,
    Evaluate,
    TypedExpression,
    ValueType,
    as_exact,
    as_real,
    as_text,
    lift,
    made,
    truth,
)

_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Text and numbers are compared as doubles; an integer written as text stays exact next to integers.
_LAST_EXACT_REAL = 1 << 53


def _boolean(get: Evaluate, at: int, args: Sequence[TypedExpression]) -> TypedExpression:
    return TypedExpression(BOOL, get, at, constant=all(arg.constant for arg in args))


def both(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """AND, which does not evaluate the second operand when the first decides; OR and XOR likewise."""
    a, b = truth(one), truth(other)
    if node.op == "XOR":
        for arg in (one, other):
            if arg.kind not in ("int", "null"):
                raise arg.refuse("XOR over anything but whole numbers and conditions differs between servers; use <> 0")
        return _boolean(lift(operator.ne, replace(one, get=a), replace(other, get=b)), node.at, (one, other))
    decisive = node.op == "OR"

    def combine(row: Sequence[bytes]) -> bool | None:
        first: bool | None = a(row)
        if first is decisive:
            return decisive
        second: bool | None = b(row)
        if second is decisive:
            return decisive
        return None if first is None or second is None else not decisive

    return _boolean(combine, node.at, (one, other))


def negation(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    return _boolean(lift(operator.not_, replace(arg, get=truth(arg))), node.at, (arg,))


def test(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """IS NULL, IS TRUE, IS FALSE: never unknown."""
    if node.op == "IS NULL":
        get = arg.get
        return _boolean(lambda row: get(row) is None, node.at, (arg,))
    condition = truth(arg)
    wanted = node.op == "IS TRUE"
    return _boolean(lambda row: condition(row) is wanted, node.at, (arg,))


def comparable(args: Sequence[TypedExpression], at: int) -> list[TypedExpression]:
    """``args`` as values for which Python's comparison equals the servers'."""
    real = [arg for arg in args if arg.kind != "null"]
    kinds = {arg.kind for arg in real}
    if kinds & set(TEMPORAL):
        return _temporals(args, at)
    if kinds and kinds <= set(STRINGS) and not (kinds <= {"enum", "set"} and any(a.bits for a in real)):
        return _strings(args, at)
    args = [_integer_constant(arg, real) for arg in args]
    if {arg.kind for arg in args} & {"text", "real", "binary"} - (
        {"binary"} if all(a.bits for a in real if a.kind == "binary") else set()
    ):
        return [arg if arg.kind == "null" else as_real(arg) for arg in args]
    return [as_exact(arg) for arg in args]


def _integer_constant(arg: TypedExpression, others: Sequence[TypedExpression]) -> TypedExpression:
    """Servers turn a text literal next to an integer column into an integer, as the column would store it."""
    columns = [other for other in others if other.column and other.kind == "int"]
    if arg.bits or not columns:
        if arg.constant and (arg.bits or arg.kind == "int") and any(o.type.year for o in others if o.column):
            _check_year(arg)
        return arg
    if any(column.type.year for column in columns) and arg.constant:
        _check_year(arg)
    if not (arg.constant and arg.kind == "text") or (text := arg.get(())) is None:
        return arg
    if not text.lstrip("-").isdecimal() or not text.isascii() or str(int(text)) != text or abs(int(text)) >> 63:
        raise arg.refuse(
            f"write the number without quotes: {text!r} next to an integer has different meanings on different servers"
        )
    return TypedExpression(ValueType("int", digits=19), lambda _: int(text), arg.at, constant=True)


def _check_year(arg: TypedExpression) -> None:
    value = arg.get(())
    if arg.bits or (value is not None and not (value == 0 or (str(value).isdecimal() and len(str(value)) == 4))):
        raise arg.refuse(f"{value!r} next to a YEAR column; write the year with four digits")


def _temporals(args: Sequence[TypedExpression], at: int) -> list[TypedExpression]:
    for arg in args:
        if arg.kind not in (*TEMPORAL, "text", "null"):
            raise ExpressionError(at, f"a date or time next to {arg.kind} is not supported; quote the date")
    return times.common(list(args), at)


def _strings(args: Sequence[TypedExpression], at: int) -> list[TypedExpression]:
    type_, texts = collations.aggregate([as_text(arg) for arg in args], at, compare=True)
    if type_.kind == "binary":
        return texts
    collation = type_.collation
    weigh = collations.weights(collation)
    pads = collations.pads(collation)

    def key(text: str) -> str:
        return weigh(text).rstrip(" ") if pads else weigh(text)

    return [made(replace(type_, derivation=IMPLICIT), key, text, at=text.at) for text in texts]


def _order(compare: Callable[[Any, Any], bool], kind: str) -> Callable[[Any, Any], bool]:
    """Pads the shorter string with blanks for the comparison."""
    if kind != "text" or compare in (operator.eq, operator.ne):
        return compare

    def padded(one: str, other: str) -> bool:
        width = max(len(one), len(other))
        return compare(one.ljust(width), other.ljust(width))

    return padded


def _ordering(compare: Callable[[Any, Any], bool], args: Sequence[TypedExpression]) -> Callable[[Any, Any], bool]:
    texts = [arg for arg in args if arg.kind == "text"]
    pads = texts and collations.pads(texts[0].type.collation)
    return _order(compare, "text" if pads else "")


def comparison(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """``= <> < <= > >=`` and ``<=>``, which is never unknown."""
    one, other = comparable((one, other), node.at)
    if node.op == "<=>":
        a, b = one.get, other.get
        return _boolean(lambda row: _null_safe(a(row), b(row)), node.at, (one, other))
    return _boolean(lift(_ordering(_OPS[node.op], (one, other)), one, other), node.at, (one, other))


def _null_safe(one: Any, other: Any) -> bool:
    return one is None and other is None if one is None or other is None else bool(one == other)


def _no_quotients(*args: TypedExpression) -> None:
    for arg in args:
        if arg.type.divided:
            raise arg.refuse("a quotient in BETWEEN or IN is not supported; use comparisons")


def between(node: ExpressionNode, arg: TypedExpression, low: TypedExpression, high: TypedExpression) -> TypedExpression:
    """BETWEEN: converts all three to one type."""
    _no_quotients(arg, low, high)
    typed = arg, low, high = tuple(comparable((arg, low, high), node.at))
    above = lift(_ordering(operator.ge, typed), arg, low)
    below = lift(_ordering(operator.le, typed), arg, high)

    def get(row: Sequence[bytes]) -> bool | None:
        # Both are evaluated: servers refuse a row for an overflow in either.
        first, second = above(row), below(row)
        if first is False or second is False:
            return False
        return None if first is None or second is None else True

    return _boolean(get, node.at, typed)


def contained(node: ExpressionNode, arg: TypedExpression, *items: TypedExpression) -> TypedExpression:
    """IN: equal to one of the items, each compared by its own type, but all strings by one collation."""
    _no_quotients(arg, *items)
    if arg.kind in STRINGS and {item.kind for item in items} - {"null"} <= set(STRINGS):
        texts = comparable((arg, *items), node.at)
        pairs = [(texts[0], item) for item in texts[1:]]
    else:
        kinds = {item.kind in STRINGS for item in items if item.kind != "null"}
        if len(kinds) > 1:
            raise ExpressionError(node.at, "IN with text and numbers in one list is not supported")
        pairs = [tuple(comparable((arg, item), node.at)) for item in items]  # type: ignore[misc]
    tests = [lift(operator.eq, *pair) for pair in pairs]

    def get(row: Sequence[bytes]) -> bool | None:
        unknown = False
        for each in tests:
            equal = each(row)
            if equal:
                return True
            unknown = unknown or equal is None
        return None if unknown else False

    return _boolean(get, node.at, (arg, *items))


def common(args: Sequence[TypedExpression], at: int) -> tuple[ValueType, list[TypedExpression]]:
    """The result type of CASE, IF, IFNULL, COALESCE, GREATEST and LEAST for ``args``, and the arguments in it."""
    kinds = {arg.kind for arg in args} - {"null"}
    if any(arg.type.divided for arg in args):
        raise ExpressionError(at, "a quotient as a result is not supported: servers differ in its digits")
    if kinds & {"enum", "set"}:
        raise ExpressionError(at, "ENUM or SET as a result may mean its number or its text; use CAST(… AS CHAR)")
    if any(arg.bits for arg in args):
        raise ExpressionError(at, "a hex or bit literal as a result is not supported; write a number, or text")
    if not kinds:
        return ValueType("null"), list(args)
    if kinds <= set(STRINGS):
        return collations.aggregate([as_text(arg) for arg in args], at, compare=False)
    if kinds <= {"int", "decimal", "real"}:
        signedness = {arg.type.unsigned for arg in args if arg.kind == "int" and not arg.constant}
        if len(signedness) > 1:
            raise ExpressionError(at, "signed and unsigned integers as one result are not supported; use CAST")
        return numbers.common_number(list(args), at)
    if len(kinds) == 1 and "bit" not in kinds:
        scale = max(arg.type.scale for arg in args)
        return ValueType(kinds.pop(), scale=scale), list(args)
    raise ExpressionError(at, f"{', '.join(sorted(kinds))} as one result are not supported; use CAST")


def choice(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    """CASE (and IF): pairs of condition and value, then the value otherwise."""
    values = [*args[1::2], args[-1]]
    type_, typed = common(values, node.at)
    conditions = [truth(arg) for arg in args[:-1:2]]
    branches = list(zip(conditions, [value.get for value in typed[:-1]], strict=True))
    otherwise = typed[-1].get

    def get(row: Sequence[bytes]) -> Any:
        for condition, value in branches:
            if condition(row):
                return value(row)
        return otherwise(row)

    return TypedExpression(type_, get, node.at, constant=all(arg.constant for arg in args))


def coalesce(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    """COALESCE and IFNULL."""
    type_, typed = common(args, node.at)
    gets = [value.get for value in typed]

    def get(row: Sequence[bytes]) -> Any:
        return next((value for each in gets if (value := each(row)) is not None), None)

    return TypedExpression(type_, get, node.at, constant=all(arg.constant for arg in args))


def null_if(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """NULLIF."""
    if one.kind in ("enum", "set", "bit") or one.bits or one.type.divided:
        raise one.refuse("NULLIF of ENUM, SET, BIT, literals of bits and quotients is not supported; use CASE")
    equal = comparison(ExpressionNode("=", node.at), one, other).get
    get = one.get
    return TypedExpression(
        one.type, lambda row: None if equal(row) else get(row), node.at, one.constant and other.constant
    )


def extreme(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    """GREATEST and LEAST of numbers, or of dates; NULL when one is NULL."""
    if any(arg.kind in ("text", "binary", "enum", "set", "bit") for arg in args):
        raise ExpressionError(node.at, f"{node.op} is supported for numbers and for dates")
    type_, typed = common(args, node.at)
    choose = max if node.op == "GREATEST" else min
    return made(type_, lambda *values: choose(values), *typed, at=node.at)
