"""Hazards: samples that slow a run down, that never come, or that are taken from events without the values."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.ddl.known_keys import SHARE
from dm_worker.syncer.planning.batch import Batch, Slice
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.syncer.unit import computed_sampler
from dm_worker.syncer.unit.computed_sampler import MOST_TABLES, SEARCHED, BothValues, ComputedSampler, samples
from pkg.binlog import constants as c
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from tests.harness.binlog_bytes import rows, table_map

PLACE = Location(Position("b.000001", 4))
_COLUMNS = (
    Column("id", "int", "int(11)", nullable=False),
    Column("v", "int", "int(11)"),
    Column("g", "int", "int(11)", generated="STORED"),
)
_MAP = table_map(bytes([c.TYPE_LONG]) * 3, b"", 0b110).data


def plan(number: int = 0, *, dependent: bool = False, zoned: bool = False, keyless: bool = False) -> TablePlan:
    """Of a table ``t…``."""
    expression = "from_unixtime(`v`)" if zoned else "`v` / 2" if dependent else "`v` + 1"
    keys = () if keyless else (Index("PRIMARY", (IndexPart("id"),), unique=True),)
    info = replace(TableInfo("d", f"t{number}", _COLUMNS, keys), expressions=(("g", expression),))
    return build(number, number, _MAP, info, info, PlanOptions())


def image(*values: int) -> bytes:
    return b"\0" + struct.pack("<3i", *values)


def insert(*images: bytes) -> bytes:
    return rows(c.WRITE_ROWS_EVENT_V1, 3, b"".join(images))


def batch(plans: Sequence[TablePlan], *slices: Sequence[tuple[bytes, int]]) -> Batch:
    """Slices of pairs of event and plan number; an event ends at a thousand times its place in the slice."""
    packed = [
        Slice.pack(
            order,
            [event for event, _ in events],
            [number for _, number in events],
            [1000 * (place + 1) for place in range(len(events))],
            f"b.{order:06}",
        )
        for order, events in enumerate(slices)
    ]
    return Batch(PLACE, PLACE, packed, {one.number: one for one in plans}, 1, 1, 0)


def taken(found: Batch) -> list[tuple[str, list[bytes], str]]:
    return [(one.source[1], row, place.partition(" at ")[2]) for one, row, place in samples(found, found.plans)]


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.integers(0, 9), st.integers(0, 1 << 40))))
def test_events_can_be_read_from_the_last_one_on(events: list[tuple[bytes, int, int]]) -> None:
    data, plans, positions = ([event[n] for event in events] for n in range(3))
    part = Slice.pack(0, data, plans, positions, "b")  # type: ignore[arg-type]
    assert [(bytes(one), *rest) for one, *rest in part.latest_first()] == list(part.events())[::-1]


def test_the_last_written_row_of_each_table_is_the_sample() -> None:
    update = rows(c.UPDATE_ROWS_EVENT_V1, 3, image(5, 1, 2) + image(5, 8, 9))
    found = batch(
        [plan(0), plan(1)],
        [(insert(image(1, 1, 2)), 0), (update, 1), (insert(image(2, 2, 3)), 1)],
        [(insert(image(3, 1, 2), image(4, 6, 7)), 0)],
    )
    assert taken(found) == [
        ("t0", [b"4", b"6", b"7"], "(b.000001, 1000)"),
        ("t1", [b"2", b"2", b"3"], "(b.000000, 3000)"),
    ]
    assert taken(batch([plan()], [(update, 0)])) == [("t0", [b"5", b"8", b"9"], "(b.000000, 1000)")]


def test_events_without_the_value_are_no_samples() -> None:
    first = insert(image(1, 1, 2))
    for other in (
        rows(c.DELETE_ROWS_EVENT_V1, 3, image(1, 1, 2)),
        # As MariaDB 11.8 logs updates.
        rows(c.UPDATE_ROWS_EVENT_V1, 3, (b"\0" + struct.pack("<2i", 1, 1)) * 2, present=0b011, after=0b011),
        insert(image(9, 9, 9) * (computed_sampler.LARGEST // 13 + 1)),
    ):
        assert taken(batch([plan()], [(first, 0), (other, 0)])) == [("t0", [b"1", b"1", b"2"], "(b.000000, 1000)")]
        assert taken(batch([plan()], [(other, 0)])) == []


def test_a_large_batch_is_not_searched_as_a_whole() -> None:
    events = [(insert(image(1, 1, 2)), 1)] * SEARCHED
    assert taken(batch([plan(0)], [(insert(image(2, 1, 2)), 0), *events])) == []
    assert len(taken(batch([plan(0)], [(insert(image(2, 1, 2)), 0), *events[1:]]))) == 1


class _Target:
    """Answers take ``seconds``; time passes in them and in :meth:`work`."""

    def __init__(self, seconds: float = 0.0, answer: BothValues | None = None) -> None:
        self.now = self.asking = 0.0
        self.asked: list[bytes] = []
        self._seconds = seconds
        self._answer = answer
        self.sampler = ComputedSampler(self._ask, self.clock)

    def clock(self) -> float:
        return self.now

    def _ask(self, statement: bytes) -> BothValues | None:
        self.asked.append(statement)
        self.now += self._seconds
        self.asking += self._seconds
        return self._answer

    def apply(self, found: Batch, seconds: float) -> DMError | None:
        """A batch that takes ``seconds``."""
        self.now += seconds
        return self.sampler.difference(found)


@given(st.lists(st.floats(0.001, 20), min_size=1, max_size=60), st.floats(0, 1), st.integers(1, 3))
def test_samples_take_a_small_part_of_the_time(batches: list[float], seconds: float, tables: int) -> None:
    target = _Target(seconds)
    found = batch(
        [plan(number, dependent=True) for number in range(tables)],
        [(insert(image(1, 1, 1)), number) for number in range(tables)],
    )
    for duration in batches:
        before = target.asking
        target.apply(found, duration)
        # More than the share is the last batch's alone.
        assert before == target.asking or before <= SHARE * target.now
    assert len(target.asked) >= tables


def test_tables_take_turns() -> None:
    target = _Target()
    numbers = range(3 * MOST_TABLES)
    found = batch([plan(number) for number in numbers], [(insert(image(1, 1, 2)), number) for number in numbers])
    for count in (1, 2, 3, 3):
        target.apply(found, 1.0)
        assert len(set(target.asked)) == len(target.asked) == count * MOST_TABLES
    target.apply(found, computed_sampler.SELDOM)
    assert len(target.asked) == 4 * MOST_TABLES


def test_a_table_whose_session_decides_is_looked_at_after_each_batch() -> None:
    target = _Target()
    found = batch([plan(0), plan(1, dependent=True)], [(insert(image(1, 1, 2)), 0), (insert(image(1, 1, 1)), 1)])
    assert [target.apply(found, 1.0) for _ in range(3)] == [None] * 3
    assert [b"`t1`" in statement for statement in target.asked] == [True, False, True, True]


def test_another_value_is_an_error_that_names_all() -> None:
    target = _Target(answer=(b"\xff", None))
    error = target.apply(batch([plan()], [(insert(image(1, 1, 2)), 0)]), 1.0)
    assert error is not None
    assert error.code == 36027
    for part in ("`d`.`t0`", "`g`", r"computed \xff ", "the upstream NULL,", "(b.000000, 1000)"):
        assert part in error.message
    assert "MODIFY COLUMN `g` int(11);" in error.workaround


class _Table:
    """Answers questions about the rows of a target's table (id, v, g) as it would."""

    def __init__(self, *there: tuple[int, int, int]) -> None:
        self.there = there
        self.asked: list[bytes] = []

    def ask(self, statement: bytes) -> BothValues | None:
        self.asked.append(statement)
        for row in re.findall(rb"(?:`id` = (\d+) AND )?`v` <=> (\d+) AND \(`g` <=> (\d+)\) IS NOT TRUE", statement):
            number, value, computed = (int(one) if one else None for one in row)
            for there in self.there:
                if number in (None, there[0]) and value == there[1] and computed != there[2]:
                    return str(there[2]).encode(), str(computed).encode()
        return None


