"""The planner: cuts the stream of binlog events into batches and barriers, by event headers alone. Pure.

Rows events are passed on as bytes; the planner reads the events that decide the order: GTID, BEGIN, TABLE_MAP,
XID, QUERY, ROTATE. Nothing here queries a server: the caller decides how the rows after a new TABLE_MAP are handled
(:attr:`Planner.needed_table`), once per distinct TABLE_MAP.

All that is read and not yet output is in the event buffer (:mod:`event_buffer`). The compiled one reads ordinary
events from raw bytes by itself (:meth:`Planner.scan`); :meth:`Planner.feed` handles every event, and both produce the
same batches.

A batch ends at the end of a transaction if possible. A transaction larger than the budget is cut inside, and the cut
is part of the location: after a restart at the transaction's start, that many rows events are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dm_worker.syncer.planning.batch_builder import BatchBuilder
from dm_worker.syncer.planning.batch_cutter import BatchCutter
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.cut_points import CutPoint
from dm_worker.syncer.planning.event_buffer import (
    CLOSE,
    CUT,
    FILTERED,
    EventBuffer,
    ScanningEventBuffer,
    gtid_text,
    new_event_buffer,
)
from dm_worker.syncer.planning.gtid_tracker import GtidTracker
from dm_worker.syncer.planning.instructions import BinlogStatement, PlannerInstruction
from dm_worker.syncer.planning.planner_progress import PlannerProgress
from dm_worker.syncer.planning.planning_range import PlanningRange
from dm_worker.syncer.planning.reading_state import ReadingState
from dm_worker.syncer.planning.savepoints import SavepointTracker, savepoint_statement
from dm_worker.syncer.planning.table_maps import Handling, NeedTable, TableMaps
from dm_worker.syncer.planning.xa import PreparedTransactions, Xid, prepared_xid, xa_statement
from dm_worker.syncer.planning.xa_rows import XaReread, XaRereadStep, XaState
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.gtid_event import GTID_EVENTS, gtid_of, is_prepared_xa, is_standalone, is_void_alter
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.errors.workarounds import Advice

#: A transaction that is skipped ends with one of these.
_OF_NO_TRANSACTION = GTID_EVENTS | {
    c.ROTATE_EVENT,
    c.FORMAT_DESCRIPTION_EVENT,
    c.HEARTBEAT_EVENT,
    c.HEARTBEAT_EVENT_V2,
}
#: The table id of rows events that only end a statement.
_DUMMY_TABLE = b"\xff\xff\xff\0\0\0"


class Planner:
    """Feed it events; it adds instructions to :attr:`out`. ``until`` and ``limit``: see :class:`PlanningRange`."""

    def __init__(
        self,
        start: Location,
        *,
        gtids: GtidTracker | None = None,
        by_gtid: bool = False,
        limits: BatchLimits | None = None,
        until: Location | None = None,
        limit: Location | None = None,
        buffer: EventBuffer | None = None,
        prepared: PreparedTransactions | None = None,
        cuts: Sequence[CutPoint] = (),
    ) -> None:
        """``cuts``: as for :meth:`add_cut`, while nothing was read."""
        self._by_gtid = by_gtid
        self._buffer = buffer = new_event_buffer() if buffer is None else buffer
        self._reading = reading = ReadingState(start, buffer, gtids, by_gtid=by_gtid)
        self._range = PlanningRange(reading, until, limit, by_gtid=by_gtid)
        self._tables = TableMaps(buffer)
        self._limits = limits or BatchLimits()
        self._savepoints = SavepointTracker(buffer, start.rows_events)
        self._xa = XaState(prepared or PreparedTransactions())
        self._builder = BatchBuilder(start, buffer, self._tables, self._limits)
        self._cutter = BatchCutter(self._builder, buffer, reading, self._savepoints, self._xa, whole=until is not None)
        self._cutter.points.waiting.extend(cuts)
        self.progress = PlannerProgress(buffer, reading, self._cutter)
        #: The stream must be opened at another position: see :meth:`take_reopen_request`.
        self._must_reopen = False
        #: Whether the current transaction is outside of the range up to ``until``.
        self._is_skipping = False
        self._cutter.end_at_points(certain=True)

    def add_cut(self, cut: CutPoint) -> None:
        """A batch must end at ``cut``: :class:`AtCut` follows it, or comes at once when reading has passed the cut. Not
        for a planner with ``until`` or ``limit``."""
        self._cutter.points.waiting.append(cut)
        self._cutter.end_at_points(certain=False)

    def bound(self, batch_bytes: int) -> None:
        """From here on, a batch is closed at ``batch_bytes`` of rows events, or earlier by the planner's own limits."""
        self._builder.limits = replace(self._limits, batch_bytes=min(self._limits.batch_bytes, batch_bytes))

    @property
    def out(self) -> list[PlannerInstruction]:
        """The instructions that were not taken yet."""
        return self._cutter.out

    def take_instructions(self) -> list[PlannerInstruction]:
        taken, self._cutter.out = self._cutter.out, []
        return taken

    # -- queries of the shell -----------------------------------------------------------------------------------

    @property
    def reached(self) -> bool:
        """Whether the range up to ``until``, or to ``limit``, is planned."""
        return self._range.ends_with(self._builder.start)

    def take_reopen_request(self) -> bool:
        """Whether the stream must be opened again, at ``progress.read_from``; its events that were not fed are void."""
        requested, self._must_reopen = self._must_reopen, False
        return requested

    def reopened(self) -> None:
        """The stream was opened again at ``progress.location``: skip the rows events that are already planned."""
        self._reading.reopened()
        self._savepoints.reopened()
        self._tables.forget_ids()
        self._xa.reopened()
        self._is_skipping = False

    def forget_tables(self) -> None:
        """Structures, routes or targets changed: request every table again."""
        self._tables.forget()

    @property
    def needed_table(self) -> NeedTable | None:
        """The table that must be resolved before anything else is fed or closed."""
        return self._tables.needed

    def resolve_table(self, handling: Handling, *, ends_batch: bool) -> None:
        """Resolves :attr:`needed_table`; that may need another table. ``ends_batch``: earlier events must be in a
        separate batch, because the rule of the target's table changed."""
        position = self._reading.position
        if self._tables.resolve(handling, ends_batch=ends_batch):
            self._cutter.cut_before_new_rule()
            self._tables.renew(position)

    @property
    def can_scan(self) -> bool:
        """Whether :meth:`scan` may be used now. All rare cases are left to :meth:`feed`."""
        reading, planned = self._reading, self._range
        odd = self._xa.is_read or self._savepoints.is_used or planned.until is not None
        odd = odd or reading.reread is not None or reading.resumed is not None or planned.scan_may_pass_limit()
        odd = odd or self._cutter.points.are_careful
        return hasattr(self._buffer, "scan") and not odd

    def scan(self, raw: bytes, pos: int, packets: bool, checksummed: bool) -> int:
        """Plans the ordinary events in ``raw`` from ``pos`` on, up to the first other one or to a full batch.

        Returns the position after them; see :meth:`ScanningEventBuffer.scan`. Raises as :meth:`feed` does.
        """
        buffer = cast(ScanningEventBuffer, self._buffer)
        limits = self._builder.limits
        pos, why = buffer.scan(raw, pos, packets, checksummed, limits.batch_bytes, limits.batch_events)
        self._note_end()
        self._cutter.end_at_points(certain=False)
        if why == CUT and self._builder.is_full:
            self._cutter.cut()
        elif why == CLOSE:
            self.close()
        return pos

    def feed(self, events: Sequence[Event]) -> int:
        """Plans events; returns how many were taken.

        Stops early when a table is needed (:attr:`needed_table`), after a statement, because later events may depend
        on it, when ``until`` is reached, and when the stream must be opened at another position.
        Raises DMError for events that can't be replicated, and ServerSwitched; earlier events are planned.
        """
        assert self._tables.needed is None, "a table must be resolved first"
        if self._xa.replayed and self._feed_replayed():
            return 0
        return self._plan(events)

    def _plan(self, events: Sequence[Event]) -> int:
        bounded, xa, tables, cuts = self._range.is_bounded, self._xa, self._tables, self._cutter.points
        for index, read in enumerate(events):
            event = read if read.log_pos else self._reading.placed(read)
            if self._is_skipping and self._skip(event):
                continue
            if cuts.waiting and not self._buffer.inside:
                self._cutter.end_before(event)
            if event.type in c.ROWS_EVENTS:
                self._on_rows(event)
            elif event.type == c.TABLE_MAP_EVENT:
                self._on_table_map(event)
            elif self._on_other(event):
                self._at_limit()
                self._cutter.end_at_points(certain=True)
                return index + 1
            if xa.cache.events is not None:
                xa.cache.store(event, self._reading.file)
            if (bounded and (self._at_until() or self._at_limit())) or tables.needed is not None:
                return index + 1
            if cuts.waiting:
                self._cutter.end_at_points(certain=True)
        return len(events)

    def _feed_replayed(self) -> bool:
        """Plans the events of a prepared transaction that are in memory. True when feeding must pause."""
        events = self._xa.replayed
        del events[: self._plan(events)]
        return self._must_pause

    @property
    def _must_pause(self) -> bool:
        return self._must_reopen or self.reached or self._tables.needed is not None

    def close(self) -> None:
        """Outputs what is finished: all up to the last transaction end."""
        self._cutter.close()

    # -- events -------------------------------------------------------------------------------------------------

    def _on_rows(self, event: Event) -> None:
        timestamp, _, _, _, log_pos, _, data = event
        buffer, reading = self._buffer, self._reading
        reading.move(event)
        buffer.rows += 1
        if buffer.rows <= buffer.skip:
            return
        table = data[19:25]
        number = buffer.table(table)
        if number is None:
            if table == _DUMMY_TABLE:
                return
            raise errors.new(
                Code.SyncerUnitInvalidReplicaEvent,
                f"a rows event that ends at ({reading.file}, {log_pos}) names the table id {table.hex()}, but no "
                "TABLE_MAP before it defines this id",
                scope="upstream",
                workaround="Start again from an earlier position, at the start of a transaction.",
            )
        if number <= FILTERED:
            if number < FILTERED:
                self._cutter.held.count(self._tables.held(number), data, reading.file_read)
            return
        # Rows that are read again take effect at their XA COMMIT.
        buffer.append(number, data, timestamp if reading.reread is None else reading.reread.timestamp)
        if self._builder.is_full:
            self._cutter.cut_full()

    def _on_table_map(self, event: Event) -> None:
        data = event.data
        self._reading.move(event)
        reread = self._reading.reread
        if reread is not None:
            reread.ensure_found(self._reading.position)
        self._buffer.inside = True
        if self._xa.ends_prepared:
            # Rows that wait for an XA COMMIT are not planned.
            self._tables.hide(data)
            return
        if not self._tables.assign(data):
            self._tables.ask(data, self._reading.position)

    def _on_other(self, event: Event) -> bool:
        """Handles an event other than rows. True when feeding must pause after it."""
        kind = event.type
        if kind == c.FORMAT_DESCRIPTION_EVENT:
            self._on_format(event)
        if kind == c.ROTATE_EVENT:
            if self._reading.on_rotate(event):
                self._enter_file()
            return False
        if event.artificial:
            return False
        if self._reading.reread is not None:
            return self._on_reread(event, self._reading.reread)
        if kind == c.XID_EVENT:
            self._reading.move(event)
            self._end_transaction(event.timestamp)
            return False
        if kind in GTID_EVENTS:
            self._on_gtid(event)
            return False
        if kind in c.QUERY_EVENTS:
            return self._on_query(event)
        if kind == c.XA_PREPARE_EVENT:
            return self._on_xa_prepare(event)
        self._reading.move(event)
        ev.ensure_supported(event, self._reading.file)
        if not self._buffer.inside:
            self._buffer.boundary = self._buffer.offset
        return False

    def _enter_file(self) -> None:
        """The next events are in another file, or part of one, with other TABLE_MAPs."""
        self._builder.enter_file(self._reading.file_read)
        self._tables.forget_ids()

    def _on_format(self, event: Event) -> None:
        self._range.ensure_server(event.server_id)
        self._reading.described(event)

    def _on_gtid(self, event: Event) -> None:
        buffer = self._buffer
        self._is_skipping = False
        buffer.begin_gtid(*gtid_of(event, self._reading.file))
        if self._range.until is not None and buffer.gtid is not None:
            self._is_skipping = self._range.skips(gtid_text(buffer.gtid), event)
            if self._is_skipping:
                buffer.begin_gtid(b"", 0)
                self._reading.move(event)
                return
        self._reading.begin_transaction(event)
        buffer.inside = True
        buffer.standalone = is_standalone(event)
        if event.type == c.MARIADB_GTID_EVENT:
            buffer.is_void = is_void_alter(event.data)
            self._xa.ends_prepared = is_prepared_xa(event.data)
            if self._xa.ends_prepared:
                self._xa.cache.start_storing()

    def _skip(self, event: Event) -> bool:
        """Whether the event belongs to the transaction that is skipped."""
        if event.type in _OF_NO_TRANSACTION or event.artificial:
            return False
        self._reading.move(event)
        return True

    def _on_query(self, event: Event) -> bool:
        self._reading.move(event)
        data = event.data
        if data.endswith(b"\0BEGIN"):
            self._reading.begin_unnamed()
            self._buffer.inside, self._buffer.standalone = True, False
            return False
        if data.endswith(b"\0COMMIT"):
            self._end_transaction(event.timestamp)
            return False
        if self._buffer.is_void:
            self._end_transaction(0)
            return False
        if self._on_xa_statement(event):
            return self._must_pause
        standalone = self._buffer.standalone or not self._buffer.inside
        if not standalone and self._on_control_statement(event):
            return False
        return self._on_statement(event, standalone)

    def _on_xa_statement(self, event: Event) -> bool:
        """Handles XA statements; False for others, and for XA COMMIT of what was prepared before the start."""
        statement = xa_statement(event, self._reading.file)
        if statement is None:
            return False
        transactions, xid = self._xa.transactions, statement.xid
        if statement.kind in ("start", "end"):
            self._buffer.inside, self._buffer.standalone, self._xa.inside = True, False, True
            if statement.kind == "start":
                self._xa.cache.start_storing()
        elif statement.kind == "rollback":
            transactions.end(xid)
            self._end_transaction(0)
        elif xid in transactions.waiting:
            self._begin_reread(xid, transactions.waiting[xid], event.timestamp, transactions.events(xid))
            self._feed_replayed()
        else:
            return False
        return True

    def _on_xa_prepare(self, event: Event) -> bool:
        """One phase is a commit. In two phases the rows take effect only at XA COMMIT. True to pause feeding."""
        self._reading.move(event)
        one_phase, xid = prepared_xid(event, self._reading.file)
        if not one_phase:
            kept = None if self._xa.cache.events is None else [*self._xa.cache.events, event]
            self._xa.transactions.prepare(xid, self._reading.at_boundary(), kept)
            self._roll_back()
            return False
        if self._xa.overflown or self._range.is_cut_here():
            self._cutter.drop_open()
            self._buffer.rows, self._buffer.skip = 0, self._savepoints.cut_at
            self._begin_reread(xid, self._reading.at_boundary(), event.timestamp, None)
            return True
        self._end_transaction(event.timestamp)
        return False

    def _begin_reread(self, xid: Xid, start: Location, timestamp: int, kept: list[Event] | None) -> None:
        """The rows of the transaction that was prepared at ``start`` become this transaction's."""
        self._reading.begin_reread(xid, start, timestamp, streamed=kept is None)
        self._xa.inside = False
        self._xa.cache.drop()
        self._savepoints.restart()
        self._enter_file()
        self._must_reopen = kept is None
        self._xa.replayed.extend(kept or ())

    def _end_reread(self, reread: XaReread) -> None:
        self._reading.end_reread(reread)
        self._must_reopen = reread.streamed
        self._enter_file()
        self._xa.transactions.end(reread.xid)
        self._end_transaction(reread.timestamp)
        # The request to reopen the stream ends the feeding before this is needed.
        self._at_until()

    def _on_reread(self, event: Event, reread: XaReread) -> bool:
        """Events other than rows while a prepared transaction is read again; True to pause feeding."""
        self._reading.move(event)
        step = reread.step(event, self._reading.position)
        if step is XaRereadStep.DONE:
            self._end_reread(reread)
            return self._must_reopen
        if step is XaRereadStep.PASS or self._on_control_statement(event):
            return False
        return self._on_statement(event, standalone=False)

    def _on_control_statement(self, event: Event) -> bool:
        """Handles a statement that controls a transaction from within; False for any other statement."""
        text = ev.parse_query(event, self._reading.file).statement
        if text.strip().rstrip(b";").upper() == b"ROLLBACK":
            self._roll_back()
            return True
        statement = savepoint_statement(text)
        if statement is None:
            return False
        given_up = self._cutter.undecided and self._xa.overflown
        self._savepoints.obey(statement, self._reading.position, given_up=given_up)
        return True

    def _roll_back(self) -> None:
        """The upstream logged the transaction and its rollback: its rows never took effect."""
        start = self._builder.start
        if start.rows_events and start.position == self._reading.boundary:
            raise errors.new(
                Code.SyncerUnsupportedStmt,
                f"the transaction that starts at {start.position} ends with ROLLBACK after a part of it was applied",
                workaround=f"Its tables must be copied again: {Advice.COPY_AGAIN}.",
            )
        self._cutter.drop_open()
        self._end_transaction(0)

    def _on_statement(self, event: Event, standalone: bool) -> bool:
        """A statement is a barrier. False when it was executed before this start: then feeding need not pause."""
        buffer, reading, limit = self._buffer, self._reading, self._range.limit
        position = reading.position
        if not standalone and buffer.rows < buffer.skip:
            return False
        if self._range.until is not None and not (standalone or buffer.count or buffer.rows > buffer.skip):
            # The one right before the unfinished batch is read again: it was done before that batch began.
            return False
        self._range.ensure_no_statement(position)
        self._cutter.cut_before_statement()
        start = reading.inside() if buffer.inside and not standalone else reading.at_boundary()
        self._cutter.advance(start)
        after, run = self.progress.read_to, buffer.gtid
        name = gtid_text(run) if self._by_gtid and run is not None else str(position)
        end = start
        if standalone:
            self._end_transaction(0)
            # On another server the limit is at another position.
            end = limit if limit is not None and reading.is_at(limit) else reading.at_boundary()
        self._cutter.emit_statement(BinlogStatement(event, position, start, end, after, name))
        return True

    # -- ends ---------------------------------------------------------------------------------------------------

    def _end_transaction(self, timestamp: int) -> None:
        self._buffer.end_transaction(timestamp)
        self._note_end()
        self._cutter.close_if_full()

    def _note_end(self) -> None:
        """The actions after transactions have ended in the event buffer."""
        if not self._buffer.ended:
            return
        self._buffer.ended = False
        self._cutter.held.end_transaction()
        self._xa.end_transaction()
        self._savepoints.end()
        self._reading.take_gtids()

    def _at_until(self) -> bool:
        """Whether the unfinished range is planned; outputs it when it ends here."""
        until, buffer = self._range.until, self._buffer
        if until is None or self.reached or self._cutter.undecided:
            return self.reached
        if not self._range.at_until(until, rows_events=self._reading.rows_gone if buffer.inside else 0):
            return False
        self._cutter.emit(until, buffer.count, inside=buffer.inside)
        return True

    def _at_limit(self) -> bool:
        """Whether the pass is planned; outputs the rest when it ends here."""
        limit = self._range.limit
        if limit is None or self.reached or self._buffer.inside or self._reading.reread is not None:
            return self.reached
        if not self._range.at_limit(limit):
            return False
        self._cutter.emit(limit, self._buffer.marked, inside=False)
        return True
