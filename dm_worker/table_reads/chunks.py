"""Splits tables into chunks by key ranges, so that several tasks share one table.

A chunk is a condition on the key. The conditions of a table cover everything below, between and above the split points,
so a row that appears, vanishes or is missing in the statistics still belongs to exactly one chunk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.table_reads.column_literals import RowRenderer, introducer_of, kind_of, select_expression
from dm_worker.table_reads.row_stream import read_values
from pkg.mysql.connection import classify
from pkg.mysql.introspect import fetch_table_info, list_schemas, query, show_create
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, TableInfo

#: Whether a table is read, by schema and name.
TableChoice = Callable[[str, str], bool]
#: Smaller chunks than this (bytes of data) cost more round trips than they save.
MIN_PIECE = 4 << 20
#: Chunks per task, so that all tasks end at about the same time.
PIECES_PER_TASK = 4
#: Times the wanted rows that a part may have: estimates are not exact, and halves would be more queries.
_MOST_OF_STEP = 1.25
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
#: Types whose order in an index is their order under ``<`` against a literal: not ENUM's, and FLOAT has no exact one.
_PAGEABLE = _INTEGERS | {"decimal", "char", "varchar", "binary", "varbinary", "date", "datetime", "timestamp"}


@dataclass(frozen=True, slots=True)
class TableStat:
    """The server's estimates for a table; ``data_bytes`` is the size of its rows."""

    schema: str
    table: str
    rows: int
    data_bytes: int
    engine: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a table: the rows for which ``condition`` holds ('' = all). ``number`` counts within the table.

    ``shape`` is the table's structure at the time of planning.
    """

    schema: str
    table: str
    number: int
    condition: str
    weight: int
    shape: str


def list_tables(conn: Connection[Any], allows: TableChoice) -> list[TableStat]:
    """The base tables that are chosen, with the server's estimates, sorted by name."""
    stats: list[TableStat] = []
    for schema in list_schemas(conn):
        rows = query(
            conn,
            "SELECT TABLE_NAME, TABLE_ROWS, DATA_LENGTH, ENGINE FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'",
            (schema,),
        )
        stats += [
            TableStat(schema, str(name), int(count or 0), int(size or 0), str(engine or ""))
            for name, count, size, engine in rows
            if allows(schema, str(name))
        ]
    return sorted(stats, key=lambda stat: (stat.schema, stat.table))


