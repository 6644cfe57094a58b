"""Splits the packets of a server, or the bytes of a file, into binlog events. Pure.

This is the planner's hot loop: it reads bytes in large pieces, and an event costs one ``unpack`` and two slices.
"""

from __future__ import annotations

import struct
from collections import deque
from zlib import crc32

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.cursor import malformed
from pkg.binlog.events import HEADER, Event, parse_format_description, parse_rotate
from pkg.binlog.streams.stream import RawScan, encrypted

#: The CRC32 of any bytes followed by their own little-endian CRC32.
_CRC_RESIDUE = 0x2144DF1C
#: Length and number of a packet, its status byte, and the event's header.
_PACKET = struct.Struct("<IBIBIIIH")
_MAX_PACKET = 0xFFFFFF
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF


class DumpEnded(Exception):
    """The server ended the dump normally."""


class ServerErrorPacket(Exception):
    """The server's error packet."""

    def __init__(self, code: int, sql_state: str, text: str) -> None:
        super().__init__(code, sql_state, text)
        self.code = code
        self.sql_state = sql_state
        self.text = text


class Framer:
    """The common part of packets and files: checksums and the name of the current file."""

    def __init__(self, *, checksummed: bool, file: str = "") -> None:
        self.checksummed = checksummed
        self.file = file

    def finish(self, whole: bytes) -> Event:
        """An event from its bytes; verifies the checksum and removes it. Raises 11071."""
        if len(whole) < c.HEADER_SIZE:
            raise self._torn(0, 0, len(whole), "it is shorter than its header")
        timestamp, kind, server_id, size, log_pos, flags = HEADER.unpack_from(whole)
        if size != len(whole):
            raise self._torn(kind, log_pos, len(whole), f"the size in its header is {size} bytes")
        if kind == c.FORMAT_DESCRIPTION_EVENT:
            return self._format(Event(timestamp, kind, server_id, size, log_pos, flags, whole))
        if self.checksummed:
            if crc32(whole) != _CRC_RESIDUE:
                raise self._torn(kind, log_pos, size, "its checksum is wrong")
            whole = whole[: -c.CHECKSUM_SIZE]
        event = Event(timestamp, kind, server_id, size, log_pos, flags, whole)
        if kind == c.ROTATE_EVENT:
            self.file = parse_rotate(event, self.file).file
        return event

    def _format(self, event: Event) -> Event:
        description = parse_format_description(event, self.file)
        self.checksummed = description.checksummed
        if not description.has_checksum_field:
            return event
        # This event has a checksum even when the others don't. Servers that change the event for a replica then keep
        # the old checksum, which is computed here without the flag "in use".
        flags = (event.flags & ~c.FLAG_BINLOG_IN_USE).to_bytes(2, "little")
        if description.checksummed and crc32(event.data[:17] + flags + event.data[19:]) != _CRC_RESIDUE:
            raise self._torn(event.type, event.log_pos, event.size, "its checksum is wrong")
        return event._replace(data=event.data[: -c.CHECKSUM_SIZE])

    def _torn(self, kind: int, log_pos: int, size: int, why: str) -> errors.DMError:
        return malformed(kind, log_pos, size, self.file, why)


class PacketFramer(Framer):
    """Splits the server's bytes after COM_BINLOG_DUMP into events. Pure: bytes in, events out.

    ``checksummed`` holds until the first FORMAT_DESCRIPTION: whether the dump was requested with checksums.
    """

    def __init__(self, *, checksummed: bool, file: str = "") -> None:
        super().__init__(checksummed=checksummed, file=file)
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        self._needed = 1
        self._buffer = b""
        self._pos = 0
        self._parts: list[bytes] = []
        self._failure: Exception | None = None

    def feed(self, chunk: bytes) -> None:
        """Adds received bytes. Joins them only when they complete a packet, so big packets stay cheap."""
        self._chunks.append(chunk)
        self._waiting += len(chunk)

    def scan(self, scan: RawScan) -> bool:
        """Calls ``scan`` with the buffered bytes; returns whether it consumed any."""
        if self._failure is not None or self._parts:
            return False
        self._join()
        pos = self._pos
        if len(self._buffer) - pos < _PACKET.size:
            return False
        self._pos = scan(self._buffer, pos, True, self.checksummed)
        if self._pos == pos:
            return False
        # The fast loop may continue after the missing bytes.
        self._needed = 4
        return True

    def split(self, max_bytes: int) -> list[Event]:
        """The complete buffered events, about ``max_bytes`` of them; [] when there are none.

        Raises 11071 for damaged events, :class:`DumpEnded` and :class:`ServerErrorPacket`. If complete events precede
        the failure, the next call raises it.
        """
        if self._failure is not None:
            raise self._failure
        events: list[Event] = []
        try:
            self._fill(events, max_bytes)
            if not events and self._join():
                self._fill(events, max_bytes)
        except (errors.DMError, DumpEnded, ServerErrorPacket) as exc:
            self._failure = exc
            if not events:
                raise
        return events

    def _join(self) -> bool:
        """Appends the received bytes to the buffer, once they complete the current packet."""
        if not self._waiting or len(self._buffer) - self._pos + self._waiting < self._needed:
            return False
        self._buffer = b"".join((self._buffer[self._pos :], *self._chunks))
        self._pos = 0
        self._chunks.clear()
        self._waiting = 0
        return True

    def _fill(self, events: list[Event], max_bytes: int) -> None:
        left = self._usual(events, max_bytes)
        while left > 0 and self._unusual(events):
            left = self._usual(events, left)

    def _usual(self, events: list[Event], max_bytes: int) -> int:
        """Takes complete, ordinary events; returns the rest of ``max_bytes``. Stops before any other packet."""
        buffer, pos = self._buffer, self._pos
        last = -1 if self._parts else len(buffer) - _PACKET.size
        stop, limit = len(buffer), pos + max_bytes
        # Local names: a global costs more than a comparison here.
        unpack, new, make, append, crc = _PACKET.unpack_from, tuple.__new__, Event, events.append, crc32
        checksummed, residue = self.checksummed, _CRC_RESIDUE
        while pos <= last and pos < limit:
            length, status, timestamp, kind, server_id, size, log_pos, flags = unpack(buffer, pos)
            after = pos + 5 + size
            # The packet is one byte longer than its event, unless it is the first piece of a big event. A packet of the
            # maximum length always has a successor, which may be empty.
            if size + 1 != length & 0xFFFFFF or size >= 0xFFFFFE or status or after > stop or kind == 4 or kind == 15:
                break
            data = buffer[pos + 5 : after]
            if checksummed:
                if crc(data) != residue:
                    break
                data = data[:-4]
            append(new(make, (timestamp, kind, server_id, size, log_pos, flags, data)))
            pos = after
        taken = pos - self._pos
        self._pos = pos
        return max_bytes - taken

    def _unusual(self, events: list[Event]) -> bool:
        """Takes a packet that the fast loop does not handle: a control packet, a ROTATE, a piece of a big event…"""
        buffer, pos = self._buffer, self._pos
        have = len(buffer) - pos
        length = int.from_bytes(buffer[pos : pos + 3], "little") if have >= 4 else 0
        self._needed = 4 + length
        if have < self._needed:
            return False
        body = buffer[pos + 4 : pos + 4 + length]
        self._pos = pos + 4 + length
        self._needed = 4
        if not self._parts:
            body = self._payload(body)
        self._parts.append(body)
        if length < _MAX_PACKET:
            whole, self._parts = b"".join(self._parts), []
            events.append(self.finish(whole))
        return True

    def _payload(self, body: bytes) -> bytes:
        """A packet without its status byte."""
        status = body[0] if body else _EOF
        if status == _OK:
            return body[1:]
        if status == _EOF and len(body) < 9:
            raise DumpEnded
        if status == _ERROR and len(body) >= 3:
            text = body[9:] if body[3:4] == b"#" else body[3:]
            state = body[4:9].decode("ascii", "replace") if body[3:4] == b"#" else "HY000"
            raise ServerErrorPacket(int.from_bytes(body[1:3], "little"), state, text.decode("utf-8", "replace"))
        raise self._torn(0, 0, len(body), f"a packet of a binlog dump cannot begin with the status byte 0x{status:02x}")


