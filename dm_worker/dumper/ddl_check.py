"""Reads the upstream's log of a dump's time, and refuses a dump that DDL invalidated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from dm_worker.dumper.logged_ddl import LoggedDDL, ReadTables, logged_ddl
from dm_worker.dumper.row_passing import row_passing
from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.events import end_position, parse_query, parse_rotate
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_stream import open_upstream, replica_id
from pkg.binlog.streams.stream import BinlogStream
from pkg.config.model import SubTaskConfig
from pkg.ddl.failure import shorten
from pkg.errors import Code
from pkg.mysql.retry import retrying
from pkg.process.log import get_logger
from pkg.settings.connections import DBConfig

log = get_logger("dumper")

_READ_BYTES, _WAIT = 1 << 20, 1.0
_HEAD = 4
_FARTHEST = 1 << 32
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class DDLCheck:
    """The check of one dump; its user may read the binlog of ``upstream``."""

    cfg: SubTaskConfig
    upstream: DBConfig
    version: tuple[int, int, int]
    should_stop: Callable[[], bool]

    def refuse_mixed(self, begin: Position, tables: ReadTables) -> None:
        """Reads from ``begin``, the binlog's end before the dump was planned.

        Raises DMError 32001, which another dump may fix, when DDL ran on a table before the dump read it; the
        stream's errors when the binlog is unavailable. Returns early when the dump is stopped.
        """
        if tables.end <= begin:
            return
        log.info("reading the binlog that was written during the dump", begin=begin, end=tables.end)
        mixed = retrying(lambda: self._first_mixed(begin, tables), should_stop=self.should_stop, attempts=_ATTEMPTS)
        if mixed is not None:
            raise mixed

    def _first_mixed(self, begin: Position, tables: ReadTables) -> errors.DMError | None:
        # For an offset after this, a server sends nothing of the file.
        start = begin if begin.pos < _FARTHEST else Position(begin.name, _HEAD)
        with closing(self._open(start)) as stream:
            for statement in self._statements(stream, start, tables.end):
                mixed = tables.mixed_by(statement) if begin < statement.end else ""
                if mixed:
                    return _mixed(mixed, statement, self.cfg)
        return None

    def _open(self, start: Position) -> BinlogStream:
        cfg = self.cfg
        return open_upstream(
            self.upstream,
            Location(start),
            flavor=cfg.flavor,
            server_id=replica_id(cfg.name, cfg.source_id, f"{cfg.server_id}dump"),
            use_gtid=False,
        )

    def _statements(self, stream: BinlogStream, position: Position, end: Position) -> Iterator[LoggedDDL]:
        """The DDL in the stream between ``position`` and ``end``."""
        passing = row_passing()
        while not self.should_stop():
            if passing is not None:
                passing.offset = position.pos
            events = stream.read(_READ_BYTES, _WAIT, passing)
            if passing is not None:
                position = Position(position.name, passing.offset)
            for event in events:
                if event.type == c.ROTATE_EVENT:
                    rotate = parse_rotate(event, position.name)
                    position = Position(rotate.file, rotate.position)
                    continue
                position = Position(position.name, end_position(position.pos, event))
                if event.type in c.QUERY_EVENTS:
                    query = parse_query(event, position.name)
                    statement = logged_ddl(query, position, self.cfg.flavor, self.version)
                    if statement is not None:
                        yield statement
                if end <= position:
                    return
            if end <= position:
                return


def _mixed(what: str, statement: LoggedDDL, cfg: SubTaskConfig) -> errors.DMError:
    return errors.new(
        Code.DumpUnitRuntime,
        f"DDL changed {what} before the dump read it: {shorten(statement.sql)} (ends at {statement.end})",
        scope="upstream",
        workaround="The worker dumps again by itself, a few times. If this error stays: run no DDL on the tables until "
        f"the dump is complete, then `dmctl resume-task {cfg.name} -s {cfg.source_id}`. Or exclude the table with "
        f"ignore-tables in the block-allow-list: `dmctl stop-task {cfg.name}`, `dmctl start-task --remove-meta` with "
        "the changed task file.",
        retryable=True,
    )
