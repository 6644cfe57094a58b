"""Writes the events of one sub-folder's files, by the stream follower's decisions.

A file is synced to disk when the next one begins, and before ``relay.meta`` records it as complete. In between, the
operating system decides when to write. What a crash of the machine loses is cut off and fetched again.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dm_worker.relay.atomic_files import sync_folder
from dm_worker.relay.layout import RelayMeta, SubDir
from dm_worker.relay.readable_end import ReadableEnd, RelayLogEnd
from dm_worker.relay.scan import scan
from dm_worker.relay.stream_follower import EventDecision, FileAction, StreamFollower, dummies, dummy
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import event_from_bytes
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.process.metrics import Distribution

#: Seconds between two writes of ``relay.meta``, as in DM.
META_INTERVAL = 30.0
PUBLISH_INTERVAL = 0.2
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


#: The most bytes of one write. For a longer one the kernel uses large pages, which it must clear and fill outside of
#: the processor's caches: that costs twice the CPU of the whole relay.
PIECE = 1 << 16


def _seconds() -> Distribution:
    """DM's buckets: from 5 µs to 84 s."""
    return Distribution(5e-6, 25)


@dataclass(slots=True)
class BlockCounts:
    """Counts for metrics, since the process began. A block is what arrives at once: from one event to thousands.

    Seconds to wait for it (``read``), to decide about it (``transform``) and to write it (``write``); bytes
    written (``size``); failed writes (``errors``).
    """

    read: Distribution = field(default_factory=_seconds)
    transform: Distribution = field(default_factory=_seconds)
    write: Distribution = field(default_factory=_seconds)
    size: Distribution = field(default_factory=lambda: Distribution(16, 20))
    errors: int = 0

    @property
    def worked(self) -> float:
        """Seconds spent on blocks after they arrived."""
        return self.transform.total + self.write.total


class RelayProgress(NamedTuple):
    """The complete end of the relay log, and the GTID set executed there."""

    end: RelayLogEnd
    gtids: str


def is_disk_full(exc: BaseException) -> bool:
    """Whether a write failed because the disk is full: the relay then resumes by itself once there is space."""
    cause = exc.__cause__
    return isinstance(cause, OSError) and cause.errno in _FULL


