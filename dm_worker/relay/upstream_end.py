"""The end of an upstream's binlog, for status answers: queried for each answer, with a short timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import SourceConfig
from pkg.mysql.connection import connect
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Seconds that a status waits for an answer before it uses the last one.
ANSWER_TIMEOUT = 0.5
_READ_TIMEOUT = 5.0


def query_upstream(source: SourceConfig) -> Location | None:
    """Queries the upstream; None when it writes no binlog. Raises DMError or ``pymysql.Error``."""
    conn = connect(source.from_, scope="upstream", read_timeout=_READ_TIMEOUT)
    try:
        return master_status(conn, source.flavor)
    finally:
        conn.close()


class UpstreamEnd:
    """Queries the upstream on demand. Concurrent calls share a query; there is never more than one at a time."""

    def __init__(
        self, source: SourceConfig, *, query: Callable[[SourceConfig], Location | None] = query_upstream
    ) -> None:
        self._source = source
        self._query = query
        self._changed = threading.Condition()
        self._location: Location | None = None
        self._begun = self._ended = self._wanted = 0

    def get(self) -> tuple[Location | None, bool]:
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
            return self._location, current

    def _refresh(self) -> None:
        while True:
            location = self._ask()
            with self._changed:
                self._location, self._ended = location, self._begun
                self._changed.notify_all()
                if self._wanted == self._begun:
                    return
                self._begun += 1

    def _ask(self) -> Location | None:
        try:
            return self._query(self._source)
        except Exception as exc:  # noqa: BLE001 - the status is shown without the position
            log.warning("cannot get the upstream's position", source=self._source.source_id, error=str(exc))
            return None
