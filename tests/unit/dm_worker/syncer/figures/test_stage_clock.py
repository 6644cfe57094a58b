"""Hazard: the profile shows time that was not spent, or loses time that was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.figures.stage_clock import SAMPLE, WINDOW, RecentTimes, StageClock

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.booleans()), max_size=30)


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@given(STEPS)
def test_every_second_belongs_to_the_stage_it_was_spent_in(steps: list[tuple[str, int, bool]]) -> None:
    time = Time()
    clock, expected = StageClock(time, "a"), {"a": 0.0}
    for stage, seconds, relabel in steps:
        time.now += seconds
        if relabel:
            clock.relabel(stage)
        else:
            clock.switch(stage)
    # Again by walking backwards: a stretch has the last label that it got.
    stretches: list[tuple[float, str]] = []
    length, label = 0.0, "a"
    for stage, seconds, relabel in steps:
        length += seconds
        if relabel:
            label = stage
        else:
            stretches.append((length, label))
            length, label = 0.0, stage
    for seconds_in, stage in [*stretches, (length, label)]:
        expected[stage] = expected.get(stage, 0.0) + seconds_in
    assert {k: v for k, v in clock.totals().items() if v} == {k: v for k, v in expected.items() if v}


def test_a_stage_within_another_gives_back_to_it_also_after_an_error() -> None:
    time = Time()
    clock = StageClock(time, "outer")
    try:
        with clock.during("inner"):
            time.now += 3
            raise ValueError
    except ValueError:
        time.now += 4
    assert clock.stage == "outer"
    assert clock.totals() == {"outer": 4.0, "inner": 3.0}


def test_recent_times_look_back_over_the_window_only() -> None:
    recent = RecentTimes()
    assert recent.difference(0.0, {"a": 1.0}) == (0.0, {})
    for second in range(1000):
        recent.sample(float(second), {"a": float(second)})
    looked, grown = recent.difference(999.0, {"a": 999.0, "new": 2.0, "still": 0.0})
    assert WINDOW <= looked < WINDOW + 2 * SAMPLE
    assert grown == {"a": looked, "new": 2.0}
