"""The end of an upstream's binlog, for status answers: queried for each answer, with a short timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pkg.binlog.position import Location, Position, bytes_between
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import SourceConfig
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Seconds that a status waits for an answer before it uses the last one.
ANSWER_TIMEOUT = 0.5
_READ_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class BinlogTail:
    """``location``: the end of the upstream's binlog when its clock was ``at`` (unix seconds). ``sizes``: bytes of the
    files before its file, oldest first."""

    location: Location
    at: float = 0.0
    sizes: Mapping[str, int] = field(default_factory=dict)

    def bytes_after(self, here: Position) -> int | None:
        """Bytes of binlog from ``here`` to the end; None when that cannot be counted."""
        return bytes_between(here, self.location.position, self.sizes)


class UpstreamQuery:
    """Queries the upstream, and for its files only when a new one has begun. Not for two threads at a time."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def __call__(self, source: SourceConfig) -> BinlogTail | None:
        """None when the upstream writes no binlog. Raises DMError or ``pymysql.Error``."""
        conn = connect(source.from_, scope="upstream", read_timeout=_READ_TIMEOUT)
        try:
            location = master_status(conn, source.flavor)
            if location is None:
                return None
            if location.position.name not in self._sizes:
                self._sizes = {str(row[0]): int(row[1]) for row in query(conn, "SHOW BINARY LOGS")}
            at = float(query(conn, "SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
            return BinlogTail(location, at, self._sizes)
        finally:
            conn.close()


class UpstreamEnd:
    """Queries the upstream on demand. Concurrent calls share a query; there is never more than one at a time."""

    def __init__(
        self, source: SourceConfig, *, query: Callable[[SourceConfig], BinlogTail | None] | None = None
    ) -> None:
        self._source = source
        self._query = query or UpstreamQuery()
        self._changed = threading.Condition()
        self._end: BinlogTail | None = None
        self._begun = self._ended = self._wanted = 0

    def get(self) -> tuple[BinlogTail | None, bool]:
        """The upstream's end (None when the query failed), and whether the query started after this call.

        Only such an answer can prove that everything the upstream had is applied.
        """
        with self._changed:
            # The upstream may have answered the running query before the change that the caller waits for.
            number = self._wanted = self._begun + 1
            if self._begun == self._ended:
                self._begun += 1
                threading.Thread(target=self._refresh, name="upstream-position", daemon=True).start()
            current = self._changed.wait_for(lambda: self._ended >= number, ANSWER_TIMEOUT)
            return self._end, current

    def _refresh(self) -> None:
        while True:
            end = self._ask()
            with self._changed:
                self._end, self._ended = end, self._begun
                self._changed.notify_all()
                if self._wanted == self._begun:
                    return
                self._begun += 1

    def _ask(self) -> BinlogTail | None:
        try:
            return self._query(self._source)
        except Exception as exc:  # noqa: BLE001 - the status is shown without the position
            log.warning("cannot get the upstream's position", source=self._source.source_id, error=str(exc))
            return None
