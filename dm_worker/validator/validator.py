"""The continuous validation of one subtask: a companion of the syncer that compares what the syncer has applied.

It reads no binlog: it takes each batch that the syncer has planned and applied, and compares the rows that the batch
touched with the target. The syncer never waits for it, except for a moment while it opens a snapshot between two
batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import TablePair
from dm_worker.engine.engine import SparkEngine
from dm_worker.foreign_writes.watcher import ForeignWrites
from dm_worker.subtask.companion import FailSubTask
from dm_worker.subtask.subtask import process_result
from dm_worker.syncer.execution.row_look import problem_of
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.figures.batch_report import Changes
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.rows.row_matching import RowMatch
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.syncer.unit.batch_observer import Unsettled
from dm_worker.validator import view
from dm_worker.validator.backlog import Backlog, WaitingBatch
from dm_worker.validator.cutover import Cutover
from dm_worker.validator.differences import LookResult, Restructured, RowMismatch
from dm_worker.validator.earlier_changes import EarlierChanges
from dm_worker.validator.failures import defect, full_disk
from dm_worker.validator.rounds import Rounds, SnapshotGate
from dm_worker.validator.row_comparison import TableChanged
from dm_worker.validator.state import ValidatorState
from dm_worker.validator.store import Progress, TableState, ValidatorStore
from dm_worker.validator.swept_rows import mismatches
from dm_worker.validator.target_reads import TargetReads
from dm_worker.validator.verdicts import Judge, Verdicts
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.names import TableId, qualified
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger

log = get_logger("validator")

#: A round starts early when this many row changes wait.
ROUND_ROWS = 100_000
#: The most errors that one check compares again.
MOST_CHECKS = 500
#: Seconds between two steps of the thread, before a retry after a failure, and for comparing the rest after a stop.
STEP, PAUSE, REST = 0.2, 2.0, 5.0
#: Rows per second that are compared because others have written them, without a `sweep-rate`.
DEFAULT_RATE = 20_000


class Validator:
    """Companion of the sync unit, and observer of its runs (:mod:`batch_observer`)."""

    unit_type = pb.Sync

    def __init__(self, cfg: SubTaskConfig, engine: SparkEngine) -> None:
        self._cfg = cfg
        options = cfg.validator
        self._engine = engine
        self._group = f"validate-{cfg.name}-{cfg.source_id}"
        self._lock = threading.RLock()
        self._known = False
        self._mode = ""
        self._beside = False
        self._run = 0
        self._state = ValidatorState()
        self._seen_plans: set[tuple[int, int]] = set()
        self._unsettled: Unsettled = tuple
        self._backlog = Backlog(options.max_pending_row_count, options.max_pending_row_size)
        self._gate = SnapshotGate()
        self._rounds = Rounds(
            engine, self._group, self._backlog, self._gate,
            workers=options.worker_count, most_rows=options.batch_query_size,
        )  # fmt: skip
        self._store = ValidatorStore(cfg)
        self._reads: TargetReads | None = None
        self._loaded = False
        #: How far an earlier process had compared; None if it had compared nothing.
        self._stored: Progress | None = None
        #: Guards the store.
        self._storing = threading.Lock()
        #: When the thread stops comparing the rest after a stop.
        self._deadline = 0.0
        self._spec: TargetSpec | None = None
        self._sweep_text: Callable[[], str] = str
        self._round_seconds: Callable[[], float] = float
        self._foreign = ForeignWrites(cfg)
        self._wake = threading.Event()
        self._next_check = 0
        self._alive = False
        self._thread: threading.Thread | None = None

    # -- what an operator wants -----------------------------------------------------------------------------------

    @property
    def config(self) -> SubTaskConfig:
        return self._cfg

    def expect(self, wanted: str | None, since: str = "") -> None:
        """Compares in a mode, ``fast`` or ``full``; ends with ''; None: the task has no validation. ``since``: the
        position of a start by time. Returns at once."""
        mode = wanted or ""
        with self._lock:
            self._known = wanted is not None
            if mode == self._mode:
                return
            log.info("validation", task=self._cfg.name, source=self._cfg.source_id, mode=mode or "stopped")
            self._mode = mode
            self._state.failure = None
            self._state.earlier = EarlierChanges(since) if mode and since else None
            self._settle_earlier()
            if not mode:
                self._backlog.clear()
                self._state.judge = Judge(self._state.judge.uncompared)
                self._state.covered = self._state.progress.location if self._loaded else None
            elif self._beside and self._spec is not None:
                self._begin_at(self._state.reached)
            self._follow()

    # -- the companion --------------------------------------------------------------------------------------------

    def start(self, fail: FailSubTask) -> None:
        with self._lock:
            self._beside = True
            self._state.failure = None
            self._follow()

    def stop(self) -> None:
        with self._lock:
            self._beside = False
            self._follow()

    def join(self) -> None:
        self._foreign.join()
        thread = self._thread
        if thread is not None:
            thread.join()
        with self._storing:
            self._store.close()
            if self._reads is not None:
                self._reads.close()
        with self._lock:
            self._backlog.clear()

    def fill(self, status: pb.SubTaskStatus) -> None:
        found = self.status()
        if found is not None:
            status.validation.CopyFrom(found)

    def _follow(self) -> None:
        """Starts the threads if they are to run; called under the lock."""
        self._foreign.follow(self._runs)
        if self._runs and not self._alive:
            self._alive = True
            self._thread = threading.Thread(target=self._main, name=f"validator-{self._cfg.name}", daemon=True)
            self._thread.start()
        self._wake.set()

    @property
    def _runs(self) -> bool:
        return self._beside and self._takes

    # -- the observer ---------------------------------------------------------------------------------------------

    def began(self, target: TargetSpec, location: Location, unsettled: Unsettled) -> None:
        with self._observing():
            self._run += 1
            self._spec, self._unsettled = target, unsettled
            self._state.judge.interrupted(self._gate.last)
            if self._takes:
                self._begin_at(location)
            self._state.reached = location
        self._gate.abandoned()

    def applying(self) -> None:
        self._gate.applying()

    def applied(self, batch: Batch, number: int, changes: Mapping[int, Changes], location: Location) -> None:
        with self._observing():
            if self._takes:
                self._take(batch, number, changes, location)
            self._reach(location)
        self._gate.reported(number)

    def passed(self, location: Location) -> None:
        with self._observing():
            self._reach(location)

    def restructured(self, number: int | None, tables: Collection[TableId]) -> None:
        with self._observing():
            self._foreign.restructured()
            if self._takes:
                self._backlog.put(Restructured(number, tables))
        if number is not None:
            self._gate.reported(number)

    def interrupted(self) -> None:
        with self._observing():
            self._state.judge.interrupted(self._gate.last)
        self._gate.abandoned()

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """Holds the lock. A fault of the validator must not stop what it observes."""
        with self._lock:
            try:
                yield
            except OSError as exc:
                self._fail(full_disk(exc))
            except Exception as exc:  # noqa: BLE001 - an operator must see every error
                self._fail(defect(exc))

    @property
    def _takes(self) -> bool:
        """Whether batches must be compared."""
        return bool(self._mode) and self._state.failure is None

    def _reach(self, location: Location) -> None:
        self._state.reached = location
        if self._takes:
            self._state.covered = location

    def _begin_at(self, location: Location) -> None:
        """Takes batches from ``location`` on. Notes a gap if earlier changes were not taken."""
        state = self._state
        if state.first is None:
            state.first = location
            self._note_start()
        if state.covered is not None and _is_before(state.covered, location):
            self._note(f"changes from {state.covered.position} to {location.position} may not have been compared")
        state.covered = location

    def _take(self, batch: Batch, number: int, changes: Mapping[int, Changes], location: Location) -> None:
        plans = {one: plan for one, plan in batch.plans.items() if self._is_comparable(one, plan)}
        total = [sum(found) for found in zip(*(changes.get(one, (0, 0, 0)) for one in plans), strict=True)]
        waiting = WaitingBatch(
            number, self._run, location, batch.slices, dict(batch.plans),
            (total[0], total[1], total[2]) if total else (0, 0, 0), batch.size,
        )  # fmt: skip
        self._backlog.put(waiting)

    def _is_comparable(self, number: int, plan: TablePlan) -> bool:
        """Notes the table of a new plan."""
        problem = problem_of(plan)
        if (self._run, number) not in self._seen_plans:
            self._seen_plans.add((self._run, number))
            stage = "Stopped" if problem else "Running"
            self._state.tables[plan.source] = TableState(plan.source, plan.target, stage, problem)
        return not problem

    # -- the thread -----------------------------------------------------------------------------------------------

    def _main(self) -> None:
        options = self._cfg.validator
        due = dict.fromkeys(("round", "early", "check"), 0.0)
        due["flush"] = time.monotonic() + options.meta_flush_interval
        while self._continues():
            self._wake.wait(STEP)
            self._wake.clear()
            now = time.monotonic()
            at_cutover = self._is_at_cutover()
            much = self._deadline > 0 or sum(self._backlog.pending) >= ROUND_ROWS
            early = now >= due["early"] and (much or at_cutover)
            if early or now >= due["round"]:
                done = self._guarded(self._round)
                ended = time.monotonic()
                due["round"] = ended + (options.validate_interval if done else PAUSE)
                due["early"] = ended if done else ended + PAUSE
                if at_cutover:
                    due["flush"] = now
            if now >= due["check"] and not self._deadline:
                self._guarded(self._check_errors)
                due["check"] = time.monotonic() + options.check_interval
            errors = self._state.errors
            if now >= due["flush"] or errors.changed or errors.cleared:
                self._guarded(self._flush)
                due["flush"] = time.monotonic() + options.meta_flush_interval
        self._guarded(self._flush)

    def _continues(self) -> bool:
        """Whether the thread runs on; after a stop it compares for a while what waits. Otherwise it is forgotten."""
        with self._lock:
            if self._runs:
                self._deadline = 0.0
                return True
            self._deadline = self._deadline or time.monotonic() + REST
            if self._takes and len(self._backlog) and time.monotonic() < self._deadline:
                return True
            self._deadline = 0.0
            self._alive = False
            return False

    def _guarded(self, work: Callable[[], None]) -> bool:
        """Runs a step; False when it failed, and is to be tried again."""
        try:
            work()
        except TableChanged:
            return False
        except DMError as exc:
            log.warning("validation: a step failed", task=self._cfg.name, error=str(exc), retryable=exc.retryable)
            if not exc.retryable:
                self._fail(exc)
            return False
        except OSError as exc:
            self._fail(full_disk(exc))
            return False
        except Exception as exc:  # noqa: BLE001 - an operator must see every error
            self._fail(defect(exc))
            return False
        return True

    def _fail(self, error: DMError) -> None:
        with self._lock:
            self._state.failure = error
            self._note(f"changes after {self._state.progress.location.position} were not compared: {error.message}")
            self._backlog.clear()
            self._follow()

    def _round(self) -> None:
        """Compares all waiting batches."""
        with self._storing:
            self._load()
        spec = self._spec
        if spec is None:
            return
        if self._reads is None:
            self._reads = TargetReads(spec, self._cfg.source_id)
        while not self._should_end():
            statement = self._backlog.statement()
            if statement is not None:
                with self._lock:
                    self._accept(self._state.judge.restructured(statement))
                continue
            if self._backlog.first(1):
                self._rounds.run(self._reads, self._mode == "full", self._watched, self._looked, self._should_end)
            if not self._backlog.statements():
                break
        with self._lock:
            if not len(self._backlog):
                self._at(self._state.reached)

    def _is_at_cutover(self) -> bool:
        """Whether all changes up to the cutover are applied, but not all of them are compared."""
        with self._lock:
            progress, flavor = self._state.progress, self._cfg.flavor
            cutover = progress.cutover
            return cutover.is_reached(self._state.reached, flavor) and not cutover.is_reached(progress.location, flavor)

    def _should_end(self) -> bool:
        return not self._takes or 0 < self._deadline < time.monotonic()

    def _watched(self) -> tuple[list[RowMismatch], int]:
        with self._lock:
            judge = self._state.judge
            return [*judge.watched, *(one.difference for one in self._state.errors.to_check())], judge.boundary

    def _looked(self, look: LookResult, batches: Sequence[WaitingBatch]) -> None:
        # Read before the statements: a statement that ends in between is then in their list.
        unsettled = frozenset(self._unsettled())
        with self._lock:
            if not self._backlog.done(batches):
                return
            coming = self._backlog.statements()
            verdicts = self._state.judge.looked(look, coming, lambda table: qualified(*table) in unsettled)
            progress = self._state.progress
            sums = [sum(found) for found in zip(progress.processed, *(one.changes for one in batches), strict=True)]
            self._state.progress = replace(progress, processed=(sums[0], sums[1], sums[2]))
            self._accept(verdicts)
            self._at(batches[-1].location)

    def _accept(self, verdicts: Verdicts) -> None:
        for error in self._state.errors.take(verdicts, _now()):
            one = error.difference
            log.error(
                "validation: a row differs", task=self._cfg.name, source=self._cfg.source_id,
                table=qualified(*one.target), kind=view.kind_of(one),
            )  # fmt: skip

    def _at(self, location: Location) -> None:
        self._state.progress = replace(self._state.progress, location=location)

    def _check_errors(self) -> None:
        """Finds errors whose rows are right again. If there are many errors, each call checks the next ones."""
        with self._lock:
            waiting = self._state.errors.to_check()
            start = self._next_check if self._next_check < len(waiting) else 0
            waiting = waiting[start : start + MOST_CHECKS]
            self._next_check = start + len(waiting)
        if not waiting or self._reads is None:
            return
        self._reads.prepare()
        right = self._reads.are_right([error.difference.check for error in waiting])
        with self._lock:
            for error, is_right in zip(waiting, right, strict=True):
                if is_right:
                    self._state.errors.repaired(error.difference.row)

    # -- the sweep: see :class:`dm_worker.diff.sweep.SweepReader` ---------------------------------------------------

    @property
    def sweep_rate(self) -> int:
        with self._lock:
            wanted = self._mode == "full" or self._state.earlier is not None
            return self._cfg.validator.sweep_rate if self._runs and wanted else 0

    @property
    def suspect_rate(self) -> int:
        with self._lock:
            return self._cfg.validator.sweep_rate or DEFAULT_RATE if self._runs else 0

    @property
    def suspects(self) -> ForeignWrites:
        return self._foreign

    def show_sweep(self, text: Callable[[], str], round_seconds: Callable[[], float]) -> None:
        self._sweep_text, self._round_seconds = text, round_seconds

    def sweep_begins(self, run: str) -> None:
        self._foreign.sweep_begins(run)
        with self._lock:
            if self._state.earlier is not None:
                self._state.earlier.run = run

    def swept(self, run: str, pair: TablePair, matches: RowMatch, found: Iterable[Difference]) -> None:
        with self._storing:
            self._load()
        with self._lock:
            self._accept(Verdicts(mismatches(run, pair, matches, found)))
        self._flush()

    def sweep_ended(self, run: str, tables: Collection[TableId], left_out: str) -> None:
        self._foreign.sweep_ended(run)
        with self._storing:
            self._load()
        with self._lock:
            self._state.errors.swept(run, tables)
            earlier = self._state.earlier
            if earlier is not None and earlier.run == run:
                self._note(earlier.ended(left_out))
                self._settle_earlier()
        self._flush()

    # -- durable state --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Reads what an earlier process stored. Raises DMError."""
        if self._loaded:
            return
        self._store.prepare()
        stored, found = self._store.progress(), self._store.errors()
        with self._lock:
            state = self._state
            state.errors.errors.update((error.difference.row, error) for error in found)
            if stored is not None:
                cutover = state.progress.cutover if state.progress.cutover.is_known else stored.cutover
                notes = (*stored.notes, *state.progress.notes)[-view.MOST_NOTES :]
                state.progress = replace(stored, notes=notes, cutover=cutover)
            self._stored, self._loaded = stored, True
            self._note_start()
            self._settle_earlier()

    def _settle_earlier(self) -> None:
        """Forgets the start by time whose changes are compared."""
        earlier, progress = self._state.earlier, self._state.progress
        if earlier is not None and self._loaded and earlier.is_done(progress.notes):
            self._state.earlier = None

    def _note_start(self) -> None:
        """Notes the position from which changes are compared. It is known once the first location and the stored
        progress are."""
        first, stored = self._state.first, self._stored
        if first is None or not self._loaded:
            return
        if stored is None:
            self._note(f"changes are compared from {first.position} on")
        elif _is_before(stored.location, first):
            self._note(f"changes from {stored.location.position} to {first.position} may not have been compared")

    def _flush(self) -> None:
        """Stores progress and errors. Raises DMError."""
        with self._storing:
            self._load()
            with self._lock:
                errors_, judge = self._state.errors, self._state.judge
                changed, cleared = errors_.to_store(), sorted(errors_.cleared)
                progress = self._state.progress
                tables = view.table_states(self._state.tables, judge.uncompared)
                errors_.changed, errors_.cleared = set(), set()
            try:
                stored = self._store.write(progress, changed, cleared, tables)
            except DMError:
                with self._lock:
                    errors_.changed |= {one.difference.row for one in changed} & errors_.errors.keys()
                    errors_.cleared |= set(cleared)
                raise
            with self._lock:
                errors_.numbered(stored)

    def _note(self, text: str) -> None:
        self._state.progress = replace(
            self._state.progress, notes=(*self._state.progress.notes, text)[-view.MOST_NOTES :]
        )

    # -- status and operators' orders -------------------------------------------------------------------------------

    def status(self) -> pb.ValidationStatus | None:
        """None for a task without validation."""
        with self._lock:
            state = self._state
            if not self._known:
                return None
            stage = pb.Running if self._runs else pb.Stopped
            status = pb.ValidationStatus(
                task=self._cfg.name,
                source=self._cfg.source_id,
                mode=self._mode or self._cfg.validator.mode,
                stage=stage,
                result=None if state.failure is None else process_result(False, [state.failure]),
                errorRowsStatus=view.counts("new/ignored/resolved", state.errors.counts()),
                cutoverBinlogPos=state.progress.cutover.position,
                cutoverBinlogGtid=state.progress.cutover.gtid_set,
                sweepStatus=self._sweep_text() if self.sweep_rate else "",
                foreignWrites=self._foreign_text() if self._runs else "",
            )
            view.fill_progress(status, state.progress, self._backlog.pending)
            cutover = state.progress.cutover.note(state.progress.location, self._cfg.flavor)
            if cutover:
                status.notes.append(cutover)
            if state.earlier is not None:
                status.notes.append(state.earlier.waiting)
            if state.judge.undecided:
                status.notes.append(f"{state.judge.undecided} rows differed once; the next comparison decides")
            if state.errors.unlisted:
                status.notes.append(f"{state.errors.unlisted} more differences are not listed")
        return status

    def _foreign_text(self) -> str:
        return self._foreign.text(self._round_seconds() if self.sweep_rate else None)

    def table_messages(self) -> list[pb.ValidationTableStatus]:
        """The tables that the binlog named."""
        with self._lock:
            found = view.table_states(self._state.tables, self._state.judge.uncompared)
        return [view.table_message(self._cfg.source_id, one) for one in found]

    def error_messages(self) -> list[pb.ValidationError]:
        """All errors that have their number, by number. Raises DMError."""
        self._flush()
        with self._lock:
            # One that was found since has none yet, so that no command could name it.
            numbered = (error for error in self._state.errors.errors.values() if error.number)
            found = sorted(numbered, key=lambda error: error.number)
        return [view.error_message(self._cfg.source_id, one) for one in found]

    def operate(self, number: int | None, status: int | None) -> bool:
        """Sets the status of one error, or of all; None clears. False when there is no such error. Raises DMError."""
        self._flush()
        with self._lock:
            found = self._state.errors.operate(number, status)
        self._flush()
        return found

    def cut_over_at(self, position: str, gtid: str) -> None:
        """Stores the cutover; when the changes up to it are applied, compares all of them. Raises DMError."""
        cutover = Cutover.of(position, gtid, self._cfg.flavor)
        with self._lock:
            self._state.progress = replace(self._state.progress, cutover=cutover)
        self._flush()
        self._wake.set()


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def _is_before(one: Location, other: Location) -> bool:
    """Whether both are known, and the first is before the second."""
    return bool(one.position.name and other.position.name) and one.position < other.position
