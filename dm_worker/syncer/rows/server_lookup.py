"""Questions to the upstream and the target about their tables, over connections that are opened again when lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pymysql
from pymysql.connections import Connection

from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.mysql.connection import Scope, classify, connect
from pkg.mysql.driver import break_off
from pkg.mysql.introspect import fetch_table_info, query, variable
from pkg.mysql.names import qualified
from pkg.mysql.retry import retrying
from pkg.mysql.schema import TableInfo
from pkg.settings.connections import DBConfig

T = TypeVar("T")


def _begins_without_gtids(conn: Connection[Any], position: Position) -> bool:
    """Whether a MySQL that writes GTIDs had written none before this position, which is the first of its file."""
    if variable(conn, "gtid_mode") != "ON" or position.name not in [row[0] for row in query(conn, "SHOW BINARY LOGS")]:
        return False
    heads = query(conn, f"SHOW BINLOG EVENTS IN '{position.name}' LIMIT 2")
    return any(kind == "Previous_gtids" and not info and position.pos <= end for _, _, kind, _, end, info in heads)


class ServerLookup:
    """One server, for one thread at a time. Every question raises DMError when it can't be answered."""

    def __init__(
        self,
        cfg: DBConfig,
        scope: Scope,
        should_stop: Callable[[], bool],
        *,
        attempts: int = 60,
        timed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``timed`` receives the seconds of each answer."""
        self._cfg = cfg
        self._timed = timed
        self._scope = scope
        self._should_stop = should_stop
        self._attempts = attempts
        self._conn: Connection[Any] | None = None
        #: The thread of the current query; 0 for none.
        self._asking = 0

    def ask(self, question: Callable[[Connection[Any]], T], *, table: str = "") -> T:
        """``table``: what the question is about, for an error."""

        def attempt() -> T:
            try:
                if self._conn is None:
                    self._conn = connect(self._cfg, scope=self._scope)
                began = time.monotonic()
                answer = question(self._conn)
                self._timed(time.monotonic() - began)
                return answer
            except (pymysql.Error, OSError) as exc:
                self.close()
                raise classify(exc, scope=self._scope, table=table) from exc

        before, thread = self._asking, threading.get_ident()
        assert before in (0, thread), "two threads ask over one connection"
        self._asking = thread
        try:
            return retrying(attempt, should_stop=self._should_stop, attempts=self._attempts)
        finally:
            self._asking = before

    def interrupt(self) -> None:
        """Cancels the current query, from another thread: its caller sees a lost connection."""
        conn = self._conn
        if conn is not None:
            break_off(conn)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def table(self, schema: str, table: str) -> TableInfo | None:
        return self.ask(lambda conn: fetch_table_info(conn, schema, table), table=qualified(schema, table))

    def schema_charset(self, schema: str) -> tuple[str, str] | None:
        rows = self.ask(
            lambda conn: query(
                conn,
                "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
                " WHERE SCHEMA_NAME = %s",
                (schema,),
            )
        )
        return (str(rows[0][0]), str(rows[0][1])) if rows else None

    def end_of_binlog(self, flavor: str) -> Location | None:
        return self.ask(lambda conn: master_status(conn, flavor))

    def binlog_files(self) -> dict[str, int]:
        """The binlog files' sizes in bytes, oldest first."""
        return {str(row[0]): int(row[1]) for row in self.ask(lambda conn: query(conn, "SHOW BINARY LOGS"))}

    def gtid_of(self, position: Position, flavor: str) -> str | None:
        """The GTID set at a binlog position, which may be empty; None when the server does not tell.

        MySQL tells only of the start of a file, before which no transaction had a GTID.
        """
        if flavor == "mariadb":
            rows = self.ask(lambda conn: query(conn, "SELECT BINLOG_GTID_POS(%s, %s)", (position.name, position.pos)))
            return None if rows[0][0] is None else str(rows[0][0])
        return "" if self.ask(lambda conn: _begins_without_gtids(conn, position)) else None

    def system_zone(self, timestamp: int) -> str:
        """What the server's time zone SYSTEM is at a time (unix seconds), as an offset that every server knows."""
        asked = (
            "SELECT TIMESTAMPDIFF(MINUTE, utc, CONVERT_TZ(utc, '+00:00', 'SYSTEM'))"
            " FROM (SELECT TIMESTAMP '1970-01-01 00:00:00' + INTERVAL %s SECOND AS utc) AS moment"
        )
        minutes = int(self.ask(lambda conn: query(conn, asked, (timestamp,)))[0][0])
        hours, rest = divmod(abs(minutes), 60)
        return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"

    def now(self) -> float:
        """The server's clock in unix seconds."""
        return float(self.ask(lambda conn: query(conn, "SELECT UNIX_TIMESTAMP(NOW(6))"))[0][0])
