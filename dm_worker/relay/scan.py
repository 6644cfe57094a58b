"""Takes ordinary events in blocks: verifies, counts and copies them without an object for each. Pure.

:func:`python_scan` defines the behaviour; ``pkg/native/relay`` is the same in C and is used when it is built.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from dm_worker.relay.transactions import OUTSIDE, SourceAndNumber, TransactionRun, add_run, follow
from pkg import errors, native
from pkg.binlog import constants as c

CRC_RESIDUE = 0x2144DF1C
#: A scan ends before it has more runs.
MAX_RUNS = 256
_HEAD = struct.Struct("<IBIIIH")
_LEAD = 5
#: Events that the scan leaves to its caller: they name or begin files, are in no file, or have other forms of GTIDs.
SPECIAL = frozenset(
    {
        c.ROTATE_EVENT,
        c.FORMAT_DESCRIPTION_EVENT,
        c.HEARTBEAT_EVENT,
        c.HEARTBEAT_EVENT_V2,
        c.PREVIOUS_GTIDS_EVENT,
        c.GTID_TAGGED_EVENT,
        c.MARIADB_GTID_LIST_EVENT,
        c.MARIADB_START_ENCRYPTION_EVENT,
    }
)


class Scanned(NamedTuple):
    """The result of a scan.

    ``pos``: the end of what it took. ``data``: the events as they are in a file. ``state`` and ``gtid``: the open
    transaction. ``boundary``: the offset in the file after the last event that left no transaction open, -1 for
    none. ``runs``: the GTIDs of the transactions that ended.
    """

    pos: int
    data: bytes
    state: int
    boundary: int
    gtid: SourceAndNumber | None
    runs: list[TransactionRun]


def python_scan(
    raw: bytes, pos: int, packets: bool, checksummed: bool, offset: int, state: int, gtid: SourceAndNumber | None
) -> Scanned:
    """Takes whole events from ``pos`` on, the first of which belongs at ``offset`` of its file.

    With ``packets`` each follows a packet's header and status byte, and their bytes are returned; otherwise ``raw`` is
    of a file. It stops before an event that is torn, damaged, special, artificial, or unexpected at its offset.
    """
    lead = _LEAD if packets else 0
    least = c.HEADER_SIZE + (c.CHECKSUM_SIZE if checksummed else 0)
    pieces: list[bytes] = []
    runs: list[TransactionRun] = []
    boundary = -1
    while len(raw) - pos >= lead + c.HEADER_SIZE and len(runs) < MAX_RUNS:
        at = pos + lead
        _, kind, _, size, log_pos, flags = _HEAD.unpack_from(raw, at)
        if size < least or size > len(raw) - at or kind in SPECIAL:
            break
        if packets and (size >= 0xFFFFFE or raw[pos : pos + 3] != (size + 1).to_bytes(3, "little") or raw[pos + 4]):
            break
        # MariaDB 11.4 and later set the end to 0 in events that pass through a transaction's cache.
        if flags & c.FLAG_ARTIFICIAL or log_pos not in (0, (offset + size) & 0xFFFFFFFF):
            break
        event = raw[at : at + size]
        if checksummed and crc32(event) != CRC_RESIDUE:
            break
        try:
            state, gtid = follow((state, gtid), event[: -c.CHECKSUM_SIZE] if checksummed else event)
        except errors.DMError:
            # The caller reads the same event and raises the error.
            break
        offset += size
        pos = at + size
        if packets:
            pieces.append(event)
        if state == OUTSIDE:
            boundary = offset
            if gtid is not None:
                add_run(runs, gtid)
                gtid = None
    return Scanned(pos, b"".join(pieces), state, boundary, gtid, runs)


Scanner = Callable[[bytes, int, bool, bool, int, int, SourceAndNumber | None], Scanned]


def _chosen() -> Scanner:
    compiled = native.load("relay")
    if compiled is None:
        return python_scan
    return lambda *what: Scanned(*compiled.scan(*what))


scan: Scanner = _chosen()
