"""The right to execute a subtask's DDL, which one connection to the target holds at a time.

It is a user-level lock of the target's server. The lock lives exactly as long as its connection, also while a statement
runs whose client is gone. So a run that takes it over knows that no statement of an earlier run is running or can start
any more. On a cluster of several servers that accept writes, the lock belongs to one of them. TiDB continues a DDL job
whose connection has ended: wait for the job before comparing structures. Nor does TiDB name the holder
of a lock: there, the holder's connection has the lock's name as its alias (``tidb_session_alias``, 7.4).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.end_connection import end_connection
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import error_number, error_text, is_retryable
from pkg.mysql.introspect import query, server_info
from pkg.mysql.names import TableId
from pkg.process.log import get_logger

log = get_logger("ddl")

#: Timeout in seconds for a statement of an earlier run, which may rebuild a large table.
TAKEOVER_TIMEOUT = 24 * 3600.0
#: Seconds between two log lines about the wait.
_LOG_INTERVAL = 10.0
_NO_SUCH_COLUMN, _NO_SUCH_VARIABLE = 1054, 1193
#: The visible state of an unknown holder.
_NOTHING = ("", 0, "")


class DDLFence:
    """The lock of one subtask, or of its DDL on one ``table``. ``timeout`` is in seconds."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        should_stop: Callable[[], bool] = lambda: False,
        timeout: float = TAKEOVER_TIMEOUT,
        table: TableId | None = None,
    ) -> None:
        identity = "\0".join((cfg.meta_schema, cfg.name, cfg.source_id, *(table or ())))
        self.name = f"dm_ddl_{blake2b(identity.encode(), digest_size=16).hexdigest()}"
        self._should_stop = should_stop
        self._timeout = timeout

    def take(self, conn: Connection[Any], ensure_ours: Callable[[Connection[Any]], None]) -> None:
        """Takes the lock for ``conn``. The former holder is disconnected once its statement has ended.

        ``ensure_ours`` raises when a later run has taken over, whose connection must not be ended. It must be called
        again before any statement: this run may have been stopped since.
        Raises DMError: retryable when a stop is requested, not retryable when the holder stays; and driver errors.
        """
        ensure_ours(conn)
        begun = logged = time.monotonic()
        killed: set[int] = set()
        names_holders = server_info(conn).flavor != "tidb"
        while not self._try(conn):
            if self._should_stop():
                raise errors.new(
                    Code.DBExecuteFailed, "stopped while a DDL of an earlier run is executing", retryable=True
                )
            holder = self._holder(conn) if names_holders else self._holder_by_alias(conn)
            if holder is None and names_holders:
                continue
            command, seconds, statement = _look(conn, holder) if holder is not None else _NOTHING
            if holder is not None and command == "Sleep" and holder not in killed:
                log.info("ending the connection of an earlier run, which can still execute DDL", connection=holder)
                end_connection(conn, holder, log, passes_on=is_retryable)
                killed.add(holder)
            now = time.monotonic()
            if now - begun > self._timeout:
                raise self._stays(holder, statement)
            if now - logged >= _LOG_INTERVAL:
                logged = now
                log.info(
                    "waiting for a DDL of an earlier run, which the target is still executing",
                    connection=holder, state=command, seconds=seconds, statement=statement[:200],
                )  # fmt: skip

        if not names_holders:
            self._show(conn)

    def _try(self, conn: Connection[Any]) -> bool:
        try:
            return bool(query(conn, "SELECT GET_LOCK(%s, 1)", (self.name,))[0][0])
        except pymysql.Error as exc:
            if is_retryable(exc):
                raise
            log.warning(
                "the target has no user-level locks: a stopped worker could still begin a DDL",
                error=error_text(exc),
            )
            return True

    def _holder(self, conn: Connection[Any]) -> int | None:
        found = query(conn, "SELECT IS_USED_LOCK(%s)", (self.name,))[0][0]
        return None if found is None else int(found)

    def _holder_by_alias(self, conn: Connection[Any]) -> int | None:
        """None also for the holder in a server before 7.4."""
        try:
            found = query(conn, "SELECT ID FROM information_schema.PROCESSLIST WHERE SESSION_ALIAS = %s", (self.name,))
        except pymysql.Error as exc:
            if error_number(exc) != _NO_SUCH_COLUMN:
                raise
            return None
        return int(found[0][0]) if found else None

    def _show(self, conn: Connection[Any]) -> None:
        """Makes this connection visible to a later run."""
        try:
            query(conn, "SET SESSION tidb_session_alias = %s", (self.name,))
        except pymysql.Error as exc:
            if error_number(exc) != _NO_SUCH_VARIABLE:
                raise
            log.info("TiDB before 7.4: a later run cannot end this connection if its worker freezes")

    def _stays(self, holder: int | None, statement: str) -> DMError:
        which = "a connection" if holder is None else f"connection {holder}"
        kill = "KILL it" if holder is None else f"KILL {holder}"
        return errors.new(
            Code.DBExecuteFailed,
            f"{which} of the target, of an earlier run of this subtask, may still execute DDL after "
            f"{self._timeout:.0f} s: {statement[:500] or 'nothing is shown of it'}",
            scope="downstream",
            workaround=f"Find it with SHOW PROCESSLIST on the target. Wait until its statement ends, or {kill}; "
            "then resume the task.",
        )


def _look(conn: Connection[Any], holder: int) -> tuple[str, int, str]:
    """A connection's state, for how many seconds, and its statement; empty for another user's without PROCESS."""
    sql = "SELECT COMMAND, TIME, INFO FROM information_schema.PROCESSLIST WHERE ID = %s"
    rows = query(conn, sql, (holder,))
    return (str(rows[0][0]), int(rows[0][1] or 0), str(rows[0][2] or "")) if rows else ("", 0, "")
