"""Cuts a pair's tables into ranges of the target's key, by the rows of one upstream table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pymysql.connections import Connection

from dm_worker.comparison.pair import WHOLE, KeyRange, TablePair
from dm_worker.table_reads.chunks import split_points
from pkg.mysql.introspect import fetch_table_info, query


def plan_ranges(conn: Connection[Any], pair: TablePair, rows: int, source: int = 0) -> list[KeyRange]:
    """Ranges of about ``rows`` rows of the pair's upstream table ``source``, which ``conn`` reads; together they have
    all rows of all tables. One range of everything where the key has no order that all servers agree about.

    Raises ``pymysql.Error``.
    """
    side = pair.sources[source]
    info = fetch_table_info(conn, side.schema, side.name)
    if info is None or not side.bases:
        return [WHOLE]
    names = [name for name, _ in side.bases]
    index = info.row_key()
    key = [column for name in names if (column := info.column(name)) is not None]
    if index is None or [name.lower() for name in index.columns[: len(names)]] != [name.lower() for name in names]:
        return [WHOLE]
    ((estimate,),) = query(
        conn,
        "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (side.schema, side.name),
    )
    wanted = int(estimate or 0) // rows
    if wanted < 2:
        return [WHOLE]
    _, points = split_points(conn, info, key, int(estimate), wanted)
    return ranges_between([_as_target(point, side.bases) for point in points])


def ranges_between(points: Sequence[tuple[bytes, ...]]) -> list[KeyRange]:
    """The ranges between the points, ascending; without points one range of everything."""
    ends = [(), *points, ()]
    return [KeyRange(lower, upper) for lower, upper in pairwise(ends)]


def _as_target(point: tuple[bytes, ...], bases: Sequence[tuple[str, int]]) -> tuple[bytes, ...]:
    """The upstream's values, plus the numbers that column mapping adds."""
    return tuple(
        b"%d" % (int(literal) + base) if base else literal for literal, (_, base) in zip(point, bases, strict=False)
    )
