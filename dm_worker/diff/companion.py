"""Runs comparisons beside a subtask's replication; they start and stop with it, and continue after every restart. The
requested comparison is stored in the target (:mod:`state_table`), so any worker that replicates the source continues
it. While the subtask is paused, its comparison waits. While no such comparison runs, the validation's sweep does
(:mod:`sweep`).
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dm_worker.diff.difference_files import DifferenceFiles
from dm_worker.diff.holds import HoldSyncer, PairHolds
from dm_worker.diff.meeting import PairMeeting, open_meeting
from dm_worker.diff.progress import DiffProgress
from dm_worker.diff.run import DiffRun, DiffSurroundings, is_exact
from dm_worker.diff.state_table import FINISHED, RUNNING, STOPPED, DiffRecord, DiffSettings, DiffStateTable
from dm_worker.diff.status_view import shown_comparison
from dm_worker.diff.sweep import Sweep, SweepReader
from dm_worker.subtask.companion import FailSubTask
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger

log = get_logger("diff")

#: Seconds before the stored state is read again after an error.
_RETRY = 5.0
#: Seconds between two checks whether other sources still compare.
_SERVE_POLL = 1.0
#: Seconds between two checks whether the sweep requests a pair of snapshots; the sweep is not urgent.
_SWEEP_IDLE = 0.5


@dataclass(frozen=True, slots=True)
class _Known:
    """The comparison that was read or begun last."""

    record: DiffRecord
    progress: DiffProgress


#: How long the transaction of a command is repeated, in seconds.
COMMAND_SECONDS = 10.0


class DiffCompanion:
    """See :class:`dm_worker.subtask.companion.Companion`."""

    unit_type = pb.Sync

    def __init__(
        self,
        cfg: SubTaskConfig,
        surroundings: Callable[[], DiffSurroundings | None],
        reader: SweepReader | None = None,
    ) -> None:
        """``surroundings``: None while the subtask does not replicate. ``reader`` receives what the sweep finds."""
        self._cfg = cfg
        self._sweep = None if reader is None else Sweep(cfg, reader, surroundings, self._sweep_holds)
        self._surroundings = surroundings
        self._lock = threading.Lock()
        #: Set while the unit runs.
        self._accompanies = False
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._run: DiffRun | None = None
        self._known: _Known | None = None

    # -- the companion's protocol ---------------------------------------------------------------------------------

    def start(self, fail: FailSubTask) -> None:
        with self._lock:
            self._accompanies = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name=f"diff-{self._cfg.name}", daemon=True)
                self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        with self._lock:
            self._accompanies = False
            run = self._run
        if run is not None:
            run.stop()

    def join(self) -> None:
        self._ended.set()
        self.stop()
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def fill(self, status: pb.SubTaskStatus) -> None:
        """No part of the subtask's status: a comparison has its own command."""

    # -- the commands ---------------------------------------------------------------------------------------------

    def start_diff(self, run: str, settings: DiffSettings) -> None:
        """Starts the comparison ``run``. Raises 43104 while one runs."""
        known = self._read()
        if known is not None and known.record.stage == RUNNING:
            raise errors.new(
                Code.DiffRefused,
                f"a comparison of task {self._cfg.name} is running",
                workaround=f"`dmctl diff stop {self._cfg.name}` ends it, `dmctl diff status` shows it.",
            )
        if settings.repair and not is_exact(self._cfg, settings):
            raise errors.new(
                Code.DiffRefused,
                f"the upstream of source {self._cfg.source_id} is read by position: a snapshot may lack a transaction "
                "that its position includes, and a repair would undo it",
                workaround="Use --lock with --repair, or a source with enable-gtid.",
            )
        record = DiffRecord(run, time.time(), RUNNING, settings)
        table = DiffStateTable(self._cfg, after(COMMAND_SECONDS))
        try:
            table.replace(record)
        finally:
            table.close()
        self._note(record, DiffProgress(()))
        self._wake.set()

    def end(self) -> None:
        """Stops the comparison; what it found stays. Raises 43104 if none runs."""
        known = self._read()
        if known is None or known.record.stage != RUNNING:
            raise errors.new(
                Code.DiffRefused,
                f"no comparison of task {self._cfg.name} is running",
                workaround=f"`dmctl diff start {self._cfg.name}` starts one.",
            )
        stopped = known.record.at(STOPPED)
        table = DiffStateTable(self._cfg, after(COMMAND_SECONDS))
        try:
            table.note(stopped)
        finally:
            table.close()
        with self._lock:
            run = self._run
            if run is not None:
                run.record = stopped
            self._known = _Known(stopped, known.progress)
        if run is not None:
            run.stop()

    def status(self) -> pb.DiffSourceStatus:
        """Raises 43104 if there is no comparison to show."""
        with self._lock:
            run, accompanies = self._run, self._accompanies
        known = self._read()
        if known is None:
            raise errors.new(
                Code.DiffRefused,
                f"task {self._cfg.name} was never compared",
                workaround=f"`dmctl diff start {self._cfg.name}` starts a comparison.",
            )
        shown = shown_comparison(known.record, known.progress, self._files(known.record))
        if known.record.stage == RUNNING:
            left = shown.totalRows - shown.rows
            shown.eta = run.rate.eta(max(0, left)) if run is not None else "unknown"
            waits_for = run.waits_for if run is not None else ""
            if not accompanies:
                waits_for = "the task does not replicate now: the comparison continues when it does"
            if waits_for:
                shown.stage, shown.msg = "Waiting", waits_for
        return shown

    # -- the thread -----------------------------------------------------------------------------------------------

    def _main(self) -> None:
        while not self._ended.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self._work()
                if self._sweep is not None:
                    self._sweep.work(self._wake.wait, self._is_interrupted)
            except Exception as exc:  # noqa: BLE001 - without this thread the comparison would hang
                if not self._accompanies:
                    continue
                trace = "" if isinstance(exc, DMError) else "".join(traceback.format_exception(exc))
                log.warning("a comparison cannot continue; trying again", error=str(exc), trace=trace)
                if not self._ended.wait(_RETRY):
                    self._wake.set()

    def _is_interrupted(self) -> bool:
        """Whether the sweep must end, because the thread has other work."""
        return self._wake.is_set() or not self._accompanies or self._ended.is_set()

    def _sweep_holds(self, syncer: HoldSyncer) -> PairHolds:
        return PairHolds(self._meeting, syncer, _SWEEP_IDLE)

    def _work(self) -> None:
        """Runs the comparison that is due, if there is one."""
        table = DiffStateTable(self._cfg, lambda: not self._accompanies)
        try:
            found = table.read()
            if found is None:
                return
            record, progress = found
            self._note(record, progress)
            around = self._surroundings()
            if around is None or not (record.stage == RUNNING or table.others_run(record)):
                return
            with PairHolds(self._meeting, around.syncer):
                if record.stage == RUNNING:
                    self._compare(record, progress, table, around)
                while self._may_serve() and table.others_run(record):
                    self._ended.wait(_SERVE_POLL)
        finally:
            table.close()

    def _may_serve(self) -> bool:
        with self._lock:
            known = self._known
            return self._accompanies and known is not None and known.record.stage == FINISHED

    def _compare(
        self, record: DiffRecord, progress: DiffProgress, table: DiffStateTable, around: DiffSurroundings
    ) -> None:
        repairs = table if record.settings.repair else None
        run = DiffRun(self._cfg, around, table, self._files(record), record, progress, repairs=repairs)
        with self._lock:
            if not self._accompanies:
                return
            self._run = run
        log.info("the comparison begins", task=self._cfg.name, source=self._cfg.source_id, run=record.run)
        try:
            run.work()
        finally:
            with self._lock:
                self._run = None
                if run.record.stage == FINISHED:
                    self._known = _Known(run.record, run.progress)
                elif self._known is not None and self._known.record.run == record.run:
                    self._known = _Known(self._known.record, run.progress)

    def _meeting(self) -> PairMeeting:
        return open_meeting(self._cfg, self._cfg.source_id)

    def _note(self, record: DiffRecord, progress: DiffProgress) -> None:
        with self._lock:
            self._known = _Known(record, progress)

    def _read(self) -> _Known | None:
        """The present record; read from the target if this process has not read it yet."""
        with self._lock:
            if self._run is not None:
                return _Known(self._run.record, self._run.progress)
            if self._known is not None:
                return self._known
        table = DiffStateTable(self._cfg, after(COMMAND_SECONDS))
        try:
            found = table.read()
        finally:
            table.close()
        return None if found is None else _Known(*found)

    def _files(self, record: DiffRecord) -> DifferenceFiles:
        cfg = self._cfg
        folder = Path(f"{cfg.loader.dir}.{cfg.name}.diff").absolute() / cfg.source_id / record.run
        return DifferenceFiles(folder, redact=record.settings.redact)


def after(seconds: float) -> Callable[[], bool]:
    """Returns a function that is true after ``seconds``: a command waits for a deadlock to end, not for a lost
    target."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
