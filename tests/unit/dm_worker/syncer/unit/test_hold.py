"""Hazards: a hold that ended counts as held, a caller waits for a run that has ended, a run waits without a caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.syncer.planning.cut_points import AtCut
from dm_worker.syncer.planning.instructions import Advance
from dm_worker.syncer.unit.hold import NOT_REPLICATING, REPLACED, Hold, HoldRequest, HoldState
from dm_worker.syncer.unit.run_cuts import TIME_AHEAD, CutOutcome, RunCuts
from pkg.binlog.position import Location, Position
from pkg.config.model import Until


def place(offset: int, rows_events: int = 0) -> Location:
    return Location(Position("bin.000001", offset), "", rows_events)


@contextmanager
def asking(hold: Hold, location: Location | None, limit: float = WAIT_TIMEOUT) -> Iterator[list[HoldState]]:
    """Asks in a thread; the list receives the answer."""
    answers: list[HoldState] = []
    thread = threading.Thread(target=lambda: answers.append(hold.at(location, limit)), daemon=True)
    thread.start()
    yield answers
    thread.join(WAIT_TIMEOUT)
    assert answers


def asked(hold: Hold) -> HoldRequest:
    wait_until(lambda: hold.wanted() is not None, "a hold is asked for")
    request = hold.wanted()
    assert request is not None
    return request


def begun(checkpoint: Location | None = None) -> Hold:
    hold = Hold()
    hold.run_started(checkpoint or place(4))
    return hold


def in_thread(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def test_without_a_run_there_is_no_hold() -> None:
    hold = Hold()
    assert hold.at(place(9), 5) == HoldState(None, NOT_REPLICATING)
    hold.run_started(place(4))
    hold.run_ended()
    assert hold.at(place(9), 5) == HoldState(place(4), NOT_REPLICATING)


def test_a_hold_lasts_until_its_release() -> None:
    hold = begun()
    with asking(hold, place(9)) as answers:
        request = asked(hold)
        assert "will be held at" in hold.shown
        run = in_thread(lambda: hold.keep(request, place(9), lambda: False))
    assert answers == [HoldState(place(9))]
    assert answers[0].is_held
    assert hold.shown.startswith("held at [position: (bin.000001, 9)")
    assert run.is_alive()
    hold.release()
    run.join(WAIT_TIMEOUT)
    assert not run.is_alive()
    assert hold.shown == ""


def test_a_hold_ends_with_its_time_limit() -> None:
    hold = begun()
    with asking(hold, None, 0.2) as answers:
        began = time.monotonic()
        hold.keep(asked(hold), place(9), lambda: False)
        assert time.monotonic() - began >= 0.19
    assert answers[0].is_held


def test_a_location_that_is_not_reached_in_time_is_no_hold_and_no_later_one() -> None:
    hold = begun()
    with asking(hold, place(9), 0.05) as answers:
        request = asked(hold)
    assert answers == [HoldState(place(4), "the location was not reached within 0.05 s")]
    began = time.monotonic()
    hold.keep(request, place(9), lambda: False)
    assert time.monotonic() - began < WAIT_TIMEOUT / 2


def test_the_end_of_the_run_ends_hold_and_wait() -> None:
    hold = begun()
    with asking(hold, place(9)) as answers:
        asked(hold)
        hold.run_ended()
    assert answers == [HoldState(place(4), NOT_REPLICATING)]
    hold = begun()
    stopping = threading.Event()
    with asking(hold, place(9)) as answers:
        request = asked(hold)
        run = in_thread(lambda: hold.keep(request, place(9), stopping.is_set))
    stopping.set()
    run.join(WAIT_TIMEOUT)
    assert not run.is_alive()


def test_a_new_request_replaces_the_one_before() -> None:
    hold = begun()
    with asking(hold, place(9)) as first:
        request = asked(hold)
        run = in_thread(lambda: hold.keep(request, place(9), lambda: False))
    assert first[0].is_held
    with asking(hold, place(20)) as second, asking_after(hold, run) as third:
        run.join(WAIT_TIMEOUT)
        assert not run.is_alive()
        hold.refuse(asked(hold), "the location is passed", place(30))
    assert [second[0].reason, third[0].reason] == [REPLACED, "the location is passed"]


@contextmanager
def asking_after(hold: Hold, run: threading.Thread) -> Iterator[list[HoldState]]:
    run.join(WAIT_TIMEOUT)
    before = asked(hold)
    with asking(hold, place(21)) as answers:
        wait_until(lambda: hold.wanted() is not before, "the second request has come")
        yield answers


def test_a_hold_at_once_needs_no_cut() -> None:
    hold = begun()
    cuts = RunCuts(hold, "mysql", by_gtid=False)
    with asking(hold, None) as _:
        request = cuts.new_request()
        while request is None:
            request = cuts.new_request()
        assert cuts.arm(request, place(9)) is None
        cut = cuts.arm(request, place(9, rows_events=3))
        assert cut is not None
        assert (cut.position, cut.exact) == (Position("bin.000001", 10), False)
        hold.run_ended()


def test_what_was_planned_before_the_cut_was_known_is_not_applied_beyond_it() -> None:
    hold = begun()
    cuts = RunCuts(hold, "mysql", by_gtid=False)
    with asking(hold, place(50)) as answers:
        request = asked(hold)
        cut = cuts.arm(request, place(9))
        assert cut is not None
        assert cuts.new_request() is None
        assert not cuts.goes_beyond(Advance(place(50)))
        assert cuts.goes_beyond(Advance(place(51)))
        assert cuts.goes_beyond(Advance(place(50, rows_events=1)))
        assert cuts.met(AtCut(cut, place(60), passed=True), place(20)) is CutOutcome.CONTINUE
        assert cuts.is_passed
        (again,) = cuts.for_pass()
        assert again.careful
        assert not cuts.is_passed
        # The careful planner ends exactly there, whatever its location is called.
        assert not cuts.goes_beyond(Advance(place(51)))
        assert cuts.met(AtCut(cut, place(50)), place(50)) is CutOutcome.CONTINUE
        assert cuts.met(AtCut(again, place(50)), place(50)) is CutOutcome.HOLD
        assert cuts.met(AtCut(again, place(60), passed=True), place(40)) is CutOutcome.CONTINUE
    assert answers == [HoldState(place(40), "the binlog has no transaction that ends at the location")]
    assert cuts.for_pass() == []


def test_a_location_that_is_applied_is_passed() -> None:
    hold = begun()
    cuts = RunCuts(hold, "mysql", by_gtid=False)
    with asking(hold, place(50)) as answers:
        # Events of no transaction may be between the two: only the planner knows.
        cut = cuts.arm(asked(hold), place(70))
        assert cut is not None
        assert cuts.met(AtCut(cut, place(70), passed=True), place(70)) is CutOutcome.CONTINUE
    assert answers == [HoldState(place(70), "the location is passed")]


def test_the_task_ends_at_the_first_end_at_or_after_a_position() -> None:
    cuts = RunCuts(begun(), "mysql", by_gtid=True, until=Until("bin.000001", 50))
    (cut,) = cuts.new_ends(0.0, None)
    assert (cut.position, cut.gtid_set, cut.exact) == (Position("bin.000001", 50), "", False)
    assert cuts.new_ends(0.0, None) == []
    assert cuts.for_pass() == [cut]
    assert cuts.met(AtCut(cut, place(90), passed=True), place(20)) is CutOutcome.CONTINUE
    assert cuts.goes_beyond(Advance(place(51)))
    (again,) = cuts.for_pass()
    assert again.careful
    assert not cuts.goes_beyond(Advance(place(51)))
    assert cuts.met(AtCut(again, place(51)), place(51)) is CutOutcome.FINISH


def test_the_task_ends_by_time_also_where_no_event_follows() -> None:
    cuts = RunCuts(begun(), "mysql", by_gtid=False, until=Until(time=10_000))
    assert cuts.ends_by_time == 10_000
    assert cuts.new_ends(9_999 - TIME_AHEAD, None) == []
    (by_time,) = cuts.new_ends(10_000 - TIME_AHEAD, None)
    assert by_time.time == 10_000
    (at_end,) = cuts.new_ends(10_002.0, place(70))
    assert (at_end.position, at_end.exact) == (Position("bin.000001", 70), False)
    assert cuts.new_ends(10_003.0, place(80)) == []
    assert cuts.met(AtCut(at_end, place(70)), place(70)) is CutOutcome.FINISH
    assert cuts.met(AtCut(by_time, place(60)), place(60)) is CutOutcome.FINISH


def test_a_hold_and_the_end_of_the_task_wait_side_by_side() -> None:
    hold = begun()
    cuts = RunCuts(hold, "mysql", by_gtid=False, until=Until("bin.000001", 50))
    (end,) = cuts.new_ends(0.0, None)
    with asking(hold, place(30)) as answers:
        cut = cuts.arm(asked(hold), place(9))
        assert cut is not None
        assert cuts.for_pass() == [end, cut]
        assert cuts.met(AtCut(cut, place(30)), place(30)) is CutOutcome.HOLD
        hold.run_ended()
    assert not answers[0].is_held
    assert cuts.met(AtCut(cut, place(30)), place(30)) is CutOutcome.CONTINUE
    assert cuts.for_pass() == [end]
