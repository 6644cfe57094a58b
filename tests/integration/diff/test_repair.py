"""A repair changes only rows that are still as they were read, whatever another session did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import ComparedColumn, TablePair, TableSide, Way
from dm_worker.comparison.value_forms import Reading
from dm_worker.diff.compare_task import ComparedTable, apply_repairs
from dm_worker.diff.repairs import Repairs, matches_of
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.target_values import EXACT_VALUES

SIDE = TableSide("db", "t", 0, ("`id`", "`v`"), (), ())
COLUMNS = tuple(ComparedColumn(name, Reading.SAME) for name in ("id", "v"))
KEYED = TablePair(SIDE, (SIDE,), COLUMNS, (0,), (0,), Way.STREAMED, "")
KEYLESS = replace(KEYED, key=(), ranged=(), target=replace(SIDE, name="k"))
BOTH = ("id", "v")
CHANGED = Difference(DifferenceKind.CHANGED, (b"1",), ("v",), (b"1", b"'new'"), (b"1", b"'old'"), 0)
MISSING = Difference(DifferenceKind.MISSING, (b"2",), BOTH, (b"2", b"'two'"), None, 0)
EXTRA = Difference(DifferenceKind.EXTRA, (b"3",), BOTH, None, (b"3", b"'three'"))
TWICE = Difference(DifferenceKind.DOUBLED, (), (), (b"7", b"NULL"), (b"7", b"NULL"), 0, (1, 3))


@pytest.fixture
def conn(target: SQLServer) -> Iterator[Connection[Any]]:
    target.execute(
        "CREATE DATABASE db",
        "CREATE TABLE db.t (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE db.k (id INT, v VARCHAR(20))",
        "INSERT INTO db.t VALUES (1, 'old'), (3, 'three')",
        "INSERT INTO db.k VALUES (7, NULL), (7, NULL), (7, NULL), (8, NULL)",
    )
    opened = connect(target.db_config, scope="downstream", autocommit=False)
    yield opened
    opened.close()


def table(conn: Connection[Any], pair: TablePair) -> ComparedTable:
    info = fetch_table_info(conn, pair.target.schema, pair.target.name)
    assert info is not None
    return ComparedTable(pair, (), matches_of(pair, info, EXACT_VALUES))


def rows(target: SQLServer, name: str = "t") -> list[tuple[Any, ...]]:
    return target.execute(f"SELECT id, v FROM db.{name} ORDER BY id, v")


def test_rows_that_are_as_they_were_read_get_the_upstreams_values(target: SQLServer, conn: Connection[Any]) -> None:
    assert apply_repairs(conn, table(conn, KEYED), [CHANGED, MISSING, EXTRA]) == 3
    assert apply_repairs(conn, table(conn, KEYLESS), [TWICE]) == 1
    conn.commit()
    assert rows(target) == [(1, "new"), (2, "two")]
    assert rows(target, "k") == [(7, None), (8, None)]


def test_a_row_is_deleted_before_another_one_gets_its_unique_value(target: SQLServer, conn: Connection[Any]) -> None:
    target.execute("CREATE TABLE db.u (id INT UNIQUE, v VARCHAR(20))", "INSERT INTO db.u VALUES (1, 'old')")
    unique = replace(KEYLESS, target=replace(SIDE, name="u"))
    new = Difference(DifferenceKind.MISSING, (), BOTH, (b"1", b"'new'"), None, 0, (1, 0))
    old = Difference(DifferenceKind.EXTRA, (), BOTH, None, (b"1", b"'old'"), 0, (0, 1))
    assert apply_repairs(conn, table(conn, unique), [new, old]) == 2
    conn.commit()
    assert rows(target, "u") == [(1, "new")]


def test_a_generated_column_gets_no_value(target: SQLServer, conn: Connection[Any]) -> None:
    """MySQL refuses such a statement (3105): the test of seeded faults runs there, too."""
    target.execute(
        "CREATE TABLE db.g (id INT PRIMARY KEY, v VARCHAR(20), w VARCHAR(20) AS (UPPER(v)) STORED)",
        "INSERT INTO db.g (id, v) VALUES (1, 'old')",
    )
    columns = (*COLUMNS, ComparedColumn("w", Reading.SAME, generated=True))
    pair = replace(KEYED, columns=columns, target=replace(SIDE, name="g"))
    both = (b"1", b"'new'", b"'NEW'"), (b"1", b"'old'", b"'OLD'")
    changed = Difference(DifferenceKind.CHANGED, (b"1",), ("v", "w"), *both, 0)
    missing = Difference(DifferenceKind.MISSING, (b"2",), (), (b"2", b"'two'", b"'TWO'"), None, 0)
    made = table(conn, pair)
    repairs = Repairs(pair, made.matches)
    statements = [one for found in (changed, missing) for one in repairs.of(found)]
    assert not any(b"`w` =" in one.partition(b" WHERE ")[0] or b"`w`)" in one for one in statements)
    assert apply_repairs(conn, made, [changed, missing]) == 2
    conn.commit()
    assert target.execute("SELECT * FROM db.g ORDER BY id") == [(1, "new", "NEW"), (2, "two", "TWO")]
    # What only the target computes can't be repaired by a statement.
    assert repairs.of(changed._replace(columns=("w",))) == []


@pytest.mark.parametrize(
    ("meanwhile", "difference", "left"),
    [
        ("UPDATE db.t SET v = 'theirs' WHERE id = 1", CHANGED, [(1, "theirs"), (3, "three")]),
        ("UPDATE db.t SET v = 'OLD' WHERE id = 1", CHANGED, [(1, "OLD"), (3, "three")]),
        ("DELETE FROM db.t WHERE id = 1", CHANGED, [(3, "three")]),
        ("INSERT INTO db.t VALUES (2, 'theirs')", MISSING, [(1, "old"), (2, "theirs"), (3, "three")]),
        ("UPDATE db.t SET v = 'theirs' WHERE id = 3", EXTRA, [(1, "old"), (3, "theirs")]),
        ("DELETE FROM db.t WHERE id = 3", EXTRA, [(1, "old")]),
    ],
)
def test_a_row_that_changed_since_the_look_stays_as_it_is(
    target: SQLServer, conn: Connection[Any], meanwhile: str, difference: Difference, left: list[tuple[Any, ...]]
) -> None:
    target.execute(meanwhile)
    assert apply_repairs(conn, table(conn, KEYED), [difference]) == 0
    conn.commit()
    assert rows(target) == left
