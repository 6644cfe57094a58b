"""Reads the target's binlog from a position on, and gives what others have written to a sorter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dm_worker.foreign_writes.own_passing import own_passing
from dm_worker.foreign_writes.suspects import Suspects
from dm_worker.foreign_writes.write_sorter import WriteSorter
from pkg.binlog import constants as c
from pkg.binlog.events import Event, end_position, parse_rotate
from pkg.binlog.position import FileIdentity, Location, Position
from pkg.binlog.streams.server_stream import open_upstream, replica_id
from pkg.binlog.streams.stream import BinlogStream
from pkg.config.model import SubTaskConfig

_READ_BYTES = 1 << 20
#: A server sends nothing from an offset after this.
_FARTHEST = 1 << 32


class OtherFileError(Exception):
    """The file of the position is not the one that was read before."""


class LogReading:
    """One stream. ``files``: the identities of files by name; those that are read are added."""

    def __init__(self, stream: BinlogStream, sorter: WriteSorter, files: dict[str, FileIdentity]) -> None:
        self._stream = stream
        self._sorter = sorter
        self._passing = own_passing(sorter)
        self._position = sorter.boundary
        self._files = files

    def read(self, wait: float) -> Suspects:
        """What others wrote in the next transactions; waits for an event for so many seconds. Raises DMError, and
        OtherFileError at the stream's start."""
        passing = None if self._sorter.is_collecting else self._passing
        if passing is not None:
            passing.offset = self._position.pos
        events = self._stream.read(_READ_BYTES, wait, passing)
        if passing is not None:
            self._position = Position(self._position.name, passing.offset)
        found = Suspects()
        for event in events:
            writes = self._take(event)
            if writes is not None:
                found.merge(writes)
        return found

    def _take(self, event: Event) -> Suspects | None:
        if event.type == c.ROTATE_EVENT:
            rotate = parse_rotate(event, self._position.name)
            if rotate.file != self._position.name:
                self._position = Position(rotate.file, rotate.position)
                return self._sorter.begin_file(self._position)
            return None
        self._position = Position(self._position.name, end_position(self._position.pos, event))
        if event.type == c.FORMAT_DESCRIPTION_EVENT:
            found = FileIdentity(self._position.name, event.server_id, event.timestamp)
            known = self._files.setdefault(found.name, found)
            if known != found:
                raise OtherFileError(f"the target's binlog is another one: {found}; before: {known}")
        if event.artificial:
            return None
        return self._sorter.take(event, self._position)


@contextmanager
def log_reading(
    cfg: SubTaskConfig, flavor: str, sorter: WriteSorter, files: dict[str, FileIdentity]
) -> Iterator[LogReading]:
    """Reads from the sorter's boundary on, or from the file's start where a server can't begin there. Raises
    DMError."""
    if sorter.boundary.pos >= _FARTHEST:
        sorter.boundary = Position(sorter.boundary.name, len(c.MAGIC))
    server_id = replica_id(cfg.name, cfg.source_id, f"{cfg.server_id}target")
    start = Location(sorter.boundary)
    with closing(open_upstream(cfg.to, start, flavor=flavor, server_id=server_id, use_gtid=False)) as stream:
        yield LogReading(stream, sorter, files)
