"""One round of the validator: compares waiting batches with one snapshot of the target."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.execution import spark_tasks
from dm_worker.syncer.execution.expected_rows import ExpectedRows, ExpectRows
from dm_worker.syncer.execution.spill import SpillStore, spill_store_in
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.validator.backlog import Backlog, WaitingBatch
from dm_worker.validator.differences import DELETED_EXISTS, LookResult, RowMismatch
from dm_worker.validator.row_comparison import RowComparison
from dm_worker.validator.target_reads import TargetReads
from pkg.process.log import get_logger

log = get_logger("validator")

#: Limit for bytes of events that one job compares, and their least share of a subtask's memory. They are one task: its
#: cost is small beside the comparison, and a shuffle would take the JVM twice as much CPU. Only a batch that is larger
#: by itself is divided.
LOOK_BYTES, LOOK_SHARE = 64 << 20, 16
#: Seconds to wait for the syncer to end a batch: a snapshot in the middle of one shows rows of it, each of which is
#: then compared by itself.
BOUNDARY_WAIT = 10.0
#: Seconds between two checks whether the wait is to end.
_POLL = 0.2
#: Seconds for which the syncer waits at most while a snapshot is opened.
MOST_STALL = 0.5
#: A snapshot is held for about this many seconds at most: the target keeps old versions of rows for it.
LONGEST_SNAPSHOT = 30.0
#: Seconds after which the rows that were compared count, so that not all of them are compared again after a failure.
LONGEST_LOOK = 10.0
#: Stages of the gate.
_IDLE, _WANTED, _OPENING = range(3)


class SnapshotGate:
    """Lets the validator open a snapshot between two batches of the syncer, or without that when no batch ends soon.

    The syncer's main thread waits for it :data:`MOST_STALL` at most. A snapshot that takes longer contains the batches
    that were reported when it was begun, and perhaps rows of later ones.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stage = _IDLE
        self._is_applying = False
        #: Whether the syncer no longer waits for the snapshot that is being opened.
        self._is_late = False
        #: The number of the last batch or statement that the syncer reported.
        self._last = 0

    def applying(self) -> None:
        """The next batch begins. Called by the syncer's main thread, as the other two."""
        with self._changed:
            self._let_open()
            self._is_applying = True

    def reported(self, number: int) -> None:
        """A batch is complete and in the backlog; the next one has not begun."""
        with self._changed:
            self._last = number
            self._is_applying = False
            if self._stage == _WANTED:
                self._stage = _OPENING
                self._changed.notify_all()
            self._let_open()

    def abandoned(self) -> None:
        """The batch that had begun is not applied."""
        with self._changed:
            self._is_applying = False
            self._changed.notify_all()

    def _let_open(self) -> None:
        if not self._is_late:
            self._is_late = not self._changed.wait_for(lambda: self._stage != _OPENING, MOST_STALL)

    def _is_in_batch(self) -> bool:
        """Whether the snapshot that is wanted would be in the middle of a batch that began before."""
        return self._is_applying and self._stage == _WANTED

    @property
    def last(self) -> int:
        return self._last

    def snapshot(self, reads: TargetReads, should_stop: Callable[[], bool]) -> int:
        """Opens a snapshot; returns the number up to which it contains all. With ``should_stop`` it no longer waits for
        the end of a batch. Raises DMError."""
        reads.prepare()
        with self._changed:
            self._stage, self._is_late = _WANTED, False
            latest = time.monotonic() + BOUNDARY_WAIT
            while self._is_in_batch() and time.monotonic() < latest and not should_stop():
                self._changed.wait_for(lambda: not self._is_in_batch(), _POLL)
            self._stage = _OPENING
            limit = self._last
        try:
            reads.open()
        finally:
            with self._changed:
                self._stage = _IDLE
                self._changed.notify_all()
        return limit


