"""Counts the digests that a statement returns. Pure.

A result of many thousands of rows with one value of known size: packets are equal but for their number and the digest,
so they are split by their size, without a call for each.
"""

from __future__ import annotations

import struct
from collections import Counter

from dm_worker.syncer.execution.keyless import DIGEST_BYTES

#: The length of a packet, its number, and the length of the digest; then the digest.
_ROW = struct.Struct(f"<5x{DIGEST_BYTES}s")
_LENGTH = (DIGEST_BYTES + 1).to_bytes(3, "little")
_HEAD = 4
_NULL, _END, _ERROR = b"\xfb", 0xFE, 0xFF
#: Longer packets that begin with the same byte are no end.
_MOST_END = 8


class DigestCounter:
    """Takes the packets of a result set with a digest in each row, split anywhere.

    ``counts``: how often each digest came; None for NULL.
    """

    def __init__(self) -> None:
        self.counts: Counter[bytes | None] = Counter()
        self.done = False
        self.error: bytes | None = None
        self._rest = b""

    def feed(self, data: memoryview) -> None:
        """Takes the bytes. Raises ``ValueError`` for a packet that is neither a digest nor the end."""
        taken = self._rest + bytes(data)
        at = 0
        while not self.done and self.error is None:
            at += self._take_digests(taken, at)
            size = int.from_bytes(taken[at : at + 3], "little")
            if len(taken) - at < _HEAD + size or len(taken) - at <= _HEAD:
                break
            self._take_other(taken[at + _HEAD : at + _HEAD + size])
            at += _HEAD + size
        self._rest = taken[at:]

    def _take_digests(self, data: bytes, at: int) -> int:
        """Counts the digests from ``at`` on; returns the size of their packets."""
        size = _whole_rows(data, at) * _ROW.size
        self.counts.update(digest for (digest,) in _ROW.iter_unpack(memoryview(data)[at : at + size]))
        return size

    def _take_other(self, packet: bytes) -> None:
        if packet == _NULL:
            self.counts[None] += 1
        elif packet and packet[0] == _END and len(packet) <= _MOST_END:
            self.done = True
        elif packet and packet[0] == _ERROR:
            self.error = packet
        else:
            raise ValueError(f"a row of digests is {len(packet)} bytes long")


def _whole_rows(data: bytes, at: int) -> int:
    """How many packets with a digest follow each other from ``at`` on."""
    count = (len(data) - at) // _ROW.size
    end = at + count * _ROW.size
    heads = [data[at + place : end : _ROW.size] for place in (0, 1, 2, _HEAD)]
    wanted = [*_LENGTH, DIGEST_BYTES]
    if all(found.count(byte) == count for found, byte in zip(heads, wanted, strict=True)):
        return count
    return next(n for n, head in enumerate(zip(*heads, strict=True)) if list(head) != wanted)
