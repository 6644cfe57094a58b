"""Hazards: events of a transaction are lost or planned twice at a cut, a restart or a broken stream."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.cut_points import AtCut
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.planner import Planner
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.stream import RawScan
from pkg.binlog.streams.transaction_payload import ExpandingStream
from tests.unit.dm_worker.syncer.planning.support import (
    LIMITS,
    Log,
    feed,
    held,
    held_in,
    logs,
    start,
    tags,
    tail,
)


@given(logs(), st.lists(st.integers(0, 80), max_size=5))
def test_every_cut_is_a_position_to_go_on_from(logged: tuple[Log, list[int]], pieces: list[int]) -> None:
    log, wanted = logged
    planner = Planner(start(), limits=LIMITS)
    edges = [0, *sorted(min(piece, len(log.events)) for piece in pieces), len(log.events)]
    for low, high in itertools.pairwise(edges):
        planner.bound(30 * (low % 9 + 1))
        assert feed(planner, log.events[low:high]) == high - low
    planner.close()
    assert tags(planner.out) == wanted
    ends = [start()]
    for instruction in planner.out:
        end = instruction.location if isinstance(instruction, Advance) else instruction.end
        if isinstance(instruction, Batch):
            assert instruction.start.position == ends[-1].position
            assert instruction.start.rows_events == ends[-1].rows_events
        ends.append(end)
    for count, end in enumerate(ends):
        again = Planner(end, limits=LIMITS)
        feed(again, tail(log, end))
        again.close()
        assert tags(planner.out[:count]) + tags(again.out) == wanted
        assert held(planner.out[:count]) + held(again.out) == held_in(log)


@given(logs(), st.integers(0, 80))
def test_places_do_not_depend_on_what_the_events_say_of_theirs(logged: tuple[Log, list[int]], broken: int) -> None:
    """The binlog of MariaDB 11.8 and one of the same sizes by an older server."""
    log, _ = logged
    named, placeless = Log(), Log(placeless=True)
    for event in log.events:
        for other in (named, placeless):
            other.add(event.type, event.data[19:])
    seen = []
    for other in (named, placeless):
        planner = Planner(start(), limits=LIMITS)
        feed(planner, other.events[:broken])
        places: list[object] = [planner.progress.location, planner.progress.read_to]
        planner.reopened()
        feed(planner, tail(other, planner.progress.location))
        planner.close()
        for item in planner.out:
            assert not isinstance(item, AtCut)
            places += [item.location] if isinstance(item, Advance) else [item.start, item.end]
            if isinstance(item, Batch):
                places += [place for part in item.slices for _, _, place in part.events()]
        seen.append((places, planner.progress.location, planner.progress.bytes_read, tags(planner.out)))
    assert seen[0] == seen[1]


def test_a_statement_inside_a_transaction_has_its_place_though_it_does_not_name_it() -> None:
    """MariaDB 11.8's CREATE TABLE … SELECT is one: it was dropped as if the server had made it up."""
    log = Log()
    log.transaction([1])
    log.add(c.MARIADB_GTID_EVENT, struct.pack("<QIB", 9, 0, 8) + bytes(6))
    first = log.offset
    log.query(b"CREATE TABLE t (a INT)")
    log.events[-1] = log.events[-1]._replace(log_pos=0)
    log.table_map(b"t")
    log.rows(2)
    log.add(c.XID_EVENT, bytes(8))
    planner = Planner(start())
    taken = feed(planner, log.events)
    planner.forget_tables()
    feed(planner, log.events[taken:])
    planner.close()
    (statement,) = [item for item in planner.out if isinstance(item, BinlogStatement)]
    assert statement.position == Position(log.file, first + log.events[5].size)
    assert statement.event.log_pos == statement.position.pos
    assert tags(planner.out) == [1, 2]


@given(logs(), st.integers(0, 80))
def test_broken_stream_is_read_again_without_loss_or_doubling(logged: tuple[Log, list[int]], broken: int) -> None:
    log, wanted = logged
    planner = Planner(start(), limits=LIMITS)
    feed(planner, log.events[:broken])
    location = planner.progress.location
    planner.reopened()
    feed(planner, tail(log, location))
    planner.close()
    assert tags(planner.out) == wanted


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(1, 400))
def test_compressed_transactions_are_cut_and_read_again_like_plain_ones(counts: list[int], max_bytes: int) -> None:
    log, tag = Log(), 0
    for count in counts:
        log.compressed(list(range(tag, tag + count)))
        tag += count
    out = _plan(Planner(start(), limits=LIMITS), log, start(), max_bytes)
    assert tags(out) == list(range(tag))
    for index, instruction in enumerate(out):
        assert isinstance(instruction, Batch | Advance)
        place = instruction.end if isinstance(instruction, Batch) else instruction.location
        again = _plan(Planner(place, limits=LIMITS), log, place, max_bytes)
        assert tags(out[: index + 1]) + tags(again) == list(range(tag))


def _plan(planner: Planner, log: Log, place: Location, max_bytes: int) -> list[PlannerInstruction]:
    stream = ExpandingStream(Prepared(tail(log, place)))
    while events := stream.read(max_bytes, 0):
        assert feed(planner, events) == len(events)
    planner.close()
    return planner.out


class Prepared:
    """A stream that gives out ``events`` at once."""

    def __init__(self, events: list[Event]) -> None:
        self.file = "bin.000001"
        self._events = list(events)

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        self._events = []

    abort = close


