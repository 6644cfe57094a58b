"""Structure → CREATE TABLE, which can be shown, edited and read again."""

from __future__ import annotations

import re

from pkg.ddl import parse
from pkg.errors import DMError
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

#: Unquoted defaults that are keywords; any other word is a string whose quotes the server omitted.
_WORDS = frozenset(
    {"NULL", "TRUE", "FALSE", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "LOCALTIME"}
    | {"LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"}
)
_WORD = re.compile(r"[^\W\d]\w*")


def create_table(info: TableInfo) -> str:
    """The structure as a statement on one line, which creates the same structure again.

    Not tracked, and therefore omitted: the expressions of generated columns (NULL instead), the columns of foreign keys
    (a comment names the tables), comments, and the kind of a FULLTEXT or SPATIAL index.
    """
    lines = [_column(column) for column in info.columns] + [_index(index) for index in info.indexes]
    options = [f"ENGINE={info.engine}"] if info.engine else []
    options += [f"DEFAULT CHARSET={info.charset}"] if info.charset else []
    options += [f"COLLATE={info.collation}"] if info.collation else []
    options += [f"/* references {', '.join(qualified(*name) for name in info.foreign_keys)} */"] * bool(
        info.foreign_keys
    )
    return " ".join([f"CREATE TABLE {quote(info.name)} ({', '.join(lines)})", *options])


def _column(column: Column) -> str:
    parts = [quote(column.name), column.column_type]
    if column.collation:
        parts.append(f"CHARACTER SET {column.charset} COLLATE {column.collation}")
    if column.generated:
        parts.append(f"GENERATED ALWAYS AS (NULL) {column.generated}")
        return " ".join(parts if column.nullable else [*parts, "NOT NULL"])
    if not column.auto_increment:
        parts.append("NULL" if column.nullable else "NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {_default(column.default)}")
    if column.auto_increment:
        parts.append("AUTO_INCREMENT NULL" if column.nullable else "NOT NULL AUTO_INCREMENT")
    parts += ["INVISIBLE"] * column.invisible
    return " ".join(parts)


def _default(text: str) -> str:
    """information_schema of MySQL and TiDB shows strings without their quotes."""
    if _is_default(text):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _is_default(text: str) -> bool:
    if _WORD.fullmatch(text):
        return text.upper() in _WORDS
    try:
        body = parse(f"CREATE TABLE s.t (c INT DEFAULT {text})").body
    except DMError:
        return False
    return body is not None and [column.default for column in body.columns] == [text]


def _index(index: Index) -> str:
    parts = ", ".join(_part(part) for part in index.parts)
    if index.primary:
        return f"PRIMARY KEY ({parts})"
    return f"{'UNIQUE ' if index.unique else ''}KEY {quote(index.name)} ({parts})"


def _part(part: IndexPart) -> str:
    if not part.column:
        return "(NULL)"
    return quote(part.column) + (f"({part.length})" if part.length else "")
