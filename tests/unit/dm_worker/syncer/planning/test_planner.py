"""Hazards: events of a transaction are lost or planned twice at a cut, a restart or a broken stream."""

from __future__ import annotations

import itertools
import struct
import uuid
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BatchLimits, BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.server_switch import ServerSwitched
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED, TablePlan
from pkg.binlog import constants as c
from pkg.binlog.events import HEADER, Event
from pkg.binlog.payload import Expanding
from pkg.binlog.position import Location, Position
from pkg.binlog.stream import Scan
from pkg.errors import Code, DMError

ROWS = b"rows"
SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


class Log:
    """Writes events as a MySQL 5.6 without GTID does: BEGIN, TABLE_MAP, rows, XID.

    ``placeless``: as MariaDB 11.4 and later, where what is inside a transaction does not name its end.
    """

    def __init__(self, file: str = "bin.000001", offset: int = 4, *, placeless: bool = False) -> None:
        self.file, self.offset = file, offset
        self.placeless = placeless
        self.events: list[Event] = []
        #: Where they end, named or not.
        self.ends: list[int] = []

    def add(self, kind: int, body: bytes, *, pad: int = 0, timestamp: int = 100, flags: int = 0) -> None:
        body += bytes(pad)
        size = 19 + len(body) + 4
        self.offset += size
        log_pos = 0 if self.placeless and self._is_inside(kind, body) else self.offset
        header = HEADER.pack(timestamp, kind, 1, size, log_pos, flags)
        self.events.append(Event(timestamp, kind, 1, size, log_pos, flags, header + body))
        self.ends.append(self.offset)

    @staticmethod
    def _is_inside(kind: int, body: bytes) -> bool:
        word = kind == c.QUERY_EVENT and body.rpartition(b"\0")[2].startswith((b"SAVEPOINT", b"ROLLBACK TO", b"XA END"))
        return word or kind in (c.TABLE_MAP_EVENT, c.MARIADB_ANNOTATE_ROWS_EVENT, *c.ROWS_EVENTS)

    def mysql_gtid(self, number: int) -> None:
        self.add(c.GTID_EVENT, b"\1" + uuid.UUID(SOURCE).bytes + number.to_bytes(8, "little"))

    def query(self, sql: bytes, schema: bytes = b"d") -> None:
        head = struct.pack("<IIBHH", 7, 0, len(schema), 0, 0)
        self.add(c.QUERY_EVENT, head + schema + b"\0" + sql)

    def table_map(self, table: bytes, number: int = 1) -> None:
        self.add(c.TABLE_MAP_EVENT, number.to_bytes(6, "little") + b"\1\0" + table)

    def rows(self, tag: int, number: int = 1) -> None:
        body = number.to_bytes(6, "little") + b"\1\0" + b"%06d" % tag
        self.add(c.WRITE_ROWS_EVENT_V1, body)

    def transaction(self, tags: list[int], *, table: bytes = b"t", timestamp: int = 100) -> None:
        self.query(b"BEGIN")
        for tag in tags:
            self.table_map(table)
            self.rows(tag)
        self.add(c.XID_EVENT, bytes(8), timestamp=timestamp)

    def compressed(self, tags: list[int]) -> None:
        """The same as one event."""
        inner = Log()
        inner.transaction(tags)
        # Sizes inside are without checksums, and positions are not set.
        plain = b"".join(HEADER.pack(e.timestamp, e.type, 1, len(e.data), 0, 0) + e.data[19:] for e in inner.events)
        self.add(c.ANONYMOUS_GTID_EVENT, bytes(25))
        self.add(c.TRANSACTION_PAYLOAD_EVENT, b"\2\3\xfc\xff\0\0" + plain)

    def rotate(self, file: str) -> None:
        self.add(c.ROTATE_EVENT, (4).to_bytes(8, "little") + file.encode())
        self.file, self.offset = file, 4


def plan_of(table: bytes) -> TablePlan:
    names = ("d", table.decode())
    return TablePlan(len(table), 1, names, names, b"", (), COMPACT, (0,), ("id",), (0,), ("id",), (), True)


