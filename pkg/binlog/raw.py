"""A server's binlog as its files hold it: whole events with their checksums, nothing unpacked, nothing left out."""

from __future__ import annotations

from pkg.binlog import constants as c
from pkg.binlog.events import HEADER, Event
from pkg.binlog.position import Location
from pkg.binlog.server_stream import ServerStream, start_dump
from pkg.binlog.stream import PacketFramer
from pkg.settings.connections import DBConfig


def open_raw(
    cfg: DBConfig, location: Location, *, flavor: str, server_id: int, use_gtid: bool, heartbeat: float = 5.0
) -> ServerStream:
    """As ``open_upstream``, with :class:`RawFramer`'s events and MariaDB's ANNOTATE_ROWS."""
    conn, checksummed = start_dump(
        cfg,
        location,
        flavor=flavor,
        server_id=server_id,
        use_gtid=use_gtid,
        heartbeat=heartbeat,
        annotate=flavor == "mariadb",
    )
    return ServerStream(conn, RawFramer(checksummed=checksummed, file=location.position.name), heartbeat=heartbeat)


class RawFramer(PacketFramer):
    """Its events' ``data`` ends with the checksum, if there is one.

    Only sizes and FORMAT_DESCRIPTION's checksum are verified: whoever knows the file verifies the rest.
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
        """This loop would cut the checksums off. One event at a time instead: behind it the scan may go on."""
        return 0 if events else max_bytes
