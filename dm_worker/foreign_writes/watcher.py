"""Watches the target's binlog for writes of others into one subtask's tables: a thread, and what waits to be compared.

It only says which rows may differ; the comparison at one position of both sides decides.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from dm_worker.foreign_writes.known_tables import KnownTables
from dm_worker.foreign_writes.log_reading import LogReading, OtherFileError, log_reading
from dm_worker.foreign_writes.progress_table import ReadProgress, ReadProgressTable
from dm_worker.foreign_writes.row_keys import BinlogKeys
from dm_worker.foreign_writes.suspects import Suspects
from dm_worker.foreign_writes.target_binlog import TargetBinlog, look_at
from dm_worker.foreign_writes.write_sorter import WriteSorter
from pkg.binlog.position import FileIdentity, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId
from pkg.process.log import get_logger

log = get_logger("foreign_writes")

#: Seconds to wait for events, before the next attempt after an error, and before the next look whether the binlog can
#: be read.
_WAIT, _RETRY, _REFUSED = 0.5, 3.0, 30.0
#: Seconds between two looks whether it still can: settings may change while it is read.
_LOOK = 30.0
#: Bytes that are read before the position is stored again: its row is in the target's binlog too.
_STORE_BYTES = 1 << 20
#: Seconds between two times at which it is stored.
_STORE_SECONDS = 5.0
_MOST_GAP = 500
#: Seconds after which tables that are not this source's are looked at again: another source may have left the task.
_FORGET_SECONDS = 600.0


@dataclass(slots=True)
class _WatchState:
    """What the threads share, under the watcher's lock. ``reason``: why the binlog is not read; '' while it is.
    ``read``: up to where. ``safe``: reading from there on misses no write that is not reported. ``left_out``: the
    tables that could not be compared."""

    waiting: Suspects = field(default_factory=Suspects)
    is_taken: bool = False
    progress: ReadProgress | None = None
    reason: str = "it is not read yet"
    read: Position | None = None
    safe: Position | None = None
    #: Why what follows ``safe`` is not there any more.
    lost: str = ""
    left_out: str = ""
    #: The round of the sweep that began after the gap.
    gap_run: str = ""
    folds: bool = False


class ForeignWrites:
    """:meth:`take` and :meth:`compared` are for the thread that compares; the others for any."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._cfg = cfg
        self._known = KnownTables(cfg.meta_schema)
        self._table = ReadProgressTable(cfg)
        self._lock = threading.Lock()
        self._state = _WatchState()
        self._files: dict[str, FileIdentity] = {}
        self._stored: ReadProgress | None = None
        self._store_due = self._forget_due = 0.0
        self._waits_for: Callable[[], str] = str
        #: The tables that were known when the last suspects were taken.
        self._taken_with = 0
        self._wanted = threading.Event()
        self._wake = threading.Event()
        self._alive = False
        self._thread: threading.Thread | None = None

    # -- its life -------------------------------------------------------------------------------------------------

    def follow(self, wanted: bool) -> None:
        """Watches while that is wanted. Returns at once."""
        with self._lock:
            if not wanted:
                self._wanted.clear()
                self._wake.set()
                return
            self._wanted.set()
            self._wake.clear()
            if not self._alive:
                self._alive = True
                name = f"target-log-{self._cfg.name}"
                self._thread = threading.Thread(target=self._main, args=(self._thread,), name=name, daemon=True)
                self._thread.start()

    def join(self) -> None:
        self.follow(False)
        thread = self._thread
        if thread is not None:
            thread.join()

    # -- for the comparison ---------------------------------------------------------------------------------------

    @property
    def are_waiting(self) -> bool:
        with self._lock:
            return bool(self._state.waiting)

    @property
    def folds_names(self) -> bool:
        """Whether the target writes names in lower case."""
        return self._state.folds

    def take(self) -> Suspects:
        """What waits. All that was taken is to be compared before :meth:`compared`."""
        with self._lock:
            found, self._state.waiting = self._state.waiting, Suspects()
            self._state.is_taken = self._state.is_taken or bool(found)
        if found:
            self._taken_with = self._known.generation
        return found

    def compared(self, rows: int, left_out: str) -> None:
        """All that was taken is compared; ``rows`` changes of it were in tables of this source. ``left_out``: the
        tables that could not be compared, '' for none."""
        with self._lock:
            state = self._state
            state.is_taken = False
            state.left_out = left_out or state.left_out
            if state.progress is not None:
                state.progress = replace(state.progress, rows=state.progress.rows + rows)
            self._advance()

    def add_others(self, tables: Collection[TableId]) -> None:
        """Of the tables that were taken last, this source does not compare these."""
        self._known.add_others(tables, self._taken_with)

    def show_wait(self, text: Callable[[], str]) -> None:
        """``text`` tells operators why nothing is compared now; '' while it is."""
        self._waits_for = text

    def restructured(self) -> None:
        """A statement of the task was executed: it may have created tables."""
        self._known.forget()

    def sweep_begins(self, run: str) -> None:
        with self._lock:
            if self._state.progress is not None and self._state.progress.gap:
                self._state.gap_run = run

    def sweep_ended(self, run: str) -> None:
        """The round has compared all rows."""
        with self._lock:
            state = self._state
            state.left_out = ""
            if state.progress is not None and run and run == state.gap_run:
                state.progress, state.gap_run = replace(state.progress, gap=""), ""

    def text(self, round_seconds: float | None) -> str:
        """How foreign writes are found, for operators. ``round_seconds``: how long a round of the sweep takes, 0 while
        that is not known, None without a sweep."""
        with self._lock:
            state = self._state
            progress = state.progress
            rows = progress.rows if progress is not None else 0
            gap = progress.gap if progress is not None else ""
            compared = self._what_waits() if state.waiting or state.is_taken else "all compared"
            found = f"{rows} row changes of others; {compared}"
            parts = [f"target's binlog, read up to {state.read}", found, state.left_out, gap]
            if state.reason or state.read is None:
                parts = [f"{_sweep(round_seconds)}, because {state.reason}", gap]
            return "; ".join(filter(None, parts))

    def _what_waits(self) -> str:
        why = self._waits_for()
        return f"not all compared yet: {why}" if why else "not all compared yet"

    # -- the thread -----------------------------------------------------------------------------------------------

    def _main(self, previous: threading.Thread | None) -> None:
        if previous is not None:
            previous.join()  # it stores the position
        while self._continues():
            pause = _RETRY
            try:
                binlog = look_at(self._cfg.to)
                if binlog.refusal:
                    self._refused(binlog.refusal)
                    pause = _REFUSED
                else:
                    self._read(binlog)
            except OtherFileError as exc:
                self._lost(str(exc))
            except DMError as exc:
                self._failed(exc)
            except Exception as exc:  # noqa: BLE001 - without this thread, foreign writes would be found by the sweep only
                log.error("reading the target's binlog failed", trace="".join(traceback.format_exception(exc)))
                self._refused(f"reading the target's binlog failed: {exc!r}")
            if self._wanted.is_set():
                self._wake.wait(pause)
        self._end()

    def _continues(self) -> bool:
        """Otherwise the thread is forgotten."""
        with self._lock:
            self._alive = self._wanted.is_set()
            return self._alive

    def _end(self) -> None:
        try:
            self._store(at_once=True)
        except DMError as exc:
            log.warning("the position in the target's binlog is not stored", task=self._cfg.name, error=str(exc))
        self._table.close()

    def _read(self, binlog: TargetBinlog) -> None:
        """Reads until it is not wanted. Raises DMError and OtherFileError."""
        assert binlog.end is not None
        if self._state.lost:
            self._begin_at(binlog.end.position)
        start = self._begin(binlog.end.position)
        self._known.folds = self._state.folds = binlog.folds_names
        sorter = WriteSorter(self._known, BinlogKeys(self._cfg.to), start)
        with log_reading(self._cfg, binlog.flavor, sorter, self._files) as reading:
            log.info("reading the target's binlog", task=self._cfg.name, source=self._cfg.source_id, start=start)
            look = time.monotonic() + _LOOK
            while self._wanted.is_set():
                self._step(reading, sorter)
                self._store()
                if time.monotonic() >= look:
                    look = time.monotonic() + _LOOK
                    if look_at(self._cfg.to).refusal:
                        return  # the next look says why

    def _begin(self, end: Position) -> Position:
        """Where to read from; stored before anything is read, so that nothing after it is missed."""
        with self._lock:
            progress = self._state.progress
        if progress is None:
            progress = self._table.read() or ReadProgress(end)
            if progress.file is not None:
                self._files[progress.file.name] = progress.file
            with self._lock:
                self._state.progress = progress
        with self._lock:
            start = self._state.safe or progress.position
        self._store(at_once=True)
        return start

    def _step(self, reading: LogReading, sorter: WriteSorter) -> None:
        now = time.monotonic()
        if now >= self._forget_due:
            self._known.forget()
            self._forget_due = now + _FORGET_SECONDS
        found = reading.read(_WAIT)
        with self._lock:
            state = self._state
            state.reason, state.read, state.safe = "", sorter.boundary, sorter.safe
            state.waiting.merge(found)
            self._advance()

    def _advance(self) -> None:
        """Called under the lock."""
        state = self._state
        if state.progress is not None and state.safe is not None and not (state.is_taken or state.waiting):
            file = self._files.get(state.safe.name)
            state.progress = replace(state.progress, position=state.safe, file=file)

    def _store(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        with self._lock:
            progress = self._state.progress
        if progress is None or progress == self._stored or (now < self._store_due and not at_once):
            return
        if at_once or _is_far(self._stored, progress):
            self._table.write(progress)
            self._stored, self._store_due = progress, now + _STORE_SECONDS

    def _failed(self, error: DMError) -> None:
        if error.kind is Code.SyncerGetEvent and not error.retryable:
            self._lost(error.raw_cause or error.message)
        else:
            self._refused(error.raw_cause or error.message)

    def _refused(self, reason: str) -> None:
        with self._lock:
            if self._state.reason != reason:
                log.warning("the target's binlog is not read", task=self._cfg.name, reason=reason)
            self._state.reason = reason

    def _lost(self, why: str) -> None:
        """What follows the position is not there any more."""
        log.warning("the target's binlog has a gap", task=self._cfg.name, reason=why)
        with self._lock:
            self._state.reason = self._state.lost = why

    def _begin_at(self, end: Position) -> None:
        """Reading begins again, at the present end."""
        with self._lock:
            state = self._state
            why, state.lost = state.lost, ""
            if state.progress is None:
                return
            start = state.safe or state.progress.position
            gap = f"writes of others from {start} to {end} are found by the sweep only: {why}"
            gap = "; ".join(filter(None, (state.progress.gap, gap)))[:_MOST_GAP]
            self._files.clear()
            state.progress = replace(state.progress, position=end, file=None, gap=gap)
            state.safe, state.gap_run = end, ""


def _is_far(stored: ReadProgress | None, now: ReadProgress) -> bool:
    """Whether so much has changed that it is to be stored."""
    if stored is None or stored.position.name != now.position.name:
        return True
    same = replace(stored, position=now.position, file=now.file) == now
    return not same or now.position.pos - stored.position.pos >= _STORE_BYTES


def _sweep(round_seconds: float | None) -> str:
    if round_seconds is None:
        return "not found"
    takes = f"takes {round_seconds:.0f} s" if round_seconds else "has not ended yet"
    return f"sweep, a whole round {takes}"