class Counted:
    """A table whose rows are held back."""

    def __init__(self, table: bytes) -> None:
        self.table = ("d", table.decode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and other.table == self.table

    def count(self, event: bytes, file: str) -> int:
        assert event[27:33].isdigit()
        return 1


def resolve(data: bytes, place: Position) -> tuple[TablePlan | Counted | None, bool]:
    """Tables x… are not migrated, and h… are held back."""
    table = data[27:]
    if table.startswith(b"h"):
        return Counted(table), False
    return (None, False) if table.startswith(b"x") else (plan_of(table), False)


def start(offset: int = 4, rows_events: int = 0, file: str = "bin.000001") -> Location:
    return Location(Position(file, offset), "", rows_events)


def tags(instructions: list[PlannerInstruction]) -> list[int]:
    found: list[int] = []
    for batch in instructions:
        if isinstance(batch, Batch):
            assert [part.order for part in batch.slices] == list(range(len(batch.slices)))
            data = [event for part in batch.slices for event, _, _ in part.events()]
            assert len(data) == batch.rows_events
            found.extend(int(event[27:33]) for event in data)
    return found


def held(instructions: list[PlannerInstruction]) -> int:
    return sum(sum(item.held.values()) for item in instructions if not isinstance(item, BinlogStatement))


def tail(log: Log, location: Location) -> list[Event]:
    """What a server sends from ``location`` on (one file)."""
    return [event for event, end in zip(log.events, log.ends, strict=True) if end > location.position.pos]


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, list[int]]:
    """Transactions of migrated tables (t, uu) and others (x, h), and the tags that must come out, in order."""
    log, wanted, tag = Log(placeless=draw(st.booleans())), [], 0
    for _ in range(draw(st.integers(0, 8))):
        table = draw(st.sampled_from([b"t", b"uu", b"x", b"h"]))
        mine = list(range(tag, tag + draw(st.integers(0, 9))))
        tag += len(mine)
        log.transaction(mine, table=table)
        if table in (b"t", b"uu"):
            wanted += mine
    return log, wanted


LIMITS = BatchLimits(batch_bytes=200, batch_events=4, slice_bytes=80)


@given(logs(), st.lists(st.integers(0, 80), max_size=5))
def test_every_cut_is_a_place_to_go_on_from(logged: tuple[Log, list[int]], pieces: list[int]) -> None:
    log, wanted = logged
    planner = Planner(start(), resolve, limits=LIMITS)
    edges = [0, *sorted(min(piece, len(log.events)) for piece in pieces), len(log.events)]
    for low, high in itertools.pairwise(edges):
        planner.bound(30 * (low % 9 + 1))
        assert planner.feed(log.events[low:high]) == high - low
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
        again = Planner(end, resolve, limits=LIMITS)
        again.feed(tail(log, end))
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
        planner = Planner(start(), resolve, limits=LIMITS)
        planner.feed(other.events[:broken])
        places: list[object] = [planner.location, planner.read_to]
        planner.reopened()
        planner.feed(tail(other, planner.location))
        planner.close()
        for item in planner.out:
            places += [item.location] if isinstance(item, Advance) else [item.start, item.end]
            if isinstance(item, Batch):
                places += [place for part in item.slices for _, _, place in part.events()]
        seen.append((places, planner.location, planner.bytes_read, tags(planner.out)))
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
    planner = Planner(start(), resolve)
    taken = planner.feed(log.events)
    planner.forget_tables()
    planner.feed(log.events[taken:])
    planner.close()
    (statement,) = [item for item in planner.out if isinstance(item, BinlogStatement)]
    assert statement.place == Position(log.file, first + log.events[5].size)
    assert statement.event.log_pos == statement.place.pos
    assert tags(planner.out) == [1, 2]


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
    planner = Planner(first, resolve, gtids=ExecutedGtids("mysql", first.gtid_set), by_gtid=True, until=until)
    at = 0
    while at < len(log.events) and not planner.reached:
        at += planner.feed(log.events[at : at + (pieces.pop() if pieces else 99)])
    (batch,) = planner.out
    assert isinstance(batch, Batch)
    assert (batch.start, batch.end) == (first, until)
    wanted = [10 * number + i for number in order if number in asked for i in (0, 1)]
    assert tags(planner.out) == wanted


def by_server(log: Log, server_id: int) -> list[Event]:
    """What a server sends of ``log``: the FORMAT_DESCRIPTION tells that it wrote it."""
    header = HEADER.pack(0, c.FORMAT_DESCRIPTION_EVENT, server_id, 19, 0, 0)
    return [Event(0, c.FORMAT_DESCRIPTION_EVENT, server_id, 19, 0, 0, header), *log.events]


