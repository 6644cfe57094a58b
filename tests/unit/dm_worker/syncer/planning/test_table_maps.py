"""Hazards: rows are planned by the rule of another table or structure, or rows that are held back are not counted."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED, TablePlan
from pkg.binlog import constants as c
from pkg.binlog.position import Position
from pkg.errors import DMError
from tests.unit.dm_worker.syncer.planning.support import LIMITS, Log, feed, held, logs, plan_of, resolve, start, tags


def test_rows_that_are_rolled_back_are_not_counted() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.table_map(b"h")
    log.rows(1)
    log.query(b"ROLLBACK")
    log.transaction([2], table=b"h")
    planner = Planner(start())
    feed(planner, log.events)
    planner.close()
    assert held(planner.out) == 1


def test_what_is_held_back_in_front_of_a_statement_is_reported_before_it() -> None:
    log = Log()
    log.transaction([1], table=b"h")
    log.query(b"ALTER TABLE t ADD c INT")
    planner = Planner(start())
    feed(planner, log.events)
    assert [type(item) for item in planner.out] == [Advance, BinlogStatement]
    assert held(planner.out) == 1


def test_rows_without_table_map_are_an_error() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.rows(1)
    planner = Planner(start())
    with pytest.raises(DMError, match="no TABLE_MAP"):
        feed(planner, log.events)


def test_new_shape_may_ask_for_a_batch_of_its_own() -> None:
    log = Log()
    log.transaction([1, 2])
    log.query(b"BEGIN")
    log.table_map(b"t")
    log.rows(3)
    log.table_map(b"uu", 2)
    log.rows(4, 2)
    log.add(c.XID_EVENT, bytes(8))

    def splitting(data: bytes, place: Position) -> tuple[TablePlan | None, bool]:
        return plan_of(data[27:]), data[27:] == b"uu"

    planner = Planner(start())
    feed(planner, log.events, splitting)
    planner.close()
    assert [tags([batch]) for batch in planner.out] == [[1, 2], [3], [4]]
    assert planner.out[1].end.rows_events == 1  # type: ignore[union-attr]


def test_unfinished_range_is_planned_under_one_rule_though_a_later_table_changed_it() -> None:
    # The first run knew the rule from tables before the range. Under two, changes of one key fall into two buckets.
    log = Log()
    log.transaction([1, 2])
    log.query(b"BEGIN")
    log.table_map(b"t")
    log.rows(3)
    log.table_map(b"uu", 2)
    log.rows(4, 2)
    log.table_map(b"t")
    log.rows(5)
    log.add(c.XID_EVENT, bytes(8))
    numbers, weak = itertools.count(1), False

    def splitting(data: bytes, place: Position) -> tuple[TablePlan | None, bool]:
        nonlocal weak
        split, weak = data[27:] == b"uu" and not weak, weak or data[27:] == b"uu"
        plan = replace(plan_of(data[27:]), number=next(numbers), table_map=data)
        return replace(plan, mode=ORDERED if weak else COMPACT), split

    planner = Planner(start(), until=start(log.offset))
    feed(planner, log.events, splitting)
    (batch,) = planner.out
    assert isinstance(batch, Batch)
    assert tags([batch]) == [1, 2, 3, 4, 5]
    assert {number for part in batch.slices for number in part.plan_numbers()} == set(batch.plans)
    assert {(number, plan.mode) for number, plan in batch.plans.items()} == {(n, ORDERED) for n in batch.plans}
    # The first run had one plan for the table, made under the rule: the same planning.
    first = Planner(start())
    feed(first, log.events, splitting)
    first.close()
    (once,) = first.out
    assert isinstance(once, Batch)
    assert len(once.plans) < len(batch.plans)
    assert once.fingerprint(4) == batch.fingerprint(4)


@given(logs(), st.lists(st.integers(1, 9), max_size=9))
def test_the_planner_alone_asks_once_per_table_and_plans_as_with_a_callback(
    logged: tuple[Log, list[int]], pieces: list[int]
) -> None:
    """No callback: feeding stops right after the TABLE_MAP that is unknown, and goes on with the answer."""
    log, wanted = logged
    planner, asked, fed = Planner(start(), limits=LIMITS), [], 0
    while fed < len(log.events):
        fed += planner.feed(log.events[fed : fed + (pieces.pop() if pieces else 99)])
        need = planner.needed_table
        if need is None:
            continue
        assert need.table_map == log.events[fed - 1].data
        assert need.position.pos == log.ends[fed - 1]
        assert tags(planner.out) == wanted[: len(tags(planner.out))]
        asked.append(need.table_map)
        handling, ends_batch = resolve(need.table_map, need.position)
        planner.resolve_table(handling, ends_batch=ends_batch)
        assert planner.needed_table is None
    planner.close()
    assert tags(planner.out) == wanted
    assert len(asked) == len({event.data[27:] for event in log.events if event.type == c.TABLE_MAP_EVENT})


@given(logs(), st.integers(0, 3))
def test_a_changed_rule_renews_every_table_that_is_known_or_waits(logged: tuple[Log, list[int]], change: int) -> None:
    """Whichever answer changes the rule: no batch holds plans of both rules."""
    log, wanted = logged
    planner, numbers, asked, changed, fed = Planner(start(), limits=LIMITS), itertools.count(1), 0, False, 0
    while fed < len(log.events):
        fed += planner.feed(log.events[fed:])
        while (need := planner.needed_table) is not None:
            handling, _ = resolve(need.table_map, need.position)
            ends_batch, asked = asked == change and not changed, asked + 1
            changed = changed or ends_batch
            if isinstance(handling, TablePlan):
                mode = ORDERED if changed else COMPACT
                handling = replace(handling, number=next(numbers), mode=mode, table_map=need.table_map)
            planner.resolve_table(handling, ends_batch=ends_batch)
    planner.close()
    assert tags(planner.out) == wanted
    for batch in planner.out:
        if isinstance(batch, Batch):
            assert len({plan.mode for plan in batch.plans.values()}) == 1


def test_a_question_must_be_answered_before_the_next_event() -> None:
    log = Log()
    log.transaction([1])
    planner = Planner(start())
    taken = planner.feed(log.events)
    assert log.events[taken - 1].type == c.TABLE_MAP_EVENT
    with pytest.raises(AssertionError, match="resolved first"):
        planner.feed(log.events[taken:])
