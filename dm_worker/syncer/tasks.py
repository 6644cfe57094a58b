"""The functions that Spark runs: decode slices, place rows into buckets, apply buckets.

A small batch is one task without a shuffle; a large one has two stages, with one packed block per slice and bucket
in between. What goes wrong comes back as a value: an exception would arrive as a Java stack trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial

from pyspark import SparkContext

from dm_worker.syncer import block, compact
from dm_worker.syncer.apply import TargetSpec, apply_bucket
from dm_worker.syncer.batch import COMPACT, Batch, BucketResult, Slice, TablePlan, Ticket
from dm_worker.syncer.compact import DELETE, INSERT, UPDATE, ImpossibleChange
from dm_worker.syncer.located import located
from pkg import errors
from pkg.binlog.events import event_from_bytes
from pkg.binlog.position import Position
from pkg.binlog.rows import RowDecoder
from pkg.binlog.table_map import parse_table_map
from pkg.errors import DMError

#: Buckets of a small batch that are written at the same time by one task.
SMALL_WRITERS = 4

Outcome = BucketResult | DMError
#: (bucket, (slice order, block)), or (bucket, error) for every bucket when a slice can't be decoded.
Block = tuple[int, tuple[int, bytes] | DMError]


@dataclass(frozen=True, slots=True)
class Job:
    """One batch for the tasks. Holds all that they need, and nothing of the driver."""

    ticket: Ticket
    target: TargetSpec
    buckets: int
    plans: Mapping[int, TablePlan]

    @property
    def safe(self) -> bool:
        return self.target.form.safe


@dataclass(slots=True)
class _Decoded:
    """The rows of some slices, by target table."""

    states: dict[int, compact.States] = field(default_factory=dict)
    ordered: dict[int, list[block.OrderedRow]] = field(default_factory=dict)
    changes: int = 0


def run(context: SparkContext, batch: Batch, job: Job, *, small: bool, partitions: int) -> list[Outcome]:
    """Applies the batch; returns what each bucket did, or the errors that kept it from doing so."""
    if small:
        rdd = context.parallelize([batch.slices], 1)
        return list(rdd.mapPartitions(partial(_small, job)).collect())
    slices = context.parallelize(batch.slices, len(batch.slices))
    blocks = slices.mapPartitions(partial(_scatter, job))
    return list(blocks.partitionBy(partitions, _by_bucket).mapPartitions(partial(_gather, job)).collect())


def _by_bucket(bucket: int) -> int:
    return bucket


def _small(job: Job, groups: Iterable[list[Slice]]) -> Iterator[Outcome]:
    """All of a batch in one task."""
    blocks: dict[int, list[tuple[int, bytes]]] = {}
    for slices in groups:
        for bucket, content in _scatter(job, slices):
            if isinstance(content, DMError):
                yield content
                return
            blocks.setdefault(bucket, []).append(content)
    with ThreadPoolExecutor(SMALL_WRITERS) as pool:
        yield from pool.map(lambda entry: _apply(job, *entry), blocks.items())


def _scatter(job: Job, slices: Iterable[Slice]) -> Iterator[Block]:
    """Decodes slices and packs the rows of each bucket."""
    for part in slices:
        try:
            yield from _packed(job, part)
        except DMError as exc:
            # No bucket may write a batch that is not whole.
            yield from ((bucket, exc) for bucket in range(job.buckets))


def _packed(job: Job, part: Slice) -> list[Block]:
    decoded = decode(part, job.plans, safe=job.safe)
    by_target = {plan.target_number: plan for plan in job.plans.values()}
    seeds = {number: (plan.seed, plan.spread) for number, plan in by_target.items()}
    states = block.scatter(decoded.states, seeds, job.buckets)
    ordered: dict[int, dict[int, list[block.OrderedRow]]] = {}
    for target, rows in decoded.ordered.items():
        for row in rows:
            for bucket, placed in _place(row, job.plans[row[1]], job.buckets):
                ordered.setdefault(bucket, {}).setdefault(target, []).append(placed)
    packed: list[Block] = []
    for bucket in sorted(states.keys() | ordered.keys()):
        # The changes of a slice are counted once, whatever buckets its rows fall into.
        changes, decoded.changes = decoded.changes, 0
        data = block.pack(states.get(bucket, {}), ordered.get(bucket, {}), changes)
        packed.append((bucket, (part.order, data)))
    return packed


def _place(row: block.OrderedRow, plan: TablePlan, buckets: int) -> list[tuple[int, block.OrderedRow]]:
    """The bucket of an ordered row; an update that moves a row to another bucket becomes a delete and an insert."""
    if not plan.spread:
        return [(block.whole_table_bucket(plan.seed, buckets), row)]
    op, number, position, before, after = row
    old, new = (
        None if image is None else compact.bucket_of(b",".join([image[i] for i in plan.key]), plan.seed, buckets)
        for image in (before, after)
    )
    if op == UPDATE and old is not None and new is not None and old != new:
        return [(old, (DELETE, number, position, before, None)), (new, (INSERT, number, position, None, after))]
    bucket = new if old is None else old
    assert bucket is not None
    return [(bucket, row)]


@lru_cache(maxsize=4096)
def _decoder(table_map: bytes, columns: tuple[object, ...], key: tuple[int, ...], write: tuple[int, ...]) -> RowDecoder:
    return RowDecoder(parse_table_map(event_from_bytes(table_map)), columns, key=key, write=write)  # type: ignore[arg-type]


def decode(part: Slice, plans: Mapping[int, TablePlan], *, safe: bool) -> _Decoded:
    """The rows of a slice, compacted where the table allows it. Raises DMError naming table and position."""
    decoded = _Decoded()
    used = {number: plans[number] for number in part.plan_numbers()}
    decoders = {n: _decoder(plan.table_map, plan.columns, plan.key, plan.write) for n, plan in used.items()}
    compacted = {
        n: (decoders[n].changes, decoded.states.setdefault(plan.target_number, {}))
        for n, plan in used.items()
        if plan.mode == COMPACT
    }
    changes = 0
    absorb = compact.absorb
    number, position = 0, 0

    def where() -> str:
        return f"rows event that ends at {Position(part.file, position)}"

    try:
        for data, number, position in part.events():
            entry = compacted.get(number)
            if entry is not None:
                changes += absorb(entry[1], number, entry[0](data), safe=safe)
                continue
            rows = decoded.ordered.setdefault(used[number].target_number, [])
            for op, before, after in decoders[number].images(data):
                rows.append((op, number, position, before, after))
                changes += 1
    except ImpossibleChange as exc:
        raise located(exc.to_error(used[number].target, used[number].source), where()) from exc
    except DMError as exc:
        raise located(exc, where()) from exc
    decoded.changes = changes
    return decoded


def _gather(job: Job, blocks: Iterable[Block]) -> Iterator[Outcome]:
    """Applies the buckets of one partition."""
    buckets: dict[int, list[tuple[int, bytes]]] = {}
    for bucket, content in blocks:
        if isinstance(content, DMError):
            yield content
            return
        buckets.setdefault(bucket, []).append(content)
    for bucket, packed in buckets.items():
        yield _apply(job, bucket, packed)


def _apply(job: Job, bucket: int, packed: list[tuple[int, bytes]]) -> Outcome:
    try:
        content = block.combine(packed, safe=job.safe)
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
