"""Errors of a strict session for the expression of a generated column, and the operator action. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import TableInfo

#: An expression's number is out of its type's range. Values alone never give this error.
OUT_OF_RANGE = 1690
#: Errors of expressions, and also of values that a column can't store.
REFUSALS = frozenset({1264, 1265, 1292, 1365, 1366, 1406, 1411, 1441, OUT_OF_RANGE, 3141, 4037, 4038})
#: The difference of unsigned numbers may be negative.
UNSIGNED = "NO_UNSIGNED_SUBTRACTION"
#: With these modes, a server raises an error instead of a warning.
_STRICT = frozenset(
    {
        *("STRICT_ALL_TABLES", "STRICT_TRANS_TABLES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE"),
        *("ERROR_FOR_DIVISION_BY_ZERO", "TRADITIONAL"),
    }
)


def with_unsigned(mode: str) -> str:
    """A sql_mode with :data:`UNSIGNED`."""
    return f"{mode},{UNSIGNED}" if mode else UNSIGNED


def relaxed(mode: str) -> str:
    """A sql_mode without all strict modes."""
    return ",".join(name for name in map(str.strip, mode.split(",")) if name and name.upper() not in _STRICT)


def advice(target: tuple[str, str], names: Sequence[str], otherwise: str) -> str:
    """The operator action for a row that ``target`` refuses and that has the generated columns ``names``, or
    ``otherwise`` when none of them is the cause."""
    columns = ", ".join(map(quote, names))
    drops = ", ".join(f"DROP COLUMN {quote(name)}" for name in names)
    return (
        f"The target computes {columns} of {qualified(*target)} from the row, and its strict session refuses the "
        "result. SHOW CREATE TABLE shows the expression. If the message is about such a column, drop it at the target "
        f"alone (ALTER TABLE {qualified(*target)} {drops}) and resume the task. When it has passed this position, "
        "pause it and add the column again in a session with the upstream's sql_mode. "
        f"Otherwise: {otherwise}"
    )


_WORD = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")


def base_columns(table: TableInfo, name: str) -> frozenset[str] | None:
    """The plain columns that determine the generated column ``name``, perhaps more; None when unknown.

    Words inside the expression's string literals count, too.
    """
    found: set[str] = set()
    waiting, seen = [name], {name.lower()}
    while waiting:
        expression = table.expression_of(waiting.pop())
        if expression is None:
            return None
        for quoted, word in _WORD.findall(expression):
            column = table.column(quoted.replace("``", "`") or word)
            if column is None or column.name.lower() in seen:
                continue
            seen.add(column.name.lower())
            if column.generated:
                waiting.append(column.name)
            else:
                found.add(column.name)
    return frozenset(found) or None
