"""Where an upstream's binlog ends, for status answers: fresh to a second, and never waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pymysql

from pkg.binlog.position import Location
from pkg.config.model import SourceConfig
from pkg.errors import DMError
from pkg.log import get_logger
from pkg.mysql.connection import connect
from pkg.mysql.introspect import master_status

log = get_logger(__name__)

#: Seconds that an answer counts as fresh.
FRESH = 1.0
#: Seconds that a status waits for a fresh answer before it takes the last one.
PATIENCE = 0.5
_READ_TIMEOUT = 5.0


def query_upstream(source: SourceConfig) -> Location | None:
    """Asks the upstream; None when it writes no binlog. Raises DMError or ``pymysql.Error``."""
    conn = connect(source.from_, scope="upstream", read_timeout=_READ_TIMEOUT)
    try:
        return master_status(conn, source.flavor)
    finally:
        conn.close()


class UpstreamPosition:
    """Remembers the last answer; :meth:`get` refreshes it in the background."""

    def __init__(
        self,
        source: SourceConfig,
        *,
        query: Callable[[SourceConfig], Location | None] = query_upstream,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._query = query
        self._clock = clock
        self._lock = threading.Lock()
        self._location: Location | None = None
        self._asked_at: float | None = None
        self._done = threading.Event()

    def get(self) -> Location | None:
        """The upstream's end, at most :data:`FRESH` s old unless it is slow to answer; None when it refused."""
        with self._lock:
            busy = self._asked_at is not None and not self._done.is_set()
            stale = self._asked_at is None or self._clock() - self._asked_at > FRESH
            if stale and not busy:
                self._asked_at = self._clock()
                self._done.clear()
                threading.Thread(target=self._refresh, name="upstream-position", daemon=True).start()
        if stale:
            self._done.wait(PATIENCE)
        with self._lock:
            return self._location

    def _refresh(self) -> None:
        location: Location | None = None
        try:
            location = self._query(self._source)
        except (DMError, pymysql.Error) as exc:
            log.warning("cannot ask the upstream for its position", source=self._source.source_id, error=str(exc))
        finally:
            with self._lock:
                self._location = location
                self._done.set()
