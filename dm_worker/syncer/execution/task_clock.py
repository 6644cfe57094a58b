"""The stop-watch of a task: seconds by stage, and when they were, for the driver to see how the tasks overlap."""

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
        """The time since the last call was ``stage``."""
        now = time.perf_counter()
        self._stages[stage] = self._stages.get(stage, 0.0) + now - self._last
        self._last = now

    def times(self) -> TaskTimes:
        """All so far."""
        return TaskTimes(self._began, self._began + self._last - self._first, self._stages)
