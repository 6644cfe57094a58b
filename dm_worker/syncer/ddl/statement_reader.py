"""First step of a statement: its SQL and its session, in terms that also hold at the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dm_worker.syncer.ddl.server_written import in_its_charset
from dm_worker.syncer.ddl.variables import UpstreamSession, in_plain_words
from dm_worker.syncer.planning.instructions import BinlogStatement
from pkg.binlog.events import QueryEvent, parse_query

_SYSTEM = "SYSTEM"


class StatementReader:
    """``system_zone``: the offset of the upstream's time zone SYSTEM at a time (unix seconds)."""

    def __init__(self, upstream: UpstreamSession, system_zone: Callable[[int], str]) -> None:
        self._upstream = upstream
        self._system_zone = system_zone

    def read(self, statement: BinlogStatement) -> QueryEvent:
        """The statement with its session. Raises DMError."""
        logged = in_its_charset(parse_query(statement.event, statement.position.name), inside=statement.inside)
        query = in_plain_words(logged, self._upstream)
        if query.time_zone != _SYSTEM:
            return query
        # The zone of the host, which differs at the target: all stored sessions have the offset.
        return replace(query, time_zone=self._system_zone(statement.event.timestamp))
