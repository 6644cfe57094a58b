"""When a batch that is not full is closed, how large one may become, and whether it is one task. Pure.

The costs of the last jobs decide.

A batch in one task starts quickly, one with a shuffle uses all cores. So there are two costs, each a fixed time plus a
time per byte, learned from the jobs. Nearly caught up, a batch holds what came in while the one before was applied,
which balances by itself: at half of the possible rate it takes twice the fixed time. Behind, batches grow to the
budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm_worker.syncer.planning.instructions import BatchLimits
from pkg.config.worker import LEAST_MEMORY_BUDGET

MIB = 1 << 20
#: Finished transactions wait so long for more while others come in and nothing else is to be done (seconds).
LINGER = 0.02
#: As long as more comes in than can be applied, they wait longer, because a larger batch costs less.
BACKLOG_LINGER = 0.25
#: A stream that gives nothing for so long has nothing at hand.
QUIET = 0.005
#: The greatest batch for one task, which decodes on one core.
SMALL_BYTES = 8 * MIB
#: What a job costs until it is known: fixed seconds and seconds per MiB.
SMALL_COST = (0.12, 0.04)
LARGE_COST = (0.30, 0.022)
#: What a shuffle adds to a job's fixed cost at the least (seconds).
SHUFFLE_COST = 0.08
#: A batch that takes longer (seconds) is followed by smaller ones: before its end nothing of it is seen, and after a
#: crash the buckets that are not in begin again.
LONGEST = 30.0
#: Batches don't become smaller than this, however slow the target is.
LEAST_BATCH = 64 * 1024
#: How much a job still counts after the next one.
_MEMORY = 0.95


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be held at a time, in bytes of rows events.

    ``batch``: a batch; ``queue``: batches that wait; ``slice``: what one task decodes; ``small``: a batch in one task.
    """

    batch: int
    queue: int
    slice: int
    small: int

    @classmethod
    def of(cls, memory: int) -> Budget:
        """The shares of ``memory`` bytes.

        At the peak a batch is held about eight times: it is being filled, waits, is applied, travels to the tasks, and
        is decoded, shuffled, joined and written; a task holds its slice about five times.
        """
        batch = max(memory, LEAST_MEMORY_BUDGET) // 10
        return cls(batch=batch, queue=batch, slice=batch // 4, small=min(SMALL_BYTES, batch // 8))

    def limits(self, parallel: int) -> BatchLimits:
        """For the planner; ``parallel`` tasks run at a time."""
        return BatchLimits(self.batch, slice_bytes=self.slice, slices=2 * parallel)


class Cost:
    """A line ``fixed + per_mib * size`` through what jobs took, drawn to where it was thought to be before."""

    def __init__(self, fixed: float, per_mib: float) -> None:
        self.fixed, self.per_mib = fixed, per_mib
        # Weighted sums: 1, x, x², y, xy. What was thought counts as one job without rows, and as one MiB.
        self._n, self._x, self._xx, self._y, self._xy = 0.0, 0.0, 0.0, 0.0, 0.0
        self._prior = (fixed, per_mib)

    def predict(self, size: int) -> float:
        """Seconds."""
        return self.fixed + self.per_mib * size / MIB

    def observe(self, size: int, seconds: float) -> None:
        """A job over ``size`` bytes. One that took much longer than thought (a hiccup) counts for less."""
        x, y = size / MIB, min(seconds, 4 * self.predict(size))
        self._n, self._x, self._xx = (_MEMORY * s + d for s, d in ((self._n, 1), (self._x, x), (self._xx, x * x)))
        self._y, self._xy = _MEMORY * self._y + y, _MEMORY * self._xy + x * y
        n, xx, y_sum, xy = self._n + 1, self._xx + 1, self._y + self._prior[0], self._xy + self._prior[1]
        # Both are drawn to the prior, so the determinant is at least 1.
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
        #: How large a batch may become now, and later in the run.
        self.most = budget.batch
        self._ever = budget.batch

    def is_small(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes runs in one task.

        What one task costs more per byte must outweigh the shuffle. A shuffle always costs something, also when
        jobs of one kind took long only because the machine was busy.
        """
        more = (self.small.per_mib - self.large.per_mib) * size / MIB
        return size <= self.budget.small and more <= max(self.large.fixed - self.small.fixed, SHUFFLE_COST)

    def observe(self, size: int, *, small: bool, seconds: float) -> None:
        (self.small if small else self.large).observe(size, seconds)
        if seconds > LONGEST:
            self.most = max(LEAST_BATCH, min(self.most, int(size * LONGEST / seconds)))
        elif size >= self.most // 2 and seconds < LONGEST / 2:
            self.most = min(self._ever, 2 * self.most)

    def refused(self, size: int) -> None:
        """The target does not take a batch of ``size`` bytes: from here on batches are much smaller."""
        self._ever = max(1, size // 4)
        self.most = min(self.most, self._ever)

    def due(self, *, idle: bool, quiet: bool, size: int, waited: float) -> bool:
        """Whether to close a batch that is not full.

        ``idle``: the writers have nothing to do. ``quiet``: the stream has nothing at hand. ``size`` bytes came in
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
        """Bytes from which on the fixed part is the lesser part of a large job's cost."""
        return min(int(self.large.fixed / self.large.per_mib * MIB), self.budget.batch // 2)
