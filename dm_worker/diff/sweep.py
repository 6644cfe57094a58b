"""The rotating sweep of the continuous validation: compares a source's tables again and again, at a low rate.

It finds changes that other clients made to the target, also in rows that no binlog event concerns. It works as a
comparison that an operator starts, but has its own state table, and its results go to the validation. Tables with rows
of several sources are in the sweep of the first of them; the others' workers hold replication for it. Where one of them
does not answer, these tables are left out of the round.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import TablePair
from dm_worker.diff.holds import HoldSyncer
from dm_worker.diff.pace import SweepState
from dm_worker.diff.progress import DiffProgress
from dm_worker.diff.run import DiffRun, DiffSurroundings
from dm_worker.diff.state_table import RUNNING, SWEEP_TABLE, DiffRecord, DiffSettings, DiffStateTable
from dm_worker.diff.suspect_runs import SuspectRuns, SuspectSource
from dm_worker.subtask.periodic import Periodic
from dm_worker.syncer.rows.row_matching import RowMatch
from pkg.config.model import SubTaskConfig
from pkg.mysql.names import TableId
from pkg.process.log import get_logger

log = get_logger("sweep")

#: Seconds between two checks during a round whether it must end.
_POLL = 0.5
#: Seconds between two checks whether a round is due, and from the end of a round to the start of the next one.
_IDLE, ROUND_PAUSE = 1.0, 30.0
#: Seconds for which a round works at least before rows that others have written interrupt it.
LEAST_WORK = 5.0
#: Stands for the round when no round has begun.
_NO_ROUND = "before any round"
#: Why a round waits.
_STOPPED = "it continues once the task replicates and no `dmctl diff` runs"


class SweepReader(Protocol):
    """Receives what a sweep finds. ``run`` identifies a round."""

    @property
    def sweep_rate(self) -> int:
        """Rows per second; 0 while nothing is to be swept."""
        ...

    @property
    def suspect_rate(self) -> int:
        """Rows per second for those that others have written; 0 while nothing is to be compared."""
        ...

    @property
    def suspects(self) -> SuspectSource:
        """What others have written."""
        ...

    def show_sweep(self, text: Callable[[], str], round_seconds: Callable[[], float]) -> None:
        """``text`` tells operators where the sweep is, ``round_seconds`` how long the last whole round took; 0 before
        its end."""
        ...

    def swept(self, run: str, pair: TablePair, matches: RowMatch, found: Iterable[Difference]) -> None:
        """Receives differing rows and stores them durably. Raises DMError."""
        ...

    def sweep_begins(self, run: str) -> None:
        """A new round begins."""
        ...

    def sweep_ended(self, run: str, tables: Collection[TableId], left_out: str) -> None:
        """Receives the tables whose rows the round has all compared. ``left_out`` names the others, '' for none."""
        ...


class SweepFindings:
    """What a round found: see :class:`dm_worker.diff.run.Findings`. ``run``: identifies the round."""

    def __init__(self, reader: SweepReader, run: Callable[[], str]) -> None:
        self._reader = reader
        self._run = run

    def resume(self, ends: Sequence[tuple[int, int]]) -> bool:
        """The validation has stored the differences."""
        return True

    def append(self, pair: TablePair, matches: RowMatch, found: Sequence[Difference]) -> tuple[int, int]:
        self._reader.swept(self._run(), pair, matches, found)
        return 0, 0


class Sweep:
    """Works in the thread of :meth:`work`; :meth:`text` is for any thread. ``holds`` serves the pairs of snapshots."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        reader: SweepReader,
        surroundings: Callable[[], DiffSurroundings | None],
        holds: Callable[[HoldSyncer], AbstractContextManager[object]],
    ) -> None:
        self._cfg = cfg
        self._reader = reader
        self._surroundings = surroundings
        self._holds = holds
        self._run: DiffRun | None = None
        #: The last round.
        self._last: tuple[DiffRecord, DiffProgress] | None = None
        #: When the next round can begin, by a monotonic clock.
        self._due = 0.0
        # A difference that is found while a round runs is not right again because that round saw the row before.
        self._suspects = SuspectRuns(cfg, reader.suspects, lambda: SweepFindings(reader, self._present_round))
        reader.show_sweep(self.text, self.round_seconds)

    def work(self, ends_within: Callable[[float], bool], should_end: Callable[[], bool]) -> None:
        """Sweeps until ``should_end``; ``ends_within`` waits for that so many seconds. Raises DMError."""
        while not should_end():
            around = self._surroundings() if self._is_wanted else None
            if around is not None and (around.siblings() or self._is_due):
                # Pairs are served between rounds too, for the rounds of other sources.
                with self._holds(around.syncer):
                    self._sweep(around, ends_within, should_end)
            if ends_within(_IDLE):
                return

    def _sweep(
        self, around: DiffSurroundings, ends_within: Callable[[float], bool], should_end: Callable[[], bool]
    ) -> None:
        """Runs one round if it is due. If the task has other sources, continues with later rounds, to serve their pairs
        meanwhile."""
        while not should_end() and self._is_wanted:
            if self._suspects.are_waiting:
                self._suspects.work(around, self._reader.suspect_rate, lambda: should_end() or not self._is_wanted)
            if self._reader.sweep_rate and time.monotonic() >= self._due and not should_end():
                self._work_on_round(around, should_end)
            if not around.siblings() or ends_within(_IDLE):
                return

    @property
    def _is_wanted(self) -> bool:
        return self._reader.sweep_rate > 0 or self._reader.suspect_rate > 0

    @property
    def _is_due(self) -> bool:
        if self._reader.suspect_rate and self._suspects.are_waiting:
            return True
        return self._reader.sweep_rate > 0 and time.monotonic() >= self._due

    def _work_on_round(self, around: DiffSurroundings, should_end: Callable[[], bool]) -> None:
        table = DiffStateTable(self._cfg, should_end, SWEEP_TABLE)
        try:
            record, progress = self._begun(table, around)
            findings = SweepFindings(self._reader, lambda: record.run)
            run = DiffRun(self._cfg, around, table, findings, record, progress)
            most = time.monotonic() + LEAST_WORK

            def end_if_unwanted() -> None:
                if should_end() or not self._reader.sweep_rate:
                    run.stop()
                if self._suspects.rows_are_waiting and time.monotonic() >= most:
                    run.stop()

            self._run = run
            try:
                with Periodic(_POLL, end_if_unwanted):
                    run.work()
            finally:
                self._last, self._run = (run.record, run.progress), None
            if run.record.stage != RUNNING:
                self._due = time.monotonic() + ROUND_PAUSE
                whole = [target for target, one in run.progress.tables.items() if one.is_whole]
                self._reader.sweep_ended(record.run, whole, SweepState(run.progress, None, 0).left_out())
        finally:
            table.close()

    def _begun(self, table: DiffStateTable, around: DiffSurroundings) -> tuple[DiffRecord, DiffProgress]:
        """The unfinished round of an earlier process or run, else a new one."""
        rate = self._reader.sweep_rate
        sources = tuple(sorted({self._cfg.source_id, *(one.source_id for one in around.siblings())}))
        settings = DiffSettings.of_sweep(sources, rate)
        found = table.read()
        if found is not None and found[0].stage == RUNNING:
            return replace(found[0], settings=settings), found[1]
        record = DiffRecord(uuid.uuid4().hex, time.time(), RUNNING, settings, found[0].whole if found else 0.0)
        table.replace(record)
        self._reader.sweep_begins(record.run)
        log.info("a round of the sweep begins", task=self._cfg.name, source=self._cfg.source_id, run=record.run)
        return record, DiffProgress(())

    def _present_round(self) -> str:
        """The round that has begun last."""
        if self._last is not None:
            return self._last[0].run
        table = DiffStateTable(self._cfg, lambda: True, SWEEP_TABLE)
        try:
            found = table.read()
        finally:
            table.close()
        return _NO_ROUND if found is None else found[0].run

    def round_seconds(self) -> float:
        """How long the last whole round took; 0 before its end."""
        run, last = self._run, self._last
        if run is not None:
            return run.record.whole
        return 0.0 if last is None else last[0].whole

    def text(self) -> str:
        """'' before the first round of this process."""
        run, last = self._run, self._last
        known = (run.record, run.progress) if run is not None else last
        if known is None:
            return ""
        record, progress = known
        if record.stage != RUNNING:
            return SweepState(progress, None, record.whole).text()
        elapsed = max(0.0, time.time() - record.begun)
        return SweepState(progress, elapsed, record.whole, _STOPPED if run is None else run.waits_for).text()
