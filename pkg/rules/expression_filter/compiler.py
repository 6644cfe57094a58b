"""From a tree and a table's columns to functions of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from pkg.mysql.schema import Column
from pkg.rules.expression_filter import collations, columns, logic, numbers, string_functions, times
from pkg.rules.expression_filter.parser import MOMENTS
from pkg.rules.expression_filter.syntax import ExpressionError, ExpressionNode
from pkg.rules.expression_filter.types import LITERAL, Evaluate, EvaluationSettings, TypedExpression, ValueType, truth

_MakeTyped = Callable[..., TypedExpression]
_BUILD: dict[str, _MakeTyped] = {
    **dict.fromkeys(("AND", "OR", "XOR"), logic.both),
    "NOT": logic.negation,
    **dict.fromkeys(("IS NULL", "IS TRUE", "IS FALSE"), logic.test),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), logic.comparison),
    "BETWEEN": logic.between,
    "IN": logic.contained,
    **dict.fromkeys(("CASE", "IF"), logic.choice),
    **dict.fromkeys(("COALESCE", "IFNULL"), logic.coalesce),
    "NULLIF": logic.null_if,
    **dict.fromkeys(("GREATEST", "LEAST"), logic.extreme),
    **dict.fromkeys(("+", "-", "*"), numbers.arithmetic),
    "DIV": numbers.int_divide,
    "%": numbers.modulo,
    "NEG": numbers.negate,
    **dict.fromkeys(("&", "|", "^", "<<", ">>", "~"), numbers.bits),
    "ABS": numbers.absolute,
    "SIGN": numbers.sign,
    **dict.fromkeys(("FLOOR", "CEIL"), numbers.round_to_whole),
    "LENGTH": string_functions.length,
    "CHAR_LENGTH": string_functions.char_length,
    "CRC32": string_functions.crc32,
    "MD5": string_functions.md5,
    **dict.fromkeys(("LOWER", "UPPER"), string_functions.change_case),
    "CONCAT": string_functions.concat,
    "CONCAT_WS": string_functions.concat_ws,
    **dict.fromkeys(("LEFT", "RIGHT"), string_functions.ends),
    "REPLACE": string_functions.replace,
    "REVERSE": string_functions.reverse,
    "FIND_IN_SET": string_functions.find_in_set,
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"), times.part),
    "DATE": times.to_date,
    "DATEDIFF": times.date_difference,
    "DATE_FORMAT": times.date_format,
    **dict.fromkeys(("DATE_ADD", "DATE_SUB"), times.add),
}
#: Functions with an optional last argument, with the maximum number of arguments.
_OPTIONAL: dict[str, tuple[_MakeTyped, int]] = {
    "ROUND": (numbers.round_number, 2),
    "SUBSTRING": (string_functions.substring, 3),
    "INSTR": (string_functions.position, 3),
    "LIKE": (string_functions.like, 3),
    **dict.fromkeys(("TRIM", "LTRIM", "RTRIM"), (string_functions.trim, 2)),
}
_MOMENTS = frozenset(MOMENTS.values())


class ExpressionCompiler:
    """Compiles trees over one table's columns."""

    def __init__(self, table: Sequence[Column], settings: EvaluationSettings) -> None:
        self._columns = {column.name.lower(): (i, column) for i, column in enumerate(table)}
        self._settings = settings

    def condition(self, tree: ExpressionNode) -> Evaluate:
        """The tree as a condition: True, False or None. Raises :class:`ExpressionError`."""
        return truth(self.typed(tree))

    def typed(self, node: ExpressionNode) -> TypedExpression:
        if node.op == "LITERAL":
            return _literal(node)
        if node.op == "COLUMN":
            index, definition = self._column(node)
            return columns.column(definition, index, node.at, self._settings)
        if node.op in _MOMENTS:
            return times.now(node, self._settings.zone)
        if node.op == "IS NULL" and node.args[0].op == "COLUMN":
            index, definition = self._column(node.args[0])
            return logic.test(node, columns.is_null(definition, index, node.at))
        args = [self.typed(arg) for arg in node.args]
        if node.op in _OPTIONAL:
            build, count = _OPTIONAL[node.op]
            return build(node, *args, *[None] * (count - len(args)))
        if node.op in _BUILD:
            return _BUILD[node.op](node, *args)
        return self._special(node, args)

    def _special(self, node: ExpressionNode, args: list[TypedExpression]) -> TypedExpression:
        if node.op == "/":
            return numbers.divide(node, args[0], args[1], self._settings.flavor == "mariadb")
        if node.op == "COLLATE":
            return collations.collated(args[0], node.text, node.at)
        if node.op == "REGEXP":
            return string_functions.regexp(node, args[0], args[1], self._settings.flavor)
        if node.op == "FROM_UNIXTIME":
            return times.from_unixtime(node, args[0], self._settings.zone)
        if node.op != "CAST":
            raise ExpressionError(node.at, f"{node.op} is not supported")
        if node.text in ("CHAR", "BINARY"):
            return string_functions.cast(node, args[0])
        if node.text in ("DATE", "DATETIME", "TIME"):
            return times.cast(node, args[0])
        return numbers.cast_number(node, args[0])

    def _column(self, node: ExpressionNode) -> tuple[int, Column]:
        found = self._columns.get(node.text.lower())
        if found is None:
            known = ", ".join(f"`{column.name}`" for _, column in self._columns.values())
            raise ExpressionError(node.at, f"there is no column `{node.text}`; the table has {known}")
        return found


def _literal(node: ExpressionNode) -> TypedExpression:
    value = node.value
    if node.text in ("DATE", "DATETIME", "TIME"):
        literal = TypedExpression(ValueType("text"), lambda _: value, node.at, constant=True)
        typed = times.constant(literal, node.text.lower())
        if typed.kind != node.text.lower():
            raise ExpressionError(node.at, f"{value!r} is not a valid {node.text}")
        return typed
    return TypedExpression(_literal_type(node), lambda _: value, node.at, constant=True, bits=node.text == "BITS")


def _literal_type(node: ExpressionNode) -> ValueType:
    value = node.value
    if value is None:
        return ValueType("null")
    if isinstance(value, int):
        return ValueType("int", unsigned=value >> 63 > 0, digits=len(str(value)))
    if isinstance(value, Decimal):
        scale = -int(value.as_tuple().exponent)
        return ValueType("decimal", digits=max(1, len(value.as_tuple().digits) - scale), scale=scale)
    if isinstance(value, float):
        return ValueType("real")
    return ValueType("binary") if isinstance(value, bytes) else replace(ValueType("text"), derivation=LITERAL)