def test_each_row_is_compared_where_the_sessions_zone_decides() -> None:
    """The one that differs is neither the last one of its event nor of the batch."""
    table = _Table((1, 10, 5), (2, 20, 6), (3, 30, 8))
    events = [insert(image(1, 10, 5), image(2, 20, 7), image(3, 30, 8)), insert(image(4, 1, 1))]
    error = ComputedSampler(table.ask).difference(batch([plan(zoned=True)], [(event, 0) for event in events]))
    assert error is not None
    assert error.code == 36027
    assert "computed 6 " in error.message
    assert "the upstream 7," in error.message
    assert "(b.000000, 1000)" in error.message


def test_only_the_last_image_of_a_row_counts() -> None:
    table = _Table((1, 10, 5))
    update = rows(c.UPDATE_ROWS_EVENT_V1, 3, image(1, 10, 9) + image(1, 10, 5))
    assert (
        ComputedSampler(table.ask).difference(batch([plan(zoned=True)], [(insert(image(1, 10, 9)), 0), (update, 0)]))
        is None
    )
    assert ComputedSampler(table.ask).difference(batch([plan(zoned=True)], [(update, 0), (insert(image(1, 10, 9)), 0)]))


def test_rows_without_a_key_are_compared_by_what_decides_their_value() -> None:
    table = _Table((1, 10, 5), (2, 10, 5))
    found = [(insert(*(image(number, 10, value) for number in range(9))), 0) for value in (5, 6)]
    sampler = ComputedSampler(table.ask)
    assert sampler.difference(batch([plan(zoned=True, keyless=True)], found[:1])) is None
    assert len(table.asked) == 1
    assert sampler.difference(batch([plan(zoned=True, keyless=True)], found)) is not None


def test_many_rows_are_compared_by_few_statements_whatever_time_they_take() -> None:
    target = _Target(seconds=100.0)
    events = [(insert(*(image(100 * first + n, n, 1) for n in range(100))), 0) for first in range(50)]
    for _ in range(3):
        assert target.apply(batch([plan(zoned=True)], events), 1.0) is None
    assert sum(statement.count(b"`id` = ") for statement in target.asked) == 3 * 5000
    assert len(target.asked) < 3 * 50
