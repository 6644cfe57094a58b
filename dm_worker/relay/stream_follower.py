"""Decides what the relay does with each event of an upstream: write it, skip it, or begin a file with it. Pure.

The relay's files must equal the upstream's, byte for byte. A server sends more than its files hold (heartbeats,
artificial events, events that a replica already has) and sometimes less (no transactions that a GTID set contains).
"""

from __future__ import annotations

import enum
from typing import NamedTuple
from zlib import crc32

from dm_worker.relay.scan import CRC_RESIDUE, Scanned
from dm_worker.relay.transactions import OUTSIDE, SourceAndNumber, add_run, add_to, follow
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.cursor import whereabouts
from pkg.binlog.events import (
    Event,
    RotateEvent,
    event_from_bytes,
    parse_format_description,
    parse_previous_gtids,
    parse_rotate,
)
from pkg.binlog.gtid import GTIDSet, parse_gtid_set
from pkg.binlog.position import file_number
from pkg.errors import Code, ErrorKind
from pkg.errors.workarounds import Advice

_HEARTBEATS = frozenset({c.HEARTBEAT_EVENT, c.HEARTBEAT_EVENT_V2})
_GTID_LISTS = frozenset({c.PREVIOUS_GTIDS_EVENT, c.MARIADB_GTID_LIST_EVENT})
#: The largest dummy event; a larger hole gets several.
LARGEST_DUMMY = 16 << 20
_ANEW = (
    "The upstream was reset, or another server answers under its name. Check the source's host, and correct it if it "
    f"is wrong. {Advice.FETCH_RELAY_AGAIN} Otherwise copy the tables again: {Advice.COPY_AGAIN}."
)


class FileAction(enum.Enum):
    SKIP = "skip"
    WRITE = "write"
    OPEN = "open"


class EventDecision(NamedTuple):
    """The action for an event.

    ``WRITE``: append ``data``, after ``hole`` bytes of dummy events. ``OPEN``: begin ``file`` with the magic number
    and ``data``. ``duplicate``: skipped because the file has it, at ``offset``, and it must be the same there.
    """

    action: FileAction
    data: bytes = b""
    hole: int = 0
    file: str = ""
    duplicate: bool = False
    offset: int = 0


SKIP = EventDecision(FileAction.SKIP)


