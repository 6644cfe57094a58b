"""Compares the rows that others have written into the target, as the sweep compares: at one position of both sides.

Rows that are named by their keys come first. Of tables without a key, and of those that a statement may have changed,
all rows are compared, at the rate of the sweep; that is interrupted when named rows wait.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import TablePair
from dm_worker.diff.pace import SweepState
from dm_worker.diff.progress import ChunkWork, ComparedChunk, DiffProgress, TableProgress
from dm_worker.diff.run import DiffRun, DiffSurroundings, Findings
from dm_worker.diff.state_table import RUNNING, DiffRecord, DiffSettings
from dm_worker.diff.suspect_parts import SuspectRows, WholeTables
from dm_worker.foreign_writes.suspects import Suspects
from dm_worker.subtask.periodic import Periodic
from dm_worker.syncer.rows.row_matching import RowMatch
from pkg.config.model import SubTaskConfig
from pkg.mysql.names import TableId

Parts = TypeVar("Parts", SuspectRows, WholeTables)

#: Seconds between two checks whether the comparison must end.
_POLL = 0.5


class SuspectSource(Protocol):
    """What others have written: :class:`dm_worker.foreign_writes.watcher.ForeignWrites`."""

    @property
    def are_waiting(self) -> bool: ...

    @property
    def folds_names(self) -> bool: ...

    def take(self) -> Suspects: ...

    def compared(self, rows: int, left_out: str) -> None: ...

    def add_others(self, tables: Collection[TableId]) -> None: ...

    def show_wait(self, text: Callable[[], str]) -> None:
        """``text`` tells operators why nothing is compared now; '' while it is."""
        ...


class NotStored:
    """A :class:`StateKeeper` that keeps nothing: what is not compared when the process ends is read again."""

    def note(self, record: DiffRecord) -> None:
        """The process knows the stage."""

    def note_table(self, run: str, table: TableProgress) -> None:
        """The process knows the tables."""

    def note_chunk(self, run: str, target: TableId, number: int, chunk: ComparedChunk) -> None:
        """The process knows the chunks."""

    def forget_chunks(self, run: str, chunks: Iterable[ChunkWork]) -> None:
        """No differences are lost: the validation has stored them."""


class WantedFindings:
    """Gives on the differences of wanted rows."""

    def __init__(self, inner: Findings, parts: SuspectRows) -> None:
        self._inner = inner
        self._parts = parts

    def resume(self, ends: Sequence[tuple[int, int]]) -> bool:
        return self._inner.resume(ends)

    def append(self, pair: TablePair, matches: RowMatch, found: Sequence[Difference]) -> tuple[int, int]:
        return self._inner.append(pair, matches, self._parts.wanted(pair, found))


@dataclass(slots=True)
class _Comparison(Generic[Parts]):
    """A comparison that is continued after an interruption."""

    parts: Parts
    progress: DiffProgress = field(default_factory=lambda: DiffProgress(()))


class SuspectRuns:
    """Works in the thread of the sweep. ``findings``: receives the differences."""

    def __init__(self, cfg: SubTaskConfig, source: SuspectSource, findings: Callable[[], Findings]) -> None:
        self._cfg = cfg
        self._source = source
        self._findings = findings
        self._rows: _Comparison[SuspectRows] | None = None
        #: The tables that wait to be compared as a whole, and those that are being compared.
        self._tables: set[TableId] = set()
        self._whole: _Comparison[WholeTables] | None = None
        #: Changes in tables of this source since the watcher last learned of them, and why some were not compared.
        self._changes = 0
        self._left_out = ""
        self._is_behind = False
        self._present: DiffRun | None = None
        source.show_wait(self.waits_for)

    def waits_for(self) -> str:
        run = self._present
        return "" if run is None else run.waits_for

    @property
    def are_waiting(self) -> bool:
        """Whether there is anything to compare."""
        return self._is_behind or self._source.are_waiting

    @property
    def rows_are_waiting(self) -> bool:
        """Whether rows are to be compared before anything else."""
        return self._rows is not None or self._source.are_waiting

    def work(self, around: DiffSurroundings, rate: int, should_end: Callable[[], bool]) -> None:
        """Compares what waits, at most ``rate`` rows per second. Raises DMError."""
        if self._rows is None:
            self._take()
        if self._rows is not None and not self._compare_rows(self._rows, around, rate, should_end):
            return
        if self._compare_tables(around, rate, lambda: should_end() or self._source.are_waiting):
            changes, left_out = self._changes, self._left_out
            self._changes, self._left_out, self._is_behind = 0, "", False
            self._source.compared(changes, left_out)

    def _take(self) -> None:
        found = self._source.take()
        if found:
            self._is_behind = True
            self._rows = _Comparison(SuspectRows(found, self._source.folds_names))

    def _compare_rows(
        self, rows: _Comparison[SuspectRows], around: DiffSurroundings, rate: int, should_end: Callable[[], bool]
    ) -> bool:
        """False when it was interrupted, or more rows are to be compared."""
        if not self._run(rows, around, rate, should_end):
            return False
        self._changes += rows.parts.rows
        self._tables |= rows.parts.whole
        self._source.add_others(rows.parts.others())
        more = rows.parts.others_found()
        self._rows = None if more is None else _Comparison(more)
        return more is None

    def _compare_tables(self, around: DiffSurroundings, rate: int, should_end: Callable[[], bool]) -> bool:
        while self._tables or self._whole is not None:
            if self._whole is None:
                # Writes into a table that is being compared have it compared once more.
                self._whole, self._tables = _Comparison(WholeTables(frozenset(self._tables))), set()
            if not self._run(self._whole, around, rate, should_end):
                return False
            self._whole = None
        return True

    def _run(
        self, comparison: _Comparison[Parts], around: DiffSurroundings, rate: int, should_end: Callable[[], bool]
    ) -> bool:
        sources = tuple(sorted({self._cfg.source_id, *(one.source_id for one in around.siblings())}))
        record = DiffRecord(uuid.uuid4().hex, time.time(), RUNNING, DiffSettings.of_sweep(sources, rate))
        parts, findings = comparison.parts, self._findings()
        if isinstance(parts, SuspectRows):
            findings = WantedFindings(findings, parts)
        run = DiffRun(self._cfg, around, NotStored(), findings, record, comparison.progress, parts=parts)

        def end_if_unwanted() -> None:
            if should_end():
                run.stop()

        self._present = run
        try:
            with Periodic(_POLL, end_if_unwanted):
                run.work()
        finally:
            self._present = None
        comparison.progress = run.progress
        if run.record.stage == RUNNING:
            return False
        self._left_out = SweepState(run.progress, None, 0).left_out("not compared") or self._left_out
        return True
