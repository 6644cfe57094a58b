"""The planner: cuts the stream of binlog events into batches and barriers, by event headers alone. Pure.

Rows events are passed on as bytes; what is looked at are the events that matter to order: GTID, BEGIN, TABLE_MAP,
XID, QUERY, ROTATE. Nothing here asks a server: how the rows behind a new TABLE_MAP are handled is a question to the
caller (:attr:`Planner.needed_table`), once per distinct TABLE_MAP.

All that is read and not yet given out is in the event buffer (:mod:`event_buffer`). The compiled one takes ordinary
events out of raw bytes by itself (:meth:`Planner.scan`); :meth:`Planner.feed` handles every event, and both lead to the
same batches.

A batch ends at the end of a transaction whenever it can. A transaction beyond the budget is cut inside, and the cut
is part of the location: reading again from the transaction's start, that many rows events are passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dm_worker.syncer.planning.batch_builder import BatchBuilder
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
from dm_worker.syncer.planning.held_rows import HeldRowCounter
from dm_worker.syncer.planning.instructions import (
    DEFAULT_LIMITS,
    Advance,
    BatchLimits,
    BinlogStatement,
    PlannerInstruction,
)
from dm_worker.syncer.planning.reading_state import ReadingState
from dm_worker.syncer.planning.savepoints import SavepointTracker, savepoint_statement, unsupported
from dm_worker.syncer.planning.server_switch import ensure_server, ensure_transaction, gtid_of_cut
from dm_worker.syncer.planning.table_maps import Handling, NeedTable, TableMaps
from dm_worker.syncer.planning.xa import PreparedTransactions, Xid, prepared_xid, xa_statement
from dm_worker.syncer.planning.xa_rows import XaEventCache, XaReread, XaRereadStep
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.gtid_event import GTID_EVENTS, gtid_of, is_prepared_xa, is_standalone, is_void_alter
from pkg.binlog.position import Location
from pkg.errors import Code

#: A transaction that is passed over ends with one of these.
_OF_NO_TRANSACTION = GTID_EVENTS | {
    c.ROTATE_EVENT,
    c.FORMAT_DESCRIPTION_EVENT,
    c.HEARTBEAT_EVENT,
    c.HEARTBEAT_EVENT_V2,
}
#: The table id of rows events that only end a statement.
_DUMMY_TABLE = b"\xff\xff\xff\0\0\0"


class Planner:
    """Feed it events; it appends to ``out``.

    ``until`` asks for one batch over exactly the range up to there; by GTID over exactly its transactions, whichever
    others this server has between them. ``limit`` ends the planning at that end of a transaction.
    """

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
    ) -> None:
        self.out: list[PlannerInstruction] = []
        self._until = until
        self._limit = limit
        self._by_gtid = by_gtid
        self._buffer = new_event_buffer() if buffer is None else buffer
        self._reading = ReadingState(start, self._buffer, gtids, by_gtid=by_gtid)
        self._tables = TableMaps(self._buffer)
        self._limits = limits or DEFAULT_LIMITS
        self._builder = BatchBuilder(start, self._buffer, self._tables, self._limits)
        self._savepoint_tracker = SavepointTracker(self._buffer, start.rows_events)
        #: Inside an XA transaction; inside one that is known to end with XA PREPARE.
        self._xa = self._prepared = False
        #: All that wait for their XA COMMIT; the events of the one being read.
        self._waiting = prepared or PreparedTransactions()
        self._xa_cache = XaEventCache()
        #: Rows of an XA transaction were given up, because it may still be rolled back and a batch can't hold it.
        self._overflown = False
        #: The stream must be opened at another place: see :meth:`take_jump`.
        self._must_reopen = False
        #: Events of a prepared transaction that are kept in memory and come before what is fed next.
        self._kept_events: deque[Event] = deque()
        #: The transaction being read is none of those that ``until`` asks for.
        self._is_skipping = False
        self._held = HeldRowCounter()

    def bound(self, batch_bytes: int) -> None:
        """From here on a batch is closed at ``batch_bytes`` of rows events, or earlier by the planner's own limits."""
        self._builder.limits = replace(self._limits, batch_bytes=min(self._limits.batch_bytes, batch_bytes))

    # -- what the shell asks ------------------------------------------------------------------------------------

    @property
    def reached(self) -> bool:
        """Whether the range up to ``until``, or to ``limit``, is planned."""
        return self._builder.start in (self._until, self._limit)

    @property
    def location(self) -> Location:
        """Where to read on after the stream broke: the running transaction's start and its rows events so far."""
        return self._reading.location

    @property
    def read_from(self) -> Location:
        """Where the stream is to be opened: :attr:`location`, or the prepared transaction that is read again."""
        reread = self._reading.reread
        return self.location if reread is None else reread.start

    @property
    def reopen_reason(self) -> str:
        """Why the stream is not at :attr:`location`, for errors of the stream; '' when it is."""
        reread = self._reading.reread
        return "" if reread is None else reread.reopen_reason

    def take_reopen_request(self) -> bool:
        """Whether the stream has to be opened anew at :attr:`read_from`; what it sent and was not fed is void."""
        jump, self._must_reopen = self._must_reopen, False
        return jump

    @property
    def read_to(self) -> Location:
        """Behind the newest event seen, its transaction counted as executed: for errors that name the event."""
        return self._reading.read_to

    @property
    def newest(self) -> int:
        """Upstream time (unix seconds) of the newest event seen, for the lag."""
        return self._buffer.newest

    @property
    def bytes_read(self) -> int:
        return self._buffer.bytes_read

    @property
    def waiting_bytes(self) -> int:
        """Bytes of rows events that are read and not given out."""
        return self._buffer.size

    @property
    def oldest_commit(self) -> int:
        """Upstream time of the oldest transaction whose rows wait here; 0 when there is none."""
        return self._buffer.commit_time

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`close` would give out something: finished transactions, or moved past filtered events."""
        return self._buffer.transactions > 0 or self._reading.boundary != self._builder.start.position

    @property
    def has_rows(self) -> bool:
        """Whether finished transactions wait that changed migrated tables."""
        return self._buffer.marked > 0

    def reopened(self) -> None:
        """The stream was opened again at :attr:`location`: pass over the rows events that are already planned."""
        self._reading.reopened()
        self._savepoint_tracker.reopened()
        self._tables.forget_ids()
        self._xa = self._prepared = self._is_skipping = False
        self._xa_cache.drop()
        self._kept_events.clear()

    def forget_tables(self) -> None:
        """Structures, routes or targets changed: ask for every table again."""
        self._tables.forget()

    @property
    def needed_table(self) -> NeedTable | None:
        """The table that must be resolved before anything else is fed or closed."""
        return self._tables.needed

    def resolve_table(self, handling: Handling, *, ends_batch: bool) -> None:
        """The answer to :attr:`needed_table`; it may raise another question. ``ends_batch``: what came before must be
        in a batch of its own, because the rule of the target's table changed."""
        position = self._reading.place
        if self._tables.resolve(handling, ends_batch=ends_batch):
            # An unfinished range stays one batch: two rules in it would place changes of one key into two buckets.
            if self._until is None:
                self._cut_before_statement()
            self._tables.renew(position)

    @property
    def can_scan(self) -> bool:
        """Whether :meth:`scan` may be used now. Everything rare is left to :meth:`feed`."""
        odd = self._xa or self._prepared or self._savepoint_tracker.is_used or self._until is not None
        odd = odd or self._reading.reread is not None or self._reading.resumed is not None or self._is_near_limit()
        return hasattr(self._buffer, "scan") and not odd

    def _is_near_limit(self) -> bool:
        """Whether a scan, which stops at the end of a file, might go beyond ``limit``."""
        # Bytes tell nothing of the place: servers leave out events, so that fewer come than lie between two offsets.
        return self._limit is not None and (self._by_gtid or self._reading.file == self._limit.position.name)

    def scan(self, raw: bytes, pos: int, packets: bool, checksummed: bool) -> int:
        """Plans the ordinary events in ``raw`` from ``pos`` on, up to the first other one or to a full batch.

        Returns the position behind them; see :meth:`ScanningTape.scan`. Raises as :meth:`feed` does.
        """
        buffer = cast(ScanningEventBuffer, self._buffer)
        limits = self._builder.limits
        pos, why = buffer.scan(raw, pos, packets, checksummed, limits.batch_bytes, limits.batch_events)
        self._note_end()
        if why == CUT:
            self._cut()
        elif why == CLOSE:
            self.close()
        return pos

    def feed(self, events: Sequence[Event]) -> int:
        """Plans events; returns how many were taken.

        Stops early when a table is needed (:attr:`needed_table`), after a statement, because what follows may depend
        on it, when ``until`` is reached, and when the stream must be opened at another position.
        Raises DMError for events that can't be replicated, and ServerSwitched; what came before is planned.
        """
        assert self._tables.needed is None, "a table must be resolved first"
        if self._kept_events and self._feed_kept():
            return 0
        for index, event in enumerate(events):
            if self._take(event):
                return index + 1
        return len(events)

    def _take(self, read: Event) -> bool:
        """Plans an event. True when feeding must pause after it."""
        event = read if read.log_pos else self._reading.placed(read)
        if self._is_skipping and self._skip(event):
            return False
        if event.type in c.ROWS_EVENTS:
            self._on_rows(event)
        elif event.type == c.TABLE_MAP_EVENT:
            self._on_table_map(event)
        elif self._on_other(event):
            if self._limit is not None:
                self._at_limit()
            return True
        if self._xa_cache.events is not None:
            self._xa_cache.add(event, self._reading.file)
        if self._until is not None and self._at_until():
            return True
        return (self._limit is not None and self._at_limit()) or self._tables.needed is not None

    def _feed_kept(self) -> bool:
        """Plans the events of a prepared transaction that are kept in memory. True when feeding must pause."""
        while self._kept_events:
            if self._take(self._kept_events.popleft()):
                return True
        return False

    def close(self) -> None:
        """Gives out what is finished: all up to the last transaction end."""
        if self._until is None and self.has_pending:
            self._emit(self._reading.at_boundary(), self._buffer.marked, inside=False)

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
                self._held.add(self._tables.held(number), data, reading.file_read)
            return
        # Rows that are read again come to be at their XA COMMIT.
        buffer.append(number, data, timestamp if reading.reread is None else reading.reread.timestamp)
        if self._builder.is_full and (self._until is None or self._undecided):
            self._cut()

    def _cut(self) -> None:
        """The batch is full inside a transaction: give out the finished ones, or cut the transaction itself."""
        if self._buffer.marked and self._until is None:
            self._emit(self._reading.at_boundary(), self._buffer.marked, inside=False)
            if not self._builder.is_full:
                return
        self._emit_inside()

    @property
    def _undecided(self) -> bool:
        """In an XA transaction, of which no part may be applied before it is known how it ends."""
        return self._xa and self._reading.reread is None

    def _emit_inside(self) -> None:
        if self._undecided:
            # They are read again if they come to be.
            self._buffer.truncate(self._buffer.marked)
            self._held.roll_back()
            self._overflown = True
            self._xa_cache.drop()
            return
        if self._savepoint_tracker.just_rewound:
            # The place would be the same as before the rows that were undone.
            raise unsupported(f"a statement or new table directly after ROLLBACK TO SAVEPOINT at {self.read_to}")
        self._savepoint_tracker.cut_at = self._buffer.rows
        self._emit(self._reading.inside(), self._buffer.count, inside=True)

    def _on_table_map(self, event: Event) -> None:
        data = event.data
        self._reading.move(event)
        reread = self._reading.reread
        if reread is not None:
            reread.ensure_found(self._reading.place)
        self._buffer.inside = True
        if self._prepared:
            # Rows that wait for an XA COMMIT are not planned.
            self._tables.hide(data)
            return
        self._tables.add(data, self._reading.place)

    def _cut_before_statement(self) -> None:
        if self._buffer.marked:
            self._emit(self._reading.at_boundary(), self._buffer.marked, inside=False)
        if self._buffer.count:
            self._emit_inside()

    def _on_other(self, event: Event) -> bool:
        """True when feeding must pause after this event."""
        kind = event.type
        if kind == c.FORMAT_DESCRIPTION_EVENT:
            self._on_format(event)
        if kind == c.ROTATE_EVENT:
            if self._reading.follow(event):
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
        """The events from here on are in another file, or part of one, and its TABLE_MAPs are others."""
        self._builder.enter_file(self._reading.file_read)
        self._tables.forget_ids()

    def _on_format(self, event: Event) -> None:
        self._reading.server_id = event.server_id
        for place in (self._reading.resumed, self._until):
            if place is not None:
                ensure_server(place, event.server_id)

    def _on_gtid(self, event: Event) -> None:
        buffer = self._buffer
        self._is_skipping = False
        buffer.begin_gtid(*gtid_of(event, self._reading.file))
        if self._until is not None and self._by_gtid and buffer.gtid is not None:
            self._is_skipping = not self._is_asked_for(gtid_text(buffer.gtid), self._until, event)
            if self._is_skipping:
                buffer.begin_gtid(b"", 0)
                self._reading.move(event)
                return
        self._reading.begin(event)
        buffer.inside = True
        buffer.standalone = is_standalone(event)
        if event.type == c.MARIADB_GTID_EVENT:
            buffer.is_void = is_void_alter(event.data)
            self._prepared = is_prepared_xa(event.data)
            if self._prepared:
                self._xa_cache.begin()

    def _is_asked_for(self, gtid: str, until: Location, event: Event) -> bool:
        """Whether a transaction belongs to the range up to ``until``: as a whole, or as the one that it ends in."""
        if self._reading.is_part(gtid, until.gtid_set):
            return True
        if not until.cut:
            # Written by an earlier version: the transaction that comes when all others are in.
            return bool(until.rows_events) and self._reading.is_at(until)
        if gtid != gtid_of_cut(until):
            return False
        ensure_transaction(until, self._reading.server_id, gtid, self._reading.file, event)
        return True

    def _skip(self, event: Event) -> bool:
        """Whether the event belongs to the transaction that is passed over."""
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
            return self._must_reopen or self.reached or self._tables.needed is not None
        standalone = self._buffer.standalone or not self._buffer.inside
        if not standalone and self._on_control_statement(event):
            return False
        return self._on_statement(event, standalone)

    def _on_xa_statement(self, event: Event) -> bool:
        """Handles XA statements; False for others, and for XA COMMIT of what was prepared before the start."""
        word = xa_statement(event, self._reading.file)
        if word is None:
            return False
        if word.kind in ("start", "end"):
            self._buffer.inside, self._buffer.standalone, self._xa = True, False, True
            if word.kind == "start":
                self._xa_cache.begin()
        elif word.kind == "rollback":
            self._waiting.end(word.xid)
            self._end_transaction(0)
        elif word.xid in self._waiting.waiting:
            kept = self._waiting.events(word.xid)
            self._begin_reread(word.xid, self._waiting.waiting[word.xid], event.timestamp, kept)
            self._feed_kept()
        else:
            return False
        return True

    def _on_xa_prepare(self, event: Event) -> bool:
        """One phase is a commit. In two phases the rows do not come to be before XA COMMIT. True to pause feeding."""
        self._reading.move(event)
        one_phase, xid = prepared_xid(event, self._reading.file)
        if not one_phase:
            kept = None if self._xa_cache.events is None else [*self._xa_cache.events, event]
            self._waiting.add(xid, self._reading.at_boundary(), kept)
            self._roll_back()
            return False
        until = self._until
        if self._overflown or (until is not None and until.rows_events and self._reading.is_at(until)):
            self._buffer.truncate(self._buffer.marked)
            self._held.roll_back()
            self._buffer.rows, self._buffer.skip = 0, self._savepoint_tracker.cut_at
            self._begin_reread(xid, self._reading.at_boundary(), event.timestamp, None)
            return True
        self._end_transaction(event.timestamp)
        return False

    def _begin_reread(self, xid: Xid, start: Location, timestamp: int, kept: list[Event] | None) -> None:
        """The rows of the transaction that was prepared at ``start`` become this transaction's."""
        self._reading.begin_reread(xid, start, timestamp, streamed=kept is None)
        self._xa = False
        self._xa_cache.drop()
        self._savepoint_tracker.restart()
        self._enter_file()
        self._must_reopen = kept is None
        self._kept_events.extend(kept or ())

    def _end_reread(self, reread: XaReread) -> None:
        self._reading.end_reread(reread)
        self._must_reopen = reread.streamed
        self._enter_file()
        self._waiting.end(reread.xid)
        self._end_transaction(reread.timestamp)
        if self._until is not None:
            # A jump ends the feeding before it is asked.
            self._at_until()

    def _on_reread(self, event: Event, reread: XaReread) -> bool:
        """What is no row of the transaction that is read again; True to pause feeding."""
        self._reading.move(event)
        step = reread.step(event, self._reading.place)
        if step is XaRereadStep.DONE:
            self._end_reread(reread)
            return self._must_reopen
        if step is XaRereadStep.PASS or self._on_control_statement(event):
            return False
        return self._on_statement(event, standalone=False)

    def _on_control_statement(self, event: Event) -> bool:
        """Handles what controls a transaction from within; False for any other statement."""
        statement = ev.parse_query(event, self._reading.file).statement
        if statement.strip().rstrip(b";").upper() == b"ROLLBACK":
            self._roll_back()
            return True
        word = savepoint_statement(statement)
        if word is None:
            return False
        self._savepoint_tracker.obey(word, self._reading.place, given_up=self._undecided and self._overflown)
        return True

    def _roll_back(self) -> None:
        """The upstream logged the transaction and its undoing: its rows never came to be."""
        start = self._builder.start
        if start.rows_events and start.position == self._reading.boundary:
            raise errors.new(
                Code.SyncerUnsupportedStmt,
                f"the transaction that starts at {start.position} ends with ROLLBACK after a part of it was applied",
                workaround="Migrate the tables of this transaction again.",
            )
        self._buffer.truncate(self._buffer.marked)
        self._held.roll_back()
        self._end_transaction(0)

    def _on_statement(self, event: Event, standalone: bool) -> bool:
        buffer, place = self._buffer, self._reading.place
        if not standalone and buffer.rows < buffer.skip:
            return False
        if self._until is not None and not (standalone or buffer.count or buffer.rows > buffer.skip):
            # The one right before the unfinished batch shows up again: it was done before that batch began.
            return False
        if self._until is not None:
            # Statements end batches, so none can be inside one.
            raise errors.new(
                Code.SyncerEvent,
                f"the statement at {place} is inside the unfinished batch, which ends at {self._until}",
                workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
            )
        self._cut_before_statement()
        start = self._reading.inside() if buffer.inside and not standalone else self._reading.at_boundary()
        if self._held or self._builder.start.position != start.position:
            self.out.append(Advance(start, self._waiting.waiting, self._held.take(inside=True)))
        behind, run = self.read_to, buffer.gtid
        name = gtid_text(run) if self._by_gtid and run is not None else str(place)
        if standalone:
            self._end_transaction(0)
            end = self._reading.at_boundary()
            if self._limit is not None and self._reading.is_at(self._limit):
                # On another server it is at another position.
                end = self._limit
        else:
            end = start
        self._builder.begin(end, buffer.count, self._reading.file_read)
        self.out.append(BinlogStatement(event, place, start, end, behind, name))
        return True

    # -- bookkeeping --------------------------------------------------------------------------------------------

    def _end_transaction(self, timestamp: int) -> None:
        self._buffer.end_transaction(timestamp)
        self._note_end()
        if self._until is None and self._builder.is_full:
            self.close()

    def _note_end(self) -> None:
        """What is to be done once transactions have ended in the event buffer."""
        if not self._buffer.ended:
            return
        self._buffer.ended = False
        self._held.end_transaction()
        self._xa = self._prepared = self._overflown = False
        self._xa_cache.drop()
        self._savepoint_tracker.end()
        self._reading.take_gtids()

    def _at_until(self) -> bool:
        until = self._until
        assert until is not None
        if self.reached or self._undecided:
            return self.reached
        gone = self._reading.rows_gone if self._buffer.inside else 0
        if gone == until.rows_events and self._reading.is_at(until):
            self._emit(until, self._buffer.count, inside=self._buffer.inside)
            return True
        if self._reading.is_beyond(until):
            raise errors.new(
                Code.SyncerEvent,
                f"the binlog has no event that ends at {until}, the end of the unfinished batch",
                scope="upstream",
                workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
            )
        return False

    def _at_limit(self) -> bool:
        limit = self._limit
        assert limit is not None
        if self.reached or self._buffer.inside or self._reading.reread is not None:
            return self.reached
        if self._reading.is_at(limit):
            self._emit(limit, self._buffer.marked, inside=False)
            return True
        if self._reading.is_beyond(limit):
            raise errors.new(
                Code.SyncerEvent,
                f"the binlog has no transaction that ends at {limit}, the end of the part that is read again",
                scope="upstream",
                workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
            )
        return False

    def _emit(self, end: Location, count: int, *, inside: bool) -> None:
        """Gives out the first ``count`` events as a batch that ends at ``end``, and keeps the others."""
        waiting, held = self._waiting.waiting, self._held.take(inside=inside)
        batch = self._builder.batch(end, count, waiting, held, inside=inside) if count else Advance(end, waiting, held)
        self.out.append(batch)
        self._builder.begin(end, count, self._reading.file_read)
