"""The syncer as a unit of a subtask."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from dm_worker.engine.engine import SparkEngine
from dm_worker.relay.source_selection import RelayReader
from dm_worker.subtask.unit import Control, UnitOutcome
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.lock_client import LockService
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from dm_worker.syncer.unit.batch_observer import NOBODY, BatchObserver
from dm_worker.syncer.unit.hand_back import hand_back
from dm_worker.syncer.unit.hold import Hold
from dm_worker.syncer.unit.known_structures import KnownStructures
from dm_worker.syncer.unit.run import SyncRun
from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.ha.binlog_operator import OperatorSource
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.status.lag import STOPPED, UNKNOWN

log = get_logger("syncer")


#: How long a pause waits for the running batch before it is cancelled (seconds); dm-master waits for 10 s in all.
PAUSE_TIMEOUT = 3.0
#: Seconds between cancellations of a run that continues.
CANCEL_AGAIN = 0.5


class SyncUnit:
    """Replicates one source's binlog into the target until it is stopped.

    ``lock_service`` is the source's client of the locks for the task's shard DDL, needed with a ``shard-mode``.
    """

    unit_type = pb.Sync

    def __init__(
        self,
        cfg: SubTaskConfig,
        engine: SparkEngine,
        relay: RelayReader | None = None,
        orders: OperatorSource = tuple,
        lock_service: LockService | None = None,
        observer: BatchObserver | None = None,
    ) -> None:
        self._observer = observer or NOBODY
        self._cfg = cfg
        self._lock_service = lock_service
        self._relay = relay
        self._orders = orders
        self._engine = engine
        #: Summed over all runs.
        self.figures = SyncFigures()
        self.hold = Hold()
        self._group = f"sync-{cfg.name}-{cfg.source_id}"
        self._control = Control()
        #: Cancels the run if it does not end in time after a stop.
        self._cancel_timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._run: SyncRun | None = None
        #: The statement at which the last failed run failed; None where it failed at something else.
        self._stuck: BinlogStatement | SettleDDL | None = None
        #: Held by operations that need the checkpoint exclusively.
        self._busy = threading.Lock()

    @property
    def received_bytes(self) -> int:
        """Bytes of the binlog stream; without bytes from the relay log."""
        return self.figures.reading.received

    def is_finished(self) -> bool:
        """A run finds out whether replication has come to the end that the task may have."""
        return False

    def run(self, control: Control | None = None) -> UnitOutcome:
        """Replicates until stopped or failed; continues from the checkpoint each time."""
        with self._busy:
            with self._lock:
                self._control = control = control or Control()
                self._cancel_timer = None
            outcome = self._replicate(control)
            if outcome.errors:
                with self._lock:
                    self._stuck = self._run.handling if self._run is not None else None
            return outcome

    def _replicate(self, control: Control) -> UnitOutcome:
        run = SyncRun(
            self._cfg, self._engine, self._group, control.is_stopping, self._relay, self._orders, self._lock_service,
            control.try_begin, self.figures, control.safe_request, self.hold, self._observer,
        )  # fmt: skip
        with self._lock:
            self._run = run
        try:
            run.work()
        except DMError as exc:
            if not (control.is_stopping() and exc.retryable):
                log.error("replication stopped", task=self._cfg.name, source=self._cfg.source_id, error=str(exc))
                return UnitOutcome(errors=[exc])
        except Exception as exc:  # noqa: BLE001 - an operator must see every error
            log.error("replication failed", task=self._cfg.name, source=self._cfg.source_id, error=repr(exc))
            return UnitOutcome(
                errors=[
                    errors.new(Code.SyncerUnitPanic, f"the syncer failed: {exc!r}", raw=exc, workaround=Advice.DEFECT)
                ]
            )
        finally:
            run.close()
        return UnitOutcome(canceled=True) if run.finished is None else UnitOutcome(finished=True)

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        """Ends the running batch and flushes the checkpoint, or cancels the job at once when not graceful.

        A batch that takes longer than :data:`PAUSE_TIMEOUT` is cancelled too: its intent is durable, so the next run
        finishes it.
        """
        with self._lock:
            current, run = self._control, self._run
            if control is not None and control is not current:
                return
            current.stop()
            self.hold.run_ended()
            if graceful:
                if self._cancel_timer is None:
                    self._cancel_timer = self._cancel_later(current, PAUSE_TIMEOUT)
                return
        self._cancel_batch(run)
        if run is not None:
            run.abort()

    def _cancel_batch(self, run: SyncRun | None) -> None:
        self._engine.cancel(self._group)
        if run is not None:
            run.cancel_batch()

    def _cancel_later(self, control: Control, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, self._cancel, (control,))
        timer.daemon = True
        timer.start()
        return timer

    def _cancel(self, control: Control) -> None:
        """Cancels the run's batches, again and again until the run ends, because its next job may start at any time.
        Once the run has ended, Spark may be closed at any time."""
        with self._lock:
            same, run = self._control is control, self._run
        if same and control.is_stopping() and self._busy.locked():
            self._cancel_batch(run)
            self._cancel_later(control, CANCEL_AGAIN)

    @property
    def stuck_at(self) -> BinlogStatement | SettleDDL | None:
        """The statement of the last failure, until the checkpoint is after it; or the DDL of merged shards that could
        not be settled, until it is."""
        with self._lock:
            stuck, run = self._stuck, self._run
        if isinstance(stuck, SettleDDL):
            return None if run is not None and run.has_settled(stuck) else stuck
        flushed = self.flushed
        passed = stuck is not None and flushed is not None and not flushed.position < stuck.position
        return None if passed else stuck

    @property
    def needed(self) -> Location | None:
        """From this location on, statements may still be executed: the checkpoint, or the location of the first
        unsettled DDL of merged shards. None before the last run took over."""
        with self._lock:
            run = self._run
        return run.needed if run is not None else None

    @property
    def flushed(self) -> Location | None:
        """The checkpoint that the last run left; None before it took over."""
        with self._lock:
            run = self._run
        return run.flushed if run is not None else None

    def checkpoint(self) -> Location | None:
        """The checkpoint, read from the target if no run knows it; None when there is none yet. Raises DMError."""
        flushed = self.flushed
        if flushed is not None:
            return flushed
        store = MetaStore(self._cfg, should_stop=lambda: True)
        try:
            return store.peek()[0]
        finally:
            store.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Prevents that a run begins meanwhile. Raises 40051 during a run."""
        if not self._busy.acquire(blocking=False):
            raise errors.new(
                Code.WorkerNotPausedStage,
                f"replication of task {self._cfg.name} is running",
                workaround="Pause the task, wait until query-status shows it Paused, and try again. Directly after a "
                "start this may take a few seconds.",
            )
        try:
            yield
        finally:
            self._busy.release()

    @contextmanager
    def structures(self) -> Iterator[KnownStructures]:
        """The known structures, to read and change; no run begins meanwhile. Raises 40051 during a run."""
        with self._alone(), closing(KnownStructures(self._cfg)) as structures:
            yield structures

    def hand_back(self, *, execute: bool) -> str:
        """Hands the task back to DM and describes the result; only describes it without ``execute``. Raises DMError;
        40051 during a run."""
        with self._alone():
            return hand_back(self._cfg, execute=execute)

    def fill(self, status: pb.SubTaskStatus, received_before: int) -> None:
        status.sync.CopyFrom(self.status())
        status.sync.dumpIOTotalBytes = received_before

    def status(self) -> pb.SyncStatus:
        with self._lock:
            run = self._run
        if run is not None:
            status = run.monitor.status()
            status.held = self.hold.shown
            status.ended = "" if run.finished is None else f"replication has ended at {run.finished}, as asked"
            return status
        return pb.SyncStatus(
            binlogType="unknown",
            secondsBehindMaster=UNKNOWN,
            bytesBehind=UNKNOWN,
            eta="unknown",
            streamSecondsBehind=UNKNOWN,
            streamBytesBehind=UNKNOWN,
            streamLagReason=STOPPED,
        )

    def remove_meta(self) -> None:
        """Deletes this source's rows from the syncer's meta tables. Raises DMError."""
        store = MetaStore(self._cfg)
        try:
            store.remove()
        finally:
            store.close()