def test_rows_events_are_counted_in_the_binlog_of_one_server_alone() -> None:
    log = Log()
    log.mysql_gtid(2)
    log.transaction([1, 2, 3])
    before = Location(Position(log.file, 4), f"{SOURCE}:1")

    def planned(place: Location, server_id: int, of: Log = log) -> list[int]:
        gtids = ExecutedGtids("mysql", place.gtid_set)
        planner = Planner(place, resolve, gtids=gtids, by_gtid=True, limits=BatchLimits(1, 1, 1))
        planner.feed(by_server(of, server_id))
        return tags(planner.out)

    planner = Planner(
        before, resolve, gtids=ExecutedGtids("mysql", f"{SOURCE}:1"), by_gtid=True, limits=BatchLimits(1, 1, 1)
    )
    planner.feed(by_server(log, 7)[:5])
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


def held_in(log: Log) -> int:
    """The rows events behind TABLE_MAPs of held back tables."""
    maps = [event.data[27:] for event in log.events if event.type == c.TABLE_MAP_EVENT]
    return sum(table == b"h" for table in maps)


@given(logs())
def test_a_pass_ends_where_another_one_stood(logged: tuple[Log, list[int]]) -> None:
    log, _ = logged
    planner = Planner(start(), resolve, limits=LIMITS)
    planner.feed(log.events)
    planner.close()
    for count, item in enumerate(planner.out, 1):
        end = item.location if isinstance(item, Advance) else item.end
        if end.rows_events:
            continue
        again = Planner(start(), resolve, limits=BatchLimits(150, 3, 80), limit=end)
        taken = again.feed(log.events)
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
        Planner(start(), resolve, limit=between).feed(log.events)


def by_gtids(log: Log, limit: str) -> Planner:
    """Has read ``log`` up to ``limit``, which another server's positions name."""
    place = Location(Position("other.000007", 99), limit)
    planner = Planner(start(), resolve, gtids=ExecutedGtids("mysql", ""), by_gtid=True, limit=place)
    fed = 0
    while fed < len(log.events) and not planner.reached:
        fed += planner.feed(log.events[fed:])
    return planner


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pass_by_gtid_ends_behind_its_transaction_or_statement_on_any_server(number: int) -> None:
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
    ahead = Planner(start(), resolve, limit=start(100, file="bin.000002"))
    assert ahead.can_scan == Planner(start(), resolve).can_scan
    assert not Planner(start(), resolve, limit=start(100)).can_scan
    assert not Planner(start(), resolve, by_gtid=True, limit=start(100, file="bin.000002")).can_scan


def test_rows_that_are_rolled_back_are_not_counted() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.table_map(b"h")
    log.rows(1)
    log.query(b"ROLLBACK")
    log.transaction([2], table=b"h")
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    planner.close()
    assert held(planner.out) == 1


def test_what_is_held_back_in_front_of_a_statement_is_told_before_it() -> None:
    log = Log()
    log.transaction([1], table=b"h")
    log.query(b"ALTER TABLE t ADD c INT")
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    assert [type(item) for item in planner.out] == [Advance, BinlogStatement]
    assert held(planner.out) == 1


@given(logs())
def test_open_range_is_planned_again_as_it_was(logged: tuple[Log, list[int]]) -> None:
    log, _ = logged
    planner = Planner(start(), resolve, limits=LIMITS)
    planner.feed(log.events)
    planner.close()
    for batch in planner.out:
        if isinstance(batch, Batch):
            redo = Planner(batch.start, resolve, limits=BatchLimits(1, 1, 80), until=batch.end)
            events = tail(log, batch.start)
            taken = redo.feed(events)
            assert redo.reached
            assert len(redo.out) == 1
            assert tags(redo.out) == tags([batch])
            assert held(redo.out) == held([batch])
            # The stream goes on behind the range.
            rest = Planner(batch.end, resolve, limits=LIMITS)
            rest.feed(tail(log, batch.end))
            redo_rest = Planner(batch.end, resolve, limits=LIMITS)
            if batch.end.rows_events == 0:
                redo_rest.feed(events[taken:])
                redo_rest.close()
                rest.close()
                assert tags(redo_rest.out) == tags(rest.out)


