"""The requirements of column mapping and of a route's extracts for the target's table. Pure.

With these the full copy and the prechecks refuse a task whose rows would all fail or be truncated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, TableInfo
from pkg.rules.column_mapping import PartitionId, TableMapping

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SIZED_TEXT = frozenset({"char", "varchar", "binary", "varbinary"})
_DECIMAL = re.compile(r"decimal\((\d+)(?:,(\d+))?\)", re.IGNORECASE)
_LENGTH = re.compile(r"\((\d+)\)")
#: FLOAT and DOUBLE store whole numbers exactly up to this value.
_EXACT = {"float": 1 << 24, "double": 1 << 53}


@dataclass(frozen=True, slots=True)
class TargetProblem:
    """Why rows of an upstream table do not fit into its target, and the operator action."""

    what: str
    workaround: str


def extract_problems(upstream: TableInfo, target: TableInfo | None, columns: Iterable[str]) -> list[TargetProblem]:
    """For a route that fills ``columns``. ``target`` None: it will be created from the upstream's CREATE TABLE."""
    names = list(columns)
    problems = [_present(upstream, name) for name in names if upstream.column(name) is not None]
    wanted = [name for name in names if upstream.column(name) is None]
    if target is None:
        return problems + ([_not_created(wanted)] if wanted else [])
    problems += _missing(target, [name for name in wanted if target.column(name) is None])
    there = ((name, target.column(name)) for name in wanted)
    return problems + [_generated(target, name) for name, column in there if column is not None and column.generated]


def _present(upstream: TableInfo, name: str) -> TargetProblem:
    table = _name(upstream)
    what = f"the upstream table {table} must not contain the extended column {quote(name)}, which the route fills"
    return TargetProblem(what, "Give the extract another target-column.")


def _not_created(names: Sequence[str]) -> TargetProblem:
    what = (
        f"the target table with the extended columns {_quoted(names)} does not exist in downstream tables; created "
        "like the upstream's, it would lack them"
    )
    return TargetProblem(what, "Create the target table with these columns, then resume or start the task.")


def _missing(target: TableInfo, names: Sequence[str]) -> list[TargetProblem]:
    """One problem for each column, as scripts count them; each with the statement that adds all columns."""
    added = ", ".join(f"ADD COLUMN {quote(name)} VARCHAR(64) NOT NULL" for name in names)
    what = f"the target table {_name(target)} must contain extended columns that it lacks:"
    return [TargetProblem(f"{what} {quote(name)}", f"ALTER TABLE {_name(target)} {added}") for name in names]


def _generated(target: TableInfo, name: str) -> TargetProblem:
    what = (
        f"the column {quote(name)} of the target table {_name(target)} is generated, so no value can be written to it"
    )
    return TargetProblem(what, "Give the extract another target-column.")


def mapping_problems(upstream: TableInfo, target: TableInfo | None, mapping: TableMapping) -> list[TargetProblem]:
    """For a mapping whose numbers the target's columns can't store. ``target`` None: as in :func:`extract_problems`."""
    problems = []
    for transform in mapping.transforms:
        if not isinstance(transform, PartitionId) or not transform.base:
            continue
        name = upstream.columns[transform.target].name
        column = (target or upstream).column(name)
        if column is not None and not holds(column, transform.largest):
            problems.append(_too_small(upstream, target, column, transform))
    return problems


def _too_small(upstream: TableInfo, target: TableInfo | None, column: Column, transform: PartitionId) -> TargetProblem:
    number = f"the `partition id` of {_name(upstream)}.{quote(column.name)}, a number up to {transform.largest}"
    null = "NULL" if column.nullable else "NOT NULL"
    if target is None:
        what = f"{number}, does not fit into {column.column_type}, which the target's column would get"
        return TargetProblem(what, f"Create the target table by hand first, with {quote(column.name)} BIGINT {null}.")
    what = f"{number}, does not fit into the target's column, which is {column.column_type}"
    return TargetProblem(what, f"ALTER TABLE {_name(target)} MODIFY COLUMN {quote(column.name)} BIGINT {null}")


def holds(column: Column, number: int) -> bool:
    """Whether the column can store a positive number; unknown types can."""
    kind = column.type_name.lower()
    if kind in _BITS:
        return number < 1 << (_BITS[kind] if column.unsigned else _BITS[kind] - 1)
    if kind in _EXACT:
        return number <= _EXACT[kind]
    digits = len(str(number))
    if kind == "decimal" and (match := _DECIMAL.match(column.column_type)):
        return digits <= int(match[1]) - int(match[2] or 0)
    if kind in _SIZED_TEXT:
        length = _LENGTH.search(column.column_type)
        return length is None or digits <= int(length[1])
    return True


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names))


def _name(info: TableInfo) -> str:
    return qualified(info.schema, info.name)
