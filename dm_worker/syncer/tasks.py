"""The functions that Spark runs: decode slices, place rows into buckets, apply buckets.

A small batch is one task without a shuffle; a large one has two stages, with one packed block per slice and bucket
in between. When tables of a large batch have ties, a job before it decodes the slices and gathers what ties rows, so
that the driver can tell where tied rows belong; the blocks are kept meanwhile.

What goes wrong comes back as a value: an exception would arrive as a Java stack trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from pyspark import SparkContext, StorageLevel
from pyspark.core.broadcast import Broadcast

from dm_worker.syncer import block
from dm_worker.syncer.apply import TargetSpec, apply_bucket
from dm_worker.syncer.batch import Batch, BucketResult, Slice, TablePlan, Ticket
from dm_worker.syncer.combine import Rule, combine
from dm_worker.syncer.compact import ImpossibleChange
from dm_worker.syncer.scatter import scatter
from dm_worker.syncer.statements import rule_of
from dm_worker.syncer.ties import Pairs, components
from pkg import errors
from pkg.errors import DMError

#: Buckets that are written at the same time by one task.
WRITERS = 4

Outcome = BucketResult | DMError
#: (bucket, (slice order, block)), or (bucket, error) for every bucket when a slice can't be decoded. What ties the
#: rows of a slice stands like a block under the bucket ``PAIRS``.
Block = tuple[int, tuple[int, bytes] | DMError]
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
        return any(plan.ties for plan in self.plans.values())

    @property
    def safe(self) -> bool:
        return self.target.form.safe


def run(context: SparkContext, batch: Batch, job: Job, *, small: bool, partitions: int) -> list[Outcome]:
    """Applies the batch; returns what each bucket did, or the errors that kept it from doing so."""
    if small:
        rdd = context.parallelize([batch.slices], 1)
        return list(rdd.mapPartitions(partial(_small, job)).collect())
    slices = context.parallelize(batch.slices, len(batch.slices))
    blocks = slices.mapPartitions(partial(_scatter, job))
    if not job.tied:
        return list(blocks.partitionBy(partitions, _by_bucket).mapPartitions(partial(_gather, job)).collect())
    blocks.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = blocks.mapPartitions(_pairs_of).collect()
        failed = [content for content in found if isinstance(content, DMError)]
        if failed:
            return list(failed)
        moved = components(content[1] for content in found if not isinstance(content, DMError))
        shared = context.broadcast(moved)
        settled = blocks.mapPartitions(partial(_settle, job, shared))
        outcomes = list(settled.partitionBy(partitions, _by_bucket).mapPartitions(partial(_gather, job)).collect())
        shared.destroy()
        return outcomes
    finally:
        blocks.unpersist()


def _by_bucket(bucket: int) -> int:
    return bucket


def _pairs_of(blocks: Iterable[Block]) -> Iterator[tuple[int, bytes] | DMError]:
    """What ties the rows of a partition's slices, or the first error of each."""
    for bucket, content in blocks:
        if bucket == PAIRS or isinstance(content, DMError):
            yield content
        if isinstance(content, DMError):
            return


def _settle(job: Job, moved: Broadcast[dict[int, int]], blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks with tied rows where their components belong."""
    places = moved.value
    for bucket, content in blocks:
        if bucket != PAIRS:
            yield from _settled(bucket, content, places, job.buckets)


def _settled(
    bucket: int, content: tuple[int, bytes] | DMError, moved: Mapping[int, int], buckets: int
) -> Iterator[Block]:
    if isinstance(content, DMError) or not moved:
        yield bucket, content
        return
    order, data = content
    yield from ((there, (order, part)) for there, part in block.resettle(data, bucket, moved, buckets))


def _small(job: Job, groups: Iterable[list[Slice]]) -> Iterator[Outcome]:
    """All of a batch in one task."""
    found = [placed for slices in groups for placed in _scatter(job, slices)]
    moved = components(content[1] for bucket, content in found if bucket == PAIRS and not isinstance(content, DMError))
    blocks: dict[int, list[tuple[int, bytes]]] = {}
    for home, data in found:
        for bucket, content in _settled(home, data, moved, job.buckets) if home != PAIRS else ():
            if isinstance(content, DMError):
                yield content
                return
            blocks.setdefault(bucket, []).append(content)
    yield from _apply_all(job, blocks)


def _scatter(job: Job, slices: Iterable[Slice]) -> Iterator[Block]:
    """Decodes slices and packs the rows of each bucket."""
    for part in slices:
        pairs = Pairs()
        try:
            for bucket, data in scatter(part, job.plans, job.buckets, safe=job.safe, pairs=pairs):
                yield bucket, (part.order, data)
            if job.tied:
                yield PAIRS, (part.order, pairs.packed())
        except DMError as exc:
            # No bucket may write a batch that is not whole.
            yield from ((bucket, exc) for bucket in range(job.buckets))


def _gather(job: Job, blocks: Iterable[Block]) -> Iterator[Outcome]:
    """Applies the buckets of one partition."""
    buckets: dict[int, list[tuple[int, bytes]]] = {}
    for bucket, content in blocks:
        if isinstance(content, DMError):
            yield content
            return
        buckets.setdefault(bucket, []).append(content)
    yield from _apply_all(job, buckets)


def _apply_all(job: Job, buckets: Mapping[int, list[tuple[int, bytes]]]) -> Iterator[Outcome]:
    """Several buckets of one task at the same time: most of a writer's time is waiting for the server."""
    rules = _rules(job)
    with ThreadPoolExecutor(WRITERS) as pool:
        yield from pool.map(lambda entry: _apply(job, rules, *entry), buckets.items())


def _rules(job: Job) -> dict[int, Rule]:
    return {number: rule_of(plan, job.target.form) for number, plan in job.plans.items()}


def _apply(job: Job, rules: Mapping[int, Rule], bucket: int, packed: list[tuple[int, bytes]]) -> Outcome:
    try:
        content = combine(packed, rules, safe=job.safe)
        return apply_bucket(job.target, job.ticket, bucket, content, job.plans)
    except ImpossibleChange as exc:
        plan = job.plans[exc.plan]
        return exc.to_error(plan.target, plan.source)
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
        "SyncerUnitPanic",
        f"a Spark job of the syncer did not come to an end: {reason[:500]}",
        raw=str(exc)[:4000],
        workaround="See the Spark executors' logs; resume the task when they are well.",
        retryable=True,
    )
