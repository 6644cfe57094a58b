"""Hazard: a row that is written while it is compared is reported, hides a fault, or is overwritten by a repair.

Seeded runs over the shapes of tables, with writers in each phase: between planning and the snapshots the same on both
sides, as replication does it; then, before each statement of the comparison, other rows on each side; and between the
look and the repair also the faulty rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.comparison.compare import compare_chunk
from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import WHOLE, TablePair, Way
from dm_worker.comparison.ranges import plan_ranges
from tests.integration.comparison.support import PAIRS, fresh, pair_of, snapshots
from tests.integration.comparison.test_repaired_values import repaired
from tests.integration.comparison.test_seeded_faults import (
    LIMITS,
    NUMBER,
    ROWS,
    SHAPES,
    Shape,
    faults,
    insert,
    reported,
)
from tests.sweeps import LONG

#: Runs of each shape for each pair of servers; the short form has one pair for each shape.
SEEDS = 3 if LONG else 1
RUNS = [
    (pair, name, seed)
    for place, name in enumerate(SHAPES)
    for pair in (PAIRS if LONG else (PAIRS[place % len(PAIRS)],))
    for seed in range(SEEDS)
]
#: Statements of a writer in one phase, and the phases in which it writes.
STATEMENTS, PHASES = 4, 12


class Writers:
    """They leave the rows in ``faulty`` alone."""

    def __init__(self, chance: random.Random, shape: Shape, faulty: set[int]) -> None:
        self._chance = chance
        self._shape = shape
        self._quiet = [n for n in range(ROWS) if n not in faulty]
        self._next = 10_000
        self.phases = 0

    def statements(self) -> Iterator[str]:
        yield "SET SESSION sql_mode = ''"
        for _ in range(STATEMENTS):
            self._next += 1
            n = self._chance.choice(self._quiet)
            yield self._chance.choice(
                (
                    insert([f"{self._shape.values(self._chance, self._next)}, {self._next}"]),
                    f"UPDATE d.t SET {self._shape.changed} WHERE {NUMBER} = {n}",
                    f"DELETE FROM d.t WHERE {NUMBER} = {n}",
                )
            )

    def replicated(self, *sides: SQLServer) -> None:
        """The same on all sides."""
        statements = list(self.statements())
        for server in sides:
            server.execute(*statements)

    def independent(self, *sides: SQLServer) -> None:
        """Other statements on each side."""
        self.phases += 1
        if self.phases <= PHASES:
            for server in sides:
                server.execute(*self.statements())


def rows_of(server: SQLServer, numbers: set[int]) -> Counter[tuple[Any, ...]]:
    listed = ", ".join(map(str, numbers or {-1}))
    return Counter(server.execute(f"SELECT * FROM d.t WHERE {NUMBER} IN ({listed})"))


def is_changed(server: SQLServer, shape: Shape, number: int) -> bool:
    """Updates the row; whether it has another value now."""
    before = rows_of(server, {number})
    server.execute("SET SESSION sql_mode = ''", f"UPDATE d.t SET {shape.changed} WHERE {NUMBER} = {number}")
    return rows_of(server, {number}) != before


@pytest.mark.parametrize(("sides", "name", "seed"), RUNS, indirect=["sides"])
def test_writers_neither_make_nor_hide_nor_lose_anything(
    name: str, seed: int, sides: tuple[SQLServer, SQLServer]
) -> None:
    chance = random.Random(f"writers {name} {seed}")
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
    wanted = faults(chance, shape, target)
    writers = Writers(chance, shape, {n for _, n in wanted})
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there)
        assert isinstance(pair, TablePair)
        parts = plan_ranges(here, pair, 60) if chance.random() < 0.7 else [WHOLE]
    writers.replicated(upstream, target)
    with snapshots(upstream, target) as (here, there):
        for streamed in (True, False):
            writers.phases = 0
            looked: list[Difference] = []
            for part in parts:
                compare_chunk(
                    [here],
                    there,
                    replace(pair, way=Way.STREAMED) if streamed else pair,
                    part,
                    chance.choice(LIMITS),
                    report=looked.extend,
                    before=lambda: writers.independent(upstream, target),
                )
            assert reported(pair, looked) == sorted(wanted)
            assert writers.phases >= (1 if streamed else 3)
        # Between the look and the repair the target's writers change some of the faulty rows, too.
        changeable = sorted({n for kind, n in wanted if kind in ("changed", "extra")})
        touched = {n for n in chance.sample(changeable, len(changeable) // 2) if is_changed(target, shape, n)}
        writers.phases = 0
        writers.independent(upstream, target)
        before = rows_of(target, touched)
        others = rows_of(target, set(range(ROWS)) - {n for _, n in wanted})
        repaired(upstream, target, looked, "d", "t")
        assert not before - rows_of(target, touched), "a row that had changed since the look was overwritten"
        assert others == rows_of(target, set(range(ROWS)) - {n for _, n in wanted})
        # The upstream's session still sees the rows that the repair is about.
        again: list[Difference] = []
        with snapshots(target) as (after,):
            compare_chunk([here], after, pair, report=again.extend)
    left = {n for _, n in reported(pair, again)}
    assert not left & ({n for _, n in wanted} - touched), "a faulty row is not repaired"