class StreamFollower:
    """Follows one upstream's stream into the files of one sub-folder.

    ``file`` and ``size``: the written part. ``boundary`` and ``gtids``: the last offset where no transaction was open,
    and the set executed there; a new stream continues there.
    """

    def __init__(self, *, flavor: str, gtid_set: str = "") -> None:
        """A sub-folder without files; ``gtid_set`` is what its first transaction follows. Raises 11093 or 11095."""
        self._flavor = flavor
        self.gtids: GTIDSet = parse_gtid_set(gtid_set, flavor)
        self.file = ""
        self.size = self.boundary = 0
        self.checksummed = False
        self._description = b""
        self._state = OUTSIDE
        self._gtid: SourceAndNumber | None = None
        self._server_id = 0
        self._flowing = False
        self._next_file = ""
        self._at = 0

    def reading(self, file: str) -> None:
        """The next events are those of ``file`` itself, from its FORMAT_DESCRIPTION on."""
        self.connected(0)
        self._next_file = file

    def connected(self, server_id: int) -> None:
        """A new stream begins, from the server with this id. What was written after the boundary is cut off."""
        self.size = self.boundary
        self._server_id = server_id
        self._flowing = False
        self._next_file = ""
        self._at = 0
        self._state, self._gtid = OUTSIDE, None

    @property
    def open(self) -> tuple[int, SourceAndNumber | None]:
        """State and GTID of the open transaction, for the scan."""
        return self._state, self._gtid

    @property
    def begun(self) -> bool:
        """Whether the file has a whole transaction. FORMAT_DESCRIPTION alone is not enough to continue from."""
        return self.boundary > len(c.MAGIC) + len(self._description)

    @property
    def flowing(self) -> bool:
        """Whether the next event continues the file at its end, so that the scan may take it."""
        return self._flowing and self._at == self.size

    def scanned(self, found: Scanned, size: int) -> None:
        """The scan took ``size`` bytes of ordinary events."""
        self.size += size
        self._at = self.size
        self._state, self._gtid = found.state, found.gtid
        if found.boundary >= 0:
            self.boundary = found.boundary
        add_to(self.gtids, found.runs)

    def event(self, whole: bytes) -> EventDecision:
        """Decides on one event, with its checksum if it has one, which is verified.

        Raises 11071 for damage, 11093 for a GTID list of unknown form, 30029 when the upstream's file is not the one
        being written, 30044 for another server, 11079 for a hole that is too small for a dummy event.
        """
        event = event_from_bytes(whole)
        if event.type in _HEARTBEATS:
            return SKIP
        if event.type == c.FORMAT_DESCRIPTION_EVENT:
            return self._described(event)
        if self._made_up(event):
            if event.type == c.ROTATE_EVENT:
                self._rotated(event)
            return SKIP
        if not self._flowing:
            raise self._error(Code.RelayWriterExpectRotateEv, event, "it comes before FORMAT_DESCRIPTION")
        return self._placed(event)

    def _made_up(self, event: Event) -> bool:
        # In a file beyond 4 GiB a ROTATE may really end at 0.
        really = not event.flags & c.FLAG_ARTIFICIAL and (self._at + event.size) & 0xFFFFFFFF == 0
        return event.artificial and not really

    def _rotated(self, event: Event) -> None:
        """The server names the file that it sends next, and the offset at which it starts."""
        if event.server_id != self._server_id:
            raise errors.new(
                Code.RotateEventWithDifferentServerID,
                f"the stream of server {self._server_id} continues with a ROTATE of server {event.server_id}",
                workaround="The relay connects again automatically and checks which server answers.",
                retryable=True,
            )
        target = rotate_target(event, self.file)
        self._next_file, self._at = target.file, target.position
        self._flowing = False

    def _described(self, event: Event) -> EventDecision:
        """A file begins, or a stream that starts inside a file."""
        description = parse_format_description(event, self.file)
        if not self._next_file:
            raise self._error(Code.RelayWriterExpectRotateEv, event, "no ROTATE named its file")
        self._flowing = True
        if self._next_file == self.file:
            self._same_file(event)
            return SKIP
        if self.file and file_number(self._next_file) <= file_number(self.file):
            raise self._error(Code.RelayCheckIsDuplicateEvent, event, f"the upstream goes back to {self._next_file}")
        data = event.data
        if event.log_pos == 0:
            # The stream starts inside the file; the file must still begin as readers expect.
            data = _at_the_head(data, description.has_checksum_field)
        self._at = max(self._at, len(c.MAGIC) + event.size)
        self.file, self.checksummed, self._description = self._next_file, description.checksummed, data
        self.size = self.boundary = len(c.MAGIC) + event.size
        self._state, self._gtid = OUTSIDE, None
        return EventDecision(FileAction.OPEN, data, file=self.file)

    def _same_file(self, event: Event) -> None:
        """Compares what is constant whenever a server sends this file: its creation time and the server version."""
        ours, theirs = self._description, event.data
        if (ours[:4], ours[19:71]) != (theirs[:4], theirs[19:71]):
            raise self._error(Code.RelayCheckIsDuplicateEvent, event, "the upstream has another file of this name")

    def _placed(self, event: Event) -> EventDecision:
        expected = self._at + event.size
        if not event.log_pos:
            # MariaDB 11.4 and later do not set it in events that pass through a transaction's cache.
            event = event._replace(log_pos=expected & 0xFFFFFFFF)
        if self.checksummed and crc32(event.data) != CRC_RESIDUE:
            raise self._error(Code.BinlogParseSingleEv, event, "its checksum is wrong", retryable=True)
        end = nearest(expected, event.log_pos)
        start = end - event.size
        self._at = end
        if end <= self.size:
            return EventDecision(FileAction.SKIP, event.data, duplicate=True, offset=start)
        hole = start - self.size
        if hole < 0:
            raise self._error(
                Code.RelayCheckIsDuplicateEvent, event, f"it overlaps the {self.size} bytes that are already written"
            )
        if hole and hole < smallest_dummy(self.checksummed):
            raise self._error(Code.BinlogDummyEvSizeTooSmall, event, f"no event fits into the {hole} bytes before it")
        self._written(event, end)
        return EventDecision(FileAction.WRITE, event.data, hole=hole)

    def _written(self, event: Event, end: int) -> None:
        self.size = end
        plain = event.data[: -c.CHECKSUM_SIZE] if self.checksummed else event.data
        if event.type == c.ROTATE_EVENT:
            self._state, self._gtid = OUTSIDE, None
        elif event.type in _GTID_LISTS:
            listed = parse_previous_gtids(event._replace(data=plain), self.file)
            self.gtids.update(listed)  # type: ignore[arg-type]
        else:
            self._state, self._gtid = follow((self._state, self._gtid), plain, self.file)
        if self._state == OUTSIDE:
            self.boundary = end
            if self._gtid is not None:
                runs: list[tuple[bytes, int, int]] = []
                add_run(runs, self._gtid)
                add_to(self.gtids, runs)
                self._gtid = None

    def _error(self, kind: ErrorKind, event: Event, why: str, *, retryable: bool = False) -> errors.DMError:
        where = whereabouts(self._next_file or self.file, event.log_pos)
        return errors.new(
            kind,
            f"event of type {event.type} and {event.size} bytes {where}, with ({self.file}, {self.size}) written: "
            f"{why}",
            workaround="The relay fetches it again automatically." if retryable else _ANEW,
            scope="upstream",
            retryable=retryable,
        )