@given(logs(), st.integers(0, 80))
def test_broken_stream_is_read_again_without_loss_or_doubling(logged: tuple[Log, list[int]], broken: int) -> None:
    log, wanted = logged
    planner = Planner(start(), resolve, limits=LIMITS)
    planner.feed(log.events[:broken])
    location = planner.location
    planner.reopened()
    planner.feed(tail(log, location))
    planner.close()
    assert tags(planner.out) == wanted


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(1, 400))
def test_compressed_transactions_are_cut_and_read_again_like_plain_ones(counts: list[int], max_bytes: int) -> None:
    log, tag = Log(), 0
    for count in counts:
        log.compressed(list(range(tag, tag + count)))
        tag += count
    out = _plan(Planner(start(), resolve, limits=LIMITS), log, start(), max_bytes)
    assert tags(out) == list(range(tag))
    for index, instruction in enumerate(out):
        assert isinstance(instruction, Batch | Advance)
        place = instruction.end if isinstance(instruction, Batch) else instruction.location
        again = _plan(Planner(place, resolve, limits=LIMITS), log, place, max_bytes)
        assert tags(out[: index + 1]) + tags(again) == list(range(tag))


def _plan(planner: Planner, log: Log, place: Location, max_bytes: int) -> list[PlannerInstruction]:
    stream = Expanding(Prepared(tail(log, place)))
    while events := stream.read(max_bytes, 0):
        assert planner.feed(events) == len(events)
    planner.close()
    return planner.out


class Prepared:
    """A stream that gives out ``events`` at once."""

    def __init__(self, events: list[Event]) -> None:
        self.file = "bin.000001"
        self._events = list(events)

    def read(self, max_bytes: int, timeout: float, scan: Scan | None = None) -> list[Event]:
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
    planner = Planner(start(), resolve, limits=BatchLimits(batch_bytes=10**9, batch_events=5))
    planner.feed(log.events)
    batches = [batch for batch in planner.out if isinstance(batch, Batch)]
    assert [(batch.rows_events, batch.inside_transaction) for batch in batches] == [(3, False), (5, True)]
    assert batches[1].end.rows_events == 5
    planner.close()
    assert tags(planner.out) == [1, 2, 3, *range(10, 19)]


def test_open_transaction_is_not_given_out_before_its_end() -> None:
    log = Log()
    log.transaction([1])
    log.transaction([2, 3])
    planner = Planner(start(), resolve)
    planner.feed(log.events[:-1])
    planner.close()
    assert tags(planner.out) == [1]
    planner.feed(log.events[-1:])
    planner.close()
    assert tags(planner.out) == [1, 2, 3]


def test_commit_time_is_that_of_the_oldest_transaction_s_commit() -> None:
    log = Log()
    log.transaction([1], timestamp=150)
    log.transaction([2], timestamp=190)
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    planner.close()
    assert [batch.commit_time for batch in planner.out if isinstance(batch, Batch)] == [150]


def test_filtered_transactions_move_the_location() -> None:
    log = Log()
    log.transaction([1], table=b"x")
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    assert planner.has_pending
    assert not planner.has_rows
    planner.close()
    assert planner.out == [Advance(start(log.offset))]


def test_batch_spans_a_rotation_and_errors_can_name_the_file() -> None:
    log = Log()
    log.transaction([1])
    log.rotate("bin.000002")
    log.transaction([2])
    planner = Planner(start(), resolve)
    planner.feed(log.events)
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
    planner = Planner(start(), resolve)
    taken = planner.feed(log.events)
    batch, statement = planner.out
    assert isinstance(batch, Batch)
    assert isinstance(statement, BinlogStatement)
    assert (statement.start, statement.end) == (start(before), start(after))
    assert planner.feed(log.events[taken:]) == len(log.events) - taken
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
    planner = Planner(start(), resolve)
    taken = planner.feed(log.events)
    assert [type(instruction) for instruction in planner.out] == [BinlogStatement]
    planner.feed(log.events[taken:])
    planner.close()
    assert tags(planner.out) == [1, 2]
    at_start = Planner(start(), resolve, until=start(log.offset))
    # A batch was only begun when the statement before it was done: its redo must not put another intent in its place.
    assert at_start.feed(log.events) == len(log.events)
    assert [type(instruction) for instruction in at_start.out] == [Batch]
    passed = Planner(start(rows_events=1), resolve)
    passed.feed(log.events)
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
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    planner.close()
    assert tags(planner.out) == [1, 3]


