"""Which generated columns of a target are compared with the upstream's values, and how the target is asked. Pure.

A stored generated column is decided by the plain columns that its expression names. So a row of the target that has a
row image's values in these has to have the image's value in the generated column as well, whatever happened to the
row before or after. The expression is the target's: that of the upstream is not known of every structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dm_worker.syncer.rows.row_matching import around, condition
from dm_worker.syncer.rows.row_shape import RowShape
from dm_worker.syncer.rows.table_plan import ComputedColumn, TablePlan
from pkg.mysql.generated import base_columns
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, TableInfo
from pkg.mysql.session_expressions import TIME_ZONE, variables_of
from pkg.mysql.target_values import TargetValues

#: Types whose values are compared exactly. Two servers print floats and JSON documents differently.
_EXACT = frozenset(
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "bit", "year"),
        *("date", "time", "datetime", "timestamp", "enum", "set", "uuid", "inet4", "inet6"),
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
    }
)
#: How values of some types are shown as text that every connection can read; others by a cast.
_SHOWN = {
    **dict.fromkeys(("bit", "enum", "set"), ("(", ")+0")),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), ("HEX(", ")")),
}
_AS_TEXT = ("CAST(", " AS CHAR)")


def sampled_columns(
    upstream: TableInfo, target: TableInfo, shape: RowShape, written: Sequence[Column], values: TargetValues
) -> tuple[ComputedColumn, ...]:
    """The columns that both tables store, that columns of both decide, and whose values can be compared.

    ``written``: the target's columns that rows give values to.
    """
    numbers = {column.name.lower(): number for number, column in enumerate(written)}
    found = []
    for there in target.columns:
        here, bases = upstream.column(there.name), base_columns(target, there.name)
        if here is None or bases is None or not here.generated == there.generated == "STORED":
            continue
        plain = [written[numbers[name.lower()]] for name in bases if name.lower() in numbers]
        # A mapped column has another value than the one that the upstream computed with.
        same = len(plain) == len(bases) and all(0 <= shape.index_of(c.name) < len(upstream.columns) for c in plain)
        if same and _EXACT.issuperset(column.type_name for column in (here, there, *plain)):
            number = shape.index_of(there.name)
            variables = variables_of(target, there.name)
            found.append(
                ComputedColumn(
                    there.name,
                    there.column_type + (f" COLLATE {there.collation}" if there.collation else ""),
                    number,
                    condition(shape.literal_column(number), there, values),
                    _SHOWN.get(there.type_name, _AS_TEXT),
                    tuple(sorted(numbers[column.name.lower()] for column in plain)),
                    bool(variables),
                    TIME_ZONE in variables,
                )
            )
    return tuple(found)


def as_plain(plan: TablePlan, column: ComputedColumn) -> str:
    """How the operator makes a column of the target one that it does not compute."""
    target, name = qualified(*plan.target), quote(column.name)
    return (
        f"Make the target's column a plain one: `ALTER TABLE {target} MODIFY COLUMN {name} {column.definition};`. (In "
        "TiDB, drop it and add a plain one.) Correct its values in the rows that were written before, then resume the "
        "task. Replication now writes the upstream's values. MariaDB 11.8 does not log them in updates: with it, drop "
        "the target's column instead."
    )


def question(plan: TablePlan, column: ComputedColumn, row: Sequence[bytes]) -> bytes:
    """A SELECT that gives the target's value and that of the image ``row``, as text, when they differ. It gives nothing
    otherwise, nor when the row has other values in the base columns by now, or is gone."""
    literal, name = row[column.number], quote(column.name).encode()
    return b"SELECT %b, %b FROM %b WHERE %b LIMIT 1" % (
        name.join(map(str.encode, column.shown)),
        literal.join(map(str.encode, column.shown)),
        qualified(*plan.target).encode(),
        _differs(plan, column, row),
    )


def question_of_any(plan: TablePlan, column: ComputedColumn, rows: Iterable[Sequence[bytes]]) -> bytes:
    """A SELECT that gives something if :func:`question` does for any of these rows."""
    conditions = b" OR ".join(b"(%b)" % _differs(plan, column, row) for row in rows)
    return b"SELECT 1, 1 FROM %b WHERE %b LIMIT 1" % (qualified(*plan.target).encode(), conditions)


def _differs(plan: TablePlan, column: ComputedColumn, row: Sequence[bytes]) -> bytes:
    """The condition for a row of the target with the image's key and base values, and another computed one."""
    key = [b"%b = %b" % (quote(name).encode(), row[n]) for name, n in zip(plan.key_names, plan.key, strict=True)]
    bases = [around(plan.matchers[base], row[plan.write[base]]) for base in column.bases]
    # Of some values the condition is NULL.
    differs = b"(%b) IS NOT TRUE" % around(column.matcher, row[column.number])
    return b" AND ".join([*key, *bases, differs])
