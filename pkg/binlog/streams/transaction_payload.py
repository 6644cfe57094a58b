"""Compressed transactions of MySQL (TRANSACTION_PAYLOAD), read as the events inside.

The event carries a whole transaction without its GTID, compressed with zstd or not at all. :class:`ExpandingStream`
replaces it with the inner events; readers of the stream do not notice. It unpacks piece by piece, because a transaction
that is small in the binlog may be huge.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol

import zstandard

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.cursor import MALFORMED, Cursor, TornBytes, malformed
from pkg.binlog.events import HEADER, Event, parse_rotate, parsing
from pkg.binlog.streams.stream import BinlogStream, RawScan, aborted
from pkg.errors import Code
from pkg.errors.workarounds import Advice

_END, _BODY_SIZE, _ALGORITHM, _PLAIN_SIZE = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
#: Bytes to unpack at a time.
_PIECE = 1 << 18
#: The largest window of MySQL's compression levels; a frame that needs more memory is refused.
_WINDOW = 1 << 27
#: Events that no payload holds: those that begin or end files, GTIDs, and other payloads.
_NEVER_INSIDE = frozenset(
    {c.ROTATE_EVENT, c.FORMAT_DESCRIPTION_EVENT, c.STOP_EVENT, c.PREVIOUS_GTIDS_EVENT, c.TRANSACTION_PAYLOAD_EVENT}
    | {c.GTID_EVENT, c.ANONYMOUS_GTID_EVENT, c.GTID_TAGGED_EVENT, c.MARIADB_GTID_EVENT}
)
_type = itemgetter(1)


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class TransactionPayload:
    """The events inside one TRANSACTION_PAYLOAD. Pure: bytes in, events out.

    They have the ``log_pos`` of the payload, their only position in the file. Raises 11071 for torn or invalid bytes
    and 11070 for an unknown compression.
    """

    def __init__(self, event: Event, file: str = "") -> None:
        self._event = event
        self._file = file
        self._source, self._left = parsing(event, file, self._open)
        self._buffer = b""
        self._pos = 0

    def _open(self) -> tuple[_Source, int]:
        """The source of the plain bytes, and their announced number."""
        cursor = Cursor(self._event.data, c.HEADER_SIZE)
        fields = {_ALGORITHM: _NONE}
        while (field := cursor.packed_int()) != _END:
            value = Cursor(cursor.take(cursor.packed_int()))
            if field in (_BODY_SIZE, _ALGORITHM, _PLAIN_SIZE):
                fields[field] = value.packed_int()
        body = cursor.take(fields.get(_BODY_SIZE, cursor.left))
        if cursor.left:
            raise TornBytes(f"{cursor.left} bytes follow the transaction")
        if fields[_ALGORITHM] == _NONE:
            return io.BytesIO(body), len(body)
        if fields[_ALGORITHM] != _ZSTD:
            raise self._refused(f"compression algorithm {fields[_ALGORITHM]}")
        if _PLAIN_SIZE not in fields:
            raise TornBytes("the size of the transaction is missing")
        zstd = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        return zstd.stream_reader(body, read_across_frames=True), fields[_PLAIN_SIZE]

    def read(self, max_bytes: int) -> list[Event]:
        """The next events, about ``max_bytes`` of them and at least one; [] at the end."""
        events: list[Event] = []
        taken = 0
        try:
            while taken < max_bytes and self._available(1):
                taken += self._take_whole(events, max_bytes - taken)
                if taken < max_bytes and self._available(1):
                    event = self._next()
                    events.append(event)
                    taken += event.size
        except (zstandard.ZstdError, *MALFORMED) as exc:
            raise malformed(self._event.type, self._event.log_pos, self._event.size, self._file, exc) from exc
        return events

    def _take_whole(self, events: list[Event], max_bytes: int) -> int:
        """Takes the complete events in the buffer, up to a special one; returns their bytes."""
        buffer, first, log_pos = self._buffer, self._pos, self._event.log_pos
        pos, last, limit, never = first, len(buffer) - c.HEADER_SIZE, first + max_bytes, _NEVER_INSIDE
        # As in the framing of packets, a local name is cheaper than a global.
        unpack, new, make, append = HEADER.unpack_from, tuple.__new__, Event, events.append
        while pos <= last and pos < limit:
            timestamp, kind, server_id, size, _, flags = unpack(buffer, pos)
            data = buffer[pos : pos + size]
            if size < c.HEADER_SIZE or len(data) != size or kind in never:
                break
            append(new(make, (timestamp, kind, server_id, size, log_pos, flags, data)))
            pos += size
        self._pos = pos
        return pos - first

    def _next(self) -> Event:
        if not self._available(c.HEADER_SIZE):
            raise TornBytes("an inner event has no complete header")
        timestamp, kind, server_id, size, _, flags = HEADER.unpack_from(self._buffer, self._pos)
        if size < c.HEADER_SIZE or not self._available(size):
            raise TornBytes(f"an inner event of type {kind} has the impossible size {size}")
        if kind in _NEVER_INSIDE:
            raise self._refused(f"event type {kind} inside")
        data = self._buffer[self._pos : self._pos + size]
        self._pos += size
        return Event(timestamp, kind, server_id, size, self._event.log_pos, flags, data)

    def _available(self, size: int) -> bool:
        """Whether so many plain bytes are buffered, reading more if needed. Raises at an end other than announced."""
        have = len(self._buffer) - self._pos
        if have >= size:
            return True
        if size - have > self._left:
            if self._left == 0 and not have and self._source.read(1):
                raise TornBytes("the transaction is longer than the size in its header")
            return False
        piece = self._source.read(min(max(size - have, _PIECE), self._left))
        self._left -= len(piece)
        self._buffer = self._buffer[self._pos :] + piece
        self._pos = 0
        if len(self._buffer) < size:
            raise TornBytes("the transaction is shorter than the size in its header")
        return True

    def _refused(self, what: str) -> errors.DMError:
        return errors.new(
            Code.BinlogUnexpectedEv,
            f"compressed transaction that ends at ({self._file or 'unknown file'}, {self._event.log_pos}): {what} is "
            "not supported",
            workaround="SET GLOBAL binlog_transaction_compression=OFF on the upstream. " + Advice.CONTINUE_AFTER_EVENT,
            scope="upstream",
        )


class ExpandingStream:
    """A stream that expands compressed transactions into their events; see :class:`BinlogStream`."""

    def __init__(self, stream: BinlogStream) -> None:
        self._stream = stream
        self._file = stream.file
        self._payload: TransactionPayload | None = None
        self._behind: deque[Event] = deque()
        self._open = True

    @property
    def file(self) -> str:
        return self._file if self._behind or self._payload else self._stream.file

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """See :meth:`BinlogStream.read`."""
        while self._open:
            if self._payload is not None:
                if events := self._payload.read(max_bytes):
                    return events
                self._payload = None
            if self._behind and self._behind[0].type == c.TRANSACTION_PAYLOAD_EVENT:
                self._payload = TransactionPayload(self._behind.popleft(), self._file)
                continue
            if self._behind:
                events = list(self._behind)
                self._behind.clear()
            else:
                self._file = self._stream.file
                events = self._stream.read(max_bytes, timeout, scan)
            events = self._up_to_payload(events)
            if events or not self._behind:
                return events
        raise aborted()

    def _up_to_payload(self, events: list[Event]) -> list[Event]:
        """The events before the first payload; it and the events after it are kept for the next read."""
        if c.TRANSACTION_PAYLOAD_EVENT not in map(_type, events):
            return events
        at = next(i for i, event in enumerate(events) if event.type == c.TRANSACTION_PAYLOAD_EVENT)
        self._follow(events[:at])
        self._behind.extend(events[at:])
        return events[:at]

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == c.ROTATE_EVENT:
                self._file = parse_rotate(event, self._file).file

    def close(self) -> None:
        self._open = False
        self._stream.close()

    def abort(self) -> None:
        self._open = False
        self._stream.abort()
