"""What both sides hold, value for value, and how it differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.mysql.introspect import fetch_table_info
from tests.integration.ddl.structures import comparable

Table = tuple[str, str]
Rows = Counter[tuple[Any, ...]]
#: Both sides are read in the same session. VIRTUAL columns are computed in it, and a MariaDB cuts fractions of seconds
#: that a MySQL rounds, unless it is told to round too.
SESSION = "SET time_zone = '+00:00', sql_mode = IF(VERSION() LIKE '%MariaDB%', 'TIME_ROUND_FRACTIONAL', '')"
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point"})
_COLUMNS = (
    "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    " ORDER BY ORDINAL_POSITION"
)


@dataclass(frozen=True)
class Content:
    """The rows of a table. ``columns``: names and types, in order."""

    columns: tuple[tuple[str, str], ...]
    rows: Rows


@dataclass(frozen=True)
class Reading:
    """How a table is read: columns by an SQL expression in their place, and texts as columns behind all others.

    ``in_utf8``: texts as characters, not as the bytes of their columns' charsets.
    """

    computed: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, str] = field(default_factory=dict)
    in_utf8: bool = False


def tables_of(server: SQLServer, schemas: Sequence[str]) -> list[Table]:
    """The base tables of these schemas."""
    names = ", ".join(f"'{schema}'" for schema in schemas)
    found = server.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA IN ({names}) AND TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2"
    )
    return [(_text(schema), _text(table)) for schema, table in found]


def contents(
    server: SQLServer,
    tables: Mapping[Table, Sequence[tuple[str, str]] | None],
    reading: Callable[[Table], Reading] = lambda _: Reading(),
) -> dict[Table, Content | None]:
    """Each table's content; None where there is no such table. ``tables`` may give the columns to read, and by what
    type, as another server names them."""
    found: dict[Table, Content | None] = {}
    with closing(server.connect()) as conn:
        _query(conn, SESSION)
        for table, columns in tables.items():
            found[table] = content(conn, table, columns, reading(table))
    return found


def content(
    conn: Connection[Any],
    table: Table,
    columns: Sequence[tuple[str, str]] | None = None,
    reading: Reading = Reading(),
) -> Content | None:
    """A table's content, read in a session with ``SESSION``."""
    own = [(_text(name), _text(kind)) for name, kind in _query(conn, _COLUMNS, table)]
    if not own:
        return None
    here = dict(own)
    wanted = tuple(
        own
        if columns is None
        # A document may be a text upstream.
        else ((name, "json" if here[name] == "json" else kind) for name, kind in columns if name in here)
    )
    reads = [_READS.get(kind, _plain) for _, kind in wanted]
    fields = ", ".join(
        _field(
            reading.computed.get(name, f"`{name}`"), "json" if kind == "json" else here[name], in_utf8=reading.in_utf8
        )
        for name, kind in wanted
    )
    rows = _query(conn, f"SELECT {fields} FROM `{table[0]}`.`{table[1]}`")
    texts = tuple(value.encode().hex().upper() for value in reading.added.values())
    return Content(
        (*wanted, *((name, "varchar") for name in reading.added)),
        Counter((*(read(value) for read, value in zip(reads, row, strict=True)), *texts) for row in rows),
    )


def without_signs(content: Content) -> Content:
    """Zeros of approximate numbers without a sign, as a MariaDB keeps them."""
    kinds = [kind for _, kind in content.columns]

    def plain(kind: str, value: Any) -> Any:
        return "0.0" if value == "-0.0" and kind in ("double", "float") else value

    rows = Counter(
        tuple(plain(kind, value) for kind, value in zip(kinds, row, strict=True)) for row in content.rows.elements()
    )
    return Content(content.columns, rows)


def merged(parts: Sequence[Content | None]) -> Content | None:
    """The rows of all shards in one table; None if they do not have the same columns."""
    there = [part for part in parts if part is not None]
    if not there or any(part.columns != there[0].columns for part in there):
        return None
    return Content(there[0].columns, sum((part.rows for part in there), Counter()))


