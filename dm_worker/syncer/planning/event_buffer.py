"""The event buffer: the rows events of the batch that is being filled, and the position of its reader. Pure.

The planner decides, the event buffer stores. There are two with the same interface: :class:`PythonEventBuffer` and the
compiled one (``pkg/native/scan/scan.c``), which also has ``scan``: it reads ordinary events from raw bytes,
without a Python object for each, and stops before the first one that is not ordinary.
"""

from __future__ import annotations

from typing import Protocol

from dm_worker.syncer.planning.batch import RECORD
from pkg import native
from pkg.binlog.gtid import source_name

#: A run of GTIDs: a MySQL source's UUID (16 bytes) or a MariaDB domain and server (4 bytes each, little-endian), the
#: first and the last number. For a domain, the first is undefined.
GtidRun = tuple[bytes, int, int]
#: The number of a table that is not migrated. Smaller numbers are tables whose rows are held back: a scan stops there.
FILTERED = -1
#: Why a scan ended: the next event is not ordinary or not whole; the batch is full inside, or at the end of, a
#: transaction.
STOPPED, CUT, CLOSE = 0, 1, 2


class EventBuffer(Protocol):
    """The batch: ``count`` events of ``size`` bytes, of which ``marked`` (``marked_size``, ``transactions``) belong to
    finished transactions. ``commit_time`` (unix seconds): when the oldest of them was committed; 0 without events.

    The reading: ``offset`` in the current file and the ``boundary``, the offset where the current transaction began,
    or the last one ended; ``bytes_read``; ``newest``, the last event's time. ``rows`` are the current transaction's
    rows events so far, of which the first ``skip`` are skipped. ``inside`` a transaction; ``standalone``: one that
    is a single statement; ``is_void``: whose statement has no effect by itself. ``ended`` is set when one ends.
    """

    offset: int
    boundary: int
    bytes_read: int
    newest: int
    commit_time: int
    rows: int
    skip: int
    inside: bool
    standalone: bool
    is_void: bool
    ended: bool
    marked: int
    marked_size: int
    transactions: int

    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def gtid(self) -> GtidRun | None:
        """The current transaction's GTID."""

    def append(self, number: int, event: bytes, timestamp: int, /) -> None:
        """Adds a rows event of table plan ``number``, which ends at ``offset``."""

    def end_transaction(self, timestamp: int, /) -> None:
        """The transaction ends at ``offset``; its GTID is executed. ``timestamp`` is 0 when nothing was committed."""

    def begin_gtid(self, source: bytes, number: int, /) -> None:
        """Sets the current transaction's GTID; ``source`` is empty when it has none."""

    def take_gtids(self) -> list[GtidRun]:
        """The GTIDs executed since the last call."""

    def set_table(self, table: bytes, shape: bytes, number: int, /) -> None:
        """Maps a table id (6 bytes) to plan ``number``, or :data:`FILTERED`, while its TABLE_MAP continues with
        ``shape``."""

    def table(self, table: bytes, /) -> int | None:
        """The number for a table id; None for an unknown one."""

    def forget_tables(self) -> None: ...

    def truncate(self, count: int, /) -> None:
        """Keeps only the first ``count`` events."""

    def cut(self, count: int, /) -> None:
        """Drops the first ``count`` events: the others, of an open transaction, begin the next batch."""

    def numbers(self, count: int, /) -> set[int]:
        """The table plans of the first ``count`` events."""

    def slices(self, count: int, slice_bytes: int, edges: list[int], /) -> list[tuple[int, bytes, bytes]]:
        """The first ``count`` events in pieces that end with the event that fills ``slice_bytes`` and before each of
        ``edges`` (numbers of events, ascending). Each: number of its first event, events, :data:`RECORD`s."""


class ScanningEventBuffer(EventBuffer, Protocol):
    def scan(
        self,
        raw: bytes | memoryview,
        pos: int,
        packets: bool,
        checksummed: bool,
        batch_bytes: int,
        batch_events: int,
        /,
    ) -> tuple[int, int]:
        """Takes ordinary events from ``raw``, from ``pos`` on; returns the position after them and the reason to stop.

        ``packets``: each event has a packet's header and status byte before it. ``checksummed``: and a CRC32 after.
        """


