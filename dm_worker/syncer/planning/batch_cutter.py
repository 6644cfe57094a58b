"""At which event a batch ends: the end of a transaction if possible, else inside a large one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dm_worker.syncer.planning.batch_builder import BatchBuilder
from dm_worker.syncer.planning.cut_points import AtCut, CutPoints
from dm_worker.syncer.planning.event_buffer import EventBuffer
from dm_worker.syncer.planning.held_rows import HeldRowCounter
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.reading_state import ReadingState
from dm_worker.syncer.planning.savepoints import SavepointTracker, unsupported
from dm_worker.syncer.planning.xa_rows import XaState
from pkg.binlog.events import Event
from pkg.binlog.position import Location


class BatchCutter:
    """Outputs the content of the event buffer: as batches, or as advances where only filtered events wait.

    ``whole``: the range stays one batch, so there is no output before its end.
    """

    def __init__(
        self,
        builder: BatchBuilder,
        buffer: EventBuffer,
        reading: ReadingState,
        savepoints: SavepointTracker,
        xa: XaState,
        *,
        whole: bool,
    ) -> None:
        self.out: list[PlannerInstruction] = []
        self.held = HeldRowCounter()
        self.builder = builder
        self._buffer = buffer
        self._reading = reading
        self._savepoints = savepoints
        self._xa = xa
        self._whole = whole
        self.points = CutPoints(reading)

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`close` would output something: finished transactions, or an advance over filtered events."""
        start = self.builder.start
        if self._buffer.transactions > 0 or self._reading.boundary != start.position:
            return True
        # A checkpoint of an earlier version, or of a new task, does not contain its file.
        return start.file is None and self._reading.identity is not None and not start.rows_events

    @property
    def undecided(self) -> bool:
        """Whether an XA transaction is open, of which no part may be applied before its outcome is known."""
        return self._xa.inside and self._reading.reread is None

    def close(self) -> None:
        """Outputs what is finished: all up to the last transaction end."""
        if not self._whole and self.has_pending:
            self._emit_finished()

    def close_if_full(self) -> None:
        """A transaction has ended."""
        if self.builder.is_full:
            self.close()

    def cut_full(self) -> None:
        """A rows event of the open transaction filled the batch."""
        if not self._whole or self.undecided:
            self.cut()

    def cut(self) -> None:
        """The batch is full inside a transaction: outputs the finished ones, or cuts the transaction itself."""
        if self._buffer.marked and not self._whole:
            self._emit_finished()
            if not self.builder.is_full:
                return
        self._emit_inside()

    def end_at_points(self, *, certain: bool) -> None:
        """Outputs what is finished if the last transaction ended at a cut; see :meth:`CutPoints.take_met`."""
        if self.points.waiting:
            self._end_at(self.points.take_met(self.builder.start, certain=certain))

    def end_before(self, event: Event) -> None:
        """Outputs what is finished if a cut by time is before ``event``."""
        self._end_at(self.points.take_due(event))

    def _end_at(self, met: Sequence[AtCut]) -> None:
        self.out += [one for one in met if one.passed]
        here = [one for one in met if not one.passed]
        if here:
            self.close()
        self.out += here

    def cut_before_statement(self) -> None:
        """Outputs all that waits: a statement, or rows under another rule, follow."""
        if self._buffer.marked:
            self._emit_finished()
        if self._buffer.count:
            self._emit_inside()

    def cut_before_new_rule(self) -> None:
        """The rule of a target table changed: outputs what was planned by the old one."""
        # An unfinished range stays one batch: two rules in it could put changes of one key into two buckets.
        if not self._whole:
            self.cut_before_statement()

    def drop_open(self) -> None:
        """Forgets the rows of the open transaction."""
        self._buffer.truncate(self._buffer.marked)
        self.held.roll_back()

    def emit(self, end: Location, count: int, *, inside: bool) -> None:
        """Outputs the first ``count`` events as a batch that ends at ``end``, and keeps the others."""
        prepared, held = self._xa.transactions.waiting, self.held.take(inside=inside)
        batch = self.builder.batch(end, count, prepared, held, inside=inside) if count else Advance(end, prepared, held)
        self.out.append(batch)
        self.builder.begin_batch(end, count, self._reading.file_read)

    def advance(self, location: Location) -> None:
        """Advances over filtered events before a statement at ``location``."""
        if self.held or self.builder.start.position != location.position:
            self.out.append(Advance(location, self._xa.transactions.waiting, self.held.take(inside=True)))

    def emit_statement(self, statement: BinlogStatement) -> None:
        """Outputs a statement; the next batch begins after it."""
        self.builder.begin_batch(statement.end, self._buffer.count, self._reading.file_read)
        self.out.append(statement)

    def _emit_finished(self) -> None:
        self.emit(self._reading.at_boundary(), self._buffer.marked, inside=False)

    def _emit_inside(self) -> None:
        if self.undecided:
            # They are read again if the transaction is committed.
            self.drop_open()
            self._xa.overflown = True
            self._xa.cache.drop()
            return
        if self._savepoints.just_rolled_back:
            # The location would be the same as before the rows that were undone.
            position = self._reading.read_to
            raise unsupported(f"a statement or new table directly after ROLLBACK TO SAVEPOINT at {position}")
        self._savepoints.cut_at = self._buffer.rows
        self.emit(self._reading.inside(), self._buffer.count, inside=True)
