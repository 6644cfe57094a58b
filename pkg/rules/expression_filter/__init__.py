"""Expression filters: SQL expressions over a row, evaluated as the upstream would evaluate them.

An expression is parsed when the task is read (:func:`parse`) and compiled for each structure of its table
(:meth:`FilterExpression.compile`). An expression that can't be evaluated exactly as by the servers is refused with its
position; the result is never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

from pkg import errors
from pkg.errors import Code
from pkg.mysql.schema import Column
from pkg.rules.expression_filter.compiler import ExpressionCompiler
from pkg.rules.expression_filter.parser import parse_tree, reads_time
from pkg.rules.expression_filter.syntax import EvaluationError, ExpressionError, ExpressionNode, columns_of
from pkg.rules.expression_filter.types import Evaluate, EvaluationSettings

__all__ = ["CompiledFilter", "FilterExpression", "compile_filter", "parse"]


@dataclass(frozen=True, slots=True)
class CompiledFilter:
    """An expression over rows of one structure. Do not pickle it: compile it where it is used."""

    text: str
    _condition: Evaluate
    _reads_time: bool

    def matches(self, values: Sequence[bytes], second: int) -> bool:
        """Whether the expression is true for a row, given as its columns' literals (``RowDecoder.images``).

        ``second`` is the time of the row's change (UNIX time, from the event), which NOW() returns: so a row that is
        read again, after a crash or much later, gets the same decision. A row for which the expression is true is
        skipped. Raises 36017 for a row for which the server would refuse the expression (an overflow), or for which the
        result is not known exactly.
        """
        try:
            return self._condition([*values, b"%d" % second] if self._reads_time else values) is True
        except EvaluationError as exc:
            raise errors.new(
                Code.SyncerUnitParseStmt,
                f"expression filter {self.text!r} cannot be evaluated for a row: {exc}",
                workaround="Change the expression so that it has a value for every row, and update the task.",
            ) from exc


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """A parsed expression. ``columns`` are the columns that it reads, as written."""

    text: str
    tree: ExpressionNode
    columns: tuple[str, ...]

    def compile(self, table: Sequence[Column], *, zone: tzinfo = UTC, flavor: str = "mysql") -> CompiledFilter:
        """The filter for rows of ``table``. ``zone`` is the time zone of TIMESTAMP values; ``flavor`` the upstream's.

        Raises 20041 for columns that the table lacks, and for unsupported types and collations.
        """
        try:
            condition = ExpressionCompiler(table, EvaluationSettings(zone, flavor)).condition(self.tree)
        except ExpressionError as exc:
            raise _grammar(self.text, exc) from exc
        return CompiledFilter(self.text, condition, reads_time(self.tree))


def parse(text: str) -> FilterExpression:
    """Parses an expression.

    Raises 20041 with the column (characters, from 1) for an invalid or unsupported expression.
    """
    try:
        tree = parse_tree(text)
    except ExpressionError as exc:
        raise _grammar(text, exc) from exc
    return FilterExpression(text, tree, columns_of(tree))


def compile_filter(text: str, table: Sequence[Column], *, zone: tzinfo = UTC, flavor: str = "mysql") -> CompiledFilter:
    """Parses and compiles at once. Raises as :func:`parse` and :meth:`FilterExpression.compile`."""
    return parse(text).compile(table, zone=zone, flavor=flavor)


def _grammar(text: str, exc: ExpressionError) -> errors.DMError:
    return errors.new(
        Code.ConfigExprFilterWrongGrammar,
        f"expression {text!r}, column {exc.at + 1}: {exc}",
        workaround="Correct the expression at that column.",
    )
