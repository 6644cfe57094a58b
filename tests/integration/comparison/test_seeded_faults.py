"""Hazard: of rows that were deleted, changed, added or doubled at the target, one is not found, or another is reported.

Each seed makes a table of each shape with random rows and random faults. Each row has a number in a column that is not
of its key, by which it is recognised whatever the shape is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.comparison.outcome import ComparisonLimits, Difference
from dm_worker.comparison.pair import WHOLE, KeyRange, TablePair
from dm_worker.comparison.ranges import plan_ranges
from tests.integration.comparison.support import compare, fresh, pair_of, snapshots
from tests.sweeps import LONG

#: Runs of each shape for each of three pairs of servers; in a long test more than 50 of each shape.
SEEDS = 17 if LONG else 1
ROWS, FAULTS = 250, 9
NUMBER = "mark"
LIMITS = (ComparisonLimits(), ComparisonLimits(most_rows=20, most_bytes=200))
Values = Callable[[random.Random, int], str]


@dataclass(frozen=True)
class Shape:
    """``values``: the SQL of the other columns for row ``n``, different for each ``n`` where they are the key.
    ``changed``: a column, and the SQL of another value of it in every row. ``keyed``: a key identifies rows.
    ``unique``: none does, and yet no row can be there twice."""

    columns: str
    values: Values
    changed: str
    keyed: bool = True
    unique: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The faults that a row of the table can have."""
        return ("deleted", "changed", "added", *(() if self.keyed or self.unique else ("doubled",)))


def _text(chance: random.Random, letters: str = "aAbB ,'\\0éЖ", most: int = 12) -> str:
    return (
        "'" + "".join(chance.choices(letters, k=chance.randint(0, most))).replace("\\", "\\\\").replace("'", "''") + "'"
    )


def _maybe(chance: random.Random, value: object) -> str:
    return "NULL" if chance.random() < 0.3 else str(value)


def _wide(chance: random.Random, n: int) -> str:
    return ", ".join([str(n), *(_maybe(chance, chance.randint(-9, 9)) for _ in range(60))])


SHAPES = {
    "integer key": Shape("k INT PRIMARY KEY, v VARCHAR(20)", lambda c, n: f"{n}, {_text(c)}", "v = CONCAT('x', v)"),
    "unsigned key": Shape(
        "k BIGINT UNSIGNED PRIMARY KEY, v INT",
        lambda c, n: f"{(1 << 64) - 1 - n}, {_maybe(c, n)}",
        "v = IFNULL(v, 0) + 1",
    ),
    "key of two columns": Shape(
        "k INT, m VARCHAR(9) COLLATE utf8mb4_bin, v INT, PRIMARY KEY (k, m)",
        lambda c, n: f"{n // 5}, '{'aAbBc'[n % 5]}', {n}",
        "v = v + 1",
    ),
    "text key": Shape("k VARCHAR(20) PRIMARY KEY, v INT", lambda c, n: f"'key {n}', {n}", "v = v + 1"),
    "bytes as key": Shape("k VARBINARY(8) PRIMARY KEY, v INT", lambda c, n: f"x'{n:04x}00', {n}", "v = v + 1"),
    "decimal key": Shape("k DECIMAL(20,5) PRIMARY KEY, v INT", lambda c, n: f"{n}.5, {n}", "v = v + 1"),
    "time as key": Shape(
        "k DATETIME(6) PRIMARY KEY, v TIME(3)",
        lambda c, n: f"'2020-01-01 00:00:00.{n:06}', '{c.choice(['', '-'])}{n % 800}:00:00.25'",
        "v = ADDTIME(v, '00:00:00.001')",
    ),
    "unique key": Shape(
        "k INT NOT NULL UNIQUE, v CHAR(9)", lambda c, n: f"{n * 7}, {_text(c, 'abc', 9)}", "v = IF(v = 'x', 'y', 'x')"
    ),
    "no key": Shape(
        "a INT, b INT", lambda c, n: f"{_maybe(c, n % 3)}, {_maybe(c, n % 2)}", "a = IFNULL(a, 0) + 9", keyed=False
    ),
    "no key, texts": Shape(
        "a TEXT, b VARCHAR(9)",
        lambda c, n: f"{_maybe(c, _text(c))}, {_maybe(c, _text(c, 'N,0', 2))}",
        "b = IF(b = 'z', 'y', 'z')",
        keyed=False,
    ),
    "no key, floats": Shape(
        "a FLOAT, b DOUBLE",
        lambda c, n: f"{c.random() * 9}, {_maybe(c, c.random() * 1e30)}",
        "a = IFNULL(a, 0) + 100",
        keyed=False,
    ),
    "key that may be NULL": Shape(
        "k INT UNIQUE, v INT", lambda c, n: f"{_maybe(c, n)}, {n}", "v = v + 1", keyed=False, unique=True
    ),
    "long values": Shape(
        "k INT PRIMARY KEY, a LONGTEXT, b LONGBLOB",
        lambda c, n: f"{n}, REPEAT({_text(c)}, {c.randint(0, 300)}), REPEAT(x'00ff', {c.randint(0, 300)})",
        "b = CONCAT(b, x'00')",
    ),
    "members": Shape(
        "k INT PRIMARY KEY, a ENUM('x','y','z'), b SET('p','q','r')",
        lambda c, n: f"{n}, {_maybe(c, c.randint(1, 3))}, {c.randint(0, 7)}",
        "b = (b + 1) % 8",
    ),
    "documents": Shape(
        "k INT PRIMARY KEY, v JSON",
        lambda c, n: f"""{n}, '{{"a": {n}, "b": [{c.randint(0, 9)}, "x"]}}'""",
        """v = '{"a": -1}'""",
    ),
    "other charsets": Shape(
        "k INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1, b VARCHAR(20) CHARACTER SET gbk",
        lambda c, n: f"{n}, {_text(c, 'aäÄ€')}, {_text(c, 'a啊阿')}",
        "b = CONCAT(b, '啊')",
    ),
    "bits, years": Shape(
        "k INT PRIMARY KEY, a BIT(64), b YEAR, d DATE",
        lambda c, n: (
            f"{n}, {c.getrandbits(64)}, {1970 + n % 99}, '{c.choice(['2020-02-29', '0000-00-00', '2020-00-00'])}'"
        ),
        "a = a ^ 1",
    ),
    "generated column": Shape(
        "k INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED",
        lambda c, n: f"{n}, {c.randint(0, 99)}, DEFAULT",
        "a = a + 1",
    ),
    "time stamps": Shape(
        "k INT PRIMARY KEY, a TIMESTAMP(3) NULL, b DATETIME",
        lambda c, n: f"{n}, {_maybe(c, repr(f'2020-01-01 00:00:{n % 60:02}.125'))}, '2020-01-01 00:00:00'",
        "b = b + INTERVAL 1 SECOND",
    ),
    "60 columns": Shape(
        "k INT PRIMARY KEY, " + ", ".join(f"c{i} INT" for i in range(60)), _wide, "c59 = IFNULL(c59, 0) + 1"
    ),
}


