"""One connection of the relay to its upstream: recover the files, find the position, copy the stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dm_worker.relay.layout import RelayDir, RelayMeta, SubDir
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.recovery import recover
from dm_worker.relay.relay_writer import BlockCounts, RelayProgress, RelayWriter
from dm_worker.relay.upstream_server import UpstreamServer, check_history, file_of, identify_server
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_stream import ServerStream, open_raw
from pkg.config.model import SourceConfig
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.process.log import get_logger

log = get_logger(__name__)

#: How long one read waits for events (seconds).
_READ_TIMEOUT = 0.5
#: No server accepts an offset beyond 4 GiB. It sends such a file again from its head; existing events are skipped.
_HIGHEST_START = (1 << 32) - 1


@dataclass(slots=True)
class RelayClient:
    """Receives one source's binlog into its relay folder, one connection after another.

    ``start_at``: where an empty folder begins. None: where the source's configuration says, or at the upstream's
    current file.
    """

    source: SourceConfig
    folder: RelayDir
    readable_end: ReadableEnd
    server_id: int
    start_at: Callable[[], Location | None]
    counts: BlockCounts
    writer: RelayWriter | None = None
    _stream: ServerStream | None = None
    _progress: RelayProgress | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    #: Whether the last connection received events.
    received: bool = False

    @property
    def progress(self) -> RelayProgress | None:
        """The end of the relay log; None before its first recovery."""
        if self.writer is not None and self.writer.progress is not None:
            self._progress = self.writer.progress
        return self._progress

    @property
    def newest(self) -> int:
        """Upstream time of the newest event in the relay log; 0 while unknown."""
        writer = self.writer
        return 0 if writer is None else writer.newest

    @property
    def connected(self) -> bool:
        """Whether the upstream sends its binlog."""
        return self._stream is not None

    def allow_pulls(self) -> None:
        """Must be called before the first :meth:`pull` after :meth:`end`."""
        self._ended.clear()

    def end(self) -> None:
        """Makes :meth:`pull` return soon; from any thread."""
        self._ended.set()
        stream = self._stream
        if stream is not None:
            stream.abort()

    def pull(self) -> None:
        """Works until :meth:`end`. Raises DMError; after a retryable one it may be called again."""
        self.received = False
        self.recover()
        server = identify_server(self.source)
        writer = self._writer_for(server)
        location, use_gtid = self._location(writer, server)
        writer.connected(server.server_id)
        log.info("relay connects", source=self.source.source_id, server=server.uuid, location=str(location))
        self._stream = open_raw(
            self.source.from_,
            location,
            flavor=self.source.flavor,
            server_id=self.server_id,
            use_gtid=use_gtid,
        )
        try:
            self._copy(self._stream, writer)
        except errors.DMError:
            if not self._ended.is_set():
                raise
        finally:
            self._stream.close()
            self._stream = None

    def recover(self) -> None:
        """Recovers the files and publishes them to readers, also while the upstream is down. Raises DMError."""
        if self.writer is not None and not self.writer.torn:
            return
        self.drop()
        subdirs = self.folder.subdirs()
        if subdirs:
            before = subdirs[-2].meta() if len(subdirs) > 1 else None
            self._take(subdirs[-1], before.binlog_gtid if before else "")

    def close(self) -> None:
        """Leaves the files complete and ``relay.meta`` up to date. Raises 30025 and 30006."""
        writer, self.writer = self.writer, None
        if writer is None:
            return
        if writer.torn:
            writer.abandon()
        else:
            writer.close()

    def drop(self) -> None:
        """Closes the files without changes."""
        if self.writer is not None:
            self.writer.abandon()
            self.writer = None

    def _take(self, subdir: SubDir, base: str) -> RelayWriter:
        follower = recover(subdir, flavor=self.source.flavor, base=base)
        self.writer = RelayWriter(subdir, follower, self.readable_end, self.counts)
        self.writer.connected(0)
        return self.writer

    def _writer_for(self, server: UpstreamServer) -> RelayWriter:
        """The writer of this server's sub-folder; of a new sub-folder if another server answered last time."""
        writer = self.writer
        if writer is None:
            return self._take(self._add(server.uuid, self._first(server)), "")
        if writer.subdir.uuid == server.uuid:
            return writer
        gtids = str(writer.follower.gtids)
        if not self.source.enable_gtid:
            raise errors.new(
                Code.RelaySwitchMasterNeedGTID,
                f"the upstream {self.source.from_.host}:{self.source.from_.port} is now server {server.uuid}; it "
                f"was {writer.subdir.uuid}. Without GTIDs, the position in the new server's binlog cannot be "
                "determined",
                workaround="Point the source's address to the old server again. To follow the new server, stop-relay, "
                "set enable-gtid: true for the source when both servers have GTIDs, and start-relay; "
                f"otherwise copy the tables again: {Advice.COPY_AGAIN}.",
            )
        check_history(server, gtids, self.source.flavor, self.source)
        log.info("the upstream switched", source=self.source.source_id, old=writer.subdir.uuid, new=server.uuid)
        self.close()
        return self._take(self._add(server.uuid, RelayMeta("", 4, gtids)), gtids)

    def _add(self, uuid: str, meta: RelayMeta) -> SubDir:
        try:
            # An operator may have removed it while the relay was paused.
            self.folder.own(self.source.source_id)
            return self.folder.create_subdir(uuid, meta)
        except OSError as exc:
            raise errors.new(
                Code.RelayMkdir,
                f"cannot create a relay folder for server {uuid} in {self.folder.path}: {exc}",
                raw=exc,
                workaround="Check relay-dir of the worker, its permissions and its disk; then resume-relay.",
            ) from exc

    def _first(self, server: UpstreamServer) -> RelayMeta:
        """Where an empty relay folder begins: at the head of a file, so that its files are complete."""
        source, start = self.source, self.start_at()
        if start is not None and not (source.enable_gtid and start.gtid_set):
            return RelayMeta(start.position.name, 4, start.gtid_set)
        gtids = start.gtid_set if start is not None else source.relay_binlog_gtid
        if source.enable_gtid and gtids:
            return RelayMeta(file_of(source, self.server_id, gtids), 4, "")
        return RelayMeta(source.relay_binlog_name or server.end.position.name, 4, "")

    def _location(self, writer: RelayWriter, server: UpstreamServer) -> tuple[Location, bool]:
        """Where to continue, and whether by GTID set: only for a new server.

        A position is exact and leaves no hole. A server with another history is detected before.
        """
        follower, source = writer.follower, self.source
        gtids = str(follower.gtids)
        if follower.file:
            if source.enable_gtid:
                check_history(server, gtids, source.flavor, source)
            pos = follower.boundary if follower.boundary <= _HIGHEST_START else 4
            return Location(Position(follower.file, pos), gtids), False
        meta = writer.subdir.meta()
        if meta is not None and meta.binlog_name:
            return Location(Position(meta.binlog_name, 4)), False
        return Location(Position("", 4), gtids), True

    def _copy(self, stream: ServerStream, writer: RelayWriter) -> None:
        counts = self.counts
        while not self._ended.is_set():
            began, worked = time.perf_counter(), counts.worked
            events = stream.read(1, _READ_TIMEOUT, writer.take)
            if events or counts.worked > worked:
                # During the read the stream passes ordinary events to the writer.
                counts.read.add(time.perf_counter() - began - (counts.worked - worked))
            for event in events:
                writer.event(event.data)
            writer.publish()
            self.received = self.received or writer.follower.flowing
