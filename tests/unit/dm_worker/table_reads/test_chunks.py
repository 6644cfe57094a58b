"""Hazards: the chunks of a table leave a row out, hold it twice, or become far too large; an error names no table."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from typing import Any, cast

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.connections import Connection

from dm_worker.table_reads import chunks
from dm_worker.table_reads.chunks import TableStat, plan_chunks, range_conditions, split_range
from pkg.errors import DMError


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300, unique=True), st.integers(1, 50))
def test_integer_ranges_hold_about_the_wanted_rows_however_they_lie(ids: list[int], step: int) -> None:
    points = split_range(lambda a, b: sum(a <= i < b for i in ids), min(ids), max(ids) + 1, step)
    assert points == sorted(set(points))
    edges = [min(ids), *points, max(ids) + 1]
    assert all(sum(a <= i < b for i in ids) <= max(1, step * 1.25) for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        pytest.param(lambda a, b: b - a, 110, id="even"),
        pytest.param(lambda a, b: max(0, min(b, 500) - a) * 2000, 500, id="all at one end"),
        pytest.param(lambda a, b: (b - a) // 2 + (500_000 if a <= 7 < b else 0), 900, id="many with one value"),
    ],
)
def test_ranges_are_found_with_few_estimates(rows: Callable[[int, int], int], most: int) -> None:
    asked: list[int] = []

    def estimate(start: int, stop: int) -> int:
        asked.append(found := rows(start, stop))
        return found

    points = split_range(estimate, 0, 1_000_000, 10_000)
    assert 40 <= len(points) <= 110
    assert len(asked) <= most


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60),
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
)
def test_conditions_on_a_composite_key_cover_every_row_once(
    rows: list[tuple[int, int]], points: set[tuple[int, int]]
) -> None:
    conditions = range_conditions(["a", "b"], [tuple(str(v).encode() for v in point) for point in sorted(points)])
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.executemany("INSERT INTO t VALUES (?, ?)", rows)
    found = [
        row for text in conditions for row in db.execute("SELECT a, b FROM t" + (f" WHERE {text}" if text else ""))
    ]
    assert sorted(found) == sorted(rows)


def test_a_table_that_the_server_cannot_open_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def show_create(_conn: object, _schema: str, table: str) -> str:
        if table == "broken":
            raise pymysql.OperationalError(1030, "Got error 174 from storage engine InnoDB")
        return "CREATE TABLE …"

    monkeypatch.setattr(chunks, "show_create", show_create)
    tables = [TableStat("s", name, 0, 0, "InnoDB") for name in ("a", "broken", "z")]
    with pytest.raises(DMError, match=r"on `s`\.`broken`: "):
        plan_chunks(cast("Connection[Any]", None), tables, tasks=1, most_bytes=1)
