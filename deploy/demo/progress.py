"""The progress of a full copy: rows, percent and time left, from successive query-status answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from deploy.demo.texts import Status, bar, seconds
from dm_worker.subtask.rate import Rate

#: Seconds over which the speed is measured.
_WINDOW = 5.0
_NAMES = {"Dump": "reading", "Load": "writing"}


@dataclass(slots=True)
class CopyProgress:
    """The full copy of one source. Pass each status to ``note``, with the time of a monotonic clock."""

    total_rows: int
    unit: str = ""
    rows: int = 0
    began: float = 0.0
    rate: Rate = field(default_factory=lambda: Rate(_WINDOW))
    #: Unit → its duration in seconds.
    took: dict[str, float] = field(default_factory=dict)

    def note(self, status: Status, loaded_rows: int, now: float) -> bool:
        """True when the unit has changed. ``loaded_rows``: how many rows of the source are in the target."""
        unit = str(status["unit"])
        changed = unit != self.unit
        if changed:
            if self.unit:
                self.took[self.unit] = now - self.began
            self.unit, self.began = unit, now
        before = self.rows if not changed else 0
        if unit == "Dump":
            self.rows = int((status.get("dump") or {}).get("finishedRows", 0))
        elif unit == "Load":
            self.rows = loaded_rows
        if not before:
            # The time before the first rows is not part of their speed.
            self.rate = Rate(_WINDOW)
        self.rate.sample(now, self.rows)
        return changed

    @property
    def is_over(self) -> bool:
        return self.unit == "Sync"

    def line(self) -> str:
        """For example ``writing ████░░  61%  243,000 of 400,000 rows · 3.3 s left · 48,000/s``."""
        if self.is_over:
            copied = " · ".join(f"{_NAMES[unit]} {seconds(took)}" for unit, took in self.took.items() if unit in _NAMES)
            return f"copied  {bar(1)} 100%  {self.total_rows:>7,} rows · {copied}"
        name = _NAMES.get(self.unit, "waiting")
        pace = self.rate.per_second
        share = min(1.0, self.rows / self.total_rows)
        left = max(self.total_rows - self.rows, 0)
        eta = f"{seconds(left / pace)} left · {pace:,}/s" if pace else "starting"
        return f"{name} {bar(share)} {share:>4.0%}  {self.rows:>7,} of {self.total_rows:,} rows · {eta}"