def rotate_target(event: Event, file: str = "") -> RotateEvent:
    """Parses an artificial ROTATE. Whether it has a checksum depends on the server's settings, not on the file's."""
    plain = event.data[: -c.CHECKSUM_SIZE] if crc32(event.data) == CRC_RESIDUE else event.data
    return parse_rotate(event._replace(data=plain), file)


def nearest(expected: int, log_pos: int) -> int:
    """The offset nearest to ``expected`` whose lower 32 bits are ``log_pos``: files may be larger than 4 GiB."""
    base = (expected & ~0xFFFFFFFF) | log_pos
    candidates = (base - (1 << 32), base, base + (1 << 32))
    return min((end for end in candidates if end >= 0), key=lambda end: abs(end - expected))


def smallest_dummy(checksummed: bool) -> int:
    return c.HEADER_SIZE + (c.CHECKSUM_SIZE if checksummed else 0)


def dummies(size: int, checksummed: bool) -> list[int]:
    """The sizes of the dummy events that fill ``size`` bytes."""
    least = smallest_dummy(checksummed)
    sizes: list[int] = []
    while size > LARGEST_DUMMY:
        sizes.append(min(LARGEST_DUMMY, size - least))
        size -= sizes[-1]
    return [*sizes, size]


def dummy(end: int, size: int, checksummed: bool, server_id: int) -> bytes:
    """A dummy event of ``size`` bytes that ends at offset ``end``: IGNORABLE, which every reader skips."""
    body = size - c.HEADER_SIZE - (c.CHECKSUM_SIZE if checksummed else 0)
    head = b"\0\0\0\0" + bytes([c.IGNORABLE_EVENT]) + server_id.to_bytes(4, "little") + size.to_bytes(4, "little")
    data = head + (end & 0xFFFFFFFF).to_bytes(4, "little") + c.FLAG_IGNORABLE.to_bytes(2, "little") + bytes(body)
    return data + crc32(data).to_bytes(4, "little") if checksummed else data


def _at_the_head(data: bytes, has_checksum: bool) -> bytes:
    """FORMAT_DESCRIPTION with the end position that it has at the head of a file."""
    plain = data[:13] + (len(c.MAGIC) + len(data)).to_bytes(4, "little") + data[17:]
    if not has_checksum:
        return plain
    plain = plain[: -c.CHECKSUM_SIZE]
    return plain + crc32(plain).to_bytes(4, "little")
