"""The queue of applied batches that wait for their comparison: in memory up to a limit, then in files."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from dm_worker.syncer.execution.spill import FileRange, SliceReference, SpillStore, spill_slices, written_slices
from dm_worker.syncer.figures.batch_report import Changes
from dm_worker.syncer.planning.batch import Slice
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.validator.differences import Restructured
from pkg.binlog.position import Location

#: The limit for bytes of events in memory, also if the task allows more: the syncer needs the worker's memory too.
MOST_MEMORY = 64 << 20


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """``changes``: row changes by operation. ``run`` numbers the syncer's run, within which plans have their numbers.
    ``spilled`` has the slices when they are not in memory, in a file of their own."""

    number: int
    run: int
    location: Location
    slices: Sequence[Slice]
    plans: dict[int, TablePlan]
    changes: Changes
    size: int
    spilled: Sequence[SliceReference] = ()

    def sent(self, store: SpillStore) -> Sequence[SliceReference]:
        """The slices for tasks, which share the folder of the ``store`` with the driver, if it has one. Raises DMError,
        and ``OSError`` for a file that can't be read."""
        if self.spilled and store.folder:
            return self.spilled
        return spill_slices([part.slice() for part in self.spilled] or self.slices, store)

    def remove(self) -> None:
        """Removes the file."""
        for path in {part.data.path for part in self.spilled if isinstance(part.data, FileRange)}:
            Path(path).unlink(missing_ok=True)


Waiting = WaitingBatch | Restructured


class Backlog:
    """A queue for two threads. ``most_rows`` and ``most_bytes``: the limits of memory."""

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self._most_rows = most_rows
        self._most_bytes = min(most_bytes, MOST_MEMORY)
        self._lock = threading.Lock()
        self._items: deque[Waiting] = deque()
        self._folder: Path | None = None
        self._rows = self._bytes = 0
        self._pending = [0, 0, 0]

    def put(self, item: Waiting) -> None:
        """Appends. Raises ``OSError`` when a file can't be written."""
        with self._lock:
            if isinstance(item, WaitingBatch):
                rows = sum(item.changes)
                if self._rows + rows > self._most_rows or self._bytes + item.size > self._most_bytes:
                    item = self._spill(item)
                else:
                    self._rows += rows
                    self._bytes += item.size
                self._pending = [a + b for a, b in zip(self._pending, item.changes, strict=True)]
            self._items.append(item)

    def first(self, most_bytes: int, after: Sequence[WaitingBatch] = ()) -> list[WaitingBatch]:
        """The first batches, or those after the first ones ``after``, of one run, up to the next statement and about
        ``most_bytes``; they stay in the queue. Empty when a statement is first, or nothing waits."""
        found: list[WaitingBatch] = []
        size = 0
        with self._lock:
            run = after[0].run if after else None
            for item in islice(self._items, len(after), None):
                if not isinstance(item, WaitingBatch) or item.run != (run := item.run if run is None else run):
                    break
                size += item.size
                if found and size > most_bytes:
                    break
                found.append(item)
        return found

    def statement(self) -> Restructured | None:
        """Removes and returns the first item if that is a statement."""
        with self._lock:
            if self._items and isinstance(self._items[0], Restructured):
                return self._items.popleft()  # type: ignore[return-value]
        return None

    def statements(self) -> list[Restructured]:
        """All statements that wait."""
        with self._lock:
            return [item for item in self._items if isinstance(item, Restructured)]

    def done(self, batches: Sequence[WaitingBatch]) -> bool:
        """Removes the first batches; False if they no longer wait, because the queue was cleared."""
        with self._lock:
            if len(self._items) < len(batches) or any(a is not b for a, b in zip(batches, self._items, strict=False)):
                return False
            for item in batches:
                self._items.popleft()
                self._pending = [a - b for a, b in zip(self._pending, item.changes, strict=True)]
                if item.spilled:
                    item.remove()
                else:
                    self._rows -= sum(item.changes)
                    self._bytes -= item.size
            return True

    @property
    def pending(self) -> Changes:
        """Row changes that wait, by operation."""
        with self._lock:
            return self._pending[0], self._pending[1], self._pending[2]

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Clears the queue and removes the files."""
        with self._lock:
            self._items.clear()
            self._rows = self._bytes = 0
            self._pending = [0, 0, 0]
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _spill(self, item: WaitingBatch) -> WaitingBatch:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dm-validator-"))
        return replace(item, slices=(), spilled=written_slices(item.slices, str(self._folder)))
