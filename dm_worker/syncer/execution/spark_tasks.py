"""The functions that Spark runs: decode slices, partition rows into buckets, run the job's action on each bucket.

A small batch is one task without a shuffle, a tiny one the same in the driver. A large one has two stages, with one
packed block per slice and bucket in between. When tables of a large batch have conflict keys, a job before it decodes
the slices and collects the conflicts, so that the driver can assign each conflict set to one bucket; the blocks are
cached meanwhile.

Errors are returned as values: an exception would arrive as a Java stack trace. A task reads its whole partition, after
an error too: otherwise Spark ends its Python worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark import RDD, SparkContext, StorageLevel
from pyspark.core.broadcast import Broadcast

from dm_worker.syncer.execution import row_block
from dm_worker.syncer.execution.apply import BucketResult
from dm_worker.syncer.execution.bucket_action import BucketAction, MergeAgain
from dm_worker.syncer.execution.compaction import ImpossibleChange
from dm_worker.syncer.execution.merge import WriteRule, merge_blocks
from dm_worker.syncer.execution.partition import KeysMoved, partition_slice
from dm_worker.syncer.execution.spill import SliceReference, Spilled, SpillStore, fetch, spill_slices
from dm_worker.syncer.figures.batch_report import (
    COMPACT,
    DECODE,
    SHUFFLE,
    WRITE,
    BatchReport,
    BucketFigures,
    BucketReport,
    Changes,
    ConflictReport,
    SliceReport,
    TaskTimes,
    batch_report,
)
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.conflict_sets import ConflictPairs, find_conflict_sets
from dm_worker.syncer.rows.table_plan import ORDERED, TablePlan
from pkg import errors
from pkg.errors import Code, DMError
from pkg.process.garbage import collection_paused

#: The number of buckets that one task writes at the same time.
WRITERS = 4

#: The error for which no bucket may write.
BatchFailure = DMError | KeysMoved
BucketOutcome = BucketResult | SliceReport | ConflictReport | BatchFailure
#: (slice order, block)
OrderedBlock = tuple[int, Spilled]
#: (bucket, packed rows), or (bucket, error) for every bucket when a slice can't be decoded. The conflicts of a
#: slice's rows are stored like a block under the bucket ``CONFLICTS``, the report on a slice under ``REPORT``.
PlacedBlock = tuple[int, OrderedBlock | SliceReport | BatchFailure]
CONFLICTS, REPORT = -1, -2


class TaskClock:
    """The stop-watch of a task, from its creation on.

    It has the seconds by stage, and their start and end, which show the driver how tasks overlap.
    """

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


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One batch for the tasks. Contains all that they need, without references to the driver.

    ``action`` consumes the rows of each bucket.
    """

    action: BucketAction
    buckets: int
    plans: Mapping[int, TablePlan]

    @property
    def may_conflict(self) -> bool:
        """Whether rows of different keys may have to be in one bucket."""
        return any(plan.may_conflict for plan in self.plans.values())

    def in_order(self, targets: frozenset[int]) -> BatchJob:
        """The job with all rows of these target tables in their order."""
        plans = {
            number: replace(plan, mode=ORDERED) if plan.target_number in targets else plan
            for number, plan in self.plans.items()
        }
        return replace(self, plans=plans)


