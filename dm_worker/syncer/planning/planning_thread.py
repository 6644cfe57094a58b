"""The thread that reads and plans events while the previous batch is being applied."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from dm_worker.syncer.figures.lag_reason import HANDING, REOPENING
from dm_worker.syncer.figures.sync_figures import ReadFigures
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import QUIET, BatchPolicy
from dm_worker.syncer.planning.cut_points import AtCut, CutPoint
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.server_switch import ServerSwitched
from dm_worker.syncer.planning.table_resolution import Resolve, feed_events
from pkg import errors
from pkg.binlog.events import Event
from pkg.binlog.position import Location
from pkg.binlog.streams.stream import BinlogStream
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.process.log import get_logger

log = get_logger("syncer.reader")

#: The shortest interval between checkpoints over filtered events (seconds).
IDLE_ADVANCE = 1.0
#: Timeout of a read while no planned events wait for output (seconds): an idle task wakes up so often. New cuts and
#: filtered events wait for it; new events and a stop do not.
IDLE_READ = 0.25
READ_BYTES = 4 * 1024 * 1024
#: The number of retries of a broken stream in a row; the pauses grow from 0.2 s to CAP.
REOPENINGS, CAP = 60, 5.0
#: Seconds until a stopped thread's query at a server is cancelled.
STOP_TIMEOUT = 5.0

OpenStream = Callable[[Location], BinlogStream]
#: The main loop's input: the planner's instructions, and the reason for their end.
QueueItem = PlannerInstruction | DMError | ServerSwitched


class InstructionQueue:
    """A queue bounded by bytes, from the planning thread to the main loop."""

    def __init__(self, limit: int) -> None:
        """``limit`` in bytes of waiting planned batches; each side may hold one more."""
        self._limit = limit
        self._items: deque[QueueItem] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = self._woken = False
        #: Whether the main loop is idle, and no item waits for it.
        self.idle = False

    def put(self, item: QueueItem) -> None:
        """Waits for room. After :meth:`close` items are dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._bytes < self._limit)
            if not self._closed:
                self._items.append(item)
                self._bytes += _size(item)
                # Not when it is taken: until the main loop wakes up, many more tiny batches could be put after it.
                self.idle = False
                self._changed.notify_all()

    def put_first(self, item: QueueItem) -> None:
        """As :meth:`put`, before all that waits, and without waiting for room."""
        with self._changed:
            if not self._closed:
                self._items.appendleft(item)
                self._bytes += _size(item)
                self._changed.notify_all()

    def get(self, timeout: float) -> QueueItem | None:
        """The next item; None when there is none for ``timeout`` seconds, or none at a :meth:`wake`."""
        with self._changed:
            self.idle = not self._items
            self._changed.wait_for(lambda: self._items or self._woken, timeout)
            self._woken = False
            if self._items:
                item = self._items.popleft()
                self._bytes -= _size(item)
                self._changed.notify_all()
                return item
            return None

    def wake(self) -> None:
        """The current :meth:`get`, or the next one, does not wait; from any thread."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def oldest_commit(self) -> int:
        """The commit time of the oldest waiting batch; 0 without one."""
        with self._changed:
            return next((item.commit_time for item in self._items if isinstance(item, Batch)), 0)

    def size(self) -> tuple[int, int]:
        """The number of waiting items, and the bytes of their rows events."""
        with self._changed:
            return len(self._items), self._bytes

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _size(item: QueueItem) -> int:
    return item.size if isinstance(item, Batch) else 0


class PlanningThread:
    """Reads through one or more planners in turn; an error is the last item of the queue."""

    def __init__(
        self,
        planners: list[Planner],
        open_stream: OpenStream,
        resolve: Resolve,
        queue: InstructionQueue,
        policy: BatchPolicy,
        interrupt: Callable[[], None],
        figures: ReadFigures | None = None,
    ) -> None:
        """``resolve`` may query servers; ``interrupt``, from another thread, cancels its query."""
        self._interrupt = interrupt
        self._figures = figures or ReadFigures(time.monotonic)
        self._planners = planners
        self._policy = policy
        self._open = open_stream
        self._resolve = resolve
        self._queue = queue
        self._stop = threading.Event()
        self._resume = threading.Event()
        self._stream: BinlogStream | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._main, name="syncer-planning", daemon=True)
        self.planner = planners[0]
        self._last_emit = time.monotonic()
        #: Since when rows wait in the planner; 0 while there are none, and after others were output meanwhile.
        self._waiting_since = 0.0
        #: Cuts that the planner does not know yet.
        self._new_cuts: deque[CutPoint] = deque()

    def start(self) -> None:
        self._thread.start()

    def resume(self) -> None:
        """The last statement was executed: forgets the known tables, and continues to read."""
        self.planner.forget_tables()
        self._resume.set()

    def add_cut(self, cut: CutPoint) -> None:
        """A batch of the last planner must end at ``cut``; called from another thread."""
        self._new_cuts.append(cut)

    def stop(self) -> None:
        """Ends the thread and the stream. When it returns, nothing of them uses the run's connections any more."""
        self._stop.set()
        self._resume.set()
        self._queue.close()
        with self._lock:
            if self._stream is not None:
                self._stream.abort()
        while not self._ended():
            log.warning("the binlog reader is still querying a server: cancelling the query")
            self._interrupt()
        self._close_stream()

    def _ended(self) -> bool:
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT)
        return not self._thread.is_alive()

    def _main(self) -> None:
        try:
            for planner in self._planners:
                self.planner = planner
                self._plan(planner)
                self._close_stream()
        except DMError as exc:
            if not self._stop.is_set():
                self._give_finished()
                self._queue.put(exc)
        except ServerSwitched as exc:
            self._give_finished()
            self._queue.put(exc)
        except Exception as exc:  # noqa: BLE001 - the main loop must get every error
            self._queue.put(
                errors.new(
                    Code.SyncerUnitPanic, f"reading the binlog failed: {exc!r}", raw=exc, workaround=Advice.DEFECT
                )
            )

    def _give_finished(self) -> None:
        """Outputs what was planned before the error, so that it is applied before the task stops."""
        self.planner.close()
        self._give_out()

    def _plan(self, planner: Planner) -> None:
        progress, failures = planner.progress, 0
        while not (self._stop.is_set() or planner.reached):
            self._pass_cuts(planner)
            try:
                stream = self._connected(planner)
                before = progress.bytes_read
                planner.bound(self._policy.most)
                timeout = QUIET if progress.has_rows else IDLE_READ
                self._figures.reads()
                events = stream.read(READ_BYTES, timeout, planner.scan if planner.can_scan else None)
                scanned = progress.bytes_read > before
                self._figures.has_read(something=scanned or bool(events))
                failures = 0
            except DMError as exc:
                failures += 1
                if not exc.retryable or failures >= REOPENINGS or self._stop.is_set():
                    raise (exc.at(progress.reopen_reason) if progress.reopen_reason else exc) from None
                log.warning("the binlog stream broke; opening it again", error=str(exc), attempt=failures)
                self._close_stream()
                planner.reopened()
                self._figures.clock.switch(REOPENING)
                self._stop.wait(min(CAP, 0.1 * 2 ** min(failures, 10)))
                continue
            self._feed(planner, events, scanned=scanned)
            if scanned or events:
                self._figures.has_planned()

    def _pass_cuts(self, planner: Planner) -> None:
        if self._new_cuts and planner is self._planners[-1]:
            while self._new_cuts:
                planner.add_cut(self._new_cuts.popleft())
            self._give_out()

    def _feed(self, planner: Planner, events: list[Event], *, scanned: bool) -> None:
        taken = 0
        while True:
            taken += feed_events(planner, events[taken:] if taken else events, self._resolve)
            if self._due(planner, scanned or bool(events)):
                planner.close()
            self._give_out()
            if planner.take_reopen_request():
                self._close_stream()
                return
            if taken >= len(events) or planner.reached or self._stop.is_set():
                return

    def _due(self, planner: Planner, busy: bool) -> bool:
        """Whether to pass the planned events to the main loop, although the batch is not full."""
        now, progress = time.monotonic(), planner.progress
        if not progress.waiting_bytes:
            self._waiting_since = 0.0
        elif not self._waiting_since:
            self._waiting_since = now
        if not progress.has_rows:
            return progress.has_pending and now - self._last_emit >= IDLE_ADVANCE
        return self._policy.due(
            idle=self._queue.idle,
            quiet=not busy,
            size=progress.waiting_bytes,
            waited=now - self._waiting_since,
        )

    def _give_out(self) -> None:
        planner = self.planner
        for item in planner.take_instructions():
            if isinstance(item, BinlogStatement):
                self._resume.clear()
                if self._stop.is_set():
                    # It was stopped in between: no resume will follow.
                    self._resume.set()
            if isinstance(item, Batch):
                self._figures.events(item.rows_events, item.size)
            if isinstance(item, AtCut) and item.passed:
                # What waits was planned without it.
                self._queue.put_first(item)
                continue
            with self._figures.handing_over("ddl" if isinstance(item, BinlogStatement) else "dml"):
                self._queue.put(item)
            if isinstance(item, Batch | Advance):
                self._last_emit = time.monotonic()
                self._waiting_since = 0.0
            if isinstance(item, BinlogStatement):
                with self._figures.clock.during(HANDING):
                    self._resume.wait()

    def _connected(self, planner: Planner) -> BinlogStream:
        with self._lock:
            if self._stream is not None:
                return self._stream
        stream = self._open(planner.progress.read_from)
        with self._lock:
            self._stream = stream
            if self._stop.is_set():
                stream.abort()
        return stream

    def _close_stream(self) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
