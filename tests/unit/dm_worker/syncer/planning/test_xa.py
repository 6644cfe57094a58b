"""Hazards: a prepared transaction's rows are lost, doubled or applied at another position than its XA COMMIT."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.planning import xa
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.event_buffer import EventBuffer, PythonEventBuffer, new_event_buffer
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.xa import PreparedLocations, PreparedTransactions
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.position import Location
from pkg.errors import DMError
from tests.sweeps import examples
from tests.unit.dm_worker.syncer.planning.support import (
    LIMITS,
    Log,
    feed,
    start,
    tags,
    tail,
)

#: One instruction of a script: what the upstream does with which transaction.
Step = tuple[str, int]


class XaLog(Log):
    """As MySQL 5.7 or MariaDB 10.5 writes XA transactions. The gtrid is the number of the transaction."""

    def __init__(self, *, mariadb: bool) -> None:
        super().__init__()
        self.mariadb = mariadb
        self.sequence = 0

    def xid(self, number: int) -> bytes:
        return b"X'%02x',X'',1" % number

    def gtid(self, flags: int, number: int | None = None) -> None:
        self.sequence += 1
        if not self.mariadb:
            self.add(c.ANONYMOUS_GTID_EVENT, bytes(25))
            return
        xid = b"" if number is None else struct.pack("<IBB", 1, 1, 0) + bytes([number])
        self.add(c.MARIADB_GTID_EVENT, struct.pack("<QIB", self.sequence, 0, flags) + xid + bytes(6))

    def prepare(
        self, number: int, tags: list[int], *, one_phase: bool = False, undone: list[int] | None = None
    ) -> None:
        self.gtid(0x48, number)
        if not self.mariadb:
            self.query(b"XA START " + self.xid(number))
        self._rows(tags)
        if undone is not None:
            self.query(b"SAVEPOINT `a`")
            self._rows(undone)
            self.query(b"ROLLBACK TO `a`")
        self.query(b"XA END " + self.xid(number))
        body = bytes([one_phase]) + struct.pack("<III", 1, 1, 0) + bytes([number])
        self.add(c.XA_PREPARE_EVENT, body)

    def _rows(self, tags: list[int]) -> None:
        for tag in tags:
            # Another table under the same id elsewhere: a mapping that outlives its place would show.
            self.table_map(b"t" if tag % 2 else b"uu")
            self.rows(tag)

    def end(self, number: int, word: bytes) -> None:
        self.gtid(0x8D, number)
        self.query(b"XA " + word + b" " + self.xid(number), schema=b"")

    def plain(self, tags: list[int]) -> None:
        self.gtid(0x0C)
        if not self.mariadb:
            self.query(b"BEGIN")
        self._rows(tags)
        self.add(c.XID_EVENT, bytes(8))


def play(
    log: Log, planner: Planner, *, cuts: list[int] | None = None, chunk: int = 3, opened: list[Location] | None = None
) -> list[PlannerInstruction]:
    """Feeds like the reader: opens streams where the planner asks for it; breaks them after ``cuts`` chunks."""
    cuts = list(cuts or [])
    given: list[PlannerInstruction] = []
    while True:
        if opened is not None:
            opened.append(planner.progress.read_from)
        events = tail(log, planner.progress.read_from)
        left = cuts.pop(0) if cuts else -1
        jumped = False
        while events and left and not planner.reached:
            now, events = events[:chunk], events[chunk:]
            left -= 1
            taken = feed(planner, now)
            events = now[taken:] + events
            given += planner.take_instructions()
            jumped = planner.take_reopen_request()
            if jumped:
                break
        if jumped:
            continue
        if left or planner.reached:
            break
        planner.reopened()
    planner.close()
    given += planner.take_instructions()
    return given


@st.composite
def scripts(draw: st.DrawFn, *, undo: bool = False) -> tuple[XaLog, list[int]]:
    """Any order of preparing, committing and rolling back, and the tags in the order of their commits.

    ``undo``: with savepoints, which small batches refuse.
    """
    log, wanted, tag = XaLog(mariadb=draw(st.booleans())), [], 0
    waiting: dict[int, list[int]] = {}
    for number in range(draw(st.integers(1, 8))):
        count = draw(st.integers(0, 7))
        mine, undone = list(range(tag, tag + count)), list(range(tag + count, tag + count + 2))
        tag += count + 2
        kind = draw(st.sampled_from(["plain", "prepare", "undo" if undo else "prepare", "commit", "rollback", "one"]))
        if kind == "plain":
            log.plain(mine)
            wanted += mine
        elif kind == "prepare":
            log.prepare(number, mine)
            waiting[number] = mine
        elif kind == "undo":
            log.prepare(number, mine, undone=undone)
            waiting[number] = mine
        elif kind == "one" and not log.mariadb:
            log.prepare(number, mine, one_phase=True)
            wanted += mine
        elif waiting:
            which = draw(st.sampled_from(sorted(waiting)))
            rows = waiting.pop(which)
            log.end(which, kind.upper().encode() if kind == "rollback" else b"COMMIT")
            wanted += [] if kind == "rollback" else rows
    for which, rows in waiting.items():
        log.end(which, b"COMMIT")
        wanted += rows
    return log, wanted


def planner_at(
    location: Location, waiting: PreparedLocations, *, events: int = 400_000, until: Location | None = None
) -> Planner:
    limits = BatchLimits(batch_events=events)
    return Planner(
        location,
        limits=limits,
        until=until,
        buffer=PythonEventBuffer(),
        prepared=PreparedTransactions(waiting),
    )


def ends(instructions: list[PlannerInstruction]) -> list[tuple[Location, PreparedLocations]]:
    found = []
    for item in instructions:
        assert isinstance(item, Advance | Batch)
        found.append((item.location if isinstance(item, Advance) else item.end, item.prepared))
    return found


@settings(max_examples=examples(100))
@given(scripts(), st.integers(3, 9), st.lists(st.integers(1, 9), max_size=4), st.integers(1, 9))
def test_rows_take_effect_once_at_their_xa_commit_however_the_stream_breaks(
    script: tuple[XaLog, list[int]], events: int, cuts: list[int], chunk: int
) -> None:
    log, wanted = script
    given_out = play(log, planner_at(start(), {}, events=events), cuts=cuts, chunk=chunk)
    assert tags(given_out) == wanted
    assert not given_out or not ends(given_out)[-1][1]


@settings(max_examples=examples(80))
@given(scripts(undo=True), st.lists(st.integers(1, 9), max_size=6), st.integers(1, 9), st.booleans())
def test_savepoints_inside_of_prepared_transactions_are_obeyed_once(
    script: tuple[XaLog, list[int]], cuts: list[int], chunk: int, forget: bool
) -> None:
    log, wanted = script
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xa, "RECENT_BYTES", 0 if forget else xa.RECENT_BYTES)
        assert tags(play(log, planner_at(start(), {}), cuts=cuts, chunk=chunk)) == wanted


@pytest.mark.parametrize("one_phase", [False, True])
@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_savepoints_of_a_transaction_that_no_batch_holds_are_obeyed_once(one_phase: bool, chunk: int) -> None:
    """Its rows are given up and read again, and the stream breaks on both ways."""
    log = XaLog(mariadb=False)
    log.gtid(0)
    log.query(b"XA START " + log.xid(1))
    for before, undone in (([0], [1]), ([2, 3, 4, 5, 6, 7], [8]), ([9], [10, 11])):
        log._rows(before)
        log.query(b"SAVEPOINT `a`")
        log._rows(undone)
        log.query(b"ROLLBACK TO `a`")
    log._rows([12])
    log.query(b"XA END " + log.xid(1))
    log.add(c.XA_PREPARE_EVENT, bytes([one_phase]) + struct.pack("<III", 1, 1, 0) + b"\1")
    log.plain([20])
    if not one_phase:
        log.end(1, b"COMMIT")
    wanted = [0, 2, 3, 4, 5, 6, 7, 9, 12]
    wanted = [*wanted, 20] if one_phase else [20, *wanted]
    length = len(log.events) // chunk
    for first in range(1, length, 2):
        for second in range(1, length, 5):
            cuts = [first, second, second, 2]
            assert tags(play(log, planner_at(start(), {}, events=6), cuts=cuts, chunk=chunk)) == wanted, cuts


@settings(max_examples=examples(100))
@given(scripts(), st.integers(3, 9), st.sampled_from([2, 5, 400_000]))
def test_every_batch_is_planned_again_alike_and_the_rest_follows_from_what_is_durable(
    script: tuple[XaLog, list[int]], events: int, events_after: int
) -> None:
    """After a kill the planner knows the range and what waited at its start, and has nothing in memory.

    Its limits are others, when the configuration is.
    """
    log, wanted = script
    given_out = play(log, planner_at(start(), {}, events=events))
    assert tags(given_out) == wanted
    place: tuple[Location, PreparedLocations] = (start(), {})
    done: list[int] = []
    for item, after in zip(given_out, ends(given_out), strict=True):
        if isinstance(item, Batch):
            shared = PreparedTransactions(place[1])
            limits = BatchLimits(batch_events=events_after)
            again = Planner(place[0], limits=limits, until=item.end, buffer=PythonEventBuffer(), prepared=shared)
            redone = play(log, again)
            assert tags(redone) == tags([item])
            assert redone[-1].end == item.end  # type: ignore[union-attr]
            assert shared.waiting == after[1]
            done += tags([item])
        place = after
        rest = play(log, planner_at(*place, events=events))
        assert done + tags(rest) == wanted


@pytest.mark.parametrize("mariadb", [False, True])
def test_what_was_prepared_just_now_needs_no_second_stream_and_what_was_before_a_restart_does(mariadb: bool) -> None:
    log = XaLog(mariadb=mariadb)
    log.prepare(1, [1, 2])
    middle = log.offset
    log.plain([3])
    log.end(1, b"COMMIT")
    log.plain([4])
    opened: list[Location] = []
    assert tags(play(log, planner_at(start(), {}), opened=opened)) == [3, 1, 2, 4]
    assert opened == [start()]
    opened.clear()
    waiting = {xa.make_xid(1, b"\1", b""): start()}
    batches = play(log, planner_at(start(middle), waiting), opened=opened)
    assert tags(batches) == [3, 1, 2, 4]
    assert [place.position.pos for place in opened[:2]] == [middle, 4]
    assert len(opened) == 3


def test_gtid_set_of_a_prepared_transaction_is_the_one_before_it() -> None:
    log = XaLog(mariadb=True)
    log.plain([0])
    log.prepare(1, [1])
    prepared = PreparedTransactions()
    planner = Planner(start(), gtids=ExecutedGtids("mariadb", ""), by_gtid=True, prepared=prepared)
    feed(planner, log.events)
    assert [place.gtid_set for place in prepared.waiting.values()] == ["0-1-1"]


@pytest.mark.parametrize("mariadb", [False, True])
def test_another_transaction_at_the_prepared_place_is_an_error_before_a_row_of_it_is_applied(mariadb: bool) -> None:
    other = XaLog(mariadb=mariadb)
    other.plain([1, 2, 3])
    other.prepare(2, [4, 5])
    log = XaLog(mariadb=mariadb)
    log.end(7, b"COMMIT")
    planner = planner_at(start(), {xa.make_xid(1, b"\7", b""): start()}, events=1)
    feed(planner, log.events)
    assert planner.take_reopen_request()
    for events in (other.events, tail(other, start(other.events[len(other.events) // 2].log_pos))):
        planner.reopened()
        with pytest.raises(DMError, match="XA transaction X'07',X'',1"):
            feed(planner, events)
    assert tags(planner.out) == []


def test_unknown_xa_commit_is_given_out_as_the_statement_it_is() -> None:
    log = XaLog(mariadb=True)
    log.plain([1])
    log.end(7, b"COMMIT")
    found = play(log, planner_at(start(), {}))
    assert tags(found) == [1]
    assert isinstance(found[-1], BinlogStatement)


def test_rolled_back_id_may_be_used_again() -> None:
    log = XaLog(mariadb=True)
    log.prepare(1, [1])
    log.end(1, b"ROLLBACK")
    log.prepare(1, [2])
    log.end(1, b"COMMIT")
    assert tags(play(log, planner_at(start(), {}))) == [2]


def test_memory_for_recent_transactions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xa, "RECENT_BYTES", 100)
    prepared = PreparedTransactions()
    event = Event(0, 0, 0, 0, 0, 0, bytes(40))
    xids = [xa.make_xid(1, bytes([number]), b"") for number in range(4)]
    for xid in xids:
        prepared.prepare(xid, start(), [event])
    assert [prepared.events(xid) is None for xid in xids] == [True, True, False, False]
    assert list(prepared.waiting) == xids
    prepared.end(xids[3])
    prepared.end(xids[3])
    prepared.prepare(xids[0], start(), [event])
    assert prepared.events(xids[0]) is not None
    assert prepared.events(xids[2]) is not None


@given(st.integers(0, 2**32 - 1), st.binary(max_size=64), st.binary(max_size=64))
def test_ids_in_statements_and_events_are_the_same(format_id: int, gtrid: bytes, bqual: bytes) -> None:
    xid = xa.make_xid(format_id, gtrid, bqual)
    log = Log()
    log.query(b"XA COMMIT " + xa.xid_text(xid).encode())
    log.add(c.XA_PREPARE_EVENT, b"\0" + struct.pack("<III", format_id, len(gtrid), len(bqual)) + gtrid + bqual)
    head = struct.pack("<QIBQ", 7, 0, 0x4A, 5) + struct.pack("<IBB", format_id, len(gtrid), len(bqual))
    log.add(c.MARIADB_GTID_EVENT, head + gtrid + bqual)
    statement, prepare, gtid = log.events
    assert xa.xa_statement(statement) == xa.XaStatement("commit", xid)
    assert xa.prepared_xid(prepare) == (False, xid)
    assert xa.gtid_xid(gtid) == xid


@pytest.mark.parametrize("make_event_buffer", [PythonEventBuffer, new_event_buffer])
def test_savepoint_before_rows_that_were_given_up_does_not_bring_them_back(
    make_event_buffer: Callable[[], EventBuffer],
) -> None:
    log = XaLog(mariadb=False)
    log.plain([0])
    log.gtid(0)
    log.query(b"XA START " + log.xid(1))
    log._rows([1, 2])
    log.query(b"SAVEPOINT `a`")
    log._rows([3, 4, 5, 6])
    log.query(b"ROLLBACK TO `a`")
    log._rows([7])
    log.query(b"XA END " + log.xid(1))
    log.add(c.XA_PREPARE_EVENT, b"\0" + struct.pack("<III", 1, 1, 0) + b"\1")
    log.end(1, b"ROLLBACK")
    log.plain([8])
    planner = Planner(start(), limits=BatchLimits(batch_events=5), buffer=make_event_buffer())
    assert tags(play(log, planner)) == [0, 8]


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
        planner = Planner(start())
        feed(planner, log.events[:end])
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
        planner = Planner(start())
        feed(planner, log.events)
        (statement,) = planner.out
        assert isinstance(statement, BinlogStatement)


def test_xa_in_one_phase_is_a_commit() -> None:
    log = Log()
    _xa(log, [1, 2], one_phase=True, mariadb=False)
    log.transaction([3])
    planner = Planner(start())
    feed(planner, log.events)
    planner.close()
    assert tags(planner.out) == [1, 2, 3]


def test_xa_transaction_is_never_applied_in_parts_before_its_end() -> None:
    log = Log()
    log.transaction([0])
    _xa(log, [1, 2, 3, 4, 5], one_phase=True, mariadb=False)
    planner = Planner(start(), limits=LIMITS)
    feed(planner, log.events[:-1])
    planner.close()
    assert tags(planner.out) == [0]
    feed(planner, log.events[-1:])
    assert planner.take_reopen_request()
    feed(planner, tail(log, planner.progress.read_from))
    planner.close()
    assert tags(planner.out) == [0, 1, 2, 3, 4, 5]
    log = Log()
    _xa(log, [1, 2, 3, 4, 5], one_phase=False, mariadb=True)
    feed(Planner(start(), limits=LIMITS), log.events)
