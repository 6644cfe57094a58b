"""One comparison of a source's tables: from the stored state to its end, or until it is stopped."""

from __future__ import annotations

import functools
import math
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import TablePair
from dm_worker.diff.compare_task import ChunkReport, ComparedTable, CompareSpec, counts_of, keys_of, run_compare_task
from dm_worker.diff.holds import HoldSyncer
from dm_worker.diff.meeting import open_meeting
from dm_worker.diff.methods import AtOnePosition, ComparisonMethod
from dm_worker.diff.pace import rest_after
from dm_worker.diff.progress import ChunkRepair, ChunkWork, ComparedChunk, DiffProgress, TableProgress
from dm_worker.diff.repair_notes import RepairNotes
from dm_worker.diff.snapshot_pair import PairServers
from dm_worker.diff.state_table import FINISHED, DiffRecord, DiffSettings
from dm_worker.diff.tables import TableFinder, TableParts
from dm_worker.engine.engine import SparkEngine
from dm_worker.subtask.periodic import Periodic
from dm_worker.subtask.rate import Rate
from dm_worker.syncer.rows.row_matching import RowMatch
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger

log = get_logger("diff")

#: How long a pair is used, in seconds. A transaction of the upstream lasts this long, and until the current chunk ends.
PAIR_SECONDS = 20.0
#: The same for a transaction that repairs, because replication waits for it.
REPAIR_SECONDS = 3.0
#: The same for a comparison that rests between its jobs.
PACED_SECONDS = 1.0
#: Chunks per task that are planned before a round, unless planning takes longer than these seconds.
_PLANNED_AHEAD, _PLAN_SECONDS = 16, 3.0
#: The most chunks of one pair.
_MOST_CHUNKS = 256
#: Seconds before the next attempt after an error, at first and at most.
_RETRY, _MOST_RETRY = 1.0, 30.0
#: Seconds between two checks during a job whether it is to stop.
_STOP_POLL = 0.5
#: Seconds between two checks of the lag while the comparison waits for it.
_LAG_POLL = 1.0
#: Seconds between two checks whether a chunk is due.
_DUE_POLL = 0.2
DEFAULT_MOST_LAG = 30
#: Seconds for the worker of another source to answer that it serves the source, while it may hold it for a task.
_SERVED_SECONDS = 20.0
#: After this many consecutive errors, a table is not compared.
TRIES = 5


class RunSurroundings(Protocol):
    """What a comparison uses of its worker."""

    @property
    def engine(self) -> SparkEngine: ...

    @property
    def lag(self) -> Callable[[], int]:
        """Seconds that replication is behind; -1 while unknown."""
        ...

    @property
    def siblings(self) -> Callable[[], Sequence[SubTaskConfig]]:
        """The comparison's other sources."""
        ...

    @property
    def neighbours(self) -> Callable[[], Sequence[SubTaskConfig]]:
        """The subtasks of other tasks."""
        ...


@dataclass(frozen=True, slots=True)
class DiffSurroundings:
    """The surroundings beside a subtask that replicates: see :class:`RunSurroundings`."""

    engine: SparkEngine
    syncer: HoldSyncer
    lag: Callable[[], int]
    siblings: Callable[[], Sequence[SubTaskConfig]]
    neighbours: Callable[[], Sequence[SubTaskConfig]]


class StateKeeper(Protocol):
    """Stores the progress of a comparison durably. Raises DMError."""

    def note(self, record: DiffRecord) -> None:
        """Stores the comparison's new stage."""
        ...

    def note_table(self, run: str, table: TableProgress) -> None:
        """Stores the table with its chunks, or why it is not compared."""
        ...

    def note_chunk(self, run: str, target: TableId, number: int, chunk: ComparedChunk) -> None: ...

    def forget_chunks(self, run: str, chunks: Iterable[ChunkWork]) -> None:
        """Removes the results of these chunks."""
        ...


class RepairKeeper(Protocol):
    """Stores in the target what a comparison repairs. Raises DMError."""

    def repair_notes(self, run: str) -> RepairNotes:
        """For the transactions that repair."""
        ...

    def plan_repairs(self, run: str, planned: Mapping[ChunkWork, tuple[int, int]]) -> None:
        """Notes that these chunks are about to be repaired; their differences end there in the files."""
        ...

    def read_repairs(self, run: str) -> Mapping[TableId, Mapping[int, ChunkRepair]]: ...


class Findings(Protocol):
    """Stores the differences that a comparison finds."""

    def resume(self, ends: Sequence[tuple[int, int]]) -> bool:
        """Prepares to append after these recorded ends; False if the recorded content is lost. Raises DMError."""
        ...

    def append(self, pair: TablePair, matches: RowMatch, found: Sequence[Difference]) -> tuple[int, int]:
        """Stores the differences of a chunk durably; returns where they end. Raises DMError."""
        ...