def test_rows_without_table_map_are_an_error() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.rows(1)
    planner = Planner(start(), resolve)
    with pytest.raises(DMError, match="no TABLE_MAP"):
        planner.feed(log.events)


def test_range_that_the_binlog_no_longer_holds_is_an_error() -> None:
    log = Log()
    log.transaction([1])
    log.transaction([2])
    planner = Planner(start(), resolve, until=start(log.offset - 1))
    with pytest.raises(DMError, match="unfinished batch"):
        planner.feed(log.events)


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

    planner = Planner(start(), splitting)
    planner.feed(log.events)
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

    planner = Planner(start(), splitting, until=start(log.offset))
    planner.feed(log.events)
    (batch,) = planner.out
    assert isinstance(batch, Batch)
    assert tags([batch]) == [1, 2, 3, 4, 5]
    assert {number for part in batch.slices for number in part.plan_numbers()} == set(batch.plans)
    assert {(number, plan.mode) for number, plan in batch.plans.items()} == {(n, ORDERED) for n in batch.plans}
    # The first run had one plan for the table, made under the rule: the same planning.
    first = Planner(start(), splitting)
    first.feed(log.events)
    first.close()
    (once,) = first.out
    assert isinstance(once, Batch)
    assert len(once.plans) < len(batch.plans)
    assert once.fingerprint(4) == batch.fingerprint(4)


def test_offsets_beyond_four_gibibytes_are_kept() -> None:
    big = (1 << 32) + 500
    log = Log(offset=500)
    log.transaction([1])
    planner = Planner(start(big), resolve)
    planner.feed(log.events)
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
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    (advance, statement) = planner.out
    assert isinstance(advance, Advance)
    assert isinstance(statement, BinlogStatement)
    assert statement.place == Position(log.file, log.offset)
    assert statement.start == start(log.events[5].log_pos)


def _undone() -> Log:
    """Rows 1, 2, 6, 7 are left of a transaction with savepoints, between two others."""
    log = Log()
    log.transaction([0])
    log.query(b"BEGIN")
    log.table_map(b"t")
    log.rows(1)
    log.query(b"SAVEPOINT `A``b`")
    log.rows(2)
    log.query(b"SAVEPOINT `c`")
    log.rows(3)
    log.query(b"SAVEPOINT `d`")
    log.rows(4)
    log.query(b"ROLLBACK TO `C`")
    log.rows(5)
    log.query(b"ROLLBACK WORK TO SAVEPOINT c;")
    log.query(b"RELEASE SAVEPOINT c")
    log.rows(6)
    log.rows(7)
    log.add(c.XID_EVENT, bytes(8))
    log.transaction([8])
    return log


KEPT = [0, 1, 2, 6, 7, 8]


