"""The rate of a counter, and the remaining time. Pure: the caller passes the time."""

from __future__ import annotations

from collections import deque


class Rate:
    """Units per second over the last ``window`` seconds."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self, now: float, total: int) -> None:
        """Notes that ``total`` units were done at ``now`` (seconds of a steady clock)."""
        self._samples.append((now, total))
        while len(self._samples) > 2 and now - self._samples[0][0] > self._window:
            self._samples.popleft()

    @property
    def per_second(self) -> int:
        if len(self._samples) < 2:
            return 0
        (start, before), (end, after) = self._samples[0], self._samples[-1]
        return int((after - before) / (end - start)) if end > start and after > before else 0

    def eta(self, left: int) -> str:
        """The remaining time as text, ``unknown`` while there is no progress."""
        rate = self.per_second
        return f"{left / rate:.0f}s" if rate else "unknown"


def percent(done: float, total: float) -> str:
    """DM's form, ``12.34 %``."""
    share = 100.0 if total <= 0 else min(100.0, 100.0 * done / total)
    return f"{share:.2f} %"
