"""A bounds-checked reader over the bytes of one event, and the error for bytes that end too early."""

from __future__ import annotations

import struct

from pkg import errors
from pkg.errors import Code

#: What slicing, unpacking and decoding raise for malformed bytes.
MALFORMED = (struct.error, IndexError, ValueError, OverflowError)


class TornBytes(ValueError):
    """The bytes end before the length that they announce."""


class Cursor:
    """Reads little-endian fields; every read beyond the end raises :class:`TornBytes`."""

    __slots__ = ("_data", "_end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self._data = data
        self.pos = pos
        self._end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self._end - self.pos

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        start, stop = self.pos, self.pos + count
        if count < 0 or stop > self._end:
            raise TornBytes(f"{count} bytes wanted, {self.left} left")
        self.pos = stop
        return self._data[start:stop]

    def rest(self) -> bytes:
        return self.take(self.left)

    def uint(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def packed_int(self) -> int:
        """A length-encoded integer."""
        first = self.uint(1)
        if first < 251:
            return first
        if first not in (252, 253, 254):
            raise TornBytes(f"a length-encoded integer cannot begin with {first}")
        return self.uint({252: 2, 253: 3, 254: 8}[first])

    def zero_terminated(self) -> bytes:
        stop = self._data.find(b"\0", self.pos, self._end)
        if stop < 0:
            raise TornBytes("a zero-terminated string has no end")
        text = self.take(stop - self.pos)
        self.pos += 1
        return text


def whereabouts(file: str, log_pos: int) -> str:
    """Names the event for messages; ``log_pos`` is 0 for an event without an end position."""
    file = file or "unknown file"
    return f"that ends at ({file}, {log_pos})" if log_pos else f"of {file}"


def malformed(event_type: int, log_pos: int, size: int, file: str, cause: BaseException | str) -> errors.DMError:
    """11071 for an event with malformed bytes; ``log_pos`` is its end if known, ``size`` its length in bytes."""
    return errors.new(
        Code.BinlogParseSingleEv,
        f"binlog event of type {event_type} {whereabouts(file, log_pos)}, {size} bytes long, is incomplete or invalid",
        raw=cause,
        workaround="Check the binlog file with mysqlbinlog --verify-binlog-checksum; if it is damaged, "
        "migrate this upstream again from a full copy.",
    )
