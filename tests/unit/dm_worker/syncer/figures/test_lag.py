"""Hazard: a lag of 0 while changes wait, or a lag that nobody knows shown as a number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.figures.lag import FRESH, LagWatch
from pkg.status.lag import UNKNOWN

#: What happens in a second.
STEPS = ("write", "read", "apply", "apply all", "nothing", "hold", "release", "away", "back", "pause", "resume")


class _Task:
    """A model: commit times of the upstream's changes, how many are read and applied, and the watch on them."""

    def __init__(self) -> None:
        self.watch = LagWatch()
        self.now = 1000
        self.commits: list[int] = []
        self.read = self.applied = 0
        self.held = self.away = False
        self.runs = True
        #: The newest event of this run.
        self.newest = 0

    @property
    def oldest(self) -> int:
        return self.commits[self.applied] if self.applied < self.read else 0

    @property
    def is_behind(self) -> bool:
        return self.applied < len(self.commits) or self.held

    def step(self, what: str) -> None:
        self.now += 1
        if what == "write":
            self.commits.append(self.now)
        elif what == "read" and self.runs and self.read < len(self.commits):
            self.newest = self.commits[self.read]
            self.read += 1
        elif what in ("apply", "apply all") and self.runs:
            self.applied = self.read if what == "apply all" else min(self.applied + 1, self.read)
        elif what in ("hold", "release"):
            self.held = what == "hold"
        elif what in ("away", "back"):
            self.away = what == "away"
        elif what == "pause" and self.runs:
            self.runs, self.read = False, self.applied
            self.watch.run_changed()
        elif what == "resume" and not self.runs:
            self.runs, self.newest = True, 0
            self.watch.run_changed()
        if self.runs:
            at_end = None if self.away else self.applied == len(self.commits)
            self.watch.look(self.now, oldest=self.oldest, newest=self.newest, at_end=at_end, held=self.held)

    @property
    def shown(self) -> int:
        return self.watch.seconds(self.now, self.oldest if self.runs else 0)

    @property
    def age(self) -> int:
        """Of the oldest change that is not applied."""
        return self.now - self.commits[self.applied] if self.applied < len(self.commits) else 0


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_no_state_of_a_run_shows_less_than_the_age_of_the_oldest_change(steps: list[str]) -> None:
    task = _Task()
    for step in steps:
        task.step(step)
        # While the upstream does not answer, what it writes is noticed a little later.
        assert task.shown == UNKNOWN or task.shown >= task.age - (FRESH if task.away else 0), (step, task.shown)
        if task.runs and not task.is_behind and not task.away:
            assert task.shown == 0


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_a_task_that_is_not_running_never_says_that_it_is_up_to_date(steps: list[str]) -> None:
    task = _Task()
    for step in steps:
        task.step(step)
    task.step("pause")
    task.step("nothing")
    assert task.shown != 0


def test_a_known_lag_grows_while_nothing_is_read() -> None:
    task = _Task()
    for step in ("write", "read", "apply", "write"):
        task.step(step)
    for seconds in range(1, 10):
        task.step("nothing")
        assert task.shown >= seconds
    task.step("pause")
    task.step("nothing")
    assert task.shown >= 10


def test_a_run_that_never_read_knows_nothing() -> None:
    watch = LagWatch()
    assert watch.seconds(1000, 0) == UNKNOWN
    watch.look(1000, oldest=0, newest=0, at_end=False, held=False)
    assert watch.seconds(1001, 0) == UNKNOWN


def test_an_upstream_that_is_away_makes_an_old_look_count_less_and_less() -> None:
    task = _Task()
    task.step("nothing")
    assert task.shown == 0
    for _ in range(10):
        task.step("away")
    assert task.shown == 10
