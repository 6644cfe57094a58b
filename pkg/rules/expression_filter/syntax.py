"""The elements of a parsed expression."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


class ExpressionError(ValueError):
    """An expression that can't be used; ``at`` is the offset of the problem in characters."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at


class EvaluationError(ValueError):
    """A row for which the expression has no value: the server would refuse it, or the value is not known exactly."""


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """One operation, function call, column or literal.

    ``op`` is the operator or the function's name in upper case, ``LITERAL`` or ``COLUMN``. ``text`` is a column's name,
    a cast's type, the unit of an interval or the collation of COLLATE; ``numbers`` are a cast's length and scale.
    """

    op: str
    at: int
    args: tuple[ExpressionNode, ...] = ()
    text: str = ""
    value: int | float | Decimal | str | bytes | None = None
    numbers: tuple[int, ...] = ()


def columns_of(node: ExpressionNode) -> tuple[str, ...]:
    """The names of the columns it reads, as written, each once, in order."""
    found: dict[str, None] = {}
    todo = [node]
    while todo:
        node = todo.pop()
        if node.op == "COLUMN":
            found[node.text] = None
        todo.extend(reversed(node.args))
    return tuple(found)
