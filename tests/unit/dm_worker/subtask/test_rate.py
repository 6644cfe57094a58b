"""Hazard: speed or remaining time of a copy is wrong."""

from __future__ import annotations

from dm_worker.subtask.rate import Rate, percent


def test_the_remaining_time_follows_the_speed_of_the_last_seconds() -> None:
    rate = Rate(window=10.0)
    assert rate.eta(100) == "unknown"
    rate.sample(0.0, 5000)  # loaded before a pause: no speed of now
    assert (rate.per_second, rate.eta(100)) == (0, "unknown")
    for second in range(1, 31):
        rate.sample(float(second), 5000 + 100 * second)
    assert (rate.per_second, rate.eta(1000)) == (100, "10s")
    for second in range(31, 43):
        rate.sample(float(second), 8000 + 10 * (second - 30))
    assert (rate.per_second, rate.eta(1000)) == (10, "100s")
    assert rate.eta(0) == "0s"


def test_a_copy_that_stands_still_promises_no_end() -> None:
    rate = Rate(window=10.0)
    for second in range(20):
        rate.sample(float(second), 700)
    assert (rate.per_second, rate.eta(1)) == (0, "unknown")


def test_an_empty_copy_is_complete_and_no_estimate_exceeds_the_whole() -> None:
    assert [percent(0, 0), percent(1, 3), percent(5, 4)] == ["100.00 %", "33.33 %", "100.00 %"]