class RawFramer(PacketFramer):
    """A framer whose events keep the checksum, if there is one, at the end of ``data``.

    It verifies only sizes and the checksum of FORMAT_DESCRIPTION: the reader that knows the file verifies the rest.
    """

    def finish(self, whole: bytes) -> Event:
        """See :meth:`Framer.finish`. Raises 11071."""
        if len(whole) < c.HEADER_SIZE:
            raise self._torn(0, 0, len(whole), "it is shorter than its header")
        event = Event(*HEADER.unpack_from(whole), whole)  # type: ignore[call-arg]
        if event.size != len(whole):
            raise self._torn(event.type, event.log_pos, len(whole), f"the size in its header is {event.size} bytes")
        if event.type == c.FORMAT_DESCRIPTION_EVENT:
            self._format(event)
        return event

    def _usual(self, events: list[Event], max_bytes: int) -> int:
        """The fast loop removes checksums, so this takes one event at a time; the scan may continue after it."""
        return 0 if events else max_bytes


class FileFramer(Framer):
    """Splits the bytes of a binlog file, from an event's start, into events. Pure."""

    def __init__(self, *, file: str, offset: int = 4) -> None:
        """``offset`` in ``file`` is the position of the first bytes given to :meth:`feed`."""
        super().__init__(checksummed=False, file=file)
        self._buffer = b""
        self._pos = 0
        self.offset = offset

    def feed(self, chunk: bytes) -> None:
        self._buffer = self._buffer[self._pos :] + chunk
        self._pos = 0

    @property
    def pending(self) -> int:
        """Bytes of an incomplete event."""
        return len(self._buffer) - self._pos

    @property
    def needed(self) -> int:
        """How many more bytes complete the current event (at least 1)."""
        have = self.pending
        if have < c.HEADER_SIZE:
            return c.HEADER_SIZE - have
        size: int = HEADER.unpack_from(self._buffer, self._pos)[3]
        return max(size - have, 1)

    def scan(self, scan: RawScan) -> bool:
        """Calls ``scan`` with the buffered bytes; returns whether it consumed any."""
        pos = self._pos
        if self.pending < c.HEADER_SIZE:
            return False
        self._pos = scan(self._buffer, pos, False, self.checksummed)
        self.offset += self._pos - pos
        return self._pos > pos

    def split(self, max_bytes: int) -> list[Event]:
        """The complete buffered events, about ``max_bytes`` of them. Raises 11071 for damaged, 11027 for encrypted."""
        events: list[Event] = []
        taken = 0
        buffer, stop = self._buffer, len(self._buffer)
        while taken < max_bytes and stop - self._pos >= c.HEADER_SIZE:
            size: int = HEADER.unpack_from(buffer, self._pos)[3]
            if size < c.HEADER_SIZE:
                raise self._torn(
                    buffer[self._pos + 4], self.offset, size, f"event at offset {self.offset} is too short"
                )
            if stop - self._pos < size:
                break
            event = self.finish(buffer[self._pos : self._pos + size])
            if event.type == c.MARIADB_START_ENCRYPTION_EVENT:
                raise encrypted(self.file)
            events.append(event)
            self._pos += size
            self.offset += size
            taken += size
            if event.type == c.ROTATE_EVENT:
                break
        return events
