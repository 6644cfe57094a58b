"""The worker's side of a pair: the syncer is held where the task asks, and released whatever becomes of the task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.diff.holds import PairHolds
from dm_worker.diff.meeting import (
    ASKED,
    CALLED,
    GIVEN_UP,
    HELD,
    OPENED,
    READY,
    REFUSED,
    THERE,
    WANTED,
    MeetingRow,
    PairMeeting,
)
from dm_worker.diff.run import DEFAULT_MOST_LAG
from pkg.binlog.position import Location, Position

PLACE = Location(Position("bin.000001", 4))


class Task:
    """The meeting table of one task, which answers each step of the worker as ``answers`` says."""

    def __init__(self, answers: dict[str, str], first: str = WANTED) -> None:
        self.steps = [first]
        self.reason = ""
        self._answers = answers

    def close(self) -> None:
        """Nothing is open."""

    def rows(self, *steps: str) -> list[MeetingRow]:
        return [MeetingRow("s1 0", self.steps[-1], None, "")] if self.steps[-1] in steps else []

    def answer_calls(self) -> None:
        self.move("", CALLED, THERE)

    def move(self, _: str, before: str, after: str, *, reason: str = "") -> bool:
        if self.steps[-1] != before:
            return False
        self.steps.append(after)
        self.reason = reason
        return True

    def await_other(self, _: str, while_at: str, __: float, ___: Callable[[], bool]) -> MeetingRow | None:
        step = self._answers.get(while_at)
        if step is None:
            return None
        self.steps.append(step)
        return MeetingRow("s1 0", step, PLACE if step == ASKED else None, "")


class Syncer:
    def __init__(self, refused: str = "", at: Location | None = PLACE) -> None:
        self.calls: list[object] = []
        self.seconds = 0.0
        self._refused, self._at = refused, at

    def hold(self, place: Location | None, seconds: float) -> str:
        self.calls.append(place)
        self.seconds = seconds
        return self._refused if place == self._at else ""

    def release(self) -> None:
        self.calls.append("release")


def served(task: Task, syncer: Syncer) -> list[object]:
    """The calls of the syncer before the end of the comparison, which releases it too."""
    with PairHolds(lambda: cast(PairMeeting, task), syncer):
        wait_until(lambda: "release" in syncer.calls, "the task was served", 30)
        return list(syncer.calls)


def test_the_syncer_is_held_before_and_at_the_snapshot_of_the_upstream() -> None:
    task, syncer = Task({READY: ASKED, HELD: OPENED}), Syncer()
    assert served(task, syncer) == [None, PLACE, "release"]
    assert task.steps == [WANTED, READY, ASKED, HELD, OPENED]


def test_a_syncer_as_far_behind_as_a_comparison_allows_has_the_time_to_reach_the_place() -> None:
    syncer = Syncer()
    served(Task({READY: ASKED, HELD: OPENED}), syncer)
    assert syncer.seconds >= DEFAULT_MOST_LAG


def test_a_place_that_cannot_be_held_is_refused_with_the_reason() -> None:
    task, syncer = Task({READY: ASKED}), Syncer("the location is passed")
    assert served(task, syncer)[-1] == "release"
    assert (task.steps[-1], task.reason) == (REFUSED, "the location is passed")


def test_a_syncer_that_does_not_run_opens_no_snapshot() -> None:
    task, syncer = Task({}), Syncer("the subtask does not replicate", None)
    served(task, syncer)
    assert task.steps == [WANTED, REFUSED]


def test_a_task_that_disappeared_does_not_hold_the_syncer() -> None:
    task, syncer = Task({}), Syncer()
    assert served(task, syncer) == [None, "release"]
    assert task.steps[-1] == GIVEN_UP


def test_a_call_is_answered_and_holds_nothing() -> None:
    task, syncer = Task({}, CALLED), Syncer()
    with PairHolds(lambda: cast(PairMeeting, task), syncer):
        wait_until(lambda: task.steps[-1] == THERE, "the call is answered", 30)
        assert syncer.calls == []


def test_the_end_does_not_wait_for_a_slow_batch() -> None:
    class Slow(Syncer):
        def __init__(self) -> None:
            super().__init__()
            self.waits, self.released = threading.Event(), threading.Event()

        def hold(self, place: Location | None, seconds: float) -> str:
            self.waits.set()
            self.released.clear()  # a release before it ends no wait
            assert self.released.wait(WAIT_TIMEOUT), "nobody ended the wait"
            return "the hold was released"

        def release(self) -> None:
            self.released.set()

    task, syncer = Task({}), Slow()
    with PairHolds(lambda: cast(PairMeeting, task), syncer):
        assert syncer.waits.wait(WAIT_TIMEOUT)
    assert task.steps == [WANTED, REFUSED]
