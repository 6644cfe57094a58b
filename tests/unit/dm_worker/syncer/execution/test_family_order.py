"""Hazard: rows of a family end as other rows in another order, and nothing shows it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from dm_worker.syncer.execution import family_order
from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.conflict_sets import families
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.schema import Column, ForeignKey, Index, IndexPart, TableInfo
from tests.harness.foreign_key_model import CASCADE, RESTRICT, SET_NULL, Key, Refused, Tables, Values
from tests.sweeps import examples

#: Table → names of its columns; the first is the key, ``u`` is unique.
COLUMNS = {"a": ("id", "u", "v"), "b": ("id", "u", "v", "r0"), "c": ("id", "u", "v", "r0", "r1"), "d": ("r0", "u", "v")}
NUMBERS = {name: number for number, name in enumerate(COLUMNS, 1)}
HISTORIES = examples(3000)


def random_keys(chance: random.Random) -> tuple[Key, ...]:
    """Foreign keys with random actions; one of them acts."""
    places = [("b", 3, "a"), ("c", 3, "b"), ("c", 4, chance.choice(["a", "b", "c"])), ("d", 0, chance.choice("abc"))]
    if chance.random() < 0.3:
        places[0] = ("b", 3, "b")
    while True:
        keys = tuple(
            Key(child, column, parent, chance.choice([CASCADE, CASCADE, SET_NULL, RESTRICT] if column else [CASCADE]),
                chance.choice([CASCADE, SET_NULL, RESTRICT] if column else [CASCADE, RESTRICT]))
            for child, column, parent in places if chance.random() < 0.8
        )  # fmt: skip
        if any({key.deleted, key.changed} & {CASCADE, SET_NULL} for key in keys):
            return keys


def plans_of(keys: Sequence[Key]) -> dict[int, TablePlan]:
    found = families(
        ForeignKey(("d", key.child), (COLUMNS[key.child][key.column],), ("d", key.parent),
                   (COLUMNS[key.parent][0],), acts=True)
        for key in keys
    )  # fmt: skip
    plans = {}
    for name, columns in COLUMNS.items():
        infos = tuple(Column(column, "int", "int(11)", nullable=n > 0) for n, column in enumerate(columns))
        indexes = (Index("PRIMARY", (IndexPart(columns[0]),), True), Index("u", (IndexPart("u"),), True))
        info = TableInfo("d", name, infos, indexes, engine="InnoDB")
        family = found.get(("d", name))
        if family is not None:
            number = NUMBERS[name]
            plans[number] = build(number, number, b"", info, info, PlanOptions(), family=family)
            assert plans[number].links
    return plans


@dataclass
class History:
    """Changes of tables, and the rows that the binlog has of them."""

    chance: random.Random
    tables: Tables
    names: Sequence[str]
    rows: list[OrderedRow]

    def change(self) -> None:
        chance, name = self.chance, self.chance.choice(self.names)
        rows, now = self.tables.rows[name], self.tables.copy()
        number, op = chance.choice([*rows, 0]), chance.choice([INSERT, INSERT, UPDATE, UPDATE, DELETE])
        before = rows.get(number)
        after = None if op == DELETE else self._row(name, before if op == UPDATE else None)
        try:
            if op == INSERT and after is not None:
                before = None
                now.insert(name, after)
            elif before is None:
                return
            elif after is not None:
                now.update(name, number, after)
            else:
                now.delete(name, number)
        except Refused:
            return
        self.tables = now
        images = [
            None if row is None else [b"NULL" if v is None else b"%d" % v for v in row] for row in (before, after)
        ]
        self.rows.append((len(self.rows), op, NUMBERS[name], 4, images[0], images[1]))

    def _row(self, name: str, old: Values | None) -> Values:
        chance, few = self.chance, self.chance.random() < 0.8
        fresh = [
            *(chance.randint(1, 8), chance.choice([None, chance.randint(1, 12)]), chance.randint(1, 9)),
            *(chance.choice([None, chance.randint(1, 8)]) for _ in COLUMNS[name][3:]),
        ]
        if old is None:
            return tuple(fresh)
        return tuple(new if chance.random() < 0.3 and (n or not few) else kept for n, (new, kept) in
                     enumerate(zip(fresh, old, strict=True)))  # fmt: skip


def apply(tables: Tables, rows: Sequence[OrderedRow]) -> None:
    """Raises Refused when the target refuses a row or does not find it."""
    names = {number: name for name, number in NUMBERS.items()}

    def values(image: list[bytes] | None) -> Values:
        assert image is not None
        return tuple(None if value == b"NULL" else int(value) for value in image)

    for _, op, number, _, before, after in rows:
        name = names[number]
        if op == INSERT:
            tables.insert(name, values(after))
        elif (tables.delete(name, values(before)[0]) if op == DELETE else
              tables.update(name, values(before)[0], values(after))) != 1:  # fmt: skip
            raise Refused("no such row")


def keeps_links(plan: TablePlan, row: OrderedRow) -> bool:
    """Whether the change is an update that keeps the literals of all columns of links."""
    before, after = row[4:]
    if before is None or after is None:
        return False
    return all(before[i] == after[i] for link in plan.links for i in link.columns)


def histories() -> Iterator[tuple[Tables, History, Mapping[int, TablePlan]]]:
    for seed in range(HISTORIES):
        chance = random.Random(seed)
        keys = random_keys(chance)
        plans = plans_of(keys)
        names = [name for name in COLUMNS if NUMBERS[name] in plans]
        history = History(chance, Tables(keys, tuple((n, 1) for n in COLUMNS), {n: {} for n in COLUMNS}), names, [])
        for _ in range(chance.randint(0, 40)):
            history.change()
        before, history.rows = history.tables.copy(), []
        for _ in range(chance.randint(2, 25)):
            history.change()
        if history.rows:
            yield before, history, plans


def test_another_order_ends_with_the_same_rows_or_is_refused() -> None:
    refused = moved = 0
    for number, (before, history, plans) in enumerate(histories()):
        assert family_order.may_reorder(plans, history.rows)
        runs = family_order.reordered(plans, history.rows)
        assert family_order.reordered(plans, history.rows, None) == runs
        for run in runs:
            assert run.keeps == all(keeps_links(plans[row[2]], row) for row in run.rows)
        rows = list(chain.from_iterable(run.rows for run in runs))
        assert sorted(rows, key=lambda row: row[0]) == history.rows
        moved += rows != history.rows
        exact = before.copy()
        apply(exact, history.rows)
        assert exact.rows == history.tables.rows
        try:
            apply(before, rows)
        except Refused:
            refused += 1
            continue
        assert before.rows == history.tables.rows, (number, before.keys, history.rows, rows)
    assert moved > HISTORIES / 2
    assert refused < HISTORIES / 2