def new_event_buffer() -> EventBuffer:
    """The compiled event buffer if it was built, otherwise the one in Python."""
    module = native.load("scan")
    buffer: EventBuffer = PythonEventBuffer() if module is None else module.EventBuffer()
    return buffer


def gtid_text(run: GtidRun) -> str:
    """The servers' form: ``0-1-7``, or ``uuid:3-7``."""
    source, first, last = run
    if len(source) == 8:
        domain, server = int.from_bytes(source[:4], "little"), int.from_bytes(source[4:], "little")
        return f"{domain}-{server}-{last}"
    return f"{source_name(source)}:{first}" + (f"-{last}" if last > first else "")


class PythonEventBuffer:
    """See :class:`EventBuffer`."""

    def __init__(self) -> None:
        self.offset = self.boundary = self.bytes_read = 0
        self.newest = self.commit_time = 0
        self.rows = self.skip = 0
        self.inside = self.standalone = self.is_void = self.ended = False
        self.marked = self.marked_size = self.transactions = 0
        self.count = 0
        self.gtid: GtidRun | None = None
        self._data = bytearray()
        self._index = bytearray()
        self._tables: dict[bytes, int] = {}
        self._gtids: list[GtidRun] = []

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, number: int, event: bytes, timestamp: int, /) -> None:
        self._data += event
        self._index += RECORD.pack(number, len(event), self.offset)
        self.count += 1
        if not self.commit_time:
            self.commit_time = timestamp

    def end_transaction(self, timestamp: int, /) -> None:
        if self.gtid is not None:
            self._gtids.append(self.gtid)
            self.gtid = None
        if self.count > self.marked and not self.marked and timestamp:
            # A rows event has the time its statement began; the commit time is what counts.
            self.commit_time = timestamp
        self.inside = self.standalone = self.is_void = False
        self.rows = self.skip = 0
        self.boundary = self.offset
        self.marked, self.marked_size = self.count, len(self._data)
        self.transactions += 1
        self.ended = True

    def begin_gtid(self, source: bytes, number: int, /) -> None:
        self.gtid = (source, number, number) if source else None

    def take_gtids(self) -> list[GtidRun]:
        taken, self._gtids = self._gtids, []
        return taken

    def set_table(self, table: bytes, shape: bytes, number: int, /) -> None:
        # Only a scan meets TABLE_MAPs by itself, and needs the shape.
        self._tables[table] = number

    def table(self, table: bytes, /) -> int | None:
        return self._tables.get(table)

    def forget_tables(self) -> None:
        self._tables.clear()

    def truncate(self, count: int, /) -> None:
        del self._data[self._bytes_of(count) :]
        del self._index[count * RECORD.size :]
        self.count = count

    def cut(self, count: int, /) -> None:
        del self._data[: self._bytes_of(count)]
        del self._index[: count * RECORD.size]
        self.count -= count
        self.commit_time = self.newest if self.count else 0
        self.marked = self.marked_size = self.transactions = 0

    def _bytes_of(self, count: int) -> int:
        return sum(length for _, length, _ in RECORD.iter_unpack(self._index[: count * RECORD.size]))

    def numbers(self, count: int, /) -> set[int]:
        return {number for number, _, _ in RECORD.iter_unpack(self._index[: count * RECORD.size])}

    def slices(self, count: int, slice_bytes: int, edges: list[int], /) -> list[tuple[int, bytes, bytes]]:
        found: list[tuple[int, bytes, bytes]] = []
        first = begin = end = 0
        ahead = iter([*edges, count])
        edge = next(ahead)

        def add(after: int) -> None:
            index = self._index[first * RECORD.size : after * RECORD.size]
            found.append((first, bytes(self._data[begin:end]), bytes(index)))

        for at, (_, length, _) in enumerate(RECORD.iter_unpack(self._index[: count * RECORD.size])):
            starts = end - begin >= slice_bytes
            while edge <= at:
                edge, starts = next(ahead), True
            if starts and at > first:
                add(at)
                first, begin = at, end
            end += length
        if count:
            add(count)
        return found
