"""From the structures of an upstream table and its target: how rows are keyed, spread and written. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dm_worker.syncer.batch import COMPACT, ORDERED, TablePlan
from dm_worker.syncer.bulk_load import can_load
from pkg import errors
from pkg.binlog.literals import MembersByName
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, Index, TableInfo

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
#: Types whose literals are equal exactly when the server compares the values as equal, given the same column type.
#: FLOAT and DOUBLE are not among them (-0 and 0), nor is text, not even with _bin: trailing spaces don't count.
_EXACT = frozenset(
    {
        *("decimal", "date", "time", "datetime", "timestamp", "year", "bit", "enum", "set"),
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "uuid", "inet4", "inet6"),
    }
)
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """``compact`` as the task asks. ``foreign_keys``: the target checks them, so rows keep their order everywhere."""

    compact: bool = True
    foreign_keys: bool = False


def build(
    number: int,
    target_number: int,
    table_map: bytes,
    upstream: TableInfo,
    target: TableInfo,
    options: PlanOptions,
) -> TablePlan:
    """The plan of one table. Raises 36027 when the target lacks a column of the upstream."""
    write = _written(upstream, target)
    names = tuple(_target_column(target, upstream, i).name for i in write)
    key = common_key(upstream, target)
    key_indexes = tuple(upstream.index_of(name) for name in key.columns) if key else ()
    extra = any(not c.generated and upstream.index_of(c.name) < 0 for c in target.columns)
    several = len(target.unique_keys) > 1
    ordered = not options.compact or options.foreign_keys or key is None or (several and extra)
    spread = (
        key is not None
        and not several
        and not options.foreign_keys
        and all(_exact(upstream, target, part.column) and not part.length for part in key.parts)
    )
    return TablePlan(
        number=number,
        target_number=target_number,
        source=(upstream.schema, upstream.name),
        target=(target.schema, target.name),
        table_map=table_map,
        columns=tuple(_as_written(column, target) for column in upstream.columns),
        mode=ORDERED if ordered else COMPACT,
        key=key_indexes,
        key_names=key.columns if key else (),
        write=write,
        write_names=names,
        matchers=tuple(_matcher(target, name) for name in names),
        spread=spread,
        rewrite_existing=several,
        extra_columns=extra,
        loadable=not extra and can_load((upstream.columns[i], _target_column(target, upstream, i)) for i in write),
    )


def _target_column(target: TableInfo, upstream: TableInfo, i: int) -> Column:
    return target.columns[target.index_of(upstream.columns[i].name)]


def _written(upstream: TableInfo, target: TableInfo) -> tuple[int, ...]:
    written = []
    for i, column in enumerate(upstream.columns):
        there = target.column(column.name)
        if there is None and not column.generated:
            raise errors.new(
                "SyncerUnitDMLColumnNotMatch",
                f"the target table {qualified(target.schema, target.name)} has no column {quote(column.name)}, which "
                f"the upstream table {qualified(upstream.schema, upstream.name)} has",
                scope="downstream",
                workaround="Add the column to the target table, then resume the task.",
            )
        if there is not None and not there.generated and not column.generated:
            written.append(i)
    return tuple(written)


def _as_written(column: Column, target: TableInfo) -> Column:
    """ENUM and SET go by the numbers of their members, which is exact, wherever the target gives the same ones."""
    there = target.column(column.name)
    members = column.elements
    if not members or there is None:
        return column
    same = there.type_name == column.type_name and there.elements[: len(members)] == members
    return column if same else MembersByName.of(column)


def common_key(upstream: TableInfo, target: TableInfo) -> Index | None:
    """The target's row key when it identifies the upstream's rows as well; None when rows have no common identity."""
    key = target.row_key()
    if key is None or any(not name or upstream.index_of(name) < 0 for name in key.columns):
        return None
    wanted = {name.lower() for name in key.columns}
    for index in upstream.unique_keys:
        columns = [upstream.column(name) for name in index.columns]
        whole = index.primary or all(c is not None and not c.nullable for c in columns)
        if whole and {name.lower() for name in index.columns} == wanted:
            return key
    return None


def _exact(upstream: TableInfo, target: TableInfo, name: str) -> bool:
    """Whether equal keys have equal literals, whichever upstream table they come from."""
    here, there = upstream.column(name), target.column(name)
    assert here is not None
    assert there is not None
    if here.type_name in _INTEGERS and there.type_name in _INTEGERS:
        return True
    return here.type_name in _EXACT and _shape(here) == _shape(there)


def _shape(column: Column) -> tuple[str, str]:
    return column.type_name, column.column_type.lower()


def _matcher(target: TableInfo, name: str) -> str:
    """A template that is true for exactly this value: collations call more values equal than are."""
    column = target.column(name)
    assert column is not None
    if column.type_name == "json":
        return f"{quote(name)} <=> CAST({{}} AS JSON)"
    if column.type_name in _TEXT:
        return f"CAST(CONVERT({quote(name)} USING utf8mb4) AS BINARY) <=> CAST(CONVERT({{}} USING utf8mb4) AS BINARY)"
    return f"{quote(name)} <=> {{}}"
