"""Hazards: an unfinished range is planned differently than before, or reading goes beyond the end of its pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.server_switch import ServerSwitched
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from tests.unit.dm_worker.syncer.planning.support import (
    LIMITS,
    SOURCE,
    Log,
    by_server,
    feed,
    held,
    logs,
    start,
    tags,
    tail,
)


@given(
    order=st.permutations([2, 3, 4, 5, 6]),
    asked=st.sets(st.sampled_from([2, 3, 4, 5, 6]), min_size=1),
    pieces=st.lists(st.integers(1, 5), max_size=9),
)
def test_an_open_range_is_planned_again_over_its_transactions_in_another_order(
    order: list[int], asked: set[int], pieces: list[int]
) -> None:
    """After a failover by GTID: what this server has between them is left for the next range."""
    log = Log()
    for number in order:
        log.mysql_gtid(number)
        if number in asked or number % 2:
            log.transaction([10 * number, 10 * number + 1], table=b"t" if number != 3 else b"uu")
        else:
            log.query(b"ALTER TABLE other ADD a INT")
    executed = ExecutedGtids("mysql", f"{SOURCE}:1")
    for number in asked:
        executed.add(f"{SOURCE}:{number}")
    until = Location(Position("old.000009", 77), executed.text())
    first = Location(Position("old.000009", 4), f"{SOURCE}:1")
    planner = Planner(first, gtids=ExecutedGtids("mysql", first.gtid_set), by_gtid=True, until=until)
    at = 0
    while at < len(log.events) and not planner.reached:
        at += feed(planner, log.events[at : at + (pieces.pop() if pieces else 99)])
    (batch,) = planner.out
    assert isinstance(batch, Batch)
    assert (batch.start, batch.end) == (first, until)
    wanted = [10 * number + i for number in order if number in asked for i in (0, 1)]
    assert tags(planner.out) == wanted


def test_rows_events_are_counted_in_the_binlog_of_one_server_alone() -> None:
    log = Log()
    log.mysql_gtid(2)
    log.transaction([1, 2, 3])
    before = Location(Position(log.file, 4), f"{SOURCE}:1")

    def planned(place: Location, server_id: int, of: Log = log) -> list[int]:
        gtids = ExecutedGtids("mysql", place.gtid_set)
        planner = Planner(place, gtids=gtids, by_gtid=True, limits=BatchLimits(1, 1, 1))
        feed(planner, by_server(of, server_id))
        return tags(planner.out)

    planner = Planner(before, gtids=ExecutedGtids("mysql", f"{SOURCE}:1"), by_gtid=True, limits=BatchLimits(1, 1, 1))
    feed(planner, by_server(log, 7)[:5])
    (inside,) = [item.end for item in planner.out if isinstance(item, Batch)]
    assert (inside.rows_events, inside.cut) == (1, f"7 {SOURCE}:2")
    assert planned(inside, 7) == [2, 3]
    with pytest.raises(ServerSwitched):
        planned(inside, 8)
    # The same server's id, and another transaction first, or the same one elsewhere.
    other, moved = Log(), Log(offset=44)
    other.mysql_gtid(3)
    other.transaction([9])
    moved.mysql_gtid(2)
    moved.transaction([1, 2, 3])
    for found in (other, moved):
        with pytest.raises(ServerSwitched):
            planned(inside, 7, found)
    # Of a place that an earlier version wrote only the place is known.
    assert planned(replace(inside, cut=""), 8) == [2, 3]


@given(logs())
def test_a_pass_ends_where_another_one_stood(logged: tuple[Log, list[int]]) -> None:
    log, _ = logged
    planner = Planner(start(), limits=LIMITS)
    feed(planner, log.events)
    planner.close()
    for count, item in enumerate(planner.out, 1):
        end = item.location if isinstance(item, Advance) else item.end
        if end.rows_events:
            continue
        again = Planner(start(), limits=BatchLimits(150, 3, 80), limit=end)
        taken = feed(again, log.events)
        assert again.reached
        assert log.ends[taken - 1] == end.position.pos
        assert tags(again.out) == tags(planner.out[:count])
        assert held(again.out) == held(planner.out[:count])
        last = again.out[-1]
        assert (last.location if isinstance(last, Advance) else last.end) is end


def test_a_pass_does_not_go_beyond_its_end() -> None:
    log = Log()
    log.transaction([1])
    between = Location(Position("bin.000001", log.offset - 5))
    log.transaction([2])
    with pytest.raises(DMError, match="no transaction that ends at"):
        feed(Planner(start(), limit=between), log.events)


def by_gtids(log: Log, limit: str) -> Planner:
    """Has read ``log`` up to ``limit``, which another server's positions name."""
    place = Location(Position("other.000007", 99), limit)
    planner = Planner(start(), gtids=ExecutedGtids("mysql", ""), by_gtid=True, limit=place)
    fed = 0
    while fed < len(log.events) and not planner.reached:
        fed += feed(planner, log.events[fed:])
    return planner


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pass_by_gtid_ends_after_its_transaction_or_statement_on_any_server(number: int) -> None:
    log = Log()
    for one in range(1, 5):
        log.mysql_gtid(one)
        if one == 2:
            log.query(b"ALTER TABLE t ADD a INT")
        else:
            log.transaction([one])
    planner = by_gtids(log, gtids := f"{SOURCE}:1" + (f"-{number}" if number > 1 else ""))
    last = planner.out[-1]
    assert isinstance(last, Batch | BinlogStatement)
    assert isinstance(last, BinlogStatement) == (number == 2)
    assert last.end == Location(Position("other.000007", 99), gtids)
    assert tags(planner.out) == [one for one in range(1, number + 1) if one != 2]


