"""Adapts structures that DM left in the checkpoint to the upstream's charsets and names. Pure.

DM's tracker is TiDB's: a charset or collation that a statement did not name is TiDB's default there, and an index that
the server named may have another name. JSON may stand for LONGTEXT, and LONGTEXT for JSON: DM takes a
structure that it lacks from the target, and MariaDB has no JSON. All else is as the statements defined it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pkg.binlog.charsets import collation_charset, same_charset
from pkg.binlog.constants import TYPE_BLOB, TYPE_JSON
from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, Index, TableInfo, in_order
from pkg.schema_tracker import TIDB_CHARSET, Charset, ServerDefaults

_DOCUMENTS = ("json", "longtext")
_DOCUMENT_KINDS = {TYPE_JSON: "json", TYPE_BLOB: "longtext"}


@dataclass(frozen=True, slots=True)
class AdaptedStructure:
    """A structure, and the columns whose charset is certain only if no statement changed the table since."""

    table: TableInfo
    doubtful: tuple[str, ...] = ()


def adapted(
    stored: TableInfo, upstream: TableInfo | None, server: ServerDefaults, table_map: TableMap | None = None
) -> AdaptedStructure:
    """``stored`` with the upstream's charsets. ``upstream`` is its table as it is now, None when it is gone;
    ``table_map`` belongs to the current rows, None when there are none."""
    doubtful: list[str] = []
    columns = []
    for number, left in enumerate(stored.columns):
        column = _as_document(left, number, upstream, table_map)
        if not column.charset:
            columns.append(column)
            continue
        charset = _logged(table_map, number, server) or _now(column, upstream, server, doubtful.append)
        columns.append(replace(column, charset=charset.name, collation=charset.collation))
    table = replace(stored, columns=tuple(columns), indexes=_named(stored, upstream))
    if upstream is not None and same_charset(upstream.charset, stored.charset):
        table = replace(table, collation=upstream.collation)
    return AdaptedStructure(table, tuple(doubtful))


def _as_document(column: Column, number: int, upstream: TableInfo | None, table_map: TableMap | None) -> Column:
    """A column of JSON or LONGTEXT with the type that the rows have; before the first rows, with its current type."""
    if column.type_name not in _DOCUMENTS:
        return column
    present = None if upstream is None else upstream.column(column.name)
    kind = "" if present is None else present.type_name
    if table_map is not None and number < table_map.column_count:
        kind = _DOCUMENT_KINDS.get(table_map.types[number], "")
    if kind == column.type_name or kind not in _DOCUMENTS:
        return column
    charset = ("utf8mb4", "utf8mb4_bin") if kind == "longtext" else ("", "")
    return replace(column, type_name=kind, column_type=kind, charset=charset[0], collation=charset[1])


def _logged(table_map: TableMap | None, number: int, server: ServerDefaults) -> Charset | None:
    """The charset of a column in TABLE_MAP, which newer servers include."""
    if table_map is None or table_map.collations is None or number >= len(table_map.collations):
        return None
    collation = table_map.collations[number]
    if not collation:
        return None
    name = server.collations.get(collation, "")
    return server.resolve("" if name else collation_charset(collation), name, None)


def _now(column: Column, upstream: TableInfo | None, server: ServerDefaults, doubt: Callable[[str], None]) -> Charset:
    """The most likely charset of the column."""
    present = None if upstream is None else upstream.column(column.name)
    shown = None if present is None or not present.charset else Charset(present.charset, present.collation)
    if shown is not None and same_charset(shown.name, column.charset):
        return shown
    if column.charset != TIDB_CHARSET:
        # A statement has named it, and another one has changed it since.
        return server.resolve(column.charset, "", None)
    around = server.default if upstream is None else Charset(upstream.charset, upstream.collation)
    likely = shown or around
    if not same_charset(likely.name, column.charset):
        doubt(column.name)
    return likely


def _named(stored: TableInfo, upstream: TableInfo | None) -> tuple[Index, ...]:
    """The indexes with their upstream names."""
    present = () if upstream is None else upstream.indexes
    names = {index.name.lower() for index in present}
    own = {index.name.lower() for index in stored.indexes}
    free = [index for index in present if index.name.lower() not in own]
    found = []
    for index in stored.indexes:
        alike = [one for one in free if (one.parts, one.unique) == (index.parts, index.unique)]
        if index.name.lower() not in names and len(alike) == 1:
            free.remove(alike[0])
            found.append(replace(index, name=alike[0].name))
        else:
            found.append(index)
    return in_order(found)
