"""The relay log as a stream: the events that the upstream would send, read from local files up to the readable end.

Any number of readers may read one relay log; they are independent of each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO

from dm_worker.relay.executed import Unexecuted
from dm_worker.relay.layout import RelayDir, SubDir
from dm_worker.relay.positions import ReadStart, find_gtids, find_position
from dm_worker.relay.readable_end import ReadableEnd
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import HEADER, Event
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location
from pkg.binlog.streams.framing import FileFramer
from pkg.binlog.streams.stream import BinlogStream, RawScan, aborted
from pkg.binlog.streams.transaction_payload import ExpandingStream
from pkg.errors import Code, DMError

_PIECE = 1 << 20
#: Seconds between two checks whether the relay still runs, while a reader waits at the readable end.
_LOOK = 0.5


def open_relay(
    relay: RelayDir,
    readable_end: ReadableEnd,
    location: Location,
    *,
    flavor: str,
    use_gtid: bool,
    goes_on: Callable[[], bool],
) -> BinlogStream | None:
    """Reads from ``location`` on: from its GTID set with ``use_gtid``, else from its position.

    None when the relay log does not contain what follows it. ``goes_on`` returns whether a reader at the end should
    wait for more. Raises 11071 for damaged files, 11093/11095 for a bad GTID set.
    """
    pick: Unexecuted | None = None
    end = readable_end.end()
    if end is None:
        return None
    if use_gtid:
        executed = parse_gtid_set(location.gtid_set, flavor)
        start = find_gtids(relay, end, executed)
        if start is not None and start.before is not None:
            pick = Unexecuted(executed, start.before)
    else:
        start = find_position(relay, end, location)
    if start is None:
        return None
    try:
        stream = RelayStream(relay, readable_end, start, pick, goes_on)
    except FileNotFoundError:
        # Purged a moment ago.
        return None
    return ExpandingStream(stream) if flavor == "mysql" else stream


class RelayStream:
    """Reads file after file from ``start`` on; created by :func:`open_relay`."""

    def __init__(
        self,
        relay: RelayDir,
        readable_end: ReadableEnd,
        start: ReadStart,
        pick: Unexecuted | None,
        goes_on: Callable[[], bool],
    ) -> None:
        self._relay = relay
        self._readable_end = readable_end
        self._pick = pick
        self._goes_on = goes_on
        self._open = True
        self._ready: list[Event] = []
        self._looked = time.monotonic()
        #: Bytes of the file that were read, and that may be read; whether the file is complete.
        self._read = self._size = 0
        self._complete = False
        self._enter(start.subdir, start.file)
        self._ready.append(_rotate_to(start.file))
        if start.offset > len(c.MAGIC):
            self._skip_to(start.offset)

    @property
    def file(self) -> str:
        return self._framer.file

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """See :meth:`BinlogStream.read`. At the end of a relay log that does not continue, raises 30038, retryable."""
        deadline = time.monotonic() + timeout
        while self._open:
            if self._ready:
                events, self._ready = self._ready, []
                return events
            if self._pick is not None:
                events = self._picked(self._pick, max_bytes)
            elif scan is not None and self._framer.scan(scan):
                return []
            else:
                # After an event that the scan did not take, the scan may continue.
                events = self._framer.split(max_bytes if scan is None else 1)
            if events:
                return events
            if not self._advance(deadline):
                return []
        raise aborted()

    def _picked(self, pick: Unexecuted, max_bytes: int) -> list[Event]:
        while events := self._framer.split(max_bytes):
            wanted = pick.pick(events, self.file)
            if pick.done:
                self._pick = None
                return wanted
            if wanted:
                return wanted
        return []

    def _advance(self, deadline: float) -> bool:
        """Feeds the framer, or opens the next file; False when ``deadline`` passes first."""
        if self._size <= self._read and not self._complete:
            self._await(deadline)
        if self._feed():
            return True
        if self._framer.pending:
            # The readable end moves only over whole transactions.
            raise self._broken(f"its event at offset {self._framer.offset} is incomplete", retryable=False)
        if not self._complete:
            self._ensure_going_on()
            return time.monotonic() < deadline
        return self._enter_next()

    def _await(self, deadline: float) -> None:
        """Waits until more is readable."""
        timeout = max(deadline - time.monotonic(), 0.0)
        size = self._readable_end.wait(self._subdir.name, self._name, self._read, timeout, lambda: not self._open)
        if size < 0:
            self._complete = True
        else:
            self._size = size

    def _feed(self) -> bool:
        """Feeds available bytes to the framer; False when there are none."""
        wanted = max(_PIECE, self._framer.needed)
        if not self._complete:
            wanted = min(wanted, self._size - self._read)
        piece = self._handle.read(wanted) if wanted > 0 else b""
        self._read += len(piece)
        if piece:
            self._framer.feed(piece)
        elif not self._complete and wanted > 0:
            # The file was removed or replaced by another process.
            raise self._broken(f"it has fewer than the expected {self._size} bytes", retryable=True)
        return bool(piece)

    def _ensure_going_on(self) -> None:
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            if not self._goes_on():
                raise self._broken("the relay has stopped", retryable=True)

    # -- files --------------------------------------------------------------------------------------------------

    def _enter(self, subdir: SubDir, name: str) -> None:
        self._subdir, self._name = subdir, name
        self._handle: IO[bytes] = (subdir.path / name).open("rb", buffering=0)
        self._handle.seek(len(c.MAGIC))
        self._framer = FileFramer(file=name)
        self._read = self._size = len(c.MAGIC)
        self._complete = False

    def _skip_to(self, offset: int) -> None:
        """Continues at ``offset`` with the FORMAT_DESCRIPTION of the file's head, which defines the events' form."""
        framer = self._framer
        while not (events := framer.split(1)):
            piece = self._handle.read(framer.needed)
            if not piece:
                raise self._broken("it has no complete FORMAT_DESCRIPTION", retryable=False)
            framer.feed(piece)
        # As in servers: before an offset inside a file, FORMAT_DESCRIPTION has no position.
        self._ready = [_rotate_to(self._name, offset), events[0]._replace(log_pos=0)]
        self._framer = FileFramer(file=self._name, offset=offset)
        self._framer.checksummed = framer.checksummed
        self._handle.seek(offset)
        self._read = self._size = offset

    def _enter_next(self) -> bool:
        following = self._next()
        if following is None:
            raise self._broken("it is complete, but no file follows it", retryable=True)
        # The next server's file may have the same name: only a ROTATE with a position shows that it is another file.
        end = 0 if following[0].name == self._subdir.name else self._framer.offset
        self._handle.close()
        try:
            self._enter(*following)
        except FileNotFoundError as exc:
            raise self._broken(f"the file after it, {following[1]}, is missing", retryable=True) from exc
        self._ready.append(_rotate_to(following[1], end=end))
        return True

    def _next(self) -> tuple[SubDir, str] | None:
        """The file after this one, possibly in another sub-folder."""
        subdirs = self._relay.subdirs()
        at = next((i for i, subdir in enumerate(subdirs) if subdir.name == self._subdir.name), None)
        if at is None:
            raise self._broken("its sub-folder is missing", retryable=True)
        files = subdirs[at].files()
        if self._name not in files:
            raise self._broken("it is missing", retryable=True)
        behind = files[files.index(self._name) + 1 :]
        if behind:
            return subdirs[at], behind[0]
        for subdir in subdirs[at + 1 :]:
            if found := subdir.files():
                return subdir, found[0]
        return None

    def _broken(self, why: str, *, retryable: bool) -> DMError:
        return errors.new(
            Code.RelayNoActiveRelayLog,
            f"relay log {self._subdir.name}/{self._name} ends: {why}",
            workaround="The task reads the upstream directly instead; `query-status` shows the relay's state.",
            retryable=retryable,
        )

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._open = False
        self._handle.close()

    def abort(self) -> None:
        self._open = False
        self._readable_end.wake()


def _rotate_to(name: str, position: int = len(c.MAGIC), *, end: int = 0) -> Event:
    """The artificial ROTATE that names the next file; with ``end``, as if it were in the file and ended there."""
    body = position.to_bytes(8, "little") + name.encode()
    size, flags, end = HEADER.size + len(body), 0 if end else c.FLAG_ARTIFICIAL, end & 0xFFFFFFFF
    return Event(0, c.ROTATE_EVENT, 0, size, end, flags, HEADER.pack(0, c.ROTATE_EVENT, 0, size, end, flags) + body)
