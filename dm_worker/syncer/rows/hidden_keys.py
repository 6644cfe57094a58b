"""MariaDB's hidden columns for unique keys that it hashes: no statement shows them. Pure.

MariaDB hashes a unique key with USING HASH, and when an index can't hold the values: whole TEXT and BLOB columns, and
too many bytes. Such a key is a hash of the values in a column ``DB_ROW_HASH_n`` after all others, which the binlog's
rows also contain.
"""

from __future__ import annotations

from dataclasses import replace

from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.schema_tracker.server import Charset
from pkg.schema_tracker.types import character_length

#: The byte limit of an index of InnoDB. For other engines and page sizes, SHOW CREATE shows that a key is hashed.
_LONGEST = 3072
#: The approximate size of a number or a time.
_NUMBER = 8
_WHOLE = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"})


def with_hidden_keys(info: TableInfo, table_map: TableMap) -> TableInfo:
    """The structure with the hidden columns that the binlog has beyond it; the same one for any other difference.

    A virtual column is skipped in rows, and never written.
    """
    count = sum(_is_hashed(index, info) for index in info.indexes)
    first = len(info.columns)
    if not count or table_map.column_count != first + count:
        return info
    logged = table_map.unsigned
    hidden = tuple(
        Column(
            f"DB_ROW_HASH_{number}",
            "bigint",
            "bigint(20) unsigned",
            unsigned=logged is None or logged[first + number - 1] is not False,
            generated="VIRTUAL",
        )
        for number in range(1, count + 1)
    )
    return replace(info, columns=(*info.columns, *hidden))


def _is_hashed(index: Index, info: TableInfo) -> bool:
    if not index.unique or index.primary:
        return False
    return index.hashed or sum(_bytes(part, info.column(part.column)) for part in index.parts) > _LONGEST


def _bytes(part: IndexPart, column: Column | None) -> int:
    """The most bytes of a part in an index; more than the limit for a whole TEXT or BLOB column."""
    if column is None:
        return 0
    characters = part.length or character_length(column)
    if not characters:
        return _LONGEST + 1 if column.type_name in _WHOLE else _NUMBER
    return characters * (Charset(column.charset, column.collation).max_bytes if column.charset else 1)
