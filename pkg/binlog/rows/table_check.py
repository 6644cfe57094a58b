"""Compares a table's tracked structure with the TABLE_MAP of the upstream. A wrong structure must be an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.charsets import collation_charset, same_charset
from pkg.binlog.table_map import TableMap
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql.schema import GEOMETRIES, Column

_CHARS = frozenset({c.TYPE_STRING})
_VARCHARS = frozenset({c.TYPE_VARCHAR, c.TYPE_VAR_STRING, c.TYPE_VARCHAR_COMPRESSED})
_BLOBS = frozenset({c.TYPE_BLOB, c.TYPE_BLOB_COMPRESSED})
#: Tracked type → the types that TABLE_MAP may give it.
_ALLOWED: dict[str, frozenset[int]] = {
    **dict.fromkeys(("tinyint", "bool", "boolean"), frozenset({c.TYPE_TINY})),
    "smallint": frozenset({c.TYPE_SHORT}),
    "mediumint": frozenset({c.TYPE_INT24}),
    **dict.fromkeys(("int", "integer"), frozenset({c.TYPE_LONG})),
    "bigint": frozenset({c.TYPE_LONGLONG}),
    "float": frozenset({c.TYPE_FLOAT}),
    **dict.fromkeys(("double", "real"), frozenset({c.TYPE_DOUBLE})),
    **dict.fromkeys(("decimal", "numeric", "dec", "fixed"), frozenset({c.TYPE_NEWDECIMAL})),
    "bit": frozenset({c.TYPE_BIT}),
    "year": frozenset({c.TYPE_YEAR}),
    "date": frozenset({c.TYPE_DATE, c.TYPE_NEWDATE}),
    "time": frozenset({c.TYPE_TIME, c.TYPE_TIME2}),
    "datetime": frozenset({c.TYPE_DATETIME, c.TYPE_DATETIME2}),
    "timestamp": frozenset({c.TYPE_TIMESTAMP, c.TYPE_TIMESTAMP2}),
    **dict.fromkeys(("char", "binary", "nchar", "inet4", "inet6", "uuid"), _CHARS),
    **dict.fromkeys(("varchar", "varbinary", "nvarchar"), _VARCHARS),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), _BLOBS),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _BLOBS),
    "json": _BLOBS | {c.TYPE_JSON},
    # MySQL logs it as a type of its own, MariaDB as VARBINARY.
    "vector": frozenset({c.TYPE_VECTOR, c.TYPE_VARCHAR}),
    "enum": frozenset({c.TYPE_ENUM}),
    "set": frozenset({c.TYPE_SET}),
    **dict.fromkeys(GEOMETRIES, frozenset({c.TYPE_GEOMETRY})),
}
#: Bytes of the length that precede a value, by the kind of TEXT or BLOB.
_LENGTH_BYTES = {"tiny": 1, "": 2, "medium": 3, "long": 4}
_PRECISION = re.compile(r"\((\d+)(?:\s*,\s*(\d+))?\)")


def check_table_map(table_map: TableMap, columns: Sequence[Column]) -> None:
    """Raises 36027 with table and column when the upstream can't have logged with ``columns``."""
    if len(columns) != table_map.column_count:
        raise _mismatch(
            table_map,
            f"the binlog has {table_map.column_count} columns of {table_map}, but the tracked "
            f"structure has {len(columns)}",
        )
    for i, column in enumerate(columns):
        problem = _column_problem(table_map, i, column)
        if problem:
            what = f"column {i + 1} of {table_map}, `{column.name}` ({column.column_type})"
            raise _mismatch(table_map, f"{what}, does not fit the binlog: {problem}")


def fits(table_map: TableMap, columns: Sequence[Column]) -> bool:
    """Whether :func:`check_table_map` passes."""
    return len(columns) == table_map.column_count and not any(
        _column_problem(table_map, i, column) for i, column in enumerate(columns)
    )


def fits_at(table_map: TableMap, number: int, column: Column) -> bool:
    """Whether ``column`` could be the TABLE_MAP's column with this number, by its type."""
    return number < table_map.column_count and not _column_problem(table_map, number, column)


def fits_anywhere(table_map: TableMap, column: Column) -> bool:
    """Whether ``column`` could be one of the TABLE_MAP's, by its type."""
    return any(not _column_problem(table_map, i, column) for i in range(table_map.column_count))


def _mismatch(table_map: TableMap, message: str) -> errors.DMError:
    return errors.new(
        Code.SyncerUnitDMLColumnNotMatch,
        message,
        workaround=Advice.CORRECT_STRUCTURE.for_table(table_map.schema, table_map.table),
    )


def _column_problem(table_map: TableMap, i: int, column: Column) -> str:
    kind, meta = table_map.types[i], table_map.metas[i]
    allowed = _ALLOWED.get(column.type_name)
    if allowed is None:
        return f"its type {column.type_name!r} is not known"
    if kind not in allowed:
        return f"its type there has number {kind}"
    if table_map.names is not None and table_map.names[i].lower() != column.name.lower():
        return f"its name there is `{table_map.names[i]}`"
    return _shape_problem(kind, meta, column) or _detail_problem(table_map, i, column)


def _shape_problem(kind: int, meta: int, column: Column) -> str:
    numbers = [int(n) for n in (_PRECISION.search(column.column_type) or re.match("()()", "")).groups() if n]  # type: ignore[union-attr]
    if kind == c.TYPE_NEWDECIMAL:
        tracked = ((numbers or [10])[0], numbers[1] if len(numbers) > 1 else 0)
        if tracked != (meta >> 8, meta & 0xFF):
            return f"it is decimal({meta >> 8},{meta & 0xFF}) there"
    if kind in (c.TYPE_TIME2, c.TYPE_DATETIME2, c.TYPE_TIMESTAMP2) and meta != (numbers or [0])[0]:
        return f"it has {meta} fractional digits there"
    if kind == c.TYPE_BIT and (meta >> 8) * 8 + (meta & 0xFF) != (numbers or [1])[0]:
        return f"it has {(meta >> 8) * 8 + (meta & 0xFF)} bits there"
    if kind in _BLOBS and column.type_name != "json":
        word = column.type_name.removesuffix("text").removesuffix("blob")
        if meta != _LENGTH_BYTES[word]:
            return f"its values have {meta} bytes of length there"
    return ""


def _detail_problem(table_map: TableMap, i: int, column: Column) -> str:
    """Differences in the fields that newer servers add to TABLE_MAP."""
    if table_map.unsigned is not None and table_map.types[i] in _SIGNED_TYPES:
        unsigned = table_map.unsigned[i]
        if unsigned is not None and unsigned != column.unsigned:
            return f"it is {'unsigned' if unsigned else 'signed'} there"
    if table_map.collations is not None and table_map.collations[i] and column.charset:
        charset = collation_charset(table_map.collations[i])
        if not same_charset(charset, column.charset):
            return f"its character set there is {charset}"
    return ""


#: Types whose images mean another number when signedness is wrong.
_SIGNED_TYPES = frozenset({c.TYPE_TINY, c.TYPE_SHORT, c.TYPE_INT24, c.TYPE_LONG, c.TYPE_LONGLONG})