class Rounds:
    """Makes looks. ``group``: the job group of its Spark jobs."""

    def __init__(
        self, engine: SparkEngine, group: str, backlog: Backlog, gate: SnapshotGate, *, workers: int, most_rows: int
    ) -> None:
        self._engine = engine
        self._group = group
        self._backlog = backlog
        self._gate = gate
        self._workers = workers
        self._most_rows = most_rows
        self._most_bytes = min(LOOK_BYTES, engine.memory // LOOK_SHARE)

    def run(
        self,
        reads: TargetReads,
        full: bool,
        watched: Callable[[], tuple[Sequence[RowMismatch], int]],
        take: Callable[[LookResult, Sequence[WaitingBatch]], None],
        should_stop: Callable[[], bool],
    ) -> None:
        """Compares the first batches that wait, up to the next statement; ``take`` receives each look with its
        batches. ``watched``: the rows that a look must name if they are right, and the number of a batch after which
        it ends. Raises DMError, ``TableChanged`` and ``OSError``; what was not taken still waits."""
        limit = self._gate.snapshot(reads, should_stop)
        began = time.monotonic()
        try:
            contained = reads.contained()
            while not should_stop() and time.monotonic() - began < LONGEST_SNAPSHOT:
                rows, boundary = watched()
                required = {one.row for one in rows if one.kind != DELETED_EXISTS}
                look = reads.look({one.row for one in rows}, required, full=full)
                batches = self._compare(look, limit, boundary, full=full, should_stop=should_stop)
                if not batches:
                    return
                take(LookResult(batches[0].number, batches[-1].number, contained, *look.result()), batches)
        finally:
            reads.end()

    def _compare(
        self, look: RowComparison, limit: int, boundary: int, *, full: bool, should_stop: Callable[[], bool]
    ) -> list[WaitingBatch]:
        """Compares the first batches that wait, by several jobs: the snapshot contains all of them, so rows of the
        first ones that later ones have changed need not be compared. Ends at the ``boundary`` if that is not passed."""
        batches: list[WaitingBatch] = []
        began = time.monotonic()
        while not (batches and (look.is_full or should_stop() or time.monotonic() - began > LONGEST_LOOK)):
            part = [one for one in self._backlog.first(self._most_bytes, batches) if one.number <= limit]
            if part and (batches or part)[0].number <= boundary < part[-1].number:
                part = [one for one in part if one.number <= boundary]
                limit = boundary
            if not part:
                break
            plans: dict[int, TablePlan] = {}
            for batch in part:
                plans.update((number, plan.to_compare()) for number, plan in batch.plans.items())
            with spill_store_in(self._engine.shared_folder) as store:
                look.add(self._expected(part, plans, store, full=full, should_stop=should_stop), plans)
            batches += part
        return batches

    def _expected(
        self,
        batches: Sequence[WaitingBatch],
        plans: dict[int, TablePlan],
        store: SpillStore,
        *,
        full: bool,
        should_stop: Callable[[], bool],
    ) -> list[ExpectedRows]:
        """Computes each row's image after its last change in the batches: by a Spark job, or here if they are tiny."""
        parts = (part for batch in batches for part in batch.sent(store))
        sent = [replace(part, order=order) for order, part in enumerate(parts)]
        size = sum(batch.size for batch in batches)
        small = size <= self._most_bytes
        buckets = 1 if small else max(1, self._workers)
        job = spark_tasks.BatchJob(ExpectRows(full, self._most_rows, store), buckets, plans)
        if size <= self._engine.tiny_batch:
            return self._rows_of(spark_tasks.run_here(sent, job))
        try:
            with self._engine.job_group(self._group, "validation", should_stop) as context:
                partitions = spark_tasks.writing_tasks(buckets, self._engine.slots, self._engine.parallel)
                outcomes = spark_tasks.run_on_sent(context, sent, store, job, small=small, partitions=partitions)
        except (Py4JError, PySparkException) as exc:
            raise spark_tasks.died(exc) from exc
        return self._rows_of(outcomes)

    @staticmethod
    def _rows_of(outcomes: Sequence[spark_tasks.BucketOutcome]) -> list[ExpectedRows]:
        error = spark_tasks.first_error(outcomes)
        if error is not None:
            raise error
        return [one for one in outcomes if isinstance(one, ExpectedRows)]