def test_a_pass_by_gtid_does_not_go_beyond_its_end() -> None:
    log = Log()
    for one in (1, 3):
        log.mysql_gtid(one)
        log.transaction([one])
    # The order was another one where the end was noted.
    with pytest.raises(DMError, match="no transaction that ends at"):
        by_gtids(log, f"{SOURCE}:3")


def test_a_pass_is_scanned_but_for_its_last_file() -> None:
    ahead = Planner(start(), limit=start(100, file="bin.000002"))
    assert ahead.can_scan == Planner(start()).can_scan
    assert not Planner(start(), limit=start(100)).can_scan
    assert not Planner(start(), by_gtid=True, limit=start(100, file="bin.000002")).can_scan


@given(logs())
def test_open_range_is_planned_again_as_it_was(logged: tuple[Log, list[int]]) -> None:
    log, _ = logged
    planner = Planner(start(), limits=LIMITS)
    feed(planner, log.events)
    planner.close()
    for batch in planner.out:
        if isinstance(batch, Batch):
            redo = Planner(batch.start, limits=BatchLimits(1, 1, 80), until=batch.end)
            events = tail(log, batch.start)
            taken = feed(redo, events)
            assert redo.reached
            assert len(redo.out) == 1
            assert tags(redo.out) == tags([batch])
            assert held(redo.out) == held([batch])
            # The stream goes on after the range.
            rest = Planner(batch.end, limits=LIMITS)
            feed(rest, tail(log, batch.end))
            redo_rest = Planner(batch.end, limits=LIMITS)
            if batch.end.rows_events == 0:
                feed(redo_rest, events[taken:])
                redo_rest.close()
                rest.close()
                assert tags(redo_rest.out) == tags(rest.out)


def test_range_that_the_binlog_no_longer_holds_is_an_error() -> None:
    log = Log()
    log.transaction([1])
    log.transaction([2])
    planner = Planner(start(), until=start(log.offset - 1))
    with pytest.raises(DMError, match="unfinished batch"):
        feed(planner, log.events)
