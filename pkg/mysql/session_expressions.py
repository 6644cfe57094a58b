"""Generated columns whose values depend on the session that writes the row. Pure.

A row's image has the value that the upstream's session computed. The target computes its own value in a writer's
session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, TableInfo

TIME_ZONE = "time_zone"
#: A mode of MySQL's sql_mode: fractions of seconds that do not fit are cut off, not rounded.
CUT_FRACTIONS = "TIME_TRUNCATE_FRACTIONAL"
#: What no setting of a task gives to the writers' sessions.
_FIXED = frozenset({TIME_ZONE, CUT_FRACTIONS})
_WITH_FRACTIONS = frozenset({"time", "datetime", "timestamp"})
#: Parts of an expression that depend on a variable.
_DEPENDENT: Mapping[str, re.Pattern[str]] = {
    TIME_ZONE: re.compile(
        r"\b(?:unix_timestamp|from_unixtime|now|sysdate|curdate|curtime|current_date|current_time|current_timestamp"
        r"|localtime|localtimestamp)\s*\(|'system\\?'|\bas timestamp\b",
        re.IGNORECASE,
    ),
    "div_precision_increment": re.compile("/"),
    "lc_time_names": re.compile(r"\b(?:dayname|monthname|date_format)\s*\(", re.IGNORECASE),
    "default_week_format": re.compile(r"\bweek\s*\(", re.IGNORECASE),
}
_NAME = r"`((?:[^`]|``)+)`"
#: Uses of a column that give the same result in every time zone if it is a TIMESTAMP.
_ZONELESS = re.compile(
    rf"\b(?:unix_timestamp|isnull)\s*\(\s*{_NAME}\s*\)|{_NAME}\s+is\s+(?:not\s+)?null\b", re.IGNORECASE
)
_COLUMN = re.compile(rf"{_NAME}|([\w$]+)")
_DIGITS = re.compile(r"\((\d)\)")


def variables_of(table: TableInfo, name: str) -> frozenset[str]:
    """The session variables, and the mode of sql_mode, that the value of the generated column ``name`` may depend on.

    None if the server does not show the expression.
    """
    found: set[str] = set()
    waiting, seen = [name], {name.lower()}
    while waiting:
        column = table.column(waiting.pop())
        expression = table.expression_of(column.name) if column is not None else None
        if column is None or expression is None:
            continue
        # Every other TIMESTAMP becomes a date and a time in the session's zone.
        left = _ZONELESS.sub(_kept_unless_timestamp(table), expression)
        copies = column.type_name == "timestamp" and _COLUMN.fullmatch(left.strip(" ()")) is not None
        found |= {variable for variable, pattern in _DEPENDENT.items() if pattern.search(left)}
        for quoted, word in _COLUMN.findall(left):
            base = table.column(quoted.replace("``", "`") or word)
            if base is None or base.name.lower() in seen:
                continue
            if column.type_name in _WITH_FRACTIONS and _fraction_digits(base) > _fraction_digits(column):
                found.add(CUT_FRACTIONS)
            if base.generated:
                seen.add(base.name.lower())
                waiting.append(base.name)
            if base.type_name == "timestamp" and not copies:
                found.add(TIME_ZONE)
    return frozenset(found)


def _fraction_digits(column: Column) -> int:
    """Digits of a fraction of a second; 0 for a column without one."""
    digits = _DIGITS.search(column.column_type) if column.type_name in _WITH_FRACTIONS else None
    return int(digits[1]) if digits else 0


def _kept_unless_timestamp(table: TableInfo) -> Callable[[re.Match[str]], str]:
    def kept(use: re.Match[str]) -> str:
        column = table.column((use[1] or use[2]).replace("``", "`"))
        return "" if column is not None and column.type_name == "timestamp" else use[0]

    return kept


def dependent_columns(table: TableInfo) -> Mapping[str, frozenset[str]]:
    """The generated columns whose values depend on session variables, with these variables."""
    found = {column.name: variables_of(table, column.name) for column in table.columns if column.generated}
    return {name: variables for name, variables in found.items() if variables}


def keys_of_sessions(table: TableInfo) -> tuple[str, ...]:
    """The unique keys with values that the server computes from the variables of the session that writes a row: by
    these, rows may collide that exist side by side on another server.

    The expression of a functional part is not known: each TIMESTAMP of the table may be in it.
    """
    dependent = {name.lower() for name in dependent_columns(table)}
    zoned = any(column.type_name == "timestamp" for column in table.columns)

    def depends(name: str) -> bool:
        return name.lower() in dependent or (zoned and table.column(name) is None)

    return tuple(key.name for key in table.unique_keys if any(map(depends, key.columns)))


def kept_otherwise(table: TableInfo, differing: Callable[[], Collection[str]]) -> Mapping[str, frozenset[str]]:
    """A target's columns, with variables, that would store values other than the upstream's.

    ``differing``: the variables that differ in the writers' sessions; called only if needed. A virtual column without
    an index stores nothing.
    """
    indexed = {name.lower() for index in table.indexes for name in index.columns}
    found = {
        name: variables
        for name, variables in dependent_columns(table).items()
        if (column := table.column(name)) is not None and (column.generated == "STORED" or name.lower() in indexed)
    }
    known = frozenset(differing()) if found else frozenset()
    return {name: variables & known for name, variables in found.items() if variables & known}


def problem(table: tuple[str, str], columns: Mapping[str, frozenset[str]]) -> str:
    """The problem with the ``columns`` that :func:`kept_otherwise` found."""
    named = ", ".join(f"{quote(name)} ({', '.join(sorted(variables))})" for name, variables in columns.items())
    return (
        f"the target {qualified(*table)} computes {named} from the session's variables, which are not the same in the "
        "upstream's sessions, so its values would differ from the upstream's"
    )


def remedy(table: tuple[str, str], columns: Mapping[str, frozenset[str]]) -> str:
    """The operator action for it."""
    variables = sorted({name for found in columns.values() for name in found} - _FIXED)
    settings = "" if not variables else (
        f"Set {', '.join(variables)} under `session` of target-database to what the upstream has globally. "
    )  # fmt: skip
    drops = ", ".join(f"DROP COLUMN {quote(name)}" for name in columns)
    zone = any(TIME_ZONE in found for found in columns.values())
    why = " Rows are written in UTC." if zone else ""
    return (
        f"{settings}{'Or drop' if settings else 'Drop'} the columns at the target alone, after the keys with them: "
        f"`ALTER TABLE {qualified(*table)} {drops};`.{why} Then resume the task. Or add a plain "
        "column of that name and type in its place, and fill it with the upstream's values: replication then writes "
        "them if the column is STORED upstream. (A full copy does not, nor does MariaDB 11.8 log them.)"
    )
