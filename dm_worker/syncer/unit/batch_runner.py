"""Applies the planner's output in order, by the exactly-once protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.ddl_table import DDLRecord
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import DDL, AppliedBuckets, BatchProgress, Sequencer
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.statement_effect import StatementEffect, by_others
from dm_worker.syncer.execution import spark_tasks
from dm_worker.syncer.execution.apply import BucketResult
from dm_worker.syncer.execution.bucket_action import WriteBucket
from dm_worker.syncer.execution.driver_tasks import DriverTasks, NotCompleted
from dm_worker.syncer.execution.spill import spill_store_in
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.figures.batch_report import BatchReport
from dm_worker.syncer.figures.lag_reason import CHECKPOINT, JOB, STATEMENT
from dm_worker.syncer.figures.sync_figures import ApplyFigures, BatchSize
from dm_worker.syncer.planning.batch import Batch, WriteToken
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchPolicy
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.planning.xa import PreparedLocations
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.shard_ddl.coordination import ShardCoordination
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from dm_worker.syncer.unit.batch_observer import NOBODY, BatchObserver
from dm_worker.syncer.unit.computed_sampler import ComputedSampler
from dm_worker.syncer.unit.smaller_batches import TooMuchAtOnce
from pkg.binlog.position import Location, location_range
from pkg.errors import DMError
from pkg.mysql.connection import is_too_much_at_once
from pkg.mysql.retry import retrying
from pkg.process.log import get_logger

log = get_logger("syncer.runner")

#: Number of writers of a batch that is not large: each costs a transaction.
WRITERS = {BatchKind.TINY: 1, BatchKind.SMALL: 4}
#: Batches that take longer (seconds) are logged, to explain a lag.
LONG = 2.5
#: Retries of a job whose tasks died (rather than failed).
JOB_ATTEMPTS = 5

#: Whether safe mode still holds at a location.
IsUnsafe = Callable[[Location], bool]


def _log_other_number(batch: Batch, before: BatchProgress, intent: BatchProgress) -> None:
    """Logs that the unfinished batch gets another number: the operator asked for safe mode, or its plan differs."""
    doubled = intent.keyless_since != before.keyless_since
    once = sorted({".".join(plan.target) for plan in batch.plans.values() if plan.only_once})
    where = location_range(batch.start, batch.end)
    reason = (
        "as the operator asked"
        if intent.fingerprint == before.fingerprint
        else "since it is planned differently than before"
    )
    message = f"the unfinished batch is applied again in safe mode, {reason}"
    if doubled and once:
        log.warning(
            f"{message}; check the tables without a key, and those that foreign keys act on, for duplicate rows",
            range=where,
            tables=", ".join(once),
        )
    else:
        log.info(message, range=where)


def _log_refusals(results: Iterable[BucketResult], where: str) -> None:
    for result in results:
        if result.failures:
            log.warning(
                "the target accepted a bucket only after several attempts",
                range=where,
                bucket=result.bucket,
                failures=result.failures,
                waited=f"{result.waited:.1f}s",
                error=result.cause,
            )


class BatchRunner:
    """Executes one main-loop step: a batch, a statement or a checkpoint."""

    def __init__(
        self,
        *,
        engine: SparkEngine,
        driver_tasks: DriverTasks,
        group: str,
        store: MetaStore,
        sequencer: Sequencer,
        source: SchemaSource,
        target: TargetSpec,
        workers: int,
        policy: BatchPolicy,
        settings: bytes,
        is_unsafe: IsUnsafe,
        should_stop: Callable[[], bool],
        figures: ApplyFigures,
        sharding: ShardCoordination,
        sampler: ComputedSampler,
        observer: BatchObserver = NOBODY,
    ) -> None:
        self._observer = observer
        self._engine = engine
        self._driver_tasks = driver_tasks
        self._figures = figures
        self._group = group
        self._store = store
        self._sequencer = sequencer
        self._source = source
        self._target = target
        self._workers = max(1, workers)
        self._policy = policy
        self._settings = settings
        self._is_unsafe = is_unsafe
        self._should_stop = should_stop
        self._sharding = sharding
        self._sampler = sampler
        #: The durable checkpoint, and whether more than that is applied.
        self.flushed = self._checkpoint or sequencer.applied
        #: The batch whose buckets the next write must find.
        self._applied: AppliedBuckets | None = None
        self.has_unflushed = False
        self.total_rows = 0
        self.statements = 0
        #: Bytes of rows events in the last batch.
        self.batch_bytes = 0

    def apply(self, batch: Batch, redo: BatchProgress | None = None) -> None:
        """Applies one batch: intent, then buckets. ``redo`` is the open intent whose range this batch has. Raises
        DMError, and TooMuchAtOnce where smaller batches may help."""
        began = time.monotonic()
        self._observer.applying()
        planned, batch = batch, batch.by_blocks()
        kind = self._policy.kind(batch.size, self._engine.tiny_batch)
        buckets = redo.buckets if redo else min(WRITERS.get(kind, self._workers), self._workers)
        fingerprint, keyless = batch.fingerprint(buckets, self._settings), batch.keyless_fingerprint(buckets)
        if redo is None:
            unsafe = self._is_unsafe(batch.start)
            intent = self._sequencer.open(
                batch.start, batch.end, buckets=buckets, fingerprint=fingerprint, safe=unsafe, keyless=keyless
            )
        else:
            intent = self._sequencer.redo(redo, fingerprint, keyless)
            if intent.number != redo.number:
                _log_other_number(batch, redo, intent)
        self._write(intent)
        try:
            results, report = self._run(batch, intent, kind)
        except DMError as exc:
            error = exc.at(location_range(batch.start, batch.end))
            if is_too_much_at_once(exc):
                raise TooMuchAtOnce(batch, intent.number, redo is not None, error) from exc
            raise error from exc
        self._applied = AppliedBuckets(intent.number, len(results))
        # The prepared transactions of a re-read are not those of the main pass.
        self._sequencer.done(batch.prepared if self._checkpoint is None else None)
        seconds = time.monotonic() - began
        self._policy.observe(batch.size, kind=kind, seconds=seconds)
        write = log.info if seconds > LONG else log.debug
        write(
            "applied a batch",
            number=intent.number,
            events=batch.rows_events,
            bytes=batch.size,
            kind=kind.value,
            buckets=buckets,
            seconds=f"{seconds:.3f}",
            end=str(batch.end),
        )
        self.has_unflushed = True
        self.batch_bytes = batch.size
        self.total_rows += sum(result.changes for result in results)
        self.statements += sum(result.statements for result in results)
        self._count(batch, report, kind)
        self._observer.applied(planned, intent.number, report.changes, self._checkpoint or batch.end)
        self._passed(batch)

    def _passed(self, batch: Batch) -> None:
        """What follows from an applied batch. Raises DMError where the target has computed other values."""
        self._sharding.passed(batch)
        if self._sharding.has_news:
            self.flush()
        difference = None if self._should_stop() else self._sampler.difference(batch)
        if difference is not None:
            # The batch is complete: the next run goes on after it, whatever became of its tables.
            self.flush()
            raise difference

    def _count(self, batch: Batch, report: BatchReport, kind: BatchKind) -> None:
        targets = {number: plan.target for number, plan in batch.plans.items()}
        workers = min(self._workers, len(report.buckets))
        size = BatchSize(batch.transactions, batch.rows_events)
        self._figures.applied(report, targets, size, kind=kind.value, workers=workers)

    def advance(self, item: Advance) -> None:
        """Advances over filtered events, up to the item's location."""
        began = time.monotonic()
        prepared = item.prepared if self._checkpoint is None else None
        self._sharding.passed(item)
        self._write(self._sequencer.idle(item.location, prepared))
        self._observer.passed(self._checkpoint or item.location)
        self._figures.skipped["rows"].add(time.monotonic() - began)

    def flush(self) -> None:
        """Moves the durable checkpoint to the applied location."""
        if self.has_unflushed:
            self._write(self._sequencer.idle(self._sequencer.applied))

    def statement(self, statement: BinlogStatement, barrier: DDLBarrier) -> StatementEffect:
        """Executes a statement, a barrier: all before it is already applied. Returns what it may have changed."""
        if self._sharding.keeps_state:
            # The intent moves the checkpoint, and the groups' state belongs to it.
            self.flush()
        intent = self._sequencer.open(statement.start, statement.end, buckets=0, fingerprint="", safe=False, state=DDL)
        with self._figures.clock.during(STATEMENT):
            effect = barrier.execute(statement, intent)
        self._observer.restructured(intent.number, effect.tables)
        # A statement that the task's filters leave out is not counted as a job.
        self._figures.ddl_added += effect.of_the_task
        self._figures.ddl_finished += effect.of_the_task
        self._sequencer.done()
        self._sharding.executed(statement)
        self._write(self._sequencer.idle(statement.end))
        self._observer.passed(statement.end)
        return effect

    def fence(self) -> None:
        """After this, no task of the open batch can write, nor one that Spark lost track of."""
        self._write(self._sequencer.fence())

    def go_back(self, start: Location) -> None:
        """Applies what follows ``start`` again, in safe mode if some of it is already applied. The next write makes
        that durable."""
        self._sequencer.go_back(start)
        self.has_unflushed = False
        self._observer.interrupted()

    # -- merged shards ------------------------------------------------------------------------------------------

    def statement_again(self, statement: BinlogStatement) -> None:
        """Reads a statement of the main pass again, in a re-read: all before it is already applied."""
        sharding, main = self._sharding, self._sharding.checkpoint
        assert main is not None
        sharding.met_again(statement)
        self._write(self._sequencer.idle(statement.end if sharding.reread is not None else main))

    def settle(self, settle: SettleDDL, barrier: DDLBarrier) -> StatementEffect:
        """Executes what the lock service has decided; the main pass is between transactions. Returns what it may have
        changed, here or through another source."""
        sharding, main = self._sharding, self._sequencer.applied
        self.flush()
        with self._figures.clock.during(STATEMENT):
            record, effect = (
                self._execute_settled(settle, barrier) if settle.execute else (None, by_others(settle.target))
            )
        self._observer.restructured(None, effect.tables)
        sharding.settled(main)
        reread = sharding.reread
        self._write(self._sequencer.idle(main if reread is None else reread.at), record)
        return effect

    def _execute_settled(self, settle: SettleDDL, barrier: DDLBarrier) -> tuple[DDLRecord | None, StatementEffect]:
        self._sharding.settling(settle)
        try:
            return barrier.settle(settle, self._sequencer.idle(self._sequencer.applied))
        except DMError as exc:
            # A statement that a pause ended is not a failure.
            if not (self._should_stop() and exc.retryable):
                self._sharding.settling(settle, exc)
            raise

    def note(self) -> None:
        """Makes durable what the shard groups learned outside the stream."""
        self._write(self._sequencer.idle(self._sequencer.applied))

    def watched_by_observer(self) -> None:
        """Tells the observer that this run has begun to apply."""
        self._observer.began(self._target, self.applied, self._unsettled)

    def _unsettled(self) -> list[str]:
        return [group.target for group in self._sharding.status().unresolved]

    @property
    def applied(self) -> Location:
        """The applied location of the current pass: all before it is applied."""
        return self._sequencer.applied

    @property
    def prepared(self) -> PreparedLocations:
        """The prepared XA transactions at the location of the main pass."""
        return self._sequencer.prepared

    @property
    def _checkpoint(self) -> Location | None:
        return self._sharding.checkpoint

    # -- durable state ------------------------------------------------------------------------------------------

    def _write(self, progress: BatchProgress, ddl: DDLRecord | None = None) -> None:
        changed, dropped = self._source.take_changes()
        shards = self._sharding.take_changes()
        checkpoint = self._checkpoint
        self._leave_safe_mode(progress.start)
        try:
            with self._figures.clock.during(CHECKPOINT):
                self._store.write(
                    progress,
                    changed=changed,
                    dropped=dropped,
                    ddl=ddl,
                    shards=shards,
                    checkpoint=checkpoint,
                    applied=self._applied,
                )
            self._figures.flushed(time.monotonic())
        except DMError:
            self._source.put_back(changed, dropped)
            self._sharding.put_back(shards)
            raise
        self.flushed = checkpoint or (progress.start if progress.state != "idle" else progress.end)
        self.has_unflushed = False
        self._applied = None
        self._sharding.stored(shards)

    def _leave_safe_mode(self, location: Location) -> None:
        """Held rows may be at an earlier location than the applied one."""
        held = self._sharding.oldest_needed
        if self._store.exit_safe is not None and not self._is_unsafe(location) and not (held and self._is_unsafe(held)):
            log.info("left safe mode", location=str(location))
            self._store.exit_safe = None

    # -- the batch's job ----------------------------------------------------------------------------------------

    def _run(self, batch: Batch, intent: BatchProgress, kind: BatchKind) -> tuple[list[BucketResult], BatchReport]:
        target = replace(self._target, form=replace(self._target.form, safe=intent.safe))
        token = WriteToken(self._store.source_id, intent.number, intent.epoch, intent.keyless_since)
        pool = self._driver_tasks.writers if kind is BatchKind.TINY else None
        job = spark_tasks.BatchJob(WriteBucket(target, token, pool), intent.buckets, batch.plans)
        where = location_range(batch.start, batch.end)

        def note(exc: DMError, attempt: int) -> None:
            self._figures.retrying = True
            self._figures.retries += 1
            log.warning("a batch is tried again", range=where, attempt=attempt, error=str(exc))

        try:
            with self._figures.clock.during(JOB):
                results, report = retrying(
                    lambda: self._job(batch, job, kind),
                    should_stop=self._should_stop,
                    attempts=JOB_ATTEMPTS,
                    base=0.5,
                    on_retry=note,
                )
        finally:
            self._figures.retrying = False
        _log_refusals(results, where)
        return results, report

    def _job(self, batch: Batch, job: spark_tasks.BatchJob, kind: BatchKind) -> tuple[list[BucketResult], BatchReport]:
        began = time.monotonic()
        try:
            if kind is BatchKind.TINY:
                outcomes = self._driver_tasks.run(batch.slices, job)
            else:
                outcomes = self._in_spark(batch, job, small=kind is BatchKind.SMALL)
        except (Py4JError, PySparkException, NotCompleted) as exc:
            raise spark_tasks.died(exc) from exc
        error = spark_tasks.first_error(outcomes)
        if error is not None:
            raise error
        return spark_tasks.results_of(outcomes, time.monotonic() - began)

    def _in_spark(self, batch: Batch, job: spark_tasks.BatchJob, *, small: bool) -> list[spark_tasks.BucketOutcome]:
        with (
            self._engine.job_group(self._group, "syncer batch", self._should_stop) as context,
            spill_store_in(self._engine.shared_folder) as store,
        ):
            partitions = spark_tasks.writing_tasks(job.buckets, self._engine.slots, self._engine.parallel)
            return spark_tasks.run(context, batch.slices, store, job, small=small, partitions=partitions)
