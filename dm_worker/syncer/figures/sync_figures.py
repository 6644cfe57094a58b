"""The figures of one subtask's replication, over all its runs: the source of metrics and the profile.

Counts are per batch, per block of events and per bucket, never per row. The main loop's thread adds to
:class:`ApplyFigures`, the planning thread to :class:`ReadFigures`; the monitor's thread samples both clocks.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from dm_worker.syncer.figures.batch_report import COMPACT, DECODE, SHUFFLE, WRITE, BatchReport, BucketFigures
from dm_worker.syncer.figures.lag import LagWatch
from dm_worker.syncer.figures.lag_reason import DRIVER, HANDING, PLANNING, READING, REASONS, SOURCE
from dm_worker.syncer.figures.stage_clock import RecentTimes, StageClock
from dm_worker.syncer.figures.table_counts import TableCounts
from pkg.process.metrics import Distribution
from pkg.status.lag import STOPPED

#: Writers share this many queue labels, as in DM.
QUEUES = 8
#: The weight of earlier jobs' shares after the next job.
_MEMORY = 0.5


def queue_name(number: int) -> str:
    """The queue label of a writer."""
    return f"q_{number % QUEUES}"


def _seconds() -> Distribution:
    """A distribution from 50 µs to 26 s."""
    return Distribution(0.00005, 20)


class ReadFigures:
    """The figures of the planning thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = StageClock(clock, STOPPED)
        #: Seconds to wait for a block of events, to plan it, and to put a batch or a statement into the queue.
        self.read, self.plan = _seconds(), _seconds()
        self.hand_over: dict[str, Distribution] = {"dml": _seconds(), "ddl": _seconds()}
        #: Bytes of a rows event.
        self.event_size = Distribution(16, 20)
        #: Bytes that the upstream sent as binlog stream; none while the relay log is read.
        self.received = 0
        self._planned = 0.0
        self._idle = False

    def reads(self) -> None:
        """The thread begins to wait for a block of events."""
        self.clock.switch(SOURCE if self._idle else READING)

    def has_read(self, *, something: bool) -> None:
        """The wait is over; planning begins."""
        self._idle = not something
        self.clock.relabel(READING if something else SOURCE)
        seconds = self.clock.switch(PLANNING)
        if something:
            self.read.add(seconds)
        self._planned = self.clock.totals()[PLANNING]

    def has_received(self, size: int) -> None:
        """``size`` bytes of the stream arrived over the network."""
        self.received += size

    def has_planned(self) -> None:
        """The events that were read are planned."""
        self.plan.add(self.clock.totals()[PLANNING] - self._planned)

    @contextmanager
    def handing_over(self, kind: str) -> Iterator[None]:
        """A batch (``dml``) or a statement (``ddl``) waits for room in the queue."""
        self.clock.switch(HANDING)
        try:
            yield
        finally:
            self.hand_over[kind].add(self.clock.switch(PLANNING))

    def events(self, count: int, size: int) -> None:
        """A batch has ``count`` rows events with ``size`` bytes in total."""
        if count:
            self.event_size.add(size / count, count)


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The number of transactions that end in a batch, and of its rows events."""

    transactions: int
    events: int


class ApplyFigures:
    """The figures of the main loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = StageClock(clock, STOPPED)
        self.tables = TableCounts()
        #: Statements that arrived and that are executed.
        self.ddl_added = self.ddl_finished = 0
        self.transactions = 0
        #: By the kind of the batch.
        self.batches: dict[str, int] = {"tiny": 0, "small": 0, "large": 0}
        self.job_seconds = self.busy_seconds = 0.0
        self.retries = 0
        #: Tasks' seconds and bytes by stage.
        self.stage_seconds: dict[str, float] = defaultdict(float)
        #: Input bytes of a stage: of events, and of the blocks made of them.
        self.stage_bytes = {DECODE: 0, SHUFFLE: 0, COMPACT: 0}
        self.changes = self.written_rows = self.compacted = 0
        self.conflict_sets = self.conflict_rows = 0
        self.stage_cost: dict[str, Distribution] = defaultdict(_seconds)
        #: Rows of a rows event.
        self.event_rows = Distribution(1, 16)
        self.conflict_cost, self.transaction, self.query = _seconds(), _seconds(), _seconds()
        self.statement: dict[str, Distribution] = {"stmt": _seconds(), "commit": _seconds()}
        self.skipped: dict[str, Distribution] = {"rows": _seconds()}
        #: By queue and ``rows`` or ``statements``: the number per transaction at the target.
        self.transaction_size: dict[tuple[str, str], Distribution] = {}
        #: Seconds between two writes of the checkpoint.
        self.flush_interval = Distribution(0.01, 16)
        self._flushed = 0.0
        #: Changes per second that the writers would reach if only the target took time.
        self.ideal_qps = 0.0
        #: Seconds by stage of the last jobs, for the reason of the lag, and their wall-clock seconds.
        self.recent_shares: dict[str, float] = {}
        self.recent_job = 0.0
        self.retrying = False

    def flushed(self, now: float) -> None:
        """The checkpoint was written at ``now`` (seconds of a monotonic clock)."""
        if self._flushed:
            self.flush_interval.add(now - self._flushed)
        self._flushed = now

    def applied(
        self,
        report: BatchReport,
        targets: Mapping[int, tuple[str, str]],
        size: BatchSize,
        *,
        kind: str,
        workers: int,
    ) -> None:
        """A batch is applied. ``targets``: the target table of each plan; ``workers``: the number of buckets written
        at the same time."""
        self.batches[kind] += 1
        self.transactions += size.transactions
        if size.events:
            self.event_rows.add(report.change_count / size.events, size.events)
        self.job_seconds += report.seconds
        self.busy_seconds += report.busy
        for stage, seconds in report.stages.items():
            self.stage_seconds[stage] += seconds
            self.stage_cost[stage].add(seconds)
        self.stage_bytes[DECODE] += report.read
        self.stage_bytes[SHUFFLE] += report.packed
        for bucket in report.buckets:
            self.stage_bytes[COMPACT] += bucket.report.packed
        for plan, changes in report.changes.items():
            self.tables.add(targets[plan], changes)
        self.changes += report.change_count
        self.written_rows += report.rows
        self.compacted += max(0, report.change_count - report.rows)
        for found in report.conflicts:
            self.conflict_cost.add(found.seconds)
            self.conflict_sets += found.sets
            self.conflict_rows += found.rows
        for bucket in report.buckets:
            self._bucket(bucket)
        self._recent(report, workers)

    def _bucket(self, one: BucketFigures) -> None:
        write = one.report.times.stages.get(WRITE, 0.0)
        self.transaction.add(write)
        self.statement["commit"].add(one.report.commit)
        if one.statements:
            each = max(0.0, write - one.report.commit - one.waited) / one.statements
            self.statement["stmt"].add(each, one.statements)
        for kind, count in (("rows", one.report.rows), ("statements", one.statements)):
            key = (queue_name(one.bucket), kind)
            if key not in self.transaction_size:
                self.transaction_size[key] = Distribution(1, 20)
            self.transaction_size[key].add(count)

    def _recent(self, report: BatchReport, workers: int) -> None:
        shares = report.shares
        self.recent_shares = {stage: self.recent_shares.get(stage, 0.0) * _MEMORY + shares.get(stage, 0.0)
                              for stage in {*self.recent_shares, *shares}}  # fmt: skip
        self.recent_job = self.recent_job * _MEMORY + report.seconds
        writing = sum(one.report.times.stages.get(WRITE, 0.0) for one in report.buckets)
        if writing:
            self.ideal_qps = workers * report.rows / writing


