"""The columns that MariaDB keeps for unique keys over whole TEXT and BLOB columns: no statement shows them. Pure.

Such a key is a hash of the values in a column ``DB_ROW_HASH_n`` behind all others, which the binlog's rows have too.
"""

from __future__ import annotations

from dataclasses import replace

from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, Index, TableInfo

_WHOLE = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"})


def as_logged(info: TableInfo, table_map: TableMap) -> TableInfo:
    """The structure with what the upstream's binlog has beyond it; the same one for any other difference.

    A virtual column is read over in rows, and never written.
    """
    count = sum(_is_hashed(index, info) for index in info.indexes)
    first = len(info.columns)
    if not count or table_map.column_count != first + count:
        return info
    signs = table_map.unsigned
    hidden = tuple(
        Column(
            f"DB_ROW_HASH_{number}",
            "bigint",
            "bigint(20) unsigned",
            unsigned=signs is None or signs[first + number - 1],
            generated="VIRTUAL",
        )
        for number in range(1, count + 1)
    )
    return replace(info, columns=(*info.columns, *hidden))


def _is_hashed(index: Index, info: TableInfo) -> bool:
    columns = [(part, info.column(part.column)) for part in index.parts]
    whole = any(column is not None and column.type_name in _WHOLE and not part.length for part, column in columns)
    return index.unique and not index.primary and whole
