"""The planner: cuts the stream of binlog events into batches and barriers, by event headers alone. Pure.

Rows events are passed on as bytes; what is looked at are the events that matter to order: GTID, BEGIN, TABLE_MAP,
XID, QUERY, ROTATE. The structure of a table is asked for once per distinct TABLE_MAP, through ``resolve``.

A batch ends at the end of a transaction whenever it can. A transaction beyond the budget is cut inside, and the cut
is part of the location: reading again from the transaction's start, that many rows events are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dm_worker.syncer.batch import Batch, Slice, TablePlan
from dm_worker.syncer.savepoints import Savepoint, Savepoints, savepoint_word
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
#: MariaDB marks a transaction that XA PREPARE ends.
_FL_PREPARED_XA = 64
_QUERY_EVENTS = frozenset({c.QUERY_EVENT, c.MARIADB_QUERY_COMPRESSED_EVENT})


class GtidTracker(Protocol):
    """The executed GTID set, fed with the GTID events of finished transactions."""

    def add(self, event: Event) -> None: ...

    def text(self) -> str: ...

    def text_with(self, event: Event) -> str: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is big enough: bytes of rows events, or their number. ``slice_bytes``: what one task decodes."""

    batch_bytes: int = 64 * 1024 * 1024
    batch_events: int = 400_000
    slice_bytes: int = 4 * 1024 * 1024


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Advance:
    """Nothing to apply up to ``location``: only filtered events."""

    location: Location


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


Instruction = Batch | Advance | Statement
#: The plan of a TABLE_MAP's table, None when the table is not migrated. The second value asks to end the batch before.
Resolve = Callable[[bytes, Position], tuple[TablePlan | None, bool]]