class RelayWriter:
    """Writes one sub-folder's files. ``follower`` must be at the end of the last file, as :func:`recover` leaves it."""

    def __init__(
        self, subdir: SubDir, follower: StreamFollower, readable_end: ReadableEnd, counts: BlockCounts
    ) -> None:
        self.subdir = subdir
        self.follower = follower
        self._readable_end = readable_end
        self._counts = counts
        self._descriptor = -1
        self._server_id = 0
        self._end: RelayLogEnd | None = None
        #: For status answers; up to :data:`PUBLISH_INTERVAL` old.
        self.progress: RelayProgress | None = None
        self._published_at = 0.0
        self._saved = 0.0
        #: An error between decision and write: only :func:`recover` can determine the file's content.
        self.torn = False
        #: Upstream time of the newest event that arrived, or of an earlier one of its block; 0 for none.
        self.newest = 0

    def connected(self, server_id: int) -> None:
        """A stream of this server begins where the last whole transaction ends; cuts off what follows.

        Raises 30025.
        """
        self._server_id = server_id
        self.follower.connected(server_id)
        self._cut()
        self.publish()

    def publish(self) -> None:
        """Publishes the complete part to readers, and saves ``relay.meta`` when it is due. Raises 30025."""
        follower = self.follower
        if not follower.begun:
            return
        end = RelayLogEnd(self.subdir.name, follower.file, follower.boundary)
        if end != self._end:
            self._end = end
            self._readable_end.moved(*end)
        now = time.monotonic()
        if now - self._published_at > PUBLISH_INTERVAL:
            self._published_at = now
            if self.progress is None or self.progress.end != end:
                self.progress = RelayProgress(end, str(follower.gtids))
        if now - self._saved > META_INTERVAL:
            self.save_meta()

    def save_meta(self) -> None:
        """Saves ``relay.meta`` as of the last whole transaction, which is synced to disk first. Raises 30006."""
        follower = self.follower
        try:
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
            self.subdir.save_meta(RelayMeta(follower.file, follower.boundary, str(follower.gtids)))
        except OSError as exc:
            raise errors.new(
                Code.RelayFlushLocalMeta,
                f"relay.meta in {self.subdir.path} can't be written: {exc}",
                raw=exc,
                workaround="Free space or repair the file system; then resume-relay. After a full "
                "disk the relay resumes by itself.",
            ) from exc
        self._saved = time.monotonic()

    def take(self, raw: bytes, pos: int, packets: bool, checksummed: bool, /) -> int:
        """Implements :class:`pkg.binlog.streams.stream.RawScan`: writes the ordinary events of a block at once."""
        follower = self.follower
        if not follower.flowing:
            return pos
        began = time.perf_counter()
        found = scan(raw, pos, packets, follower.checksummed, follower.size, *follower.open)
        self._counts.transform.add(time.perf_counter() - began)
        if found.data:
            self._write(found.data)
            self.newest = event_from_bytes(found.data).timestamp
            follower.scanned(found, len(found.data))
        return found.pos

    def event(self, whole: bytes) -> None:
        """Writes or skips one event, as the follower decides. Raises what the follower raises, and 30025."""
        self.torn = True
        at = self.follower.size
        began = time.perf_counter()
        decision = self.follower.event(whole)
        self._counts.transform.add(time.perf_counter() - began)
        if decision.action is FileAction.OPEN:
            self._open(decision)
        elif decision.action is FileAction.WRITE:
            if decision.hole:
                self._fill(at, decision.hole)
            self._write(decision.data)
            self.newest = event_from_bytes(decision.data).timestamp
        elif decision.duplicate:
            self._compare(decision)
        self.torn = False

    def close(self) -> None:
        """Cuts the open transaction off, saves ``relay.meta`` and closes the file. Raises 30025 or 30006."""
        try:
            self.follower.connected(0)
            self._cut()
            if self.follower.file:
                self.save_meta()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes the file without changes. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _path(self) -> Path:
        return self.subdir.path / self.follower.file

    def _cut(self) -> None:
        follower = self.follower
        if not follower.file:
            return
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path(), os.O_RDWR | os.O_CLOEXEC)
            if os.fstat(self._descriptor).st_size != follower.boundary:
                os.ftruncate(self._descriptor, follower.boundary)
            os.lseek(self._descriptor, follower.boundary, os.SEEK_SET)
        except OSError as exc:
            raise self._failed(exc) from exc

    def _open(self, decision: EventDecision) -> None:
        """Ends the current file and begins the next one."""
        try:
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
                self.abandon()
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._path(), flags, 0o640)
            sync_folder(self.subdir.path)
        except OSError as exc:
            raise self._failed(exc) from exc
        self._write(c.MAGIC + decision.data)
        self.save_meta()

    def _fill(self, at: int, hole: int) -> None:
        checksummed = self.follower.checksummed
        for size in dummies(hole, checksummed):
            at += size
            self._write(dummy(at, size, checksummed, self._server_id))

    def _write(self, data: bytes) -> None:
        started = time.perf_counter()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest[:PIECE]) :]
        except OSError as exc:
            self._counts.errors += 1
            raise self._failed(exc) from exc
        self._counts.size.add(len(data))
        self._counts.write.add(time.perf_counter() - started)

    def _compare(self, decision: EventDecision) -> None:
        """An event that the server sends again must equal the one in the file."""
        try:
            here = os.pread(self._descriptor, len(decision.data), decision.offset)
        except OSError as exc:
            raise self._failed(exc) from exc
        if here != decision.data:
            raise errors.new(
                Code.RelayCheckIsDuplicateEvent,
                f"{self._path()} has a different event at offset {decision.offset} than the upstream sends",
                workaround=Advice.FETCH_RELAY_AGAIN,
            )

    def _failed(self, exc: OSError) -> errors.DMError:
        self.torn = True
        full = exc.errno in _FULL
        return errors.new(
            Code.RelayWriterFileOperate,
            f"the relay log file {self._path()} can't be written: {exc.strerror}",
            raw=exc,
            workaround="Free space on its disk, or run purge-relay: the relay then continues automatically."
            if full
            else "Check the folder's file system and its permissions; then resume-relay.",
        )