def is_exact(cfg: SubTaskConfig, settings: DiffSettings) -> bool:
    """Whether a snapshot of this upstream can be certain to have exactly the transactions before its position."""
    return cfg.flavor == "mariadb" or cfg.enable_gtid or settings.lock


class DiffRun:
    """Blocks in :meth:`work`; the properties are for any thread. ``waits_for``: '' while it compares."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        around: RunSurroundings,
        table: StateKeeper,
        findings: Findings,
        record: DiffRecord,
        progress: DiffProgress,
        method: ComparisonMethod | None = None,
        parts: TableParts | None = None,
        repairs: RepairKeeper | None = None,
    ) -> None:
        """``method``: by default at one position. ``parts``: by default everything. ``repairs``: None for a comparison
        that repairs nothing."""
        self._cfg = cfg
        self._around = around
        self._table = table
        self._findings = findings
        self.record = record
        self.progress = progress
        self.waits_for = ""
        self.rate = Rate(120.0)
        self._finder = TableFinder(cfg, record.settings, around.siblings, around.neighbours, parts)
        self._method = method or AtOnePosition()
        self._certainty = self._method.certainty()
        self._failures: Counter[TableId] = Counter()
        self._repairs = repairs
        #: Whether a table has changed since the finder has read the tables.
        self._changed = False
        #: Chunks to repair, with the ends of their differences in the files.
        self._to_repair: dict[ChunkWork, tuple[int, int]] = {}
        self._group = f"diff-{cfg.name}-{cfg.source_id}-{record.run}"
        self._stop = threading.Event()

    @property
    def source(self) -> str:
        """The source that compares."""
        return self._cfg.source_id

    def stop(self) -> None:
        """Asks the comparison to end soon; from any thread, also more than once."""
        self._stop.set()
        self._around.engine.cancel(self._group)

    def work(self) -> None:
        """Compares until everything is done or a stop is requested. Errors are shown, and the work is tried again."""
        pause, before = _RETRY, -1
        while not self._stop.is_set():
            try:
                self._attempt()
                return
            except Exception as exc:  # noqa: BLE001 - shown, and tried again
                if self._stop.is_set():
                    return
                trace = "" if isinstance(exc, DMError) else "".join(traceback.format_exception(exc))
                log.warning("the comparison waits", task=self._cfg.name, error=str(exc), trace=trace)
                self.waits_for = str(errors.wrap(exc))
            done = sum(len(table.done) for table in self.progress.tables.values())
            pause = _RETRY if done > before else min(2 * pause, _MOST_RETRY)
            before = done
            self._stop.wait(pause)

    def _attempt(self) -> None:
        # The files may lose what is not noted.
        self._to_repair.clear()
        self._read_repairs()
        if not self._findings.resume(self.progress.ends):
            self._table.forget_chunks(self.record.run, self.progress.forget_differences())
        self._finder.refresh()
        if not self.progress.tables:
            self._find_tables()
        while not self.progress.is_done:
            if self._stop.is_set() or not self._await_lag():
                return
            begun = time.monotonic()
            if self._changed:
                self._finder.refresh()
                self._changed = False
            self._plan_more()
            rows, read = self._round()
            if not self.progress.is_done:
                self._stop.wait(rest_after(rows, read, time.monotonic() - begun, self.record.settings.rows_per_second))
        self._read_repairs()
        self.record = replace(self.record, stage=FINISHED, whole=max(0.0, time.time() - self.record.begun))
        self._table.note(self.record)
        log.info("the comparison is done", task=self._cfg.name, verdict=self.progress.verdict())

    def _read_repairs(self) -> None:
        """Takes what transactions have repaired that this process does not know of."""
        if self._repairs is not None:
            self.progress.repairs_read(self._repairs.read_repairs(self.record.run))

    def _find_tables(self) -> None:
        found = DiffProgress(self._finder.find())
        for table in found.tables.values():
            self._table.note_table(self.record.run, table)
        self.progress = found

    def _await_lag(self) -> bool:
        """Waits while the syncer is too far behind; False if a stop was requested."""
        most = self.record.settings.most_lag or DEFAULT_MOST_LAG
        while (lag := self._around.lag()) > most:
            self.waits_for = f"replication is {lag} s behind, more than {most} s: the comparison would slow it down"
            if self._stop.wait(_LAG_POLL):
                return False
        self.waits_for = ""
        return not self._stop.is_set()

    def _plan_more(self) -> None:
        """Cuts tables into chunks until there is enough work for a round."""
        threads, begun = self._threads, time.monotonic()
        most = threads * _PLANNED_AHEAD
        while (waiting := len(self.progress.waiting(most, self._certainty.is_due))) < most:
            table = self.progress.next_unplanned()
            late = time.monotonic() - begun > _PLAN_SECONDS
            if table is None or (late and waiting >= threads):
                return
            try:
                plan = self._finder.plan(table.target)
            except DMError as exc:
                if exc.retryable:
                    raise
                self._refuse(table.target, str(exc))
                continue
            self.progress.planned(
                table.target,
                plan.spans,
                sample=self.record.settings.sample,
                outline=plan.outline,
                unjudged=plan.unjudged,
            )
            self._table.note_table(self.record.run, table)

    @property
    def _threads(self) -> int:
        slots = self._around.engine.slots
        if slots < 2:
            raise errors.new(
                Code.DiffRefused,
                "the worker has one slot only, which replication needs: the comparison has none",
                workaround="Set `slots` (embedded engine) to 2 or more, or give the cluster more executors.",
            )
        # Replication must always have a slot: the syncer has to reach the position at which it is held.
        return max(1, min(self.record.settings.threads or 2, slots // 2))

    def _round(self) -> tuple[int, int]:
        """One Spark job: each task compares chunks in one pair of snapshots. All tables of a job have rows of the same
        sources, so that no task holds a source that it does not need. Returns the rows and bytes that it read."""
        threads = self._threads
        if self._to_repair:
            # Rows of a task that has started meanwhile would be extra.
            self._finder.refresh()
        waiting = list(self._to_repair) or self.progress.waiting(threads * _MOST_CHUNKS, self._certainty.is_due)
        if not waiting:
            self.waits_for = self._certainty.waits_for
            self._stop.wait(_DUE_POLL)
            return 0, 0
        sources = self._finder.sources_of(waiting[0].target)
        works = [work for work in waiting if self._finder.sources_of(work.target) == sources]
        tables = self._prepared(list(dict.fromkeys(work.target for work in works)))
        works = [work for work in works if work.target in tables]
        if not works:
            return 0, 0
        shares = [(slot, works[slot::threads]) for slot in range(min(threads, len(works)))]
        if self.record.settings.is_sweep and (absent := self._not_served(sources)):
            for target in tables:
                self._refuse(target, absent)
            return 0, 0
        spec = self._spec(sources, tables, len(shares))
        if self._to_repair:
            shares, spec = [(0, works)], self._repairing(spec, works)
        reports = self._compared(shares, spec)
        for report in reports:
            self._take(report, tables)
        self.rate.sample(time.monotonic(), sum(table.rows for table in self.progress.tables.values()))
        # Nothing was compared: an immediate attempt would fail for the same reason.
        errs = [(report.work, report.error) for report in reports if report.error is not None]
        lost = [error for work, error in errs if work is None or error.retryable]
        if lost and not any(report.result is not None for report in reports):
            raise lost[0]
        results = [report.result for report in reports if report.result is not None]
        return sum(one.rows for one in results), sum(one.bytes for one in results)

    def _repairing(self, spec: CompareSpec, works: Sequence[ChunkWork]) -> CompareSpec:
        """Notes that the chunks are about to be repaired; returns what a task needs for it."""
        assert isinstance(spec.servers, PairServers)
        assert self._repairs is not None
        planned = {work: self._to_repair[work] for work in works}
        self._repairs.plan_repairs(self.record.run, planned)
        for work, ends in planned.items():
            self.progress.tables[work.target].repairs[work.number] = ChunkRepair(ends)
        servers, notes = replace(spec.servers, repairs=True), self._repairs.repair_notes(self.record.run)
        return replace(spec, servers=servers, seconds=REPAIR_SECONDS, notes=notes)

    def _prepared(self, targets: Sequence[TableId]) -> dict[TableId, ComparedTable]:
        """Makes the pairs of the tables of a round again: DDL may have changed them since the last round."""
        found = {}
        for target, made in self._finder.compared(targets).items():
            if isinstance(made, DMError):
                self._failed(target, made)
            elif made.pair.outline != self.progress.tables[target].outline:
                self._plan_again(target)
            else:
                found[target] = made
        return found

    def _plan_again(self, target: TableId) -> None:
        """The table's chunks are of a key, columns, filters or upstream tables that it no longer has."""
        log.info("a table is compared again from its start: it has changed", table=qualified(*target))
        self._forget(target)
        # In this order: results without a plan would be taken for those of the next plan.
        self._table.forget_chunks(self.record.run, self.progress.planned_again(target))
        self._table.note_table(self.record.run, self.progress.tables[target])

    def _forget(self, target: TableId) -> None:
        """Forgets what is known of chunks that wait for another look or a repair."""
        self._certainty.forget(target)
        for work in [one for one in self._to_repair if one.target == target]:
            del self._to_repair[work]

    def _not_served(self, sources: Sequence[str]) -> str:
        """Why a sweep of tables with rows of these sources would only wait, holding replication; '' if it would not."""
        cfg = self._cfg
        others = [source for source in sources if source != cfg.source_id]
        for source in others:
            with closing(open_meeting(cfg, source)) as meeting:
                if not meeting.is_served(f"{cfg.source_id} sweep", _SERVED_SECONDS):
                    return (
                        f"rows of source {source} are in it too, whose worker does not answer: the task must replicate "
                        "there, with validation in mode full"
                    )
        return ""

    def _spec(self, sources: Sequence[str], tables: Mapping[TableId, ComparedTable], tasks: int) -> CompareSpec:
        cfg, settings = self._cfg, self.record.settings
        configs = [self._finder.config(source) for source in sources]
        servers = self._method.servers(cfg, configs, lock=settings.lock)
        seconds = PACED_SECONDS if settings.rows_per_second else PAIR_SECONDS
        # Whoever limits what is read wants checksums.
        whole_rows = not (settings.bytes_per_second or settings.rows_per_second)
        rate = math.ceil(settings.bytes_per_second / tasks)
        return CompareSpec(servers, tables, seconds, rate, whole_rows, self._finder.feeding())

    def _compared(self, shares: Sequence[tuple[int, Sequence[ChunkWork]]], spec: CompareSpec) -> list[ChunkReport]:
        work = functools.partial(run_compare_task, spec)
        group = self._around.engine.job_group(self._group, f"diff of {self._cfg.source_id}", self._stop.is_set)
        try:
            with Periodic(_STOP_POLL, self._cancel_if_stopped), group as context:
                found: list[ChunkReport] = context.parallelize(shares, len(shares)).mapPartitions(work).collect()
                return found
        except DMError:
            raise
        except Exception as exc:  # Spark raises many kinds: a lost executor, a cancelled job
            raise errors.new(
                Code.DiffFailed,
                f"a job of the comparison failed: {str(exc)[:500]}",
                raw=exc,
                workaround=Advice.DEFECT,
                retryable=True,
            ) from exc

    def _cancel_if_stopped(self) -> None:
        """Cancels repeatedly, because the job may begin after the stop."""
        if self._stop.is_set():
            self._around.engine.cancel(self._group)

    def _take(self, report: ChunkReport, tables: Mapping[TableId, ComparedTable]) -> None:
        work, result = report.work, report.result
        if work is None:
            return
        if result is None:
            assert report.error is not None
            self._failed(work.target, report.error)
            return
        if work in self._to_repair:
            self._note_repair(work, report.repaired)
            return
        self._failures.pop(work.target, None)
        in_snapshots = tables[work.target].pair.in_snapshots
        found = self._certainty.seen(work, report.differences, exact=report.exact and in_snapshots)
        if found is None:
            return  # must be compared again at another position
        # Without a snapshot, a repair could write what replication still has to write.
        if found and self._repairs is not None and in_snapshots and not self._is_repaired(work):
            self._to_repair[work] = self._written(tables[work.target], found)
            return
        result = replace(result, counts=counts_of(found), keys=keys_of(found, redact=self.record.settings.redact))
        if found:
            result = replace(result, ends=self._written(tables[work.target], found))
        if self.progress.compared(work, result):
            self._table.note_chunk(self.record.run, work.target, work.number, result)
        reason = self._certainty.given_up(work)
        if reason:
            self._refuse(work.target, reason)

    def _written(self, table: ComparedTable, found: Sequence[Difference]) -> tuple[int, int]:
        return self._findings.append(table.pair, table.matches, found)

    def _is_repaired(self, work: ChunkWork) -> bool:
        repair = self.progress.tables[work.target].repairs.get(work.number)
        return repair is not None and repair.is_done

    def _note_repair(self, work: ChunkWork, rows: int) -> None:
        """The chunk was repaired, which the transaction has noted; it is compared once more, and that result counts."""
        self.progress.tables[work.target].repairs[work.number] = ChunkRepair(self._to_repair.pop(work), rows, True)

    def _failed(self, target: TableId, error: DMError) -> None:
        """Handles an error of a table: a retryable one is tried again without limit, any other a few times."""
        if error.kind in (Code.DBBadConn, Code.DiffHeldBack):
            return
        self._changed = self._changed or error.kind is Code.DiffTableChanged
        self._failures[target] += 1
        log.warning("a table could not be compared", table=qualified(*target), error=str(error))
        if not error.retryable or self._failures[target] >= TRIES:
            self._refuse(target, str(error))

    def _refuse(self, target: TableId, reason: str) -> None:
        self.progress.refused(target, reason)
        self._forget(target)
        self._table.note_table(self.record.run, self.progress.tables[target])
