"""What the target does while a run waits long. The driver can't see why a Spark task waits."""

from __future__ import annotations

from collections.abc import Callable

from dm_worker.syncer.figures.lag_reason import TargetState
from dm_worker.syncer.rows.server_lookup import ServerLookup
from pkg.errors import DMError
from pkg.mysql.introspect import query
from pkg.settings.connections import DBConfig

#: A statement counts as long after this many seconds.
_LONG = 1
_AT_REST = ("Sleep", "Daemon")


class TargetLook:
    """Queries over its own connection, which opens when it is first needed."""

    def __init__(self, cfg: DBConfig, should_stop: Callable[[], bool]) -> None:
        self._server = ServerLookup(cfg, "downstream", should_stop, attempts=1)
        self._user = cfg.user

    def state(self) -> TargetState:
        """Queries the target once. A long statement of the account makes it busy, also one of another task."""
        try:
            threads = self._server.ask(lambda conn: query(conn, "SHOW PROCESSLIST"))
        except DMError:
            return TargetState.AWAY
        busy = any(
            user == self._user and command not in _AT_REST and int(seconds or 0) >= _LONG
            for _number, user, _host, _schema, command, seconds, *_ in threads
        )
        return TargetState.BUSY if busy else TargetState.ANSWERS

    def interrupt(self) -> None:
        """Cancels the running query; called from another thread."""
        self._server.interrupt()

    def close(self) -> None:
        self._server.close()