def test_rows_after_a_savepoint_are_undone_and_only_they() -> None:
    log = _undone()
    for broken in range(len(log.events) + 1):
        planner = Planner(start(), resolve)
        planner.feed(log.events[:broken])
        for _ in range(2):
            location = planner.location
            planner.reopened()
            planner.feed(tail(log, location)[: broken // 2])
        location = planner.location
        planner.reopened()
        planner.feed(tail(log, location))
        planner.close()
        assert tags(planner.out) == KEPT, broken


@pytest.mark.parametrize("batch_events", range(1, 9))
def test_undone_rows_that_were_given_out_are_an_error_also_after_a_restart(batch_events: int) -> None:
    """Small batches cut the transaction; what is given out in the end is right, or the planner stopped."""
    log = _undone()
    limits = BatchLimits(batch_events=batch_events)
    planner = Planner(start(), resolve, limits=limits)
    refused = batch_events < 5
    stop = pytest.raises(DMError, match="ROLLBACK TO SAVEPOINT") if refused else nullcontext()
    with stop as caught:
        planner.feed(log.events)
    assert caught is None or caught.value.kind is Code.SyncerUnsupportedStmt
    planner.close()
    got = tags(planner.out)
    assert (got == KEPT) != refused
    for index, batch in enumerate(planner.out):
        assert isinstance(batch, Batch)
        redo = Planner(batch.start, resolve, limits=limits, until=batch.end)
        redo.feed(tail(log, batch.start))
        assert tags(redo.out) == tags([batch])
        again = Planner(batch.end, resolve)
        if not set(tags(planner.out[: index + 1])) <= set(KEPT):
            with pytest.raises(DMError, match="a part of them was applied"):
                again.feed(tail(log, batch.end))
        else:
            again.feed(tail(log, batch.end))
            again.close()
            assert tags(planner.out[: index + 1]) + tags(again.out) == KEPT


def test_unknown_savepoint_is_an_error() -> None:
    log = Log()
    log.query(b"BEGIN")
    log.query(b"ROLLBACK TO `never`")
    with pytest.raises(DMError) as caught:
        Planner(start(), resolve).feed(log.events)
    assert caught.value.kind is Code.SyncerUnsupportedStmt


def _xa(log: Log, tags: list[int], *, one_phase: bool, mariadb: bool) -> None:
    if mariadb:
        log.add(c.MARIADB_GTID_EVENT, struct.pack("<QIB", 9, 0, 0x48) + bytes(10))
    else:
        log.add(c.ANONYMOUS_GTID_EVENT, bytes(25))
        log.query(b"XA START X'78',X'',1")
    for tag in tags:
        log.table_map(b"t")
        log.rows(tag)
    log.query(b"XA END X'78',X'',1")
    log.add(c.XA_PREPARE_EVENT, bytes([one_phase]) + struct.pack("<III", 1, 1, 0) + b"x")


@pytest.mark.parametrize("mariadb", [False, True])
def test_prepared_rows_are_not_applied_before_their_xa_commit_and_unknown_ones_are_a_statement(mariadb: bool) -> None:
    log = Log()
    log.transaction([0])
    _xa(log, [1, 2], one_phase=False, mariadb=mariadb)
    log.transaction([3])
    log.query(b"XA ROLLBACK X'78',X'',1")
    log.transaction([4])
    log.query(b"XA COMMIT X'78',X'',1")
    for end in range(len(log.events) + 1):
        planner = Planner(start(), resolve)
        planner.feed(log.events[:end])
        planner.close()
        assert tags(planner.out) == [tag for tag in (0, 3, 4) if tag in tags(planner.out)]
    statement = planner.out[-1]
    assert isinstance(statement, BinlogStatement)
    assert b"XA COMMIT" in statement.event.data
    assert tags(planner.out) == [0, 3, 4]


@pytest.mark.parametrize("format_id", [1, 2, 7, 8, 255])
def test_xa_commit_is_never_taken_for_a_part_of_an_alter(format_id: int) -> None:
    """The bytes of MariaDB's GTID event hold the XA id where others say of an ALTER that it has no effect yet."""
    xid = struct.pack("<I", format_id) + b"\1\1xb"
    for flags in (0x8D, 0x8D | 2):
        log = Log()
        log.add(c.MARIADB_GTID_EVENT, struct.pack("<QIB", 7, 0, flags) + bytes(8 if flags & 2 else 0) + xid)
        log.query(b"XA COMMIT X'78',X'62',7")
        planner = Planner(start(), resolve)
        planner.feed(log.events)
        (statement,) = planner.out
        assert isinstance(statement, BinlogStatement)


def test_xa_in_one_phase_is_a_commit() -> None:
    log = Log()
    _xa(log, [1, 2], one_phase=True, mariadb=False)
    log.transaction([3])
    planner = Planner(start(), resolve)
    planner.feed(log.events)
    planner.close()
    assert tags(planner.out) == [1, 2, 3]


def test_xa_transaction_is_never_applied_in_parts_before_its_end() -> None:
    log = Log()
    log.transaction([0])
    _xa(log, [1, 2, 3, 4, 5], one_phase=True, mariadb=False)
    planner = Planner(start(), resolve, limits=LIMITS)
    planner.feed(log.events[:-1])
    planner.close()
    assert tags(planner.out) == [0]
    planner.feed(log.events[-1:])
    assert planner.take_reopen_request()
    planner.feed(tail(log, planner.read_from))
    planner.close()
    assert tags(planner.out) == [0, 1, 2, 3, 4, 5]
    log = Log()
    _xa(log, [1, 2, 3, 4, 5], one_phase=False, mariadb=True)
    Planner(start(), resolve, limits=LIMITS).feed(log.events)