def _is_void_alter(gtid: bytes) -> bool:
    at = _MARIADB_FLAGS + (9 if gtid[_MARIADB_FLAGS] & _FL_GROUP_COMMIT_ID else 1)
    return len(gtid) > at and bool(gtid[at] & (_FL_START_ALTER | _FL_ROLLBACK_ALTER))


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
    ) -> None:
        self.out: list[Instruction] = []
        #: Upstream time (unix seconds) of the newest event seen, for the lag.
        self.newest = 0
        self.bytes_read = 0
        self._resolve = resolve
        self._gtids = gtids
        self._by_gtid = by_gtid
        self._limits = limits or DEFAULT_LIMITS
        self._until = until
        self._file = start.position.name
        self._offset = start.position.pos
        self._boundary = start.at_transaction_start()
        self._start = start
        self._skip = start.rows_events
        self._known: dict[bytes, TablePlan | None] = {}
        self._tables: dict[bytes, TablePlan | None] = {}
        self._maps: dict[bytes, bytes] = {}
        self._pending_gtid: Event | None = None
        self._inside = False
        self._standalone = False
        #: The statement that follows is a part of an ALTER that has no effect by itself.
        self._void = False
        #: Inside an XA transaction; inside one that is known to end with XA PREPARE.
        self._xa = self._prepared = False
        self._rows_in_transaction = 0
        self._savepoints = Savepoints()
        #: Words about savepoints in this transaction: those read, and those that were obeyed before the stream broke.
        self._words = self._words_obeyed = 0
        #: Rows events of this transaction up to the last ROLLBACK TO SAVEPOINT, -1 for none, and up to the last cut.
        self._rewound, self._cut_at = -1, start.rows_events
        # The batch that is being filled, and how much of it belongs to finished transactions (marked).
        self._events: list[bytes] = []
        self._numbers: list[int] = []
        self._positions: list[int] = []
        self._plans: dict[int, TablePlan] = {}
        #: (index of the first event, file): a batch may span files, and errors name them.
        self._files: list[tuple[int, str]] = [(0, self._file)]
        self._size = 0
        self._commit_time = 0
        self._marked_events = 0
        self._marked_size = 0
        self._marked_transactions = 0

    # -- what the shell asks ------------------------------------------------------------------------------------

    @property
    def reached(self) -> bool:
        """Whether the range up to ``until`` is planned."""
        return self._until is not None and self._start == self._until

    @property
    def location(self) -> Location:
        """Where to read on after the stream broke: the running transaction's start and its rows events so far."""
        gone = max(self._rows_in_transaction, self._skip) if self._inside else self._skip
        return Location(self._boundary.position, self._gtid_text(), gone)

    @property
    def read_to(self) -> Location:
        """Behind the newest event seen, its transaction counted as executed: for errors that name the event."""
        return Location(Position(self._file, self._offset), self._gtid_text_behind())

    @property
    def oldest_commit(self) -> int:
        """Upstream time of the oldest transaction whose rows wait here; 0 when there is none."""
        return self._commit_time

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`close` would give out something: finished transactions, or moved past filtered events."""
        return self._marked_transactions > 0 or self._boundary.position != self._start.position

    @property
    def has_rows(self) -> bool:
        """Whether finished transactions wait that changed migrated tables."""
        return self._marked_events > 0

    def reopened(self) -> None:
        """The stream was opened again at :attr:`location`: pass over the rows events that are already planned."""
        self._skip = self.location.rows_events
        self._words_obeyed = max(self._words, self._words_obeyed)
        self._file, self._offset = self._boundary.position.name, self._boundary.position.pos
        self._forget_maps()
        self._leave_transaction(keep_skip=True)

    def forget_tables(self) -> None:
        """Structures, routes or targets changed: ask for every table again."""
        self._known.clear()
        self._forget_maps()

    def _forget_maps(self) -> None:
        self._tables.clear()
        self._maps.clear()

    def feed(self, events: Sequence[Event]) -> int:
        """Plans events; returns how many were taken.

        Stops early after a statement, because what follows may depend on it, and when ``until`` is reached.
        Raises DMError for events that can't be replicated; what came before is planned.
        """
        for index, event in enumerate(events):
            if event.type in c.ROWS_EVENTS:
                self._on_rows(event)
            elif event.type == c.TABLE_MAP_EVENT:
                self._on_table_map(event)
            elif self._on_other(event):
                return index + 1
            if self._until is not None and self._at_until():
                return index + 1
        return len(events)

    def close(self) -> None:
        """Gives out what is finished: all up to the last transaction end."""
        if self._until is None and self.has_pending:
            self._emit(self._end_at_boundary(), self._marked_events, inside=False)

    # -- events -------------------------------------------------------------------------------------------------

    def _on_rows(self, event: Event) -> None:
        timestamp, _, _, size, log_pos, _, data = event
        self._move(event, log_pos, size)
        self._rows_in_transaction += 1
        if self._rows_in_transaction <= self._skip:
            return
        table = data[19:25]
        try:
            plan = self._tables[table]
        except KeyError:
            if table == _DUMMY_TABLE:
                return
            raise errors.new(
                "SyncerUnitInvalidReplicaEvent",
                f"a rows event that ends at ({self._file}, {log_pos}) names the table id {table.hex()}, "
                "which no TABLE_MAP before it explains",
                scope="upstream",
                workaround="Start again from an earlier position, at the start of a transaction.",
            ) from None
        if plan is None:
            return
        if not self._commit_time:
            self._commit_time = timestamp
        self._add(plan, event, size)

    def _add(self, plan: TablePlan, event: Event, size: int) -> None:
        if self._file != self._files[-1][1]:
            self._files.append((len(self._events), self._file))
        self._events.append(event.data)
        self._numbers.append(plan.number)
        self._positions.append(self._offset)
        self._plans[plan.number] = plan
        self._size += size
        if self._until is None and (
            self._size >= self._limits.batch_bytes or len(self._events) >= self._limits.batch_events
        ):
            self._cut()

    def _cut(self) -> None:
        """The batch is full inside a transaction: give out the finished ones, or cut the transaction itself."""
        if self._marked_events:
            self._emit(self._end_at_boundary(), self._marked_events, inside=False)
            if self._size < self._limits.batch_bytes and len(self._events) < self._limits.batch_events:
                return
        self._emit_inside()

    def _emit_inside(self) -> None:
        if self._xa:
            raise self._unsupported(
                f"the XA transaction that starts at {self._boundary.position} does not fit in a batch, and before its "
                "end is known no part of it may be applied"
            )
        if self._rewound == self._rows_in_transaction:
            # The place would be the same as before the rows that were undone.
            raise self._unsupported(f"a statement or new table right behind ROLLBACK TO SAVEPOINT at {self.read_to}")
        self._cut_at = self._rows_in_transaction
        self._emit(self._end_inside(), len(self._events), inside=True)

    def _on_table_map(self, event: Event) -> None:
        data = event.data
        self._move(event, event.log_pos, event.size)
        self._inside = True
        # Without the table id, which changes whenever the upstream opens the table again.
        shape = data[25:]
        table = data[19:25]
        if self._prepared:
            # Rows that wait for an XA COMMIT are not planned.
            self._tables[table] = None
            return
        self._maps[table] = data
        if shape not in self._known:
            self._known[shape], split = self._resolve(data, Position(self._file, self._offset))
            if split:
                self._plan_anew()
        self._tables[table] = self._known[shape]

    def _plan_anew(self) -> None:
        """A new table changed the rule for others of its target: they need new plans, and a batch of their own."""
        if self._until is None:
            self._cut_before_statement()
        self._known.clear()
        for table, data in self._maps.items():
            self._known[data[25:]], _ = self._resolve(data, Position(self._file, self._offset))
            self._tables[table] = self._known[data[25:]]

    def _cut_before_statement(self) -> None:
        if self._marked_events:
            self._emit(self._end_at_boundary(), self._marked_events, inside=False)
        if self._events:
            self._emit_inside()

    def _on_other(self, event: Event) -> bool:
        """True when feeding must pause after this event."""
        kind = event.type
        if kind == c.ROTATE_EVENT:
            self._on_rotate(event)
            return False
        if event.artificial or kind in (c.HEARTBEAT_EVENT, c.HEARTBEAT_EVENT_V2):
            return False
        if kind == c.XID_EVENT:
            self._move(event, event.log_pos, event.size)
            self._end_transaction(event.timestamp)
            return False
        if kind in _GTID_EVENTS:
            self._on_gtid(event)
            return False
        if kind in _QUERY_EVENTS:
            return self._on_query(event)
        if kind == c.XA_PREPARE_EVENT:
            self._on_xa_prepare(event)
            return False
        self._move(event, event.log_pos, event.size)
        ev.ensure_supported(event, self._file)
        if not self._inside:
            self._set_boundary()
        return False

    def _on_rotate(self, event: Event) -> None:
        position, name = ev.parse_rotate(event, self._file)
        # The ROTATE that a server makes up when a dump starts names the place where it starts.
        if self._inside or (event.artificial and name == self._file):
            return
        self._file, self._offset = name, position
        self._forget_maps()
        self._set_boundary()

    def _on_gtid(self, event: Event) -> None:
        self._pending_gtid = event if event.type != c.ANONYMOUS_GTID_EVENT else None
        self._inside = True
        # MariaDB writes no BEGIN, and says when a single statement follows. MySQL's BEGIN is an event of its own.
        self._standalone = event.type != c.MARIADB_GTID_EVENT or bool(event.data[_MARIADB_FLAGS] & _FL_STANDALONE)
        if event.type == c.MARIADB_GTID_EVENT:
            self._void = _is_void_alter(event.data)
            self._prepared = bool(event.data[_MARIADB_FLAGS] & _FL_PREPARED_XA)
        self._move(event, event.log_pos, event.size)

    def _on_query(self, event: Event) -> bool:
        self._move(event, event.log_pos, event.size)
        data = event.data
        if data.endswith(b"\0BEGIN"):
            self._inside, self._standalone = True, False
            return False
        if data.endswith(b"\0COMMIT"):
            self._end_transaction(event.timestamp)
            return False
        if self._void:
            self._end_transaction(0)
            return False
        if self._xa_word(event):
            return False
        standalone = self._standalone or not self._inside
        if not standalone and self._in_transaction_word(event):
            return False
        return self._barrier(event, standalone)

    def _xa_word(self, event: Event) -> bool:
        """Handles XA statements; False for others, and for XA COMMIT, which is refused: its rows were not kept."""
        words = ev.parse_query(event, self._file).statement[:64].upper().split(None, 2)
        if len(words) < 2 or words[0] != b"XA":
            return False
        if words[1] in (b"START", b"BEGIN", b"END"):
            self._inside, self._standalone, self._xa = True, False, True
            return True
        if words[1] == b"ROLLBACK":
            self._end_transaction(0)
            return True
        return False

    def _on_xa_prepare(self, event: Event) -> None:
        """One phase is a commit. In two phases the rows do not come to be before XA COMMIT, so they are dropped."""
        self._move(event, event.log_pos, event.size)
        if ev.parse_xa_prepare(event, self._file):
            self._end_transaction(event.timestamp)
        else:
            self._roll_back()

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
            held = len(self._events) - self._marked_events
            self._savepoints.add(Savepoint(word.name, self._rows_in_transaction, held))
        elif word.kind == "release":
            self._savepoints.release(word.name)
        else:
            self._roll_back_to(self._savepoints.back_to(word.name))
        return True

    def _roll_back_to(self, savepoint: Savepoint | None) -> None:
        """The rows since ``savepoint`` never came to be."""
        if self._rows_in_transaction < self._cut_at:
            # Undone before the transaction was cut.
            return
        if savepoint is None or savepoint.rows_events < self._cut_at:
            raise self._unsupported(
                f"ROLLBACK TO SAVEPOINT in the binlog at ({self._file}, {self._offset}) undoes rows of a transaction "
                "that was too large for one batch, and a part of them was applied"
            )
        self._keep(self._marked_events + savepoint.held)
        self._rewound = self._rows_in_transaction

    def _keep(self, count: int) -> None:
        """Forgets all but the first ``count`` events of the batch."""
        for event in self._events[count:]:
            # As stored: without checksum, which only makes batches end a little later.
            self._size = max(self._marked_size, self._size - len(event))
        del self._events[count:]
        del self._numbers[count:]
        del self._positions[count:]
        self._files = [entry for entry in self._files if entry[0] <= count]

    def _unsupported(self, what: str) -> errors.DMError:
        return errors.new(
            "SyncerUnsupportedStmt",
            f"{what}: this is not supported",
            workaround=f"Copy the tables of this transaction again. {PASS_STATEMENT}",
            scope="upstream",
        )

    def _roll_back(self) -> None:
        """The upstream logged the transaction and its undoing: its rows never came to be."""
        if self._start.rows_events and self._start.position == self._boundary.position:
            raise errors.new(
                "SyncerUnsupportedStmt",
                f"the transaction that starts at {self._boundary.position} ends with ROLLBACK after a part of it was "
                "applied",
                workaround="Migrate the tables of this transaction again.",
            )
        self._keep(self._marked_events)
        self._size = self._marked_size
        self._end_transaction(0)

    def _barrier(self, event: Event, standalone: bool) -> bool:
        place = Position(self._file, self._offset)
        if not standalone and self._rows_in_transaction < self._skip:
            return False
        if self._until is not None and not (standalone or self._events or self._rows_in_transaction > self._skip):
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
        start = self._end_inside() if self._inside and not standalone else self._end_at_boundary()
        if self._start.position != start.position:
            self.out.append(Advance(start))
        behind = self.read_to
        if standalone:
            self._end_transaction(0)
            end = self._end_at_boundary()
        else:
            end = start
        self._start = end
        self._clear()
        self.out.append(Statement(event, place, start, end, behind))
        return True

    # -- bookkeeping --------------------------------------------------------------------------------------------

    def _move(self, event: Event, log_pos: int, size: int) -> None:
        offset = self._offset
        self._offset = log_pos if log_pos >= offset else ev.end_position(offset, event)
        self.bytes_read += size
        self.newest = event.timestamp or self.newest

    def _end_transaction(self, timestamp: int) -> None:
        if self._pending_gtid is not None and self._gtids is not None:
            self._gtids.add(self._pending_gtid)
        if len(self._events) > self._marked_events and not self._marked_events and timestamp:
            # A rows event has the time its statement began; what counts is when it was committed.
            self._commit_time = timestamp
        self._leave_transaction(keep_skip=False)
        self._set_boundary()
        self._marked_events = len(self._events)
        self._marked_size = self._size
        self._marked_transactions += 1
        if self._until is None and (
            self._size >= self._limits.batch_bytes or len(self._events) >= self._limits.batch_events
        ):
            self.close()

    def _leave_transaction(self, *, keep_skip: bool) -> None:
        self._pending_gtid = None
        self._inside = self._standalone = self._void = False
        self._xa = self._prepared = False
        self._rows_in_transaction = self._words = 0
        if not keep_skip:
            self._skip = self._words_obeyed = 0
            self._rewound, self._cut_at = -1, 0
            self._savepoints.clear()

    def _set_boundary(self) -> None:
        self._boundary = Location(Position(self._file, self._offset))

    def _gtid_text(self) -> str:
        return self._gtids.text() if self._gtids is not None else ""

    def _gtid_text_behind(self) -> str:
        if self._gtids is None or self._pending_gtid is None:
            return self._gtid_text()
        return self._gtids.text_with(self._pending_gtid)

    def _end_at_boundary(self) -> Location:
        return Location(self._boundary.position, self._gtid_text())

    def _end_inside(self) -> Location:
        return Location(self._boundary.position, self._gtid_text(), max(self._rows_in_transaction, self._skip))

    def _at_until(self) -> bool:
        until = self._until
        assert until is not None
        gone = max(self._rows_in_transaction, self._skip) if self._inside else 0
        if gone == until.rows_events and self._same_place(until):
            self._emit(until, len(self._events), inside=self._inside)
            return True
        if not self._by_gtid and until.position < self._boundary.position:
            raise errors.new(
                "SyncerEvent",
                f"the binlog holds no event that ends at {until}, where the unfinished batch ends",
                scope="upstream",
                workaround="Check that the upstream's binlog files were not replaced; migrate again if they were.",
            )
        return False

    def _same_place(self, until: Location) -> bool:
        # After a switch of the upstream by GTID, file names and offsets mean something else.
        return self._gtid_text() == until.gtid_set if self._by_gtid else self._boundary.position == until.position

    def _emit(self, end: Location, count: int, *, inside: bool) -> None:
        """Gives out the first ``count`` events as a batch that ends at ``end``, and keeps the others."""
        if count:
            self.out.append(self._batch(end, count, inside))
        else:
            self.out.append(Advance(end))
        events, numbers, positions = self._events[count:], self._numbers[count:], self._positions[count:]
        size, plans = self._size - self._marked_size, self._plans
        self._start = end
        self._clear()
        if events:
            # The transaction that is still open: all of it is in one file.
            self._events, self._numbers, self._positions = events, numbers, positions
            self._size = size
            self._plans = {number: plans[number] for number in set(numbers)}
            self._commit_time = self.newest

    def _batch(self, end: Location, count: int, inside: bool) -> Batch:
        used = set(self._numbers[:count])
        return Batch(
            start=self._start,
            end=end,
            slices=self._slices(count),
            plans={number: plan for number, plan in self._plans.items() if number in used},
            rows_events=count,
            size=self._size if inside else self._marked_size,
            commit_time=self._commit_time,
            transactions=self._marked_transactions,
            inside_transaction=inside,
        )

    def _slices(self, count: int) -> list[Slice]:
        slices: list[Slice] = []
        edges = [first for first, _ in self._files] + [count]
        for (first, file), limit in zip(self._files, edges[1:], strict=True):
            low = first
            while low < min(limit, count):
                high, size = low, 0
                while high < min(limit, count) and size < self._limits.slice_bytes:
                    size += len(self._events[high])
                    high += 1
                part = slice(low, high)
                slices.append(
                    Slice.pack(len(slices), self._events[part], self._numbers[part], self._positions[part], file)
                )
                low = high
        return slices

    def _clear(self) -> None:
        self._events = []
        self._numbers = []
        self._positions = []
        self._plans = {}
        self._files = [(0, self._file)]
        self._size = 0
        self._commit_time = 0
        self._marked_events = 0
        self._marked_size = 0
        self._marked_transactions = 0