def writing_tasks(buckets: int, slots: int, parallel: int) -> int:
    """The number of tasks that write ``buckets``: as many as compute at a time, and more while each would get more
    buckets than it writes in parallel. ``slots`` tasks can run at once, ``parallel`` of them compute.

    A further task would cost overhead in Spark and, at first, a new process, and gain no speed.
    """
    return max(1, min(buckets, slots, max(parallel, -(-buckets // WRITERS))))


def run(
    context: SparkContext, slices: Sequence[Slice], store: SpillStore, job: BatchJob, *, small: bool, partitions: int
) -> list[BucketOutcome]:
    """Runs the job on a batch; returns the results of the buckets, or the errors that prevented them.

    Tables with updates that change keys (``KeysMoved``) keep the order of their rows: the batch starts again, before
    any bucket has written. Only the batch decides that, so a batch repeated after a crash is distributed to the same
    buckets.
    Raises DMError when ``store`` can't take the slices.
    """
    return run_on_sent(context, spill_slices(slices, store), store, job, small=small, partitions=partitions)


def run_on_sent(
    context: SparkContext, sent: list[SliceReference], store: SpillStore, job: BatchJob, *, small: bool, partitions: int
) -> list[BucketOutcome]:
    """As :func:`run`, on slices that the tasks can read."""
    return _in_order_if_moved(job, lambda job: _run(context, sent, store, job, small=small, partitions=partitions))


def run_here(slices: Sequence[SliceReference], job: BatchJob) -> list[BucketOutcome]:
    """As :func:`run_on_sent` of a small batch, without Spark, in this thread."""
    return _in_order_if_moved(job, lambda job: list(_whole(job, slices)))


def _in_order_if_moved(job: BatchJob, attempt: Callable[[BatchJob], list[BucketOutcome]]) -> list[BucketOutcome]:
    while True:
        outcomes = attempt(job)
        moved = frozenset[int]().union(*(found.targets for found in outcomes if isinstance(found, KeysMoved)))
        if not moved:
            return outcomes
        job = job.in_order(moved)


def _run(
    context: SparkContext, sent: list[SliceReference], store: SpillStore, job: BatchJob, *, small: bool, partitions: int
) -> list[BucketOutcome]:
    if small:
        return _results(context, context.parallelize([sent], 1), partial(_small, job), job.action, 1)
    blocks = context.parallelize(sent, len(sent)).mapPartitions(partial(_partition, job, store))
    if not job.may_conflict:
        placed = blocks.partitionBy(partitions, _by_bucket)
        return _results(context, placed, partial(_gather, job), job.action, partitions)
    blocks.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = blocks.mapPartitions(_pairs_of).collect()
        failed = [content for content in found if isinstance(content, BatchFailure)]
        if failed:
            return list(failed)
        moved, report = _conflict_sets(fetch(content[1]) for content in found if not isinstance(content, BatchFailure))
        shared = context.broadcast(moved)
        reassigned = blocks.mapPartitions(partial(_reassign, job, store, shared))
        placed = reassigned.partitionBy(partitions, _by_bucket)
        outcomes = _results(context, placed, partial(_gather, job), job.action, partitions)
        shared.destroy()
        return [*outcomes, report]
    finally:
        blocks.unpersist()


def _results(
    context: SparkContext,
    data: RDD[Any],
    work: Callable[[Iterable[Any]], Iterable[BucketOutcome]],
    action: BucketAction,
    partitions: int,
) -> list[BucketOutcome]:
    # Not mapPartitions and collect: that takes half as much CPU of the JVM again. Without the numbers of the
    # partitions, small results take even less (WorkerContext), and large ones a multiple of their memory.
    return list(context.runJob(data, work, list(range(partitions)) if action.returns_rows else None))


def _conflict_sets(packed: Iterable[bytes]) -> tuple[dict[int, int], ConflictReport]:
    """The buckets for rows in conflict, and the cost of finding them."""
    began = time.perf_counter()
    moved = find_conflict_sets(packed)
    return moved, ConflictReport(time.perf_counter() - began, len(set(moved.values())), len(moved))


def _by_bucket(bucket: int) -> int:
    return bucket


def _pairs_of(blocks: Iterable[PlacedBlock]) -> Iterator[OrderedBlock | BatchFailure]:
    """The conflicts of the rows of a partition's slices, or its first error."""
    failure: BatchFailure | None = None
    for bucket, content in blocks:
        if isinstance(content, BatchFailure):
            failure = failure or content
        elif bucket == CONFLICTS and not isinstance(content, SliceReport):
            yield content
    if failure is not None:
        yield failure


def _reassign(
    job: BatchJob, store: SpillStore, moved: Broadcast[dict[int, int]], blocks: Iterable[PlacedBlock]
) -> Iterator[PlacedBlock]:
    """The blocks, with the rows of each conflict set in the bucket of the set."""
    places = moved.value
    for bucket, content in blocks:
        if bucket != CONFLICTS:
            yield from _reassigned(bucket, content, places, job.buckets, store)


def _reassigned(
    bucket: int,
    content: OrderedBlock | SliceReport | BatchFailure,
    moved: Mapping[int, int],
    buckets: int,
    store: SpillStore,
) -> Iterator[PlacedBlock]:
    if isinstance(content, BatchFailure | SliceReport) or not moved:
        yield bucket, content
        return
    order, data = content
    yield from _kept(order, row_block.reassign(fetch(data), bucket, moved, buckets), store)


def _small(job: BatchJob, groups: Iterable[list[SliceReference]]) -> Iterator[BucketOutcome]:
    """Runs a whole batch in one task."""
    with collection_paused():
        for sent in groups:
            yield from _whole(job, sent)


def _whole(job: BatchJob, sent: Iterable[SliceReference]) -> Iterator[BucketOutcome]:
    here = SpillStore()
    found = list(_partition(job, here, sent))
    moved, report = _conflict_sets(
        fetch(content[1])
        for bucket, content in found
        if bucket == CONFLICTS and not isinstance(content, BatchFailure | SliceReport)
    )
    if job.may_conflict:
        yield report
    yield from _consumed(
        job,
        (
            placed
            for home, data in found
            if home != CONFLICTS
            for placed in _reassigned(home, data, moved, job.buckets, here)
        ),
    )


def _partition(job: BatchJob, store: SpillStore, sent: Iterable[SliceReference]) -> Iterator[PlacedBlock]:
    """Decodes slices and packs the rows of each bucket."""
    for part in map(SliceReference.slice, sent):
        pairs, counts = ConflictPairs(), dict[int, Changes]()
        work = TaskClock()
        try:
            placed = partition_slice(part, job.plans, job.buckets, safe=job.action.safe, pairs=pairs, counts=counts)
            work.passed(DECODE)
            kept = list(_kept(part.order, placed, store))
            work.passed(SHUFFLE)
            packed = sum(len(data) for _, data in placed)
            yield REPORT, SliceReport(work.times(), counts, len(part.data), packed)
            yield from kept
            if job.may_conflict:
                yield CONFLICTS, (part.order, pairs.packed())
        except (DMError, KeysMoved) as exc:
            # No bucket may write an incomplete batch.
            yield from ((bucket, exc) for bucket in range(job.buckets))


def _kept(order: int, placed: Sequence[tuple[int, bytes]], store: SpillStore) -> Iterator[PlacedBlock]:
    """The blocks of one slice, spilled."""
    kept = store.keep([data for _, data in placed])
    yield from ((bucket, (order, content)) for (bucket, _), content in zip(placed, kept, strict=True))


def _gather(job: BatchJob, blocks: Iterable[PlacedBlock]) -> Iterator[BucketOutcome]:
    """Runs the action on the buckets of one partition."""
    with collection_paused():
        yield from _consumed(job, blocks)


def _consumed(job: BatchJob, blocks: Iterable[PlacedBlock]) -> Iterator[BucketOutcome]:
    buckets: dict[int, list[OrderedBlock]] = {}
    failure: BatchFailure | None = None
    for bucket, content in blocks:
        if isinstance(content, BatchFailure):
            failure = failure or content
        elif isinstance(content, SliceReport):
            yield content
        else:
            buckets.setdefault(bucket, []).append(content)
    if failure is not None:
        yield failure
        return
    yield from _consume_all(job, buckets)


def _consume_all(job: BatchJob, buckets: Mapping[int, list[OrderedBlock]]) -> Iterator[BucketOutcome]:
    """Runs several buckets of one task at the same time: most of a writer's time is waiting for the server."""
    rules = _rules(job.action, job.plans)
    if len(buckets) == 1:
        yield from (_consume(job, rules, *entry) for entry in buckets.items())
        return
    with ThreadPoolExecutor(WRITERS) as pool:
        yield from pool.map(lambda entry: _consume(job, rules, *entry), buckets.items())


def _rules(action: BucketAction, plans: Mapping[int, TablePlan]) -> dict[int, WriteRule]:
    return {number: action.rule_of(plan) for number, plan in plans.items()}


def _consume(job: BatchJob, rules: Mapping[int, WriteRule], bucket: int, packed: list[OrderedBlock]) -> BucketOutcome:
    work = TaskClock()
    try:
        blocks = [(order, fetch(data)) for order, data in packed]
        work.passed(SHUFFLE)
        content = merge_blocks(blocks, rules, safe=job.action.safe)
        work.passed(COMPACT)
        try:
            result = job.action.run(bucket, content, job.plans)
        except MergeAgain as exc:
            work.passed(WRITE)
            content = merge_blocks(blocks, _rules(exc.action, job.plans), safe=exc.action.safe)
            work.passed(COMPACT)
            result = exc.action.run(bucket, content, job.plans)
        work.passed(WRITE)
        size = sum(len(data) for _, data in blocks)
        return replace(result, report=BucketReport(work.times(), size, content.rows, result.commit))
    except ImpossibleChange as exc:
        plan = job.plans[exc.plan]
        return exc.to_error(plan.target, plan.source, job.plans[exc.other_plan].source)
    except DMError as exc:
        return exc


def results_of(outcomes: Iterable[BucketOutcome], seconds: float) -> tuple[list[BucketResult], BatchReport]:
    """The results of the buckets of a job without errors, and the report on the job, which took ``seconds``."""
    found = list(outcomes)
    results = [one for one in found if isinstance(one, BucketResult)]
    report = batch_report(
        seconds,
        [one for one in found if isinstance(one, SliceReport)],
        [one for one in found if isinstance(one, ConflictReport)],
        [BucketFigures(one.bucket, one.report, one.statements, one.waited) for one in results if one.report],
    )
    return results, report


def first_error(outcomes: Iterable[BucketOutcome]) -> DMError | None:
    """The error to show: one that needs an operator takes precedence over one that only needs a retry."""
    found = [outcome for outcome in outcomes if isinstance(outcome, DMError)]
    return min(found, key=lambda exc: exc.retryable, default=None)


def died(exc: BaseException) -> DMError:
    """A job whose tasks did not end: Python workers were killed, executors were lost, or it was canceled.

    The markers show what they wrote, so the job can run again.
    """
    reason = next((line.strip() for line in str(exc).splitlines() if line.strip()), type(exc).__name__)
    return errors.new(
        Code.SyncerUnitPanic,
        f"a job of the syncer did not complete: {reason[:500]}",
        raw=str(exc)[:4000],
        workaround="Check the worker's log and those of its Spark executors, then resume the task.",
        retryable=True,
    )
