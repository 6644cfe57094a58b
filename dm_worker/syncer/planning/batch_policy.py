"""When a batch that is not full is closed, how large one may become, and what applies it. Pure.

The costs of the last jobs decide.

A tiny batch is applied by the driver: its rows cost less than a Spark job. Of the others, a batch in one task starts
quickly, one with a shuffle uses all cores. So there are two costs, each a fixed time plus a time per byte, learned from
the jobs. With little lag, a batch contains the events that arrived during the previous one,
which finds its own balance: at half of the possible rate it takes twice the fixed time. With more lag, batches grow to
the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pkg.config.worker import LEAST_MEMORY_BUDGET

MIB = 1 << 20
#: Seconds that finished transactions wait for more, while others arrive and the writers are idle.
LINGER = 0.02
#: While more arrives than can be applied, they wait longer, because a larger batch is cheaper.
BACKLOG_LINGER = 0.25
#: After this many seconds without events, the stream counts as quiet.
QUIET = 0.005
#: The largest batch for one task, which decodes on one core.
SMALL_BYTES = 8 * MIB
#: The assumed cost of a job: fixed seconds and seconds per MiB.
SMALL_COST = (0.12, 0.04)
LARGE_COST = (0.30, 0.022)
#: The least that a shuffle adds to a job's fixed cost (seconds).
SHUFFLE_COST = 0.08
#: A batch that takes longer (seconds) is followed by smaller ones: it is not visible before its end, and after a crash
#: its unfinished buckets begin again.
LONGEST = 30.0
#: The smallest limit for batches, for any slow target.
LEAST_BATCH = 64 * 1024
#: The weight of a job's cost after the next job.
_MEMORY = 0.95
#: A slice costs a task or a round through the decoder; smaller ones are not worth it.
_LEAST_SLICE = 256 * 1024


class BatchKind(Enum):
    """What applies a batch. TINY: one task in the driver, SMALL: one Spark task, LARGE: Spark tasks in two stages."""

    TINY, SMALL, LARGE = "tiny", "small", "large"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is large enough: bytes of rows events, or their number.

    It is cut into about ``slices`` pieces, of ``slice_bytes`` and an event at most; small ones are not cut.
    """

    batch_bytes: int = 64 * 1024 * 1024
    batch_events: int = 1_000_000
    slice_bytes: int = 4 * 1024 * 1024
    slices: int = 4

    def piece(self, batch: int) -> int:
        """Bytes of each slice of a batch of ``batch`` bytes."""
        return min(self.slice_bytes, max(-(-batch // self.slices), _LEAST_SLICE))


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits in bytes of rows events.

    ``batch``: a batch; ``queue``: waiting batches; ``slice``: the part that one task decodes; ``small``: a batch in one
    task.
    """

    batch: int
    queue: int
    slice: int
    small: int

    @classmethod
    def of(cls, memory: int) -> Budget:
        """The shares of ``memory`` bytes.

        At the peak a batch is in memory about eight times: it is filled, waits, is applied, is sent to the tasks, and
        is decoded, shuffled, joined and written; a task has its slice in memory about five times.
        """
        batch = max(memory, LEAST_MEMORY_BUDGET) // 10
        return cls(batch=batch, queue=batch, slice=batch // 4, small=min(SMALL_BYTES, batch // 8))

    def limits(self, parallel: int) -> BatchLimits:
        """For the planner; ``parallel`` tasks run at a time."""
        return BatchLimits(self.batch, slice_bytes=self.slice, slices=2 * parallel)


class Cost:
    """A line ``fixed + per_mib * size`` fitted to the jobs' times, and pulled to the assumed cost."""

    def __init__(self, fixed: float, per_mib: float) -> None:
        self.fixed, self.per_mib = fixed, per_mib
        # Weighted sums: 1, x, x², y, xy. The assumed cost counts as one job without rows, and as one MiB.
        self._n, self._x, self._xx, self._y, self._xy = 0.0, 0.0, 0.0, 0.0, 0.0
        self._prior = (fixed, per_mib)

    def predict(self, size: int) -> float:
        """The predicted seconds."""
        return self.fixed + self.per_mib * size / MIB

    def observe(self, size: int, seconds: float) -> None:
        """Adds a job over ``size`` bytes. One that took much longer than predicted (a hiccup) counts for less."""
        x, y = size / MIB, min(seconds, 4 * self.predict(size))
        self._n, self._x, self._xx = (_MEMORY * s + d for s, d in ((self._n, 1), (self._x, x), (self._xx, x * x)))
        self._y, self._xy = _MEMORY * self._y + y, _MEMORY * self._xy + x * y
        n, xx, y_sum, xy = self._n + 1, self._xx + 1, self._y + self._prior[0], self._xy + self._prior[1]
        # Both are pulled to the prior, so the determinant is at least 1.
        determinant = n * xx - self._x * self._x
        fixed = (xx * y_sum - self._x * xy) / determinant
        self.fixed = max(fixed, 0.005)
        self.per_mib = max((xy - self.fixed * self._x) / xx, 0.0005)


class BatchPolicy:
    """The planning thread asks when to close a batch; the runner asks how to run one, and reports how long it took.

    These are two threads; they share single numbers only.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.small = Cost(*SMALL_COST)
        self.large = Cost(*LARGE_COST)
        #: The current limit of a batch, and the later one in the run.
        self.most = budget.batch
        self._ever = budget.batch

    def kind(self, size: int, tiny: int) -> BatchKind:
        """What applies a batch of ``size`` bytes; up to ``tiny`` bytes are for the driver.

        For a shuffle, the additional cost of one task per byte must exceed the shuffle's. A shuffle always has a cost,
        also when jobs of one kind were slow only because the machine was busy.
        """
        if size <= tiny:
            return BatchKind.TINY
        more = (self.small.per_mib - self.large.per_mib) * size / MIB
        is_small = size <= self.budget.small and more <= max(self.large.fixed - self.small.fixed, SHUFFLE_COST)
        return BatchKind.SMALL if is_small else BatchKind.LARGE

    def observe(self, size: int, *, kind: BatchKind, seconds: float) -> None:
        if kind is not BatchKind.TINY:
            (self.small if kind is BatchKind.SMALL else self.large).observe(size, seconds)
        if seconds > LONGEST:
            self.most = max(LEAST_BATCH, min(self.most, int(size * LONGEST / seconds)))
        elif size >= self.most // 2 and seconds < LONGEST / 2:
            self.most = min(self._ever, 2 * self.most)

    def refused(self, size: int) -> None:
        """The target refused a batch of ``size`` bytes: from here on, batches are much smaller."""
        self._ever = max(1, size // 4)
        self.most = min(self.most, self._ever)

    def due(self, *, idle: bool, quiet: bool, size: int, waited: float) -> bool:
        """Whether to close a batch that is not full.

        ``idle``: the writers have no work. ``quiet``: the stream has no events. ``size`` bytes arrived
        during the ``waited`` seconds since the first of them.
        """
        if not idle or quiet:
            return idle
        if waited < LINGER:
            return False
        behind = size / MIB * self.large.per_mib > waited
        return not behind or waited >= BACKLOG_LINGER or size >= self.worthwhile

    @property
    def worthwhile(self) -> int:
        """The size in bytes from which the fixed part is the smaller part of a large job's cost."""
        return min(int(self.large.fixed / self.large.per_mib * MIB), self.budget.batch // 2)
