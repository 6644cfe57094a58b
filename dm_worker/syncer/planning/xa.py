"""XA transactions: their ids, and those that are prepared and wait for their XA COMMIT. Pure.

XA PREPARE logs the rows of a transaction, XA COMMIT or XA ROLLBACK much later only its id. The rows take effect at
XA COMMIT, so until then the position of the prepared transaction must be known, also across restarts. Recently
prepared ones are also stored in memory, within a limit; the others are read again from the binlog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pkg.binlog import constants as c
from pkg.binlog.cursor import Cursor
from pkg.binlog.events import Event, parse_query, parse_xa_prepare, parsing
from pkg.binlog.gtid_event import behind_commit_id, is_prepared_xa
from pkg.binlog.position import Location

#: Format id (4 bytes, little-endian), length of the gtrid (1 byte), gtrid, bqual: 5 to 133 bytes.
Xid = bytes
#: Prepared transactions that are neither committed nor rolled back, with their start. Never changed in place.
PreparedLocations = Mapping[Xid, Location]

#: Servers write ids in one form, for all forms of clients.
_WORD = re.compile(
    rb"\s*XA\s+(START|BEGIN|END|COMMIT|ROLLBACK)\s+X'([0-9A-F]*)'\s*,\s*X'([0-9A-F]*)'\s*,\s*(\d+)", re.IGNORECASE
)
#: The memory limits for prepared transactions.
RECENT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class XaStatement:
    """An XA statement. ``kind``: start, end, commit or rollback."""

    kind: str
    xid: Xid


def make_xid(format_id: int, gtrid: bytes, bqual: bytes) -> Xid:
    return (format_id & 0xFFFFFFFF).to_bytes(4, "little") + bytes([len(gtrid)]) + gtrid + bqual


def xid_text(xid: Xid) -> str:
    """The form of XA statements and XA RECOVER FORMAT='SQL'."""
    gtrid, bqual = xid[5 : 5 + xid[4]], xid[5 + xid[4] :]
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{int.from_bytes(xid[:4], 'little')}"


def xa_statement(event: Event, file: str = "") -> XaStatement | None:
    """The XA statement in a QUERY event; None for any other. Raises 11071 when the event is torn."""
    match = _WORD.match(parse_query(event, file).statement)
    if match is None:
        return None
    kind = match[1].decode().lower()
    gtrid, bqual = bytes.fromhex(match[2].decode()), bytes.fromhex(match[3].decode())
    return XaStatement("start" if kind == "begin" else kind, make_xid(int(match[4]), gtrid, bqual))


def prepared_xid(event: Event, file: str = "") -> tuple[bool, Xid]:
    """Whether XA_PREPARE commits at once (XA COMMIT … ONE PHASE), and its id. Raises 11071 when it is torn."""
    one_phase, format_id, gtrid, bqual = parse_xa_prepare(event, file)
    return one_phase, make_xid(format_id, gtrid, bqual)


def gtid_xid(event: Event, file: str = "") -> Xid | None:
    """The id in MariaDB's GTID event of a transaction that XA PREPARE ends; None in others."""
    if event.type != c.MARIADB_GTID_EVENT:
        return None

    def parse() -> Xid | None:
        if not is_prepared_xa(event.data):
            return None
        cursor = Cursor(event.data, behind_commit_id(event.data))
        format_id, gtrid, bqual = cursor.uint(4), cursor.uint(1), cursor.uint(1)
        return make_xid(format_id, cursor.take(gtrid), cursor.take(bqual))

    return parsing(event, file, parse)


class PreparedTransactions:
    """The prepared transactions at the end of the newest transaction. One per run: its planners share it."""

    def __init__(self, waiting: PreparedLocations | None = None) -> None:
        self.waiting: PreparedLocations = dict(waiting or {})
        self._recent: dict[Xid, list[Event]] = {}
        self._size = 0

    def prepare(self, xid: Xid, start: Location, events: list[Event] | None) -> None:
        """``events`` are the events to store; None: they will be read again from ``start``."""
        self.end(xid)
        self.waiting = {**self.waiting, xid: start}
        if events is None:
            return
        self._recent[xid] = events
        self._size += _size(events)
        while self._size > RECENT_BYTES:
            self._forget(next(iter(self._recent)))

    def end(self, xid: Xid) -> None:
        """The transaction is committed or rolled back; unknown ones are fine."""
        if xid in self.waiting:
            self.waiting = {other: start for other, start in self.waiting.items() if other != xid}
        self._forget(xid)

    def events(self, xid: Xid) -> list[Event] | None:
        """The transaction's events from memory, None when they are not there."""
        return self._recent.get(xid)

    def _forget(self, xid: Xid) -> None:
        self._size -= _size(self._recent.pop(xid, []))


def _size(events: list[Event]) -> int:
    return sum(len(event.data) for event in events)
