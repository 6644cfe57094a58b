"""Reads the rows of statements, as they arrive or in windows of any size, from one session after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pymysql.connections import Connection

from dm_worker.comparison.row_difference import RowDifference, RowValues
from dm_worker.comparison.row_packets import PacketCutter
from dm_worker.table_reads.row_splitter import RowSplitter
from dm_worker.table_reads.row_stream import send, stream

#: Rows of a window. A difference costs a look at each row of a few windows.
WINDOW = 1024
#: A window of this many bytes is full.
WINDOW_BYTES = 8 << 20


class RowReader:
    """``statements``: pairs of session and SELECT, each of ``width`` columns, read in order. ``bytes`` and ``rows``
    count what has arrived."""

    def __init__(self, statements: Sequence[tuple[Connection[Any], str]], width: int) -> None:
        self.bytes = 0
        self.rows = 0
        self.done = False
        self._width = width
        # The other side's server works at the same time.
        send(*statements[0])
        self._pieces = self._read(statements)
        self._packets = b""
        self._splitter = RowSplitter(width)
        self._values: RowValues = []
        self._next = 0

    def packets(self) -> bytes:
        """The packets of the next rows; empty at the end."""
        if not self._packets:
            self._packets = next(self._pieces, b"")
            self.done = not self._packets
        return self._packets

    def skip(self, size: int) -> None:
        """Skips so many bytes of :meth:`packets`, which are whole rows."""
        self._packets = self._packets[size:]

    def take(self, rows: int) -> RowValues:
        """The values of the next rows; fewer at the end, and of long rows."""
        wanted = rows * self._width
        if len(self._values) - self._next >= wanted:
            return self._cut(wanted)
        parts = list(self._cut(wanted))
        size = 0
        while len(parts) < wanted and size < WINDOW_BYTES and self.packets():
            size += len(self._packets)
            self._values, _ = self._splitter.feed(self._packets)
            self._packets, self._next = b"", 0
            parts += self._cut(wanted - len(parts))
        return parts

    def rows_in(self, values: RowValues) -> int:
        return len(values) // self._width

    def _cut(self, wanted: int) -> RowValues:
        start, self._next = self._next, min(self._next + wanted, len(self._values))
        return self._values[start : self._next]

    def drain(self) -> None:
        """Reads to the end, so that the session can be used again."""
        for _ in self._pieces:
            pass
        self.done = True

    def _read(self, statements: Sequence[tuple[Connection[Any], str]]) -> Iterator[bytes]:
        for number, (conn, sql) in enumerate(statements):
            for (packets, rows), size in stream(conn, sql, PacketCutter, sent=number == 0):
                self.bytes += size
                self.rows += rows
                if rows:
                    yield packets


def read_difference(upstream: RowReader, target: RowReader, difference: RowDifference) -> None:
    """Compares the rows of both readers to their end. Raises TooManyRowsError when both sessions are free again."""

    def step(here: int, there: int) -> tuple[int, int]:
        values = upstream.take(here)
        taken = upstream.rows_in(values)
        # A window of long rows has fewer rows: read as many of the target, so that neither side gets ahead.
        return difference.add(values, target.take(min(there, taken) if taken and not upstream.done else there))

    waiting = (0, 0)
    try:
        _pass_over_same(upstream, target)
        while not (upstream.done and target.done):
            before, waiting = waiting, step(WINDOW, WINDOW)
            more, ahead = waiting[0] - before[0], waiting[1] - before[1]
            if ahead <= 0:
                continue
            # Rows that the target lacks have put it ahead: the upstream catches up. If that does not help, the target
            # has more rows, and catches up itself.
            before, waiting = waiting, step(min(ahead, WINDOW), 0)
            if before[1] - waiting[1] < ahead // 2:
                waiting = step(0, min(max(more, 0) + ahead, 2 * WINDOW))
    finally:
        upstream.drain()
        target.drain()


def _pass_over_same(upstream: RowReader, target: RowReader) -> None:
    """Up to the first bytes that differ. Packets are numbered, so that they differ after a row that only one has."""
    while (here := upstream.packets()) and (there := target.packets()):
        size = min(len(here), len(there))
        if here[:size] != there[:size]:
            return
        # The bytes are the same, so rows end at the same places on both sides.
        upstream.skip(size)
        target.skip(size)
