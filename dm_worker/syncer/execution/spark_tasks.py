"""The functions that Spark runs: decode slices, place rows into buckets, apply buckets.

A small batch is one task without a shuffle; a large one has two stages, with one packed block per slice and bucket
in between. When tables of a large batch have ties, a job before it decodes the slices and gathers what ties rows, so
that the driver can tell where tied rows belong; the blocks are kept meanwhile.

What goes wrong comes back as a value: an exception would arrive as a Java stack trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from pyspark import SparkContext, StorageLevel
from pyspark.core.broadcast import Broadcast

from dm_worker.syncer.execution import row_block
from dm_worker.syncer.execution.apply import TargetSpec, apply_bucket
from dm_worker.syncer.execution.compaction import ImpossibleChange
from dm_worker.syncer.execution.merge import Rule, combine
from dm_worker.syncer.execution.partition import KeysMoved, scatter
from dm_worker.syncer.execution.row_statements import rule_of
from dm_worker.syncer.execution.spill import Content, Parcel, Store, fetch, parcels
from dm_worker.syncer.planning.batch import BucketResult, Slice, Ticket
from dm_worker.syncer.rows.conflict_sets import Pairs, components
from dm_worker.syncer.rows.table_plan import ORDERED, TablePlan
from pkg import errors
from pkg.errors import Code, DMError

#: Buckets that are written at the same time by one task.
WRITERS = 4

#: Why no bucket may write.
Failure = DMError | KeysMoved
Outcome = BucketResult | Failure
#: (slice order, block)
Packed = tuple[int, Content]
#: (bucket, packed rows), or (bucket, error) for every bucket when a slice can't be decoded. What ties the rows of a
#: slice stands like a block under the bucket ``PAIRS``.
Block = tuple[int, Packed | Failure]
PAIRS = -1


@dataclass(frozen=True, slots=True)
class Job:
    """One batch for the tasks. Holds all that they need, and nothing of the driver."""

    ticket: Ticket
    target: TargetSpec
    buckets: int
    plans: Mapping[int, TablePlan]

    @property
    def tied(self) -> bool:
        """Whether rows of different keys may belong into one bucket."""
        return any(plan.binds for plan in self.plans.values())

    @property
    def safe(self) -> bool:
        return self.target.form.safe

    def in_order(self, targets: frozenset[int]) -> Job:
        """The job with all rows of these target tables in their order."""
        plans = {
            number: replace(plan, mode=ORDERED) if plan.target_number in targets else plan
            for number, plan in self.plans.items()
        }
        return replace(self, plans=plans)


def writing_tasks(buckets: int, slots: int, parallel: int) -> int:
    """How many tasks write ``buckets``: as many as compute at a time, and more while each would get more buckets than
    it writes side by side. ``slots`` tasks can run at once, ``parallel`` of them compute.

    A further task would cost its share of Spark and, at first, a new process, and be no faster.
    """
    return max(1, min(buckets, slots, max(parallel, -(-buckets // WRITERS))))


def run(
    context: SparkContext, slices: Sequence[Slice], store: Store, job: Job, *, small: bool, partitions: int
) -> list[Outcome]:
    """Applies a batch; returns what each bucket did, or the errors that kept it from doing so.

    Tables whose rows turn out to be moved (``KeysMoved``) keep their order: the batch begins anew, when no bucket has
    written yet. The batch alone decides that, so a batch done again after a crash falls into the same buckets.
    Raises DMError when ``store`` can't take the slices.
    """
    sent = parcels(slices, store)
    while True:
        outcomes = _run(context, sent, store, job, small=small, partitions=partitions)
        moved = frozenset[int]().union(*(found.targets for found in outcomes if isinstance(found, KeysMoved)))
        if not moved:
            return outcomes
        job = job.in_order(moved)


def _run(
    context: SparkContext, sent: list[Parcel], store: Store, job: Job, *, small: bool, partitions: int
) -> list[Outcome]:
    # runJob is collect without having the JVM read through its largest class for each job (3 ms of CPU).
    if small:
        return list(context.runJob(context.parallelize([sent], 1), partial(_small, job), [0]))
    blocks = context.parallelize(sent, len(sent)).mapPartitions(partial(_scatter, job, store))
    if not job.tied:
        return list(context.runJob(blocks.partitionBy(partitions, _by_bucket), partial(_gather, job)))
    blocks.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = blocks.mapPartitions(_pairs_of).collect()
        failed = [content for content in found if isinstance(content, Failure)]
        if failed:
            return list(failed)
        moved = components(fetch(content[1]) for content in found if not isinstance(content, Failure))
        shared = context.broadcast(moved)
        settled = blocks.mapPartitions(partial(_settle, job, store, shared))
        outcomes = list(context.runJob(settled.partitionBy(partitions, _by_bucket), partial(_gather, job)))
        shared.destroy()
        return outcomes
    finally:
        blocks.unpersist()


def _by_bucket(bucket: int) -> int:
    return bucket


def _pairs_of(blocks: Iterable[Block]) -> Iterator[Packed | Failure]:
    """What ties the rows of a partition's slices, or the first error of each."""
    for bucket, content in blocks:
        if bucket == PAIRS or isinstance(content, Failure):
            yield content
        if isinstance(content, Failure):
            return


