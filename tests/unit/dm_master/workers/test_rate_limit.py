"""Scripts that poll must not drown a worker, and bursts within the limit must pass."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_master.workers.rate_limit import TokenBucket


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.floats(0.1, 100), st.integers(1, 50), st.lists(st.floats(0, 3), max_size=100))
def test_never_more_than_burst_plus_rate_times_time(rate: float, burst: int, pauses: list[float]) -> None:
    clock = _Clock()
    bucket = TokenBucket(rate, burst, clock)
    taken = 0
    for pause in pauses:
        clock.now += pause
        while bucket.take():
            taken += 1
            assert taken <= burst + rate * clock.now + 1e-6


def test_a_burst_passes_and_the_next_waits() -> None:
    clock = _Clock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.now = 0.1
    assert bucket.take()
    assert not bucket.take()