class SyncFigures:
    """All figures of a unit, for the unit's lifetime."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reading = ReadFigures(clock)
        self.applying = ApplyFigures(clock)
        self._recent = RecentTimes()
        #: Seconds behind the upstream, once a second while known.
        self.lag = Distribution(0.5, 12)
        self.lag_watch = LagWatch()
        #: Gauges from the monitor's last check. ``remaining``: seconds to go, None while unknown.
        self.reason = STOPPED
        self.remaining: float | None = None
        self.queued_batches = self.queued_bytes = self.waiting_bytes = 0

    def began(self) -> None:
        """A run begins; the time before does not count."""
        self.applying.clock.switch(DRIVER)
        self.reading.clock.switch(SOURCE)
        self.lag_watch.run_changed()

    def ended(self) -> None:
        """A run has ended."""
        self.applying.clock.switch(STOPPED)
        self.reading.clock.switch(STOPPED)
        self.lag_watch.run_changed()
        self.reason = STOPPED
        self.remaining = None
        self.queued_batches = self.queued_bytes = self.waiting_bytes = 0

    def sample(self) -> None:
        """Samples the sums for :meth:`recent`."""
        self._recent.sample(self._clock(), self.sums())

    def sums(self) -> dict[str, float]:
        """All sums of the profile by path: ``main/…``, ``reader/…`` in seconds, ``work/…`` in seconds of all tasks."""
        applying = self.applying
        found = {f"main/{stage}": seconds for stage, seconds in applying.clock.totals().items()}
        found |= {f"reader/{stage}": seconds for stage, seconds in self.reading.clock.totals().items()}
        found |= {f"work/{stage}": seconds for stage, seconds in list(applying.stage_seconds.items())}
        found["busy"] = applying.busy_seconds
        found["job"] = applying.job_seconds
        found["changes"] = applying.changes
        found["rows"] = applying.written_rows
        found["batches"] = sum(applying.batches.values())
        return found

    def recent(self) -> tuple[float, dict[str, float]]:
        """The profile's window in seconds, and the growth of each sum."""
        return self._recent.difference(self._clock(), self.sums())

    @property
    def reasons(self) -> dict[str, int]:
        """1 for the reason of the lag, 0 for all others."""
        return {reason: int(reason == self.reason) for reason in REASONS}