def _field(column: str, kind: str, *, in_utf8: bool) -> str:
    """An expression that shows a value whole."""
    if kind in _TEXTS and in_utf8:
        return f"HEX(CONVERT({column} USING utf8mb4))"
    if kind in _TEXTS or kind in _BYTES:
        return f"HEX({column})"
    match kind:
        case "float" | "double":
            # With all its bits; a text would be one of few digits.
            return f"{column} * 1e0"
        case "bit":
            return f"{column} + 0"
        case "json":
            return f"CONVERT({column} USING utf8mb4)"
    return f"CAST({column} AS CHAR)"


def _as_documents(content: Content, kinds: Mapping[str, str]) -> Content:
    """With the texts of columns that are documents at the target (by its ``kinds``) as such."""
    texts = [kind in _TEXTS and kinds.get(name) == "json" for name, kind in content.columns]
    if not any(texts):
        return content
    rows = Counter(
        tuple(_document_of(value) if text else value for text, value in zip(texts, row, strict=True))
        for row in content.rows.elements()
    )
    return Content(content.columns, rows)


def _document_of(value: str | None) -> str | None:
    """A document, of the hexadecimal digits of its text."""
    return None if value is None else _document(bytes.fromhex(value).decode())


def _document(value: Any) -> Any:
    return value if value is None else json.dumps(json.loads(value), sort_keys=True)


def _plain(value: Any) -> Any:
    return _text(value) if isinstance(value, bytes) else value


def _number(value: Any) -> Any:
    """With the sign of a zero, which a comparison of numbers does not see."""
    return value if value is None else repr(float(value))


def _without_zeros(value: Any) -> Any:
    """The text of a number or a time, without what only its type's scale shows."""
    value = _plain(value)
    return value.rstrip("0").rstrip(".") if isinstance(value, str) and "." in value else value


#: How values of a type are read, where not as they are.
_READS = {
    "json": _document,
    "float": _number,
    "double": _number,
    **dict.fromkeys(("decimal", "datetime", "timestamp", "time"), _without_zeros),
}


def differences(upstream: Mapping[Table, Content | None], target: Mapping[Table, Content | None]) -> list[str]:
    """One line per table that differs; keys are the target's tables."""
    found = []
    for table, want in upstream.items():
        got = target.get(table)
        if want is None or got is None:
            if want is not got:
                found.append(f"{'.'.join(table)}: {'not upstream' if want is None else 'not at the target'}")
            continue
        kinds = dict(got.columns)
        want = _as_documents(want, kinds)
        missing = [name for name, _ in want.columns if name not in kinds]
        if missing:
            found.append(f"{'.'.join(table)}: the target lacks {', '.join(missing)}")
        elif want.rows != got.rows:
            lost, more = want.rows - got.rows, got.rows - want.rows
            found.append(
                f"{'.'.join(table)}: only upstream {_some(lost)}; only at the target {_some(more)}"
                f" ({', '.join(name for name, _ in want.columns)})"
            )
    return found


def _some(rows: Rows) -> str:
    shown = list(rows.elements())
    return f"{len(shown)} rows {shown[:3]}" if shown else "nothing"


def structures(server: SQLServer, tables: Sequence[Table]) -> dict[Table, dict[str, Any] | None]:
    """The structures by meaning."""
    with closing(server.connect()) as conn:
        _query(conn, "SET sql_mode = ''")
        found = {table: fetch_table_info(conn, *table) for table in tables}
    return {table: None if info is None else comparable(info) for table, info in found.items()}


def structure_differences(
    upstream: Mapping[Table, dict[str, Any] | None], target: Mapping[Table, dict[str, Any] | None]
) -> list[str]:
    found = []
    for table, want in upstream.items():
        got = target.get(table)
        if want is None or got is None:
            continue
        found += [
            f"{'.'.join(table)}: {part}: {want[part]} upstream, {got[part]} at the target"
            for part in want
            if part != "foreign keys" and want[part] != got[part]
        ]
    return found


def _query(conn: Connection[Any], sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    with conn.cursor() as cursor:
        cursor.execute(sql, args or None)
        return list(cursor.fetchall())


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
