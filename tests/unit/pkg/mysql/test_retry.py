"""Hazard: a retry never ends, or goes on after somebody asked it to stop."""

from __future__ import annotations

import pytest

from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql import retry


class _Clock:
    """Time that only passes where it is spent."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_tries_that_wait_long_end_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()
    monkeypatch.setattr(retry, "time", clock)
    tries = []

    def lock_wait() -> None:
        tries.append(clock.now)
        clock.sleep(50)
        raise errors.new(Code.DBExecuteFailed, "lock wait", retryable=True)

    with pytest.raises(DMError):
        retry.retrying(lock_wait, attempts=1000, budget=120)
    assert len(tries) == 4
    assert clock.now < 120 + 2 * 50 + 10


def test_time_before_the_first_failure_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()
    monkeypatch.setattr(retry, "time", clock)
    durations = [7200.0, 1.0]

    def hours_then_lost() -> str:
        clock.sleep(durations.pop(0))
        if durations:
            raise errors.new(Code.DBBadConn, "lost", retryable=True)
        return "done"

    assert retry.retrying(hours_then_lost, budget=120) == "done"