def faults(chance: random.Random, shape: Shape, server: SQLServer) -> set[tuple[str, int]]:
    """Makes faults in different rows; returns kinds and numbers that must be reported."""
    wanted: set[tuple[str, int]] = set()
    kinds = shape.kinds
    for place, n in enumerate(chance.sample(range(ROWS), FAULTS)):
        match kinds[place % len(kinds)]:
            case "deleted":
                server.execute(f"DELETE FROM d.t WHERE {NUMBER} = {n}")
                wanted.add(("missing", n))
            case "changed":
                server.execute("SET SESSION sql_mode = ''", f"UPDATE d.t SET {shape.changed} WHERE {NUMBER} = {n}")
                wanted |= {("changed", n)} if shape.keyed else {("missing", n), ("extra", n)}
            case "added":
                more = ROWS + place
                server.execute("SET SESSION sql_mode = ''", insert([f"{shape.values(chance, more)}, {more}"]))
                wanted.add(("extra", more))
            case "doubled":
                server.execute(f"INSERT INTO d.t SELECT * FROM d.t WHERE {NUMBER} = {n}")
                wanted.add(("doubled", n))
    return wanted


def insert(rows: list[str]) -> str:
    return f"INSERT INTO d.t VALUES {', '.join(f'({row})' for row in rows)}"


def reported(pair: TablePair, found: list[Difference]) -> list[tuple[str, int]]:
    place = [column.name for column in pair.columns].index(NUMBER)
    return sorted((one.kind.value, int((one.upstream or one.target or ())[place])) for one in found)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", SHAPES)
def test_every_fault_is_found_and_nothing_else(name: str, seed: int, sides: tuple[SQLServer, SQLServer]) -> None:
    chance = random.Random(f"{name} {seed}")
    shape, (upstream, target) = SHAPES[name], sides
    rows = [f"{shape.values(chance, n)}, {n}" for n in range(ROWS)]
    for server in sides:
        fresh(
            server,
            f"CREATE TABLE t ({shape.columns}, {NUMBER} INT)",
            "SET SESSION sql_mode = ''",
            insert(rows),
            "ANALYZE TABLE t",
        )
    parts: list[KeyRange] = [WHOLE]
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there)
        assert isinstance(pair, TablePair)
        if chance.random() < 0.5:
            parts = plan_ranges(here, pair, 60)
    assert compare(upstream, target, parts=parts).differences == []
    wanted = faults(chance, shape, target)
    for streamed in (False, True):
        found = compare(upstream, target, parts=parts, limits=chance.choice(LIMITS), streamed=streamed)
        assert reported(pair, found.differences) == sorted(wanted)
