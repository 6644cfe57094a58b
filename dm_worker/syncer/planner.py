"""The planner: cuts the stream of binlog events into batches and barriers, by event headers alone. Pure.

Rows events are passed on as bytes; what is looked at are the events that matter to order: GTID, BEGIN, TABLE_MAP,
XID, QUERY, ROTATE. The structure of a table is asked for once per distinct TABLE_MAP, through ``resolve``.

All that is read and not yet given out is on the tape (:mod:`tape`). The compiled tape takes ordinary events out of raw
bytes by itself (:meth:`Planner.scan`); :meth:`Planner.feed` handles every event, and both lead to the same batches.

A batch ends at the end of a transaction whenever it can. A transaction beyond the budget is cut inside, and the cut
is part of the location: reading again from the transaction's start, that many rows events are passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from dm_worker.syncer.batch import Batch, Slice, TablePlan
from dm_worker.syncer.savepoints import Savepoint, Savepoints, savepoint_word
from dm_worker.syncer.tape import CLOSE, CUT, FILTERED, ScanningTape, Tape, gtid_text, new_tape
from dm_worker.syncer.xa import RECENT_BYTES, Prepared, Reread, Waiting, Xid, gtid_xid, prepared_xid, xa_word, xid_text
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog import events as ev
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.errors.workarounds import PASS_STATEMENT

#: The table id of rows events that only end a statement.
_DUMMY_TABLE = b"\xff\xff\xff\0\0\0"
#: MariaDB's GTID event: where its flags are (after sequence number and domain), and the one for "no COMMIT follows".
_MARIADB_FLAGS = c.HEADER_SIZE + 12
_FL_STANDALONE = 1
#: With binlog_alter_two_phase an ALTER is logged when it begins and when it ends; only its COMMIT has an effect.
_FL_GROUP_COMMIT_ID, _FL_START_ALTER, _FL_ROLLBACK_ALTER = 2, 2, 8
_GTID_EVENTS = frozenset({c.GTID_EVENT, c.ANONYMOUS_GTID_EVENT, c.MARIADB_GTID_EVENT})
#: MariaDB marks a transaction that XA PREPARE ends, and the statement that ends it later.
_FL_PREPARED_XA, _FL_COMPLETED_XA = 64, 128
_QUERY_EVENTS = frozenset({c.QUERY_EVENT, c.MARIADB_QUERY_COMPRESSED_EVENT})


class GtidTracker(Protocol):
    """The executed GTID set, fed with the GTIDs of finished transactions, or runs of them, as servers write them."""

    def add(self, text: str) -> None: ...

    def text(self) -> str: ...

    def text_with(self, text: str) -> str: ...


#: A slice costs a task or a round through the decoder; less is not worth it.
_LEAST_SLICE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is big enough: bytes of rows events, or their number.

    It is cut into about ``slices`` pieces, of ``slice_bytes`` and an event at most; small ones are not cut.
    """

    batch_bytes: int = 64 * 1024 * 1024
    batch_events: int = 400_000
    slice_bytes: int = 4 * 1024 * 1024
    slices: int = 4

    def piece(self, batch: int) -> int:
        """Bytes of each slice of a batch of ``batch`` bytes."""
        return min(self.slice_bytes, max(-(-batch // self.slices), _LEAST_SLICE))


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Advance:
    """Nothing to apply up to ``location``: only filtered events. ``prepared`` as in a batch."""

    location: Location
    prepared: Waiting = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a QUERY event: a barrier. ``place`` is where the event ends, its name across restarts.

    ``behind`` is where to go on without it; ``end`` is the same unless the statement is a part of a transaction.
    """

    event: Event
    place: Position
    start: Location
    end: Location
    behind: Location


#: Where the rest of a TABLE_MAP begins, behind the table id: that changes whenever the upstream opens the table again.
_SHAPE = c.HEADER_SIZE + 6

Instruction = Batch | Advance | Statement
#: The plan of a TABLE_MAP's table, None when the table is not migrated. The second value asks to end the batch before.
Resolve = Callable[[bytes, Position], tuple[TablePlan | None, bool]]


def _is_void_alter(gtid: bytes) -> bool:
    if gtid[_MARIADB_FLAGS] & (_FL_PREPARED_XA | _FL_COMPLETED_XA):
        # An XA transaction's id is where other events have the flags of an ALTER.
        return False
    at = _MARIADB_FLAGS + (9 if gtid[_MARIADB_FLAGS] & _FL_GROUP_COMMIT_ID else 1)
    return len(gtid) > at and bool(gtid[at] & (_FL_START_ALTER | _FL_ROLLBACK_ALTER))


def _gtid_of(event: Event, file: str) -> tuple[bytes, int]:
    """Source and number of a GTID event, see :meth:`Tape.begin_gtid`. Raises 11071 when it is torn."""
    if event.type == c.ANONYMOUS_GTID_EVENT:
        return b"", 0
    ev.parse_gtid(event, file)
    data = event.data
    if event.type == c.MARIADB_GTID_EVENT:
        return data[27:31] + event.server_id.to_bytes(4, "little"), int.from_bytes(data[19:27], "little")
    return data[20:36], int.from_bytes(data[36:44], "little")


class Planner:
    """Feed it events; it appends to ``out``. ``until`` asks for one batch over exactly the range up to there."""

    def __init__(
        self,
        start: Location,
        resolve: Resolve,
        *,
        gtids: GtidTracker | None = None,
        by_gtid: bool = False,
        limits: Limits | None = None,
        until: Location | None = None,
        tape: Tape | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        self.out: list[Instruction] = []
        self.limits = limits or DEFAULT_LIMITS
        self._resolve = resolve
        self._gtids = gtids
        self._by_gtid = by_gtid
        self._until = until
        self._file = start.position.name
        self._start = start
        self._tape = new_tape() if tape is None else tape
        self._tape.offset = self._tape.boundary = start.position.pos
        self._tape.skip = start.rows_events
        #: Plans by TABLE_MAP (without the table id), and by number.
        self._known: dict[bytes, TablePlan | None] = {}
        self._plans: dict[int, TablePlan] = {}
        self._maps: dict[bytes, bytes] = {}
        #: Inside an XA transaction; inside one that is known to end with XA PREPARE.
        self._xa = self._prepared = False
        #: All that wait for their XA COMMIT; the events of the one being read, as long as they are few; their bytes.
        self._waiting = prepared or Prepared()
        self._kept: list[Event] | None = None
        self._kept_size = 0
        #: Rows of an XA transaction were given up, because it may still be rolled back and a batch can't hold it.
        self._overflown = False
        #: The prepared transaction whose rows are being read for its XA COMMIT.
        self._reread: Reread | None = None
        #: The stream must be opened at another place: see :meth:`take_jump`.
        self._jump = False
        self._savepoints = Savepoints()
        #: Words about savepoints in this transaction: those read, and those that were obeyed before the stream broke.
        self._words = self._words_obeyed = 0
        #: Rows events of this transaction up to the last ROLLBACK TO SAVEPOINT, -1 for none, and up to the last cut.
        self._rewound, self._cut_at = -1, start.rows_events
        #: (index of the first event, file): a batch may span files, and errors name them.
        self._files: list[tuple[int, str]] = [(0, self._file)]

    # -- what the shell asks ------------------------------------------------------------------------------------

    @property
    def reached(self) -> bool:
        """Whether the range up to ``until`` is planned."""
        return self._until is not None and self._start == self._until

    @property
    def location(self) -> Location:
        """Where to read on after the stream broke: the running transaction's start and its rows events so far."""
        return Location(self._boundary, self._gtid_text(), self._rows_gone if self._tape.inside else self._tape.skip)

    @property
    def read_from(self) -> Location:
        """Where the stream is to be opened: :attr:`location`, or the prepared transaction that is read again."""
        return self.location if self._reread is None else self._reread.start

    @property
    def errand(self) -> str:
        """Why the stream is not at :attr:`location`, for errors of the stream; '' when it is."""
        if self._reread is None:
            return ""
        return (
            f"reading again, for the XA COMMIT before ({self._file}, {self._reread.end}), the rows of the XA "
            f"transaction {xid_text(self._reread.xid)}, prepared at {self._reread.start}; without them, migrate its "
            "tables again"
        )

    def take_jump(self) -> bool:
        """Whether the stream has to be opened anew at :attr:`read_from`; what it sent and was not fed is void."""
        jump, self._jump = self._jump, False
        return jump

    @property
    def read_to(self) -> Location:
        """Behind the newest event seen, its transaction counted as executed: for errors that name the event."""
        return Location(self._place, self._gtid_text_behind())

    @property
    def newest(self) -> int:
        """Upstream time (unix seconds) of the newest event seen, for the lag."""
        return self._tape.newest

    @property
    def bytes_read(self) -> int:
        return self._tape.bytes_read

    @property
    def waiting_bytes(self) -> int:
        """Bytes of rows events that are read and not given out."""
        return self._tape.size

    @property
    def oldest_commit(self) -> int:
        """Upstream time of the oldest transaction whose rows wait here; 0 when there is none."""
        return self._tape.commit_time

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`close` would give out something: finished transactions, or moved past filtered events."""
        return self._tape.transactions > 0 or self._boundary != self._start.position

    @property
    def has_rows(self) -> bool:
        """Whether finished transactions wait that changed migrated tables."""
        return self._tape.marked > 0

    def reopened(self) -> None:
        """The stream was opened again at :attr:`location`: pass over the rows events that are already planned."""
        tape = self._tape
        tape.skip = self.location.rows_events
        self._words_obeyed = max(self._words, self._words_obeyed)
        self._forget_maps()
        self._xa = self._prepared = False
        self._kept = None
        tape.rows = self._words = 0
        if self._reread is not None:
            tape.offset, self._reread.found = self._reread.start.position.pos, False
            return
        tape.offset = tape.boundary
        tape.begin_gtid(b"", 0)
        tape.inside = tape.standalone = tape.is_void = False

    def forget_tables(self) -> None:
        """Structures, routes or targets changed: ask for every table again."""
        self._known.clear()
        self._forget_maps()
        # Events may wait that need theirs.
        self._plans = {number: self._plans[number] for number in self._tape.numbers(self._tape.count)}

    def _forget_maps(self) -> None:
        self._tape.forget_tables()
        self._maps.clear()

    @property
    def can_scan(self) -> bool:
        """Whether :meth:`scan` may be used now. Everything rare is left to :meth:`feed`."""
        odd = self._xa or self._prepared or self._words or self._words_obeyed or self._until is not None
        odd = odd or self._reread is not None
        return hasattr(self._tape, "scan") and not odd

    def scan(self, raw: bytes, pos: int, packets: bool, checksummed: bool) -> int:
        """Plans the ordinary events in ``raw`` from ``pos`` on, up to the first other one or to a full batch.

        Returns the position behind them; see :meth:`ScanningTape.scan`. Raises as :meth:`feed` does.
        """
        tape = cast(ScanningTape, self._tape)
        limits = self.limits
        pos, why = tape.scan(raw, pos, packets, checksummed, limits.batch_bytes, limits.batch_events)
        self._note_end()
        if why == CUT:
            self._cut()
        elif why == CLOSE:
            self.close()
        return pos

    def feed(self, events: Sequence[Event]) -> int:
        """Plans events; returns how many were taken.

        Stops early after a statement, because what follows may depend on it, when ``until`` is reached, and when the
        stream must be opened at another place.
        Raises DMError for events that can't be replicated; what came before is planned.
        """
        for index, event in enumerate(events):
            if event.type in c.ROWS_EVENTS:
                self._on_rows(event)
            elif event.type == c.TABLE_MAP_EVENT:
                self._on_table_map(event)
            elif self._on_other(event):
                return index + 1
            if self._kept is not None:
                self._keep(event)
            if self._until is not None and self._at_until():
                return index + 1
        return len(events)

    def close(self) -> None:
        """Gives out what is finished: all up to the last transaction end."""
        if self._until is None and self.has_pending:
            self._emit(self._end_at_boundary(), self._tape.marked, inside=False)

    # -- events -------------------------------------------------------------------------------------------------

    def _on_rows(self, event: Event) -> None:
        timestamp, _, _, _, log_pos, _, data = event
        tape = self._tape
        self._move(event)
        tape.rows += 1
        if tape.rows <= tape.skip:
            return
        table = data[19:25]
        number = tape.table(table)
        if number is None:
            if table == _DUMMY_TABLE:
                return
            raise errors.new(
                "SyncerUnitInvalidReplicaEvent",
                f"a rows event that ends at ({self._file}, {log_pos}) names the table id {table.hex()}, "
                "which no TABLE_MAP before it explains",
                scope="upstream",
                workaround="Start again from an earlier position, at the start of a transaction.",
            )
        if number == FILTERED:
            return
        tape.append(number, data, timestamp if self._reread is None else self._reread.timestamp)
        if self._is_full and (self._until is None or self._undecided):
            self._cut()

    @property
    def _is_full(self) -> bool:
        return self._tape.size >= self.limits.batch_bytes or self._tape.count >= self.limits.batch_events

    def _cut(self) -> None:
        """The batch is full inside a transaction: give out the finished ones, or cut the transaction itself."""
        if self._tape.marked and self._until is None:
            self._emit(self._end_at_boundary(), self._tape.marked, inside=False)
            if not self._is_full:
                return
        self._emit_inside()

    @property
    def _undecided(self) -> bool:
        """In an XA transaction, of which no part may be applied before it is known how it ends."""
        return self._xa and self._reread is None

    def _emit_inside(self) -> None:
        if self._undecided:
            # They are read again if they come to be.
            self._tape.truncate(self._tape.marked)
            self._overflown, self._kept = True, None
            return
        if self._rewound == self._tape.rows:
            # The place would be the same as before the rows that were undone.
            raise self._unsupported(f"a statement or new table right behind ROLLBACK TO SAVEPOINT at {self.read_to}")
        self._cut_at = self._tape.rows
        self._emit(self._end_inside(), self._tape.count, inside=True)

    def _on_table_map(self, event: Event) -> None:
        data = event.data
        self._move(event)
        if self._reread is not None:
            self._ensure_found(self._reread)
        self._tape.inside = True
        table, shape = data[19:25], data[_SHAPE:]
        if self._prepared:
            # Rows that wait for an XA COMMIT are not planned. No later TABLE_MAP has an empty shape.
            self._tape.set_table(table, b"", FILTERED)
            return
        self._maps[table] = data
        if shape not in self._known and self._ask(data):
            self._plan_anew()
        self._set_table(table, shape)

    def _ask(self, data: bytes) -> bool:
        plan, split = self._resolve(data, self._place)
        self._known[data[_SHAPE:]] = plan
        if plan is not None:
            self._plans[plan.number] = plan
        return split

    def _set_table(self, table: bytes, shape: bytes) -> None:
        plan = self._known[shape]
        self._tape.set_table(table, shape, FILTERED if plan is None else plan.number)

    def _plan_anew(self) -> None:
        """A new table changed the rule for others of its target: they need new plans, and a batch of their own.

        An unfinished range stays one batch: its waiting events get the new plans as well, so that all of them keep to
        one rule. Two would place changes of one key into two buckets.
        """
        if self._until is None:
            self._cut_before_statement()
        self._known.clear()
        for table, data in self._maps.items():
            self._ask(data)
            self._set_table(table, data[_SHAPE:])
        for number in self._tape.numbers(self._tape.count):
            self._plan_waiting(number)

    def _plan_waiting(self, number: int) -> None:
        """The plan of waiting events as it would be made now, under the old number."""
        data = self._plans[number].table_map
        if data[_SHAPE:] not in self._known:
            self._ask(data)
        plan = self._known[data[_SHAPE:]]
        assert plan is not None
        self._plans[number] = replace(plan, number=number)

    def _cut_before_statement(self) -> None:
        if self._tape.marked:
            self._emit(self._end_at_boundary(), self._tape.marked, inside=False)
        if self._tape.count:
            self._emit_inside()

    def _on_other(self, event: Event) -> bool:
        """True when feeding must pause after this event."""
        kind = event.type
        if self._reread is not None:
            return self._on_reread(event, self._reread)
        if kind == c.ROTATE_EVENT:
            self._on_rotate(event)
            return False
        if event.artificial or kind in (c.HEARTBEAT_EVENT, c.HEARTBEAT_EVENT_V2):
            return False
        if kind == c.XID_EVENT:
            self._move(event)
            self._end_transaction(event.timestamp)
            return False
        if kind in _GTID_EVENTS:
            self._on_gtid(event)
            return False
        if kind in _QUERY_EVENTS:
            return self._on_query(event)
        if kind == c.XA_PREPARE_EVENT:
            return self._on_xa_prepare(event)
        self._move(event)
        ev.ensure_supported(event, self._file)
        if not self._tape.inside:
            self._tape.boundary = self._tape.offset
        return False

    def _on_rotate(self, event: Event) -> None:
        position, name = ev.parse_rotate(event, self._file)
        # The ROTATE that a server makes up when a dump starts names the place where it starts.
        tape = self._tape
        if tape.inside or (event.artificial and name == self._file):
            return
        self._file = name
        tape.offset = tape.boundary = position
        self._enter_file(name)

    def _enter_file(self, name: str) -> None:
        """The events from here on are in ``name``, and its TABLE_MAPs are others."""
        if self._files[-1][0] == self._tape.count:
            self._files.pop()
        self._files.append((self._tape.count, name))
        self._forget_maps()

    def _on_gtid(self, event: Event) -> None:
        tape = self._tape
        tape.begin_gtid(*_gtid_of(event, self._file))
        tape.inside = True
        # MariaDB writes no BEGIN, and says when a single statement follows. MySQL's BEGIN is an event of its own.
        tape.standalone = event.type != c.MARIADB_GTID_EVENT or bool(event.data[_MARIADB_FLAGS] & _FL_STANDALONE)
        if event.type == c.MARIADB_GTID_EVENT:
            tape.is_void = _is_void_alter(event.data)
            self._prepared = bool(event.data[_MARIADB_FLAGS] & _FL_PREPARED_XA)
            if self._prepared:
                self._kept, self._kept_size = [], 0
        self._move(event)

    def _on_query(self, event: Event) -> bool:
        self._move(event)
        data = event.data
        if data.endswith(b"\0BEGIN"):
            self._tape.inside, self._tape.standalone = True, False
            return False
        if data.endswith(b"\0COMMIT"):
            self._end_transaction(event.timestamp)
            return False
        if self._tape.is_void:
            self._end_transaction(0)
            return False
        if self._xa_word(event):
            return self._jump or self.reached
        standalone = self._tape.standalone or not self._tape.inside
        if not standalone and self._in_transaction_word(event):
            return False
        return self._barrier(event, standalone)

    def _xa_word(self, event: Event) -> bool:
        """Handles XA statements; False for others, and for XA COMMIT of what was prepared before the start."""
        word = xa_word(event, self._file)
        if word is None:
            return False
        if word.kind in ("start", "end"):
            self._tape.inside, self._tape.standalone, self._xa = True, False, True
            if word.kind == "start":
                self._kept, self._kept_size = [], 0
        elif word.kind == "rollback":
            self._waiting.end(word.xid)
            self._end_transaction(0)
        elif word.xid in self._waiting.waiting:
            kept = self._waiting.events(word.xid)
            self._begin_reread(word.xid, self._waiting.waiting[word.xid], event.timestamp, kept)
        else:
            return False
        return True

    def _on_xa_prepare(self, event: Event) -> bool:
        """One phase is a commit. In two phases the rows do not come to be before XA COMMIT. True to pause feeding."""
        self._move(event)
        one_phase, xid = prepared_xid(event, self._file)
        if not one_phase:
            kept = None if self._kept is None else [*self._kept, event]
            self._waiting.add(xid, self._end_at_boundary(), kept)
            self._roll_back()
            return False
        until = self._until
        if self._overflown or (until is not None and until.rows_events and self._same_place(until)):
            self._tape.truncate(self._tape.marked)
            self._tape.rows, self._tape.skip = 0, self._cut_at
            self._begin_reread(xid, self._end_at_boundary(), event.timestamp, None)
            return True
        self._end_transaction(event.timestamp)
        return False

    def _keep(self, event: Event) -> None:
        """Of prepared transactions the ordinary events are kept, if they are few."""
        assert self._kept is not None
        self._kept_size += len(event.data)
        if self._kept_size > RECENT_BYTES:
            self._kept = None
        elif event.is_rows or event.type == c.TABLE_MAP_EVENT:
            self._kept.append(event)
        elif event.type in _QUERY_EVENTS and xa_word(event, self._file) is None:
            # Words about savepoints, and statements, may ask for a pause.
            self._kept = None

    def _begin_reread(self, xid: Xid, start: Location, timestamp: int, kept: list[Event] | None) -> None:
        """The rows of the transaction that was prepared at ``start`` become this transaction's."""
        tape = self._tape
        file = start.position.name
        self._reread = Reread(xid, start, file, tape.offset, timestamp, kept is not None, kept is None)
        self._xa, self._kept = False, None
        self._words = self._words_obeyed = 0
        self._rewound = -1
        self._savepoints.clear()
        tape.inside, tape.standalone = True, False
        tape.offset = start.position.pos
        self._enter_file(file)
        self._jump = kept is None
        if kept is not None:
            self.feed(kept)

    def _end_reread(self, reread: Reread) -> None:
        tape = self._tape
        self._reread, self._jump = None, reread.streamed
        tape.offset = reread.end
        self._enter_file(self._file)
        self._waiting.end(reread.xid)
        self._end_transaction(reread.timestamp)
        if self._until is not None:
            # A jump ends the feeding before it is asked.
            self._at_until()

    def _on_reread(self, event: Event, reread: Reread) -> bool:
        """What is no row of the transaction that is read again; True to pause feeding."""
        kind = event.type
        if kind == c.ROTATE_EVENT:
            position, name = ev.parse_rotate(event, reread.file)
            if name != reread.file:
                reread.file, self._tape.offset = name, position
                self._enter_file(name)
            return False
        if event.artificial or kind in (c.HEARTBEAT_EVENT, c.HEARTBEAT_EVENT_V2):
            return False
        self._move(event)
        if kind in _GTID_EVENTS:
            reread.found = reread.found or gtid_xid(event, reread.file) == reread.xid
        elif kind in _QUERY_EVENTS:
            return self._on_reread_query(event, reread)
        elif kind == c.XA_PREPARE_EVENT:
            if prepared_xid(event, reread.file)[1] != reread.xid:
                raise self._lost(reread)
            self._ensure_found(reread)
            self._end_reread(reread)
            return self._jump
        elif kind == c.XID_EVENT:
            raise self._lost(reread)
        else:
            ev.ensure_supported(event, reread.file)
        return False

    def _on_reread_query(self, event: Event, reread: Reread) -> bool:
        word = xa_word(event, reread.file)
        if word is not None and word.kind in ("start", "end") and word.xid == reread.xid:
            reread.found = True
            return False
        self._ensure_found(reread)
        return not self._in_transaction_word(event) and self._barrier(event, standalone=False)

    def _ensure_found(self, reread: Reread) -> None:
        if not reread.found:
            raise self._lost(reread)

    def _lost(self, reread: Reread) -> errors.DMError:
        return errors.new(
            "SyncerEvent",
            f"the XA transaction {xid_text(reread.xid)}, which XA COMMIT before ({self._file}, {reread.end}) commits, "
            f"is not in the binlog at {reread.start}, where it was prepared; {self._place} was read",
            scope="upstream",
            workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
        )

    def _in_transaction_word(self, event: Event) -> bool:
        """Handles what controls a transaction from within; False for any other statement."""
        statement = ev.parse_query(event, self._file).statement
        if statement.strip().rstrip(b";").upper() == b"ROLLBACK":
            self._roll_back()
            return True
        word = savepoint_word(statement)
        if word is None:
            return False
        self._words += 1
        if self._words <= self._words_obeyed:
            return True
        if word.kind == "set":
            held = self._tape.count - self._tape.marked
            self._savepoints.add(Savepoint(word.name, self._tape.rows, held))
        elif word.kind == "release":
            self._savepoints.release(word.name)
        else:
            self._roll_back_to(self._savepoints.back_to(word.name))
        return True

    def _roll_back_to(self, savepoint: Savepoint | None) -> None:
        """The rows since ``savepoint`` never came to be."""
        if self._tape.rows < self._cut_at or (self._undecided and self._overflown):
            # Undone before the transaction was cut, or given up already.
            return
        if savepoint is None or savepoint.rows_events < self._cut_at:
            raise self._unsupported(
                f"ROLLBACK TO SAVEPOINT in the binlog at {self._place} undoes rows of a transaction "
                "that was too large for one batch, and a part of them was applied"
            )
        self._tape.truncate(self._tape.marked + savepoint.held)
        self._rewound = self._tape.rows

    def _unsupported(self, what: str) -> errors.DMError:
        return errors.new(
            "SyncerUnsupportedStmt",
            f"{what}: this is not supported",
            workaround=f"Copy the tables of this transaction again. {PASS_STATEMENT}",
            scope="upstream",
        )

    def _roll_back(self) -> None:
        """The upstream logged the transaction and its undoing: its rows never came to be."""
        if self._start.rows_events and self._start.position == self._boundary:
            raise errors.new(
                "SyncerUnsupportedStmt",
                f"the transaction that starts at {self._boundary} ends with ROLLBACK after a part of it was applied",
                workaround="Migrate the tables of this transaction again.",
            )
        self._tape.truncate(self._tape.marked)
        self._end_transaction(0)

    def _barrier(self, event: Event, standalone: bool) -> bool:
        tape, place = self._tape, self._place
        if not standalone and tape.rows < tape.skip:
            return False
        if self._until is not None and not (standalone or tape.count or tape.rows > tape.skip):
            # The one right before the unfinished batch shows up again: it was done before that batch began.
            return False
        if self._until is not None:
            # Statements end batches, so none can be inside one.
            raise errors.new(
                "SyncerEvent",
                f"the statement at {place} lies inside the unfinished batch up to {self._until}",
                workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
            )
        self._cut_before_statement()
        start = self._end_inside() if tape.inside and not standalone else self._end_at_boundary()
        if self._start.position != start.position:
            self.out.append(Advance(start, self._waiting.waiting))
        behind = self.read_to
        if standalone:
            self._end_transaction(0)
            end = self._end_at_boundary()
        else:
            end = start
        self._begin_batch(end, tape.count)
        self.out.append(Statement(event, place, start, end, behind))
        return True

    # -- bookkeeping --------------------------------------------------------------------------------------------

    @property
    def _place(self) -> Position:
        return Position(self._file_read, self._tape.offset)

    @property
    def _file_read(self) -> str:
        """The file of the events being fed; not ``_file`` while a prepared transaction is read again."""
        return self._file if self._reread is None else self._reread.file

    @property
    def _boundary(self) -> Position:
        """Where the current transaction began, or the last one ended."""
        return Position(self._file, self._tape.boundary)

    @property
    def _rows_gone(self) -> int:
        """Rows events of the current transaction that are read, now or before the stream was opened."""
        return max(self._tape.rows, self._tape.skip)

    def _move(self, event: Event) -> None:
        tape = self._tape
        offset = tape.offset
        tape.offset = event.log_pos if event.log_pos >= offset else ev.end_position(offset, event)
        tape.bytes_read += event.size
        tape.newest = (event.timestamp if self._reread is None else self._reread.timestamp) or tape.newest

    def _end_transaction(self, timestamp: int) -> None:
        self._tape.end_transaction(timestamp)
        self._note_end()
        if self._until is None and self._is_full:
            self.close()

    def _note_end(self) -> None:
        """What is to be done once transactions have ended on the tape."""
        if not self._tape.ended:
            return
        self._tape.ended = False
        self._xa = self._prepared = self._overflown = False
        self._kept = None
        self._words = self._words_obeyed = 0
        self._rewound, self._cut_at = -1, 0
        self._savepoints.clear()
        for run in self._tape.take_gtids():
            if self._gtids is not None:
                self._gtids.add(gtid_text(run))

    def _gtid_text(self) -> str:
        return self._gtids.text() if self._gtids is not None else ""

    def _gtid_text_behind(self) -> str:
        run = self._tape.gtid
        if self._gtids is None or run is None:
            return self._gtid_text()
        return self._gtids.text_with(gtid_text(run))

    def _end_at_boundary(self) -> Location:
        return Location(self._boundary, self._gtid_text())

    def _end_inside(self) -> Location:
        return Location(self._boundary, self._gtid_text(), self._rows_gone)

    def _at_until(self) -> bool:
        until = self._until
        assert until is not None
        if self.reached or self._undecided:
            return self.reached
        gone = self._rows_gone if self._tape.inside else 0
        if gone == until.rows_events and self._same_place(until):
            self._emit(until, self._tape.count, inside=self._tape.inside)
            return True
        if not self._by_gtid and until.position < self._boundary:
            raise errors.new(
                "SyncerEvent",
                f"the binlog holds no event that ends at {until}, where the unfinished batch ends",
                scope="upstream",
                workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
            )
        return False

    def _same_place(self, until: Location) -> bool:
        # After a switch of the upstream by GTID, file names and offsets mean something else.
        return self._gtid_text() == until.gtid_set if self._by_gtid else self._boundary == until.position

    def _emit(self, end: Location, count: int, *, inside: bool) -> None:
        """Gives out the first ``count`` events as a batch that ends at ``end``, and keeps the others."""
        self.out.append(self._batch(end, count, inside) if count else Advance(end, self._waiting.waiting))
        self._begin_batch(end, count)

    def _begin_batch(self, start: Location, given: int) -> None:
        """The first ``given`` events are given out. What is left is the transaction that is still open, in one file."""
        self._start = start
        self._tape.cut(given)
        self._files = [(0, self._file_read)]

    def _batch(self, end: Location, count: int, inside: bool) -> Batch:
        tape = self._tape
        return Batch(
            start=self._start,
            end=end,
            slices=self._slices(count),
            plans={number: self._plans[number] for number in tape.numbers(count)},
            rows_events=count,
            size=tape.size if inside else tape.marked_size,
            commit_time=tape.commit_time,
            transactions=tape.transactions,
            inside_transaction=inside,
            prepared=self._waiting.waiting,
        )

    def _slices(self, count: int) -> list[Slice]:
        parts = self._tape.slices(count, self.limits.piece(self._tape.size), [first for first, _ in self._files])
        slices, files = [], deque(self._files)
        for order, (first, data, index) in enumerate(parts):
            while len(files) > 1 and files[1][0] <= first:
                files.popleft()
            slices.append(Slice(order, data, index, files[0][1]))
        return slices
