"""The planner's reading position: in the binlog, in the current transaction, in the executed GTID set. Pure.

While a prepared XA transaction is read again, events come from its position, and transactions still begin and end at
the XA COMMIT.
"""

from __future__ import annotations

from dataclasses import replace

from dm_worker.syncer.planning.event_buffer import EventBuffer, gtid_text
from dm_worker.syncer.planning.gtid_tracker import GtidTracker
from dm_worker.syncer.planning.server_switch import cut_mark, ensure_same_file, ensure_transaction
from dm_worker.syncer.planning.xa import Xid
from dm_worker.syncer.planning.xa_rows import XaReread
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.position import FileIdentity, Location, Position


class ReadingState:
    """Tracks the event buffer's offsets, and positions by file and GTID set. It begins at ``start``."""

    def __init__(self, start: Location, buffer: EventBuffer, gtids: GtidTracker | None, *, by_gtid: bool) -> None:
        """``by_gtid``: locations are equal when their GTID sets are."""
        self.file = start.position.name
        #: The prepared transaction whose rows are being read for its XA COMMIT.
        self.reread: XaReread | None = None
        #: The server that wrote the binlog being read.
        self.server_id = 0
        #: The identity of the file named ``file``; None while unknown.
        self.identity = start.file
        #: The location inside a transaction where the stream was opened, until its transaction has come; else None.
        self.resumed = start if start.rows_events else None
        self._buffer = buffer
        self._gtids = gtids
        self._by_gtid = by_gtid
        buffer.offset = buffer.boundary = start.position.pos
        buffer.skip = start.rows_events
        #: Where the last transaction ended; the start before one has. Events of no transaction may follow.
        self.ended = start.position

    # -- positions ----------------------------------------------------------------------------------------------

    @property
    def file_read(self) -> str:
        """The file of the events being fed; not ``file`` while a prepared transaction is read again."""
        return self.file if self.reread is None else self.reread.file

    @property
    def position(self) -> Position:
        """The end of the newest event."""
        return Position(self.file_read, self._buffer.offset)

    @property
    def boundary(self) -> Position:
        """The start of the current transaction, or the end of the last one."""
        return Position(self.file, self._buffer.boundary)

    @property
    def rows_gone(self) -> int:
        """Rows events of the current transaction that are read, now or before the stream was opened."""
        return max(self._buffer.rows, self._buffer.skip)

    @property
    def location(self) -> Location:
        """Where to continue after the stream broke: the current transaction's start and its rows events so far."""
        gone = self.rows_gone if self._buffer.inside else self._buffer.skip
        return self._cut_at(gone) if gone else self.at_boundary()

    @property
    def read_to(self) -> Location:
        """The end of the newest event, its transaction counted as executed."""
        run = self._buffer.gtid
        if self._gtids is None or run is None:
            return Location(self.position, self._gtid_text())
        return Location(self.position, self._gtids.text_with(gtid_text(run)))

    def at_boundary(self) -> Location:
        """The end of a batch of finished transactions."""
        return Location(self.boundary, self._gtid_text(), file=self.identity)

    def inside(self) -> Location:
        """The end of a batch that contains the current transaction up to here."""
        return self._cut_at(self.rows_gone)

    def _cut_at(self, rows_events: int) -> Location:
        if self.resumed is not None:
            # Its transaction has not come yet.
            return replace(self.resumed, rows_events=rows_events)
        run = self._buffer.gtid
        mark = cut_mark(self.server_id, "" if run is None else gtid_text(run))
        return Location(self.boundary, self._gtid_text(), rows_events, mark, self.identity)

    def is_at(self, until: Location) -> bool:
        """Whether the current transaction begins, or the last one ended, at ``until``."""
        # After a switch of the upstream by GTID, file names and offsets have other meanings.
        return self._gtid_text() == until.gtid_set if self._by_gtid else self.boundary == until.position

    def is_beyond(self, until: Location) -> bool:
        """Whether ``until`` was passed."""
        if self._by_gtid:
            return self._gtids is not None and self._gtids.is_beyond(until.gtid_set)
        return until.position < self.boundary

    def has_executed(self, gtid_set: str) -> bool:
        """Whether all of a GTID set is executed."""
        return self._gtids is not None and self._gtids.contains(gtid_set)

    def has_more_than(self, gtid_set: str) -> bool:
        """Whether all of a GTID set is executed, and more."""
        return self._gtids is not None and self._gtids.is_beyond(gtid_set)

    def is_part(self, gtid: str, gtid_set: str) -> bool:
        """Whether a transaction is in a GTID set."""
        return self._gtids is not None and self._gtids.is_part(gtid, gtid_set)

    def _gtid_text(self) -> str:
        return self._gtids.text() if self._gtids is not None else ""

    # -- events -------------------------------------------------------------------------------------------------

    def move(self, event: Event) -> None:
        """Moves to the end of ``event``."""
        buffer = self._buffer
        offset = buffer.offset
        buffer.offset = event.log_pos if event.log_pos >= offset else ev.end_position(offset, event)
        buffer.bytes_read += event.size
        buffer.newest = (event.timestamp if self.reread is None else self.reread.timestamp) or buffer.newest

    def placed(self, event: Event) -> Event:
        """The next event, which does not contain its end, with the end that follows from the position before it."""
        if event.artificial:
            return event
        return event._replace(log_pos=ev.end_position(self._buffer.offset, event) & 0xFFFFFFFF)

    def on_rotate(self, rotate: Event) -> bool:
        """Whether a ROTATE leads to another file or offset. Raises 11071 when it is torn."""
        position, name = ev.parse_rotate(rotate, self.file_read)
        buffer = self._buffer
        if self.reread is not None:
            if name == self.reread.file:
                return False
            self.reread.file, buffer.offset = name, position
            return True
        # The artificial ROTATE at the start of a stream contains the position where it starts.
        if buffer.inside or (rotate.artificial and name == self.file):
            return False
        # Another server's file, in a relay log, may have the name of the one before.
        self.file, self.identity = name, None
        buffer.offset = buffer.boundary = position
        return True

    def described(self, event: Event) -> None:
        """A FORMAT_DESCRIPTION: a file begins, or a stream that starts inside one. Raises DMError (36069) when it is
        not the file of that name that was read before."""
        self.server_id = event.server_id
        if self.reread is not None:
            return
        found = FileIdentity(self.file, event.server_id, event.timestamp)
        if not self._by_gtid:
            # By GTID another server may have a file of that name.
            ensure_same_file(self.location, self.identity, found)
        elif found != self.identity and not self._buffer.inside:
            # Its offsets are its own, and may be smaller than those of another server's file with the same name.
            self._buffer.offset = self._buffer.boundary = len(c.MAGIC)
        self.identity = found

    def begin_transaction(self, gtid: Event) -> None:
        """A GTID event begins a transaction. Raises OtherServer when not the one that the stream was opened in."""
        self.move(gtid)
        # Servers leave out events: where the one before ended need not be where this one begins.
        self._buffer.boundary = self._buffer.offset - gtid.size
        resumed, run = self.resumed, self._buffer.gtid
        if resumed is not None:
            ensure_transaction(resumed, self.server_id, "" if run is None else gtid_text(run), self.file, gtid)
            self.resumed = None

    def begin_unnamed(self) -> None:
        """BEGIN: without a GTID event before it, transactions of one server can't be distinguished."""
        self.resumed = None

    def take_gtids(self) -> None:
        """Transactions have ended: adds their GTIDs to the executed set."""
        self.resumed = None
        self.ended = self.boundary
        for run in self._buffer.take_gtids():
            if self._gtids is not None:
                self._gtids.add(gtid_text(run))

    # -- other streams ------------------------------------------------------------------------------------------

    def reopened(self) -> None:
        """The stream begins again at :attr:`location`, or at the transaction that is read again."""
        buffer, location = self._buffer, self.location
        buffer.skip = location.rows_events
        buffer.rows = 0
        self.resumed = location if location.rows_events else None
        if self.reread is not None:
            buffer.offset, self.reread.found = self.reread.start.position.pos, False
            return
        buffer.offset = buffer.boundary
        buffer.begin_gtid(b"", 0)
        buffer.inside = buffer.standalone = buffer.is_void = False

    def begin_reread(self, xid: Xid, start: Location, timestamp: int, *, streamed: bool) -> None:
        """The rows of the transaction that was prepared at ``start`` are read from here on; see :class:`XaReread`."""
        buffer, file = self._buffer, start.position.name
        end = Position(self.file, buffer.offset)
        self.reread = XaReread(xid, start, file, end, timestamp, found=not streamed, streamed=streamed)
        buffer.inside, buffer.standalone = True, False
        buffer.offset = start.position.pos

    def end_reread(self, reread: XaReread) -> None:
        """Returns to the end of the XA COMMIT."""
        self.reread = None
        self._buffer.offset = reread.end.pos