def plan_chunks(
    conn: Connection[Any], stats: Sequence[TableStat], *, tasks: int, most_bytes: int, rows: int = 0
) -> list[Chunk]:
    """All chunks of the tables, the largest first, for ``tasks`` that share them.

    A chunk has at most about ``most_bytes`` of data. With ``rows`` it has about that many rows instead.
    """
    total = sum(stat.data_bytes for stat in stats)
    budget = min(most_bytes, max(MIN_PIECE, total // (tasks * PIECES_PER_TASK)))
    chunks: list[Chunk] = []
    for stat in stats:
        try:
            chunks += _chunks_of(conn, stat, stat.rows // rows if rows else stat.data_bytes // budget)
        except pymysql.Error as exc:
            raise classify(exc, scope="upstream", table=qualified(stat.schema, stat.table)) from exc
    return sorted(chunks, key=lambda chunk: -chunk.weight)


def _chunks_of(conn: Connection[Any], stat: TableStat, wanted: int) -> list[Chunk]:
    conditions = _conditions(conn, stat, wanted)
    weight = stat.data_bytes // len(conditions)
    shape = shape_of(show_create(conn, stat.schema, stat.table))
    return [Chunk(stat.schema, stat.table, i, text, weight, shape) for i, text in enumerate(conditions)]


def shape_of(created: str) -> str:
    """A digest of a structure: of the CREATE statement without the parts that inserts change."""
    return hashlib.sha256(_COUNTER.sub("", created).encode()).hexdigest()[:32]


def _conditions(conn: Connection[Any], stat: TableStat, wanted: int) -> list[str]:
    if wanted < 2 or stat.rows < 2:
        return [""]
    info = fetch_table_info(conn, stat.schema, stat.table)
    key = _pageable_key(info) if info else []
    if info is None or not key:
        return [""]
    return range_conditions(*split_points(conn, info, key, stat.rows, wanted))


def split_points(
    conn: Connection[Any], info: TableInfo, key: Sequence[Column], rows: int, wanted: int
) -> tuple[list[str], list[tuple[bytes, ...]]]:
    """Names of the first columns of the row key, or of its given part ``key``, and literals of them that cut a table of
    ``rows`` into about ``wanted`` parts."""
    step = max(1, rows // wanted)
    points = _integer_points(conn, info, key[0], step) if key[0].type_name in _INTEGERS else None
    # A leading column with few values cannot split the rows of one value; then the whole key is needed.
    if points is not None and (len(key) == 1 or len(points) >= wanted // 2):
        return [key[0].name], points
    return [column.name for column in key], _walked_points(conn, info, key, step)


def _pageable_key(info: TableInfo) -> list[Column]:
    """The columns of the row key if comparisons can split its order; empty otherwise."""
    index = info.row_key()
    if index is None or any(part.length for part in index.parts):
        return []
    columns = [column for name in index.columns if (column := info.column(name)) is not None]
    return columns if all(column.type_name in _PAGEABLE for column in columns) else []


def _integer_points(
    conn: Connection[Any], info: TableInfo, column: Column, step: int
) -> list[tuple[bytes, ...]] | None:
    """Split points of a leading integer column; None when it has too few values."""
    name, table = quote(column.name), qualified(info.schema, info.name)
    low, high = query(conn, f"SELECT MIN({name}), MAX({name}) FROM {table}")[0]
    if low is None or int(high) <= int(low):
        return None

    def estimate(start: int, stop: int) -> int:
        plan = f"EXPLAIN SELECT {name} FROM {table} FORCE INDEX ({_key_name(info)})"
        with conn.cursor() as cursor:
            cursor.execute(f"{plan} WHERE {name} >= {start} AND {name} < {stop}")
            titles = [item[0].lower() for item in cursor.description]
            return int(cursor.fetchall()[0][titles.index("rows")] or 0)

    points = split_range(estimate, int(low), int(high) + 1, step)
    return [(str(point).encode(),) for point in points]


def _key_name(info: TableInfo) -> str:
    index = info.row_key()
    return quote(index.name) if index else "PRIMARY"


def split_range(estimate: Callable[[int, int], int], low: int, high: int, step: int) -> list[int]:
    """Points that cut ``[low, high)`` into parts of about ``step`` rows, for any distribution of the values.

    ``estimate(a, b)`` returns about how many rows have a value in ``[a, b)``. Cuts a range into as many even parts as
    its rows need, these again where they still have too many, then joins neighbours with few.
    """
    points: list[int] = []
    filled = 0
    pending = [(low, high)]
    while pending:
        start, stop = pending.pop()
        rows = estimate(start, stop)
        parts = min(-(-rows // step), stop - start)
        if parts > 1 and rows > step * _MOST_OF_STEP:
            cuts = [start + (stop - start) * part // parts for part in range(parts + 1)]
            pending += reversed(list(pairwise(cuts)))
            continue
        if filled and filled + rows > step * _MOST_OF_STEP:
            points.append(start)
            filled = 0
        filled += rows
    return points


def _walked_points(conn: Connection[Any], info: TableInfo, key: Sequence[Column], step: int) -> list[tuple[bytes, ...]]:
    """Split points of any key, found by reading its index ``step`` rows at a time."""
    names = [column.name for column in key]
    order = ", ".join(quote(name) for name in names)
    renderers = [RowRenderer([kind_of(column)], [introducer_of(column)]) for column in key]
    fields = ", ".join(select_expression(column) for column in key)
    source = f"{qualified(info.schema, info.name)} FORCE INDEX ({_key_name(info)})"
    points: list[tuple[bytes, ...]] = []
    while True:
        after = f" WHERE {_at_or_above(names, points[-1])}" if points else ""
        sql = f"SELECT {fields} FROM {source}{after} ORDER BY {order} LIMIT 1 OFFSET {step}"
        found = read_values(conn, sql)
        if not found:
            return points
        literals = [render.render([value], 1)[1:-1] for render, value in zip(renderers, found, strict=True)]
        points.append(tuple(literals))


def range_conditions(names: Sequence[str], points: Iterable[tuple[bytes, ...]]) -> list[str]:
    """Conditions that cut a table at ``points`` (literals of the key's columns, ascending); [''] without points."""
    conditions: list[str] = []
    lower = ""
    for point in points:
        below = _below(names, point)
        conditions.append(f"{lower} AND {below}" if lower else below)
        lower = _at_or_above(names, point)
    return [*conditions, lower]


def _below(names: Sequence[str], point: Sequence[bytes]) -> str:
    return _compare(names, point, "<", "<")


def _at_or_above(names: Sequence[str], point: Sequence[bytes]) -> str:
    return _compare(names, point, ">", ">=")


def _compare(names: Sequence[str], point: Sequence[bytes], strict: str, last: str) -> str:
    """``(a, b) < (x, y)`` written out: MySQL uses no index for comparisons of row values."""
    terms = []
    for i in range(len(names)):
        equal = [f"{quote(names[j])} = {point[j].decode()}" for j in range(i)]
        sign = last if i == len(names) - 1 else strict
        terms.append(" AND ".join([*equal, f"{quote(names[i])} {sign} {point[i].decode()}"]))
    return "(" + " OR ".join(f"({term})" for term in terms) + ")"
