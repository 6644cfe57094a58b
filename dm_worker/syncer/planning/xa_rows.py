"""The rows of prepared XA transactions: stored when they are first read, or read again for XA COMMIT. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dm_worker.syncer.planning.xa import (
    RECENT_BYTES,
    PreparedTransactions,
    Xid,
    gtid_xid,
    prepared_xid,
    xa_statement,
    xid_text,
)
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.gtid_event import GTID_EVENTS
from pkg.binlog.position import Location, Position
from pkg.errors import Code
from pkg.errors.workarounds import Advice


class XaEventCache:
    """The events of the XA transaction that is being read, while they are ordinary and few."""

    def __init__(self) -> None:
        #: None: no events are stored, of this transaction or at all.
        self.events: list[Event] | None = None
        self._size = 0

    def start_storing(self) -> None:
        self.events, self._size = [], 0

    def drop(self) -> None:
        self.events = None

    def store(self, event: Event, file: str) -> None:
        """Stores a rows event or TABLE_MAP. Too many, or one that may request a pause, end the storing."""
        assert self.events is not None
        self._size += len(event.data)
        if self._size > RECENT_BYTES:
            self.drop()
        elif event.is_rows or event.type == c.TABLE_MAP_EVENT:
            self.events.append(event)
        elif event.type in c.QUERY_EVENTS and xa_statement(event, file) is None:
            # A SAVEPOINT or another statement needs the normal path.
            self.drop()


class XaState:
    """The state of the XA transaction that is being read."""

    def __init__(self, transactions: PreparedTransactions) -> None:
        #: All that wait for their XA COMMIT.
        self.transactions = transactions
        #: Inside an XA transaction; inside one that is known to end with XA PREPARE.
        self.inside = self.ends_prepared = False
        #: Its rows were dropped, because it may still be rolled back and a batch can't hold it.
        self.overflown = False
        #: Its events.
        self.cache = XaEventCache()
        #: Events of a prepared transaction in memory: they come before what is fed next.
        self.replayed: list[Event] = []

    @property
    def is_read(self) -> bool:
        """Whether an XA transaction is being read."""
        return self.inside or self.ends_prepared

    def end_transaction(self) -> None:
        self.inside = self.ends_prepared = self.overflown = False
        self.cache.drop()

    def reopened(self) -> None:
        """The stream begins again at the start of the transaction, or of the one that is read again."""
        self.inside = self.ends_prepared = False
        self.cache.drop()
        self.replayed.clear()


class XaRereadStep(Enum):
    """The role of an event that is read while a prepared transaction is read again."""

    PASS = auto()
    #: A statement inside the transaction.
    STATEMENT = auto()
    #: The transaction's rows are complete.
    DONE = auto()


@dataclass(slots=True)
class XaReread:
    """The rows of a prepared transaction take part at its XA COMMIT.

    ``start`` is their location in the binlog, ``file`` the file being read there; ``end`` (the position before it) and
    ``timestamp`` are the XA COMMIT's. ``found``: the transaction at ``start`` was verified.
    ``streamed``: they are not in memory, so the stream is opened there, and then after the XA COMMIT.
    """

    xid: Xid
    start: Location
    file: str
    end: Position
    timestamp: int
    found: bool
    streamed: bool

    @property
    def reopen_reason(self) -> str:
        """The reason for the stream's position, for its errors."""
        return (
            f"reading again, for the XA COMMIT before {self.end}, the rows of the XA "
            f"transaction {xid_text(self.xid)}, prepared at {self.start}; without them, migrate its "
            "tables again"
        )

    def step(self, event: Event, position: Position) -> XaRereadStep:
        """Takes an event, up to ``position``, that is neither a row nor a change of the file.

        Raises an error when the event proves that another transaction is here, and for events that can't be replicated.
        """
        kind = event.type
        if kind in GTID_EVENTS:
            self.found = self.found or gtid_xid(event, self.file) == self.xid
        elif kind in c.QUERY_EVENTS:
            return self._on_query(event, position)
        elif kind == c.XA_PREPARE_EVENT:
            if prepared_xid(event, self.file)[1] != self.xid:
                raise self._lost(position)
            self.ensure_found(position)
            return XaRereadStep.DONE
        elif kind == c.XID_EVENT:
            raise self._lost(position)
        else:
            ev.ensure_supported(event, self.file)
        return XaRereadStep.PASS

    def ensure_found(self, position: Position) -> None:
        """Raises an error when an event of a transaction comes up to ``position`` before the right one has begun."""
        if not self.found:
            raise self._lost(position)

    def _on_query(self, event: Event, position: Position) -> XaRereadStep:
        word = xa_statement(event, self.file)
        if word is not None and word.kind in ("start", "end") and word.xid == self.xid:
            self.found = True
            return XaRereadStep.PASS
        self.ensure_found(position)
        return XaRereadStep.STATEMENT

    def _lost(self, position: Position) -> errors.DMError:
        return errors.new(
            Code.SyncerEvent,
            f"the XA transaction {xid_text(self.xid)}, which XA COMMIT before {self.end} commits, is not in the "
            f"binlog at {self.start}, where it was prepared; found: {position}",
            scope="upstream",
            workaround=Advice.BINLOG_REPLACED,
        )
