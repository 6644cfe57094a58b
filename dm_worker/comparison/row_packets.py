"""Cuts the bytes of a result set into whole rows, without parsing their values. Pure.

Two servers that send the same rows send the same bytes; comparing bytes is much faster than comparing each value.
"""

from __future__ import annotations

from dm_worker.table_reads.row_splitter import FULL_PACKET

#: An end packet is shorter than a value that begins with the same byte.
_END, _ERROR, _MOST_END = 0xFE, 0xFF, 8


class PacketCutter:
    """Takes bytes split anywhere; see :class:`~dm_worker.table_reads.row_stream.Consumer`."""

    def __init__(self, _: int) -> None:
        self.done = False
        self.error: bytes | None = None
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 5  # bytes that are needed to continue

    def feed(self, data: bytes | memoryview) -> tuple[bytes, int]:
        """The packets of all rows that are complete, and the number of rows. Raises ``ValueError`` for invalid ones."""
        self._parts.append(bytes(data))
        self._have += len(data)
        if self._have < self._need:
            return b"", 0
        buffer = b"".join(self._parts)
        begin = end = rows = 0
        length = len(buffer)
        while length - end > 4:
            size = buffer[end] | buffer[end + 1] << 8 | buffer[end + 2] << 16
            stop = end + 4 + size
            if not size and begin == end:
                raise ValueError("malformed packet: it is empty")
            if stop > length:
                self._need = stop - begin
                break
            first = buffer[end + 4] if size else 0
            if first >= _END and begin == end and size < FULL_PACKET and (first == _ERROR or size <= _MOST_END):
                self._finish(buffer[end + 4 : stop], length - stop)
                return buffer[:begin], rows
            end = stop
            if size < FULL_PACKET:
                begin, rows = end, rows + 1
        else:
            self._need = end - begin + 5
        self._parts, self._have = [buffer[begin:]], length - begin
        return buffer[:begin], rows

    def _finish(self, packet: bytes, more: int) -> None:
        if more:
            raise ValueError("malformed packet: there is data after the end of the rows")
        self.done = True
        if packet[0] == _ERROR:
            self.error = packet