def _settle(job: Job, store: Store, moved: Broadcast[dict[int, int]], blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks with tied rows where their components belong."""
    places = moved.value
    for bucket, content in blocks:
        if bucket != PAIRS:
            yield from _settled(bucket, content, places, job.buckets, store)


def _settled(
    bucket: int, content: Packed | Failure, moved: Mapping[int, int], buckets: int, store: Store
) -> Iterator[Block]:
    if isinstance(content, Failure) or not moved:
        yield bucket, content
        return
    order, data = content
    yield from _kept(order, row_block.resettle(fetch(data), bucket, moved, buckets), store)


def _small(job: Job, groups: Iterable[list[Parcel]]) -> Iterator[Outcome]:
    """All of a batch in one task."""
    here = Store()
    found = [placed for sent in groups for placed in _scatter(job, here, sent)]
    moved = components(
        fetch(content[1]) for bucket, content in found if bucket == PAIRS and not isinstance(content, Failure)
    )
    blocks: dict[int, list[Packed]] = {}
    for home, data in found:
        for bucket, content in _settled(home, data, moved, job.buckets, here) if home != PAIRS else ():
            if isinstance(content, Failure):
                yield content
                return
            blocks.setdefault(bucket, []).append(content)
    yield from _apply_all(job, blocks)


def _scatter(job: Job, store: Store, sent: Iterable[Parcel]) -> Iterator[Block]:
    """Decodes slices and packs the rows of each bucket."""
    for part in map(Parcel.slice, sent):
        pairs = Pairs()
        try:
            placed = scatter(part, job.plans, job.buckets, safe=job.safe, pairs=pairs)
            yield from _kept(part.order, placed, store)
            if job.tied:
                yield PAIRS, (part.order, pairs.packed())
        except (DMError, KeysMoved) as exc:
            # No bucket may write a batch that is not whole.
            yield from ((bucket, exc) for bucket in range(job.buckets))


def _kept(order: int, placed: Sequence[tuple[int, bytes]], store: Store) -> Iterator[Block]:
    """The blocks of one slice, put away."""
    kept = store.keep([data for _, data in placed])
    yield from ((bucket, (order, content)) for (bucket, _), content in zip(placed, kept, strict=True))


def _gather(job: Job, blocks: Iterable[Block]) -> Iterator[Outcome]:
    """Applies the buckets of one partition."""
    buckets: dict[int, list[Packed]] = {}
    for bucket, content in blocks:
        if isinstance(content, Failure):
            yield content
            return
        buckets.setdefault(bucket, []).append(content)
    yield from _apply_all(job, buckets)


def _apply_all(job: Job, buckets: Mapping[int, list[Packed]]) -> Iterator[Outcome]:
    """Several buckets of one task at the same time: most of a writer's time is waiting for the server."""
    rules = _rules(job)
    with ThreadPoolExecutor(WRITERS) as pool:
        yield from pool.map(lambda entry: _apply(job, rules, *entry), buckets.items())


def _rules(job: Job) -> dict[int, Rule]:
    return {number: rule_of(plan, job.target.form) for number, plan in job.plans.items()}


def _apply(job: Job, rules: Mapping[int, Rule], bucket: int, packed: list[Packed]) -> Outcome:
    try:
        content = combine([(order, fetch(data)) for order, data in packed], rules, safe=job.safe)
        return apply_bucket(job.target, job.ticket, bucket, content, job.plans)
    except ImpossibleChange as exc:
        plan = job.plans[exc.plan]
        return exc.to_error(plan.target, plan.source, job.plans[exc.other_plan].source)
    except DMError as exc:
        return exc


def first_error(outcomes: Iterable[Outcome]) -> DMError | None:
    """The error to show: one that an operator must look at goes before those that only need another try."""
    found = [outcome for outcome in outcomes if isinstance(outcome, DMError)]
    return min(found, key=lambda exc: exc.retryable, default=None)


def died(exc: BaseException) -> DMError:
    """A job whose tasks did not come to an end: Python workers were killed, executors were lost, or it was cancelled.

    What they wrote is told by the markers, so the job may simply be run again.
    """
    reason = next((line.strip() for line in str(exc).splitlines() if line.strip()), type(exc).__name__)
    return errors.new(
        Code.SyncerUnitPanic,
        f"a Spark job of the syncer did not complete: {reason[:500]}",
        raw=str(exc)[:4000],
        workaround="Check the logs of the Spark executors, then resume the task.",
        retryable=True,
    )
