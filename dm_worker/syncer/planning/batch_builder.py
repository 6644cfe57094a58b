"""The batch that is being filled: its start, its files, and how it is packed. Pure."""

from __future__ import annotations

from collections import deque

from dm_worker.syncer.planning.batch import Batch, HeldRowCounts, Slice
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.event_buffer import EventBuffer
from dm_worker.syncer.planning.table_maps import TableMaps
from dm_worker.syncer.planning.xa import PreparedLocations
from pkg.binlog.position import Location


class BatchBuilder:
    """Packs the events in the event buffer into a batch that begins at ``start``. The first file is ``start``'s."""

    def __init__(self, start: Location, buffer: EventBuffer, tables: TableMaps, limits: BatchLimits) -> None:
        self.start = start
        self.limits = limits
        self._buffer = buffer
        self._tables = tables
        #: (index of the first event, file): a batch may span files, and errors name them.
        self._files: list[tuple[int, str]] = [(0, start.position.name)]

    @property
    def is_full(self) -> bool:
        return self._buffer.size >= self.limits.batch_bytes or self._buffer.count >= self.limits.batch_events

    def enter_file(self, name: str) -> None:
        """The next events are in ``name``."""
        if self._files[-1][0] == self._buffer.count:
            self._files.pop()
        self._files.append((self._buffer.count, name))

    def begin_batch(self, start: Location, given: int, file: str) -> None:
        """The first ``given`` events were output. The rest belongs to the open transaction, in ``file``."""
        self.start = start
        self._buffer.cut(given)
        self._files = [(0, file)]

    def batch(
        self, end: Location, count: int, prepared: PreparedLocations, held: HeldRowCounts, *, inside: bool
    ) -> Batch:
        """The first ``count`` events as a batch that ends at ``end``; they stay until :meth:`begin_batch`."""
        buffer = self._buffer
        return Batch(
            start=self.start,
            end=end,
            slices=self._slices(count),
            plans=self._tables.plans(count),
            rows_events=count,
            size=buffer.size if inside else buffer.marked_size,
            commit_time=buffer.commit_time,
            transactions=buffer.transactions,
            prepared=prepared,
            held=held,
        )

    def _slices(self, count: int) -> list[Slice]:
        parts = self._buffer.slices(count, self.limits.piece(self._buffer.size), [first for first, _ in self._files])
        slices, files = [], deque(self._files)
        for order, (first, data, index) in enumerate(parts):
            while len(files) > 1 and files[1][0] <= first:
                files.popleft()
            slices.append(Slice(order, data, index, files[0][1]))
        return slices