def test_small_transactions_wait_for_each_other_and_large_ones_are_cut() -> None:
    log = Log()
    log.transaction([1, 2])
    log.transaction([3])
    log.transaction(list(range(10, 19)))
    planner = Planner(start(), limits=BatchLimits(batch_bytes=10**9, batch_events=5))
    feed(planner, log.events)
    batches = [batch for batch in planner.out if isinstance(batch, Batch)]
    assert [batch.rows_events for batch in batches] == [3, 5]
    assert batches[1].end.rows_events == 5
    planner.close()
    assert tags(planner.out) == [1, 2, 3, *range(10, 19)]


def test_open_transaction_is_not_given_out_before_its_end() -> None:
    log = Log()
    log.transaction([1])
    log.transaction([2, 3])
    planner = Planner(start())
    feed(planner, log.events[:-1])
    planner.close()
    assert tags(planner.out) == [1]
    feed(planner, log.events[-1:])
    planner.close()
    assert tags(planner.out) == [1, 2, 3]


def test_commit_time_is_that_of_the_oldest_transaction_s_commit() -> None:
    log = Log()
    log.transaction([1], timestamp=150)
    log.transaction([2], timestamp=190)
    planner = Planner(start())
    feed(planner, log.events)
    planner.close()
    assert [batch.commit_time for batch in planner.out if isinstance(batch, Batch)] == [150]


def test_filtered_transactions_move_the_location() -> None:
    log = Log()
    log.transaction([1], table=b"x")
    planner = Planner(start())
    feed(planner, log.events)
    assert planner.progress.has_pending
    assert not planner.progress.has_rows
    planner.close()
    assert planner.out == [Advance(start(log.offset))]


def test_batch_spans_a_rotation_and_errors_can_name_the_file() -> None:
    log = Log()
    log.transaction([1])
    log.rotate("bin.000002")
    log.transaction([2])
    planner = Planner(start())
    feed(planner, log.events)
    planner.close()
    (batch,) = planner.out
    assert isinstance(batch, Batch)
    assert [(part.file, len(list(part.events()))) for part in batch.slices] == [("bin.000001", 1), ("bin.000002", 1)]
    assert batch.end == start(log.offset, file="bin.000002")


def test_statement_is_a_barrier_that_stops_feeding() -> None:
    log = Log()
    log.transaction([1])
    before = log.offset
    log.query(b"ALTER TABLE t ADD c INT")
    after = log.offset
    log.transaction([2])
    planner = Planner(start())
    taken = feed(planner, log.events)
    batch, statement = planner.out
    assert isinstance(batch, Batch)
    assert isinstance(statement, BinlogStatement)
    assert (statement.start, statement.end) == (start(before), start(after))
    assert feed(planner, log.events[taken:]) == len(log.events) - taken
    planner.close()
    assert tags(planner.out) == [1, 2]


def test_statement_inside_a_transaction_is_met_again_only_when_its_place_was_not_passed() -> None:
    # CREATE TABLE … SELECT as MariaDB logs it: statement and rows in one transaction.
    log = Log()
    log.query(b"BEGIN")
    log.query(b"CREATE TABLE t (id INT)")
    log.table_map(b"t")
    log.rows(1)
    log.rows(2)
    log.add(c.XID_EVENT, bytes(8))
    planner = Planner(start())
    taken = feed(planner, log.events)
    assert [type(instruction) for instruction in planner.out] == [BinlogStatement]
    feed(planner, log.events[taken:])
    planner.close()
    assert tags(planner.out) == [1, 2]
    at_start = Planner(start(), until=start(log.offset))
    # A batch was only begun when the statement before it was done: its redo must not put another intent in its place.
    assert feed(at_start, log.events) == len(log.events)
    assert [type(instruction) for instruction in at_start.out] == [Batch]
    passed = Planner(start(rows_events=1))
    feed(passed, log.events)
    passed.close()
    assert [type(instruction) for instruction in passed.out] == [Batch]
    assert tags(passed.out) == [2]


def test_rolled_back_transaction_leaves_nothing() -> None:
    log = Log()
    log.transaction([1])
    log.query(b"BEGIN")
    log.table_map(b"t")
    log.rows(2)
    log.query(b"ROLLBACK")
    log.transaction([3])
    planner = Planner(start())
    feed(planner, log.events)
    planner.close()
    assert tags(planner.out) == [1, 3]


def test_offsets_beyond_four_gibibytes_are_kept() -> None:
    big = (1 << 32) + 500
    log = Log(offset=500)
    log.transaction([1])
    planner = Planner(start(big))
    feed(planner, log.events)
    planner.close()
    (batch,) = planner.out
    assert isinstance(batch, Batch)
    assert batch.end == start((1 << 32) + log.offset)


@pytest.mark.parametrize("group_commit", [False, True])
def test_alter_in_two_phases_is_one_statement(group_commit: bool) -> None:
    log = Log()
    for number, extra in enumerate((2, 8, 2, 4)):  # START and ROLLBACK ALTER, then START and COMMIT ALTER
        flags = 1 | 2 * group_commit
        body = number.to_bytes(8, "little") + bytes(4) + bytes([flags]) + bytes(8 * group_commit) + bytes([extra])
        log.add(c.MARIADB_GTID_EVENT, body + bytes(5 * (not group_commit)))
        log.query(b"ALTER TABLE t ADD INDEX (v)")
    planner = Planner(start())
    feed(planner, log.events)
    (advance, statement) = planner.out
    assert isinstance(advance, Advance)
    assert isinstance(statement, BinlogStatement)
    assert statement.position == Position(log.file, log.offset)
    assert statement.start == start(log.events[5].log_pos)
