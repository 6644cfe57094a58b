"""The time of a thread by stage, and its growth over the last minutes. Pure: the caller passes a clock.

One thread switches; others read. A reader may see half of a switch: the next reading is right again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

#: The window of a :class:`RecentTimes`, and the interval between two of its samples (seconds).
WINDOW, SAMPLE = 300.0, 5.0


class StageClock:
    """Adds up seconds by stage; the thread is always in one."""

    def __init__(self, clock: Callable[[], float], stage: str) -> None:
        """``clock`` in seconds; ``stage``: the thread's current one."""
        self._clock = clock
        self._totals: dict[str, float] = {}
        #: The stage, and its start.
        self._now = (stage, clock())

    @property
    def stage(self) -> str:
        return self._now[0]

    @property
    def seconds(self) -> float:
        """The seconds since the thread entered its stage. From any thread."""
        return max(0.0, self._clock() - self._now[1])

    def switch(self, stage: str) -> float:
        """The thread enters ``stage``; returns the seconds that it was in the previous one."""
        before, since = self._now
        now = self._clock()
        self._now = (stage, now)
        self._totals[before] = self._totals.get(before, 0.0) + now - since
        return now - since

    def relabel(self, stage: str) -> None:
        """Counts the time since the last switch as ``stage``, which is known only now."""
        self._now = (stage, self._now[1])

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Enters ``stage`` for a block, then returns to the previous stage."""
        before = self.stage
        self.switch(stage)
        try:
            yield
        finally:
            self.switch(before)

    def totals(self) -> dict[str, float]:
        """Seconds by stage, the current one included. From any thread."""
        stage, since = self._now
        found = dict(self._totals)
        found[stage] = found.get(stage, 0.0) + max(0.0, self._clock() - since)
        return found


class RecentTimes:
    """Growing sums, over the last :data:`WINDOW` seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[str, float]]] = deque()

    def sample(self, now: float, totals: Mapping[str, float]) -> None:
        """``totals`` at ``now`` (seconds of a monotonic clock); ignored soon after the last sample."""
        if self._samples and now - self._samples[-1][0] < SAMPLE:
            return
        self._samples.append((now, totals))
        while len(self._samples) > 1 and now - self._samples[1][0] >= WINDOW:
            self._samples.popleft()

    def difference(self, now: float, totals: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """The age of the first sample in seconds, and the growth of each sum since then."""
        if not self._samples:
            return 0.0, {}
        began, before = self._samples[0]
        grown = {name: max(0.0, value - before.get(name, 0.0)) for name, value in totals.items()}
        return now - began, {name: value for name, value in grown.items() if value > 0}
