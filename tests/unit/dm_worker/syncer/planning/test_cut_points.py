"""Hazard: a batch that was to end at a location contains rows from behind it, or ends before it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.cut_points import AtCut, CutPoint
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.planner import Planner
from pkg.binlog import constants as c
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.framing import FileFramer
from tests.sweeps import examples
from tests.unit.dm_worker.syncer.planning.support import feed, start, tags
from tests.unit.pkg.native.scan_log import MYSQL_SOURCE, Writer

FILE = "bin.000001"
LIMITS = BatchLimits(200, 4, 80)
UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"


@dataclass(frozen=True)
class Transaction:
    end: int
    time: int
    gtid: str
    tags: list[int]


@dataclass
class History(Writer):
    """A log with what is known of its transactions."""

    flavor: str = "mysql"
    known: list[Transaction] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def add(self, kind: int, body: bytes, *, pad: int = 0, timestamp: int = 100, flags: int = 0) -> None:
        super().add(kind, body, pad=pad, timestamp=self.now, flags=flags)

    def write(self, words: list[str] | None, tag: Iterator[int]) -> None:
        """A transaction of these words; a statement without any."""
        self.begin(self.flavor, flags=int(words is None and self.flavor == "mariadb"))
        if words is None:
            if self.flavor == "mysql":
                self.events.pop()
                self.offset = self.ends[-2]
                self.ends.pop()
            self.query(b"ALTER TABLE t ADD c INT")
        mine = []
        for word in words or ():
            number = next(tag)
            mine += [number] if word == "rows" else []
            self.word(word, number)
        if words is not None:
            super().add(c.XID_EVENT, bytes(8), timestamp=self.now)
        number = self.number
        gtid = f"{number % 2}-1-{number}" if self.flavor == "mariadb" else f"{UUID}:{number}"
        self.known.append(Transaction(self.offset, self.now, gtid, mine))

    def gtid_set(self, count: int) -> str:
        found = ExecutedGtids(self.flavor, "")
        for one in self.known[:count]:
            found.add(one.gtid)
        return found.text()

    def rows_of(self, count: int) -> list[int]:
        return [tag for one in self.known[:count] for tag in one.tags]

    def after(self, end: int) -> int:
        """How many transactions ended up to there."""
        return sum(one.end <= end for one in self.known)


@st.composite
def histories(draw: st.DrawFn) -> History:
    log, tag = History(flavor=draw(st.sampled_from(["mysql", "mariadb"]))), itertools.count()
    for _ in range(draw(st.integers(0, 9))):
        log.now = draw(st.integers(1, 50))
        if draw(st.integers(0, 3)) == 0:
            log.add(c.STOP_EVENT, bytes(8))
        words = st.lists(st.sampled_from(["rows", "rows", "filtered"]), max_size=6)
        log.write(draw(st.none() | words | words | words), tag)
    return log


@dataclass
class Loop:
    """What a main loop does with a planner: applies what comes out, and has it read again from there with care if it
    has passed the cut."""

    log: History
    limits: BatchLimits
    applied: Location = field(default_factory=start)
    taken: list[int] = field(default_factory=list)
    cuts: list[CutPoint] = field(default_factory=list)
    passes: int = 0

    def run(self, cut: CutPoint, *, armed_after: int) -> AtCut | None:
        """``armed_after``: the number of bytes after which the cut becomes known."""
        found = self._pass([], cut, armed_after)
        if found is not None and found.passed:
            assert not cut.is_before(self.applied, self.log.flavor) or self.applied == start()
            cut = replace(cut, careful=True)
            found = self._pass([cut], None, 0)
        return found

    def _pass(self, cuts: list[CutPoint], late: CutPoint | None, armed_after: int) -> AtCut | None:
        self.passes += 1
        flavor, begin = self.log.flavor, self.applied
        gtids = ExecutedGtids(flavor, begin.gtid_set)
        planner = Planner(begin, gtids=gtids, limits=self.limits, cuts=cuts)
        framer = FileFramer(file=FILE)
        framer.checksummed = True
        raws = [raw for raw, end in zip(self.log.raws(True), self.log.ends, strict=True) if end > begin.position.pos]
        data = b"".join(raws)
        framer.feed(data[:armed_after])
        self._plan(planner, framer)
        if late is not None:
            planner.add_cut(late)
        framer.feed(data[armed_after:])
        self._plan(planner, framer)
        planner.close()
        return self._apply(planner.take_instructions(), None if late is None else late)

    def _plan(self, planner: Planner, framer: FileFramer) -> None:
        while True:
            if planner.can_scan and framer.scan(planner.scan):
                continue
            events = framer.split(1)
            if not events:
                return
            before = len(planner.out)
            assert feed(planner, events) == len(events)
            if any(isinstance(item, BinlogStatement) for item in planner.out[before:]):
                planner.forget_tables()

    def _apply(self, items: list[PlannerInstruction], late: CutPoint | None) -> AtCut | None:
        for item in items:
            if isinstance(item, AtCut):
                return item
            end = item.location if isinstance(item, Advance) else item.end
            if late is not None and late.is_before(end, self.log.flavor):
                return AtCut(late, end, passed=True)
            self.taken += tags([item])
            self.applied = end
        return None


limits = st.sampled_from([LIMITS, BatchLimits(), BatchLimits(120, 2, 1)])


@given(histories(), st.integers(0, 3000), st.integers(0, 3000), limits)
@settings(max_examples=examples(150))
def test_a_batch_ends_exactly_at_any_position_where_a_transaction_does(
    log: History, at: int, armed: int, limits: BatchLimits
) -> None:
    edges = [4, *log.ends]
    place = edges[at % len(edges)]
    count = log.after(place)
    loop = Loop(log, limits)
    found = loop.run(CutPoint(1, position=Position(FILE, place)), armed_after=armed)
    assert found is not None
    between = place >= next((one.end for one in reversed(log.known[:count])), 4) and place in _boundaries(log)
    assert found.passed == (not between)
    if between:
        assert found.end.position.pos >= place
        assert log.after(found.end.position.pos) == count
        assert loop.taken == log.rows_of(count)
        assert found.end.gtid_set == log.gtid_set(count)
        assert not loop.applied.rows_events


def _boundaries(log: History) -> set[int]:
    """The offsets that are inside of no transaction."""
    found, inside = {4}, False
    for event, end in zip(log.events, log.ends, strict=True):
        inside = (inside or event.type in (c.GTID_EVENT, c.MARIADB_GTID_EVENT)) and end not in {
            one.end for one in log.known
        }
        if not inside:
            found.add(end)
    return found


@given(histories(), st.integers(0, 9), st.integers(0, 3000), limits)
@settings(max_examples=examples(120))
def test_a_batch_ends_exactly_at_any_gtid_set_of_the_binlog(
    log: History, at: int, armed: int, limits: BatchLimits
) -> None:
    if not log.known:
        return
    count = 1 + at % len(log.known)
    loop = Loop(log, limits)
    found = loop.run(CutPoint(1, log.gtid_set(count)), armed_after=armed)
    assert found is not None
    assert not found.passed
    assert loop.taken == log.rows_of(count)
    assert found.end.gtid_set == log.gtid_set(count)
    assert not loop.applied.rows_events


@given(histories(), st.integers(0, 3000), limits)
@settings(max_examples=examples(120))
def test_an_end_that_need_not_be_exact_is_the_first_one_at_or_after_the_position(
    log: History, at: int, limits: BatchLimits
) -> None:
    place = at % (log.offset + 1)
    ends = [one for one in sorted(_boundaries(log)) if one >= place]
    loop = Loop(log, limits)
    found = loop.run(CutPoint(1, position=Position(FILE, place), exact=False), armed_after=0)
    if place <= 4:
        assert found is not None
        assert (found.end, found.passed) == (start(), False)
    else:
        assert found is not None
        assert not found.passed
        assert log.after(found.end.position.pos) == log.after(ends[0])
        assert loop.taken == log.rows_of(log.after(ends[0]))


@given(histories(), st.integers(1, 51), limits)
@settings(max_examples=examples(120))
def test_an_end_by_time_is_before_the_first_event_that_is_not_older(
    log: History, time: int, limits: BatchLimits
) -> None:
    loop = Loop(log, limits)
    found = loop.run(CutPoint(1, time=time), armed_after=0)
    firsts = [
        log.after(before)
        for before, event in zip([4, *log.ends], log.events, strict=False)
        if before in _boundaries(log) and event.timestamp >= time
    ]
    assert (found is not None) == bool(firsts)
    if found is not None:
        assert not found.passed
        assert loop.taken == log.rows_of(firsts[0])


@given(histories(), limits)
@settings(deadline=None)
def test_a_cut_leaves_what_is_behind_it_to_the_next_batch(log: History, limits: BatchLimits) -> None:
    for one in log.known:
        cut = CutPoint(7, position=Position(FILE, one.end), careful=True)
        planner = Planner(start(), limits=limits, cuts=[cut])
        fed = 0
        while fed < len(log.events):
            fed += feed(planner, log.events[fed:])
            if fed < len(log.events):
                planner.forget_tables()
        planner.close()
        (at,) = [number for number, item in enumerate(planner.out) if isinstance(item, AtCut)]
        count = log.after(one.end)
        assert tags(planner.out[:at]) == log.rows_of(count)
        assert tags(planner.out) == log.rows_of(len(log.known))


def test_a_cut_at_the_start_of_a_transaction_of_which_a_part_is_applied_is_passed() -> None:
    log = History()
    log.write(["rows"], itertools.count())
    inside = Location(Position(FILE, 4), "", 1)
    for exact in (True, False):
        cut = CutPoint(1, position=Position(FILE, 4), exact=exact, careful=True)
        planner = Planner(inside, cuts=[cut])
        feed(planner, log.events)
        found = [(item.passed, item.end.position.pos) for item in planner.out if isinstance(item, AtCut)]
        assert found == ([(True, 4)] if exact else [(False, log.offset)])


def test_events_of_no_transaction_are_on_either_side_of_a_cut() -> None:
    """After FLUSH LOGS the upstream's position is behind events that no snapshot's position needs to contain."""
    log = History()
    log.write(["rows"], itertools.count())
    end = log.offset
    log.add(c.STOP_EVENT, bytes(8))
    log.rotate("bin.000002")
    planner = Planner(start())
    feed(planner, log.events)
    planner.add_cut(CutPoint(1, position=Position(FILE, end)))
    assert [type(item).__name__ for item in planner.out] == ["Batch", "AtCut"]
    assert planner.out[-1] == AtCut(CutPoint(1, position=Position(FILE, end)), start(file="bin.000002"))
    assert MYSQL_SOURCE.hex() == UUID.replace("-", "")
