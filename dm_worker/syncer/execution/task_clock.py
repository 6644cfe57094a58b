"""The stop-watch of a task: seconds by stage, and their start and end, to show the driver how tasks overlap."""

from __future__ import annotations

import time

from dm_worker.syncer.figures.batch_report import TaskTimes


class TaskClock:
    """Runs from its creation on."""

    def __init__(self) -> None:
        self._began = time.time()
        self._first = self._last = time.perf_counter()
        self._stages: dict[str, float] = {}

    def passed(self, stage: str) -> None:
        """Counts the time since the last call as ``stage``."""
        now = time.perf_counter()
        self._stages[stage] = self._stages.get(stage, 0.0) + now - self._last
        self._last = now

    def times(self) -> TaskTimes:
        """All times so far."""
        return TaskTimes(self._began, self._began + self._last - self._first, self._stages)
