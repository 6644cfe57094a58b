"""How far a planner has come, for its caller. Pure."""

from __future__ import annotations

from dm_worker.syncer.planning.batch_cutter import BatchCutter
from dm_worker.syncer.planning.event_buffer import EventBuffer
from dm_worker.syncer.planning.reading_state import ReadingState
from pkg.binlog.position import Location, Position


class PlannerProgress:
    """How far a planner has read, and what waits in it."""

    def __init__(self, buffer: EventBuffer, reading: ReadingState, cutter: BatchCutter) -> None:
        self._buffer = buffer
        self._reading = reading
        self._cutter = cutter

    @property
    def location(self) -> Location:
        """Where to continue after the stream broke: the current transaction's start and its rows events so far."""
        return self._reading.location

    @property
    def read_from(self) -> Location:
        """Where to open the stream: :attr:`location`, or the prepared transaction that is read again."""
        reread = self._reading.reread
        return self.location if reread is None else reread.start

    @property
    def reopen_reason(self) -> str:
        """Why the stream is not at :attr:`location`, for errors of the stream; '' when it is."""
        reread = self._reading.reread
        return "" if reread is None else reread.reopen_reason

    @property
    def read_to(self) -> Location:
        """The end of the newest event, its transaction counted as executed: for errors that name the event."""
        return self._reading.read_to

    @property
    def position(self) -> Position:
        """The end of the newest event; from any thread."""
        return self._reading.position

    @property
    def newest(self) -> int:
        """Upstream time (unix seconds) of the newest event, for the lag."""
        return self._buffer.newest

    @property
    def bytes_read(self) -> int:
        return self._buffer.bytes_read

    @property
    def waiting_bytes(self) -> int:
        """Bytes of rows events that are read and not output."""
        return self._buffer.size

    @property
    def oldest_commit(self) -> int:
        """Upstream time of the oldest transaction whose rows wait here; 0 when there is none."""
        return self._buffer.commit_time

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`Planner.close` would output finished transactions, or an advance over filtered events."""
        return self._cutter.has_pending

    @property
    def has_rows(self) -> bool:
        """Whether waiting finished transactions changed migrated tables."""
        return self._buffer.marked > 0
