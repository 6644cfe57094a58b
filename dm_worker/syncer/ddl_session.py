"""Runs a statement at the target in the session that it had upstream, and looks at the tables that it is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import pymysql
from pymysql.connections import Connection

from dm_worker.ddl_fence import Fence
from dm_worker.syncer.ddl_proof import Shown
from pkg import errors
from pkg.binlog.charsets import collation_charset
from pkg.binlog.events import Query
from pkg.config.model import DBConfig
from pkg.ddl import Kind, SessionDefaults
from pkg.errors import DMError
from pkg.log import get_logger
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import fetch_file_ids, query, show_create_if_there
from pkg.schema_tracker import fetch_collations

log = get_logger("syncer.ddl")

T = TypeVar("T")
Conn: TypeAlias = "Connection[Any]"

#: A statement may rebuild a large table.
TIMEOUT = 24 * 3600.0
_ABORT_TIMEOUT = 5.0
_AUTO_INCREMENT = re.compile(r"\sAUTO_INCREMENT=\d+")
_OF_A_SCHEMA: frozenset[Kind] = frozenset({"create database", "alter database"})
#: The bits of sql_mode in QUERY events that change a statement's meaning. A target that lacks one (MySQL 8 has neither
#: ORACLE nor MAXDB) refuses the statement.
_SQL_MODES = {
    0: "REAL_AS_FLOAT",
    1: "PIPES_AS_CONCAT",
    2: "ANSI_QUOTES",
    3: "IGNORE_SPACE",
    5: "ONLY_FULL_GROUP_BY",
    6: "NO_UNSIGNED_SUBTRACTION",
    9: "ORACLE",
    12: "MAXDB",
    19: "NO_AUTO_VALUE_ON_ZERO",
    20: "NO_BACKSLASH_ESCAPES",
    21: "STRICT_TRANS_TABLES",
    22: "STRICT_ALL_TABLES",
    23: "NO_ZERO_IN_DATE",
    24: "NO_ZERO_DATE",
    25: "ALLOW_INVALID_DATES",
    26: "ERROR_FOR_DIVISION_BY_ZERO",
    29: "HIGH_NOT_PRECEDENCE",
    30: "NO_ENGINE_SUBSTITUTION",
    31: "PAD_CHAR_TO_FULL_LENGTH",
}


def sql_mode_text(bits: int | None) -> str:
    """The names of the bits that QUERY's status variables carry."""
    return ",".join(name for bit, name in _SQL_MODES.items() if bits is not None and bits >> bit & 1)


#: Names of the collations that default_collation_for_utf8mb4 may be.
_UTF8MB4_COLLATIONS = {45: "utf8mb4_general_ci", 255: "utf8mb4_0900_ai_ci"}


def session_defaults(
    charsets: tuple[int, int, int] | None, explicit_timestamp: bool | None, utf8mb4_collation: int | None
) -> SessionDefaults:
    """What the variables of the same names in a QUERY event decide."""
    return SessionDefaults(
        explicit_timestamp=explicit_timestamp,
        utf8mb4_collation=_UTF8MB4_COLLATIONS.get(utf8mb4_collation or 0, ""),
        server_collation=None if charsets is None else charsets[2],
    )


def defaults_of(query: Query) -> SessionDefaults:
    """What the session of an event decides."""
    return session_defaults(query.charsets, query.explicit_defaults_for_timestamp, query.utf8mb4_collation)


class DDLSession:
    """The connection for statements. One per run, opened when needed.

    With a ``fence`` every connection takes the right to execute DDL first, and a statement runs only on the connection
    that its intent was written through.
    """

    def __init__(self, cfg: DBConfig, foreign_keys: bool, fence: Fence | None = None) -> None:
        self._cfg = cfg
        self._foreign_keys = foreign_keys
        self._fence = fence
        self._conn: Conn | None = None
        self._ensure_ours: Callable[[Conn], None] = lambda conn: None
        self._aborted = False
        self._running = False
        self._collations: dict[int, str] = {}

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def take_over(self, ensure_ours: Callable[[Conn], None]) -> None:
        """Sees to it that no statement of an earlier run is under way, nor can begin. Raises DMError.

        ``ensure_ours`` raises DMError when a later run has taken over, whose connection is not ours to end.
        """
        self._ensure_ours = ensure_ours
        self._on_connection(lambda conn: None, "GET_LOCK")

    def transaction(self, work: Callable[[Conn], T]) -> T:
        """Runs ``work`` in a transaction on the connection of the statement that follows. Raises DMError."""

        def run(conn: Conn) -> T:
            _plainly(conn)
            conn.begin()
            result = work(conn)
            conn.commit()
            return result

        return self._on_connection(run, "a DDL's intent")

    def run(self, sql: str) -> None:
        """Runs a statement of our own: no upstream's session tells what it means. Raises DMError."""

        def run(conn: Conn) -> None:
            _plainly(conn)
            query(conn, sql)

        self._on_connection(run, sql)

    def _on_connection(self, work: Callable[[Conn], T], what: str) -> T:
        try:
            return work(self._connection())
        except (pymysql.Error, OSError) as exc:
            self.close()
            raise classify(exc, scope="downstream", statement=what) from exc
        except DMError:
            self.close()
            raise

    def abort(self) -> None:
        """Ends a statement that runs, from another thread: it may take hours, or wait for a lock. None begins any more.

        The server is asked to end it. A mere disconnection would leave it waiting there, to run after the next try.
        """
        # First of all: a statement that is about to begin finds this out, or its connection is the one that is killed.
        self._aborted = True
        running = self._conn
        if running is None or not self._running:
            return
        try:
            conn = connect(self._cfg, scope="downstream", read_timeout=_ABORT_TIMEOUT)
            try:
                number = running.thread_id()  # type: ignore[no-untyped-call]
                query(conn, f"KILL {number}")
            finally:
                conn.close()
        except (pymysql.Error, OSError, DMError) as exc:
            log.warning("could not end the statement that runs at the target", error=str(exc))

    def execute(self, sql: str, kind: Kind, event: Query, timestamp: int, explicit_timestamp: bool) -> None:
        """Runs a statement of this kind in the session of its event. ``explicit_timestamp`` is the upstream's default.

        Raises DMError when another try may help (after :meth:`abort` as well: in another run), :class:`StatementFailed`
        when the target refuses the statement.
        """
        if self._fence is not None and self._conn is None:
            raise errors.new("DBBadConn", "the connection was lost before a DDL whose intent it had", retryable=True)
        conn = self._connection()
        self._running = True
        try:
            if self._aborted:
                raise errors.new("DBExecuteFailed", "the run was stopped before the statement", retryable=True)
            for statement in self._session(conn, kind, event, timestamp):
                query(conn, statement)
            if "timestamp" in sql.lower():
                told = event.explicit_defaults_for_timestamp
                self._timestamp_defaults(conn, explicit_timestamp if told is None else told)
            query(conn, sql)
            query(conn, "SET TIMESTAMP = DEFAULT")
        except (pymysql.Error, OSError) as exc:
            self.close()
            error = classify(exc, scope="downstream", statement=sql)
            number = error_number(exc)
            if error.retryable or not number:
                raise error from exc
            raise StatementFailed(number, error) from exc
        finally:
            self._running = False

    def _timestamp_defaults(self, conn: Connection[Any], explicit: bool) -> None:
        """What TIMESTAMP without NULL or DEFAULT means; not every server lets a session choose, so only if needed."""
        rows = query(conn, "SHOW SESSION VARIABLES LIKE 'explicit_defaults_for_timestamp'")
        if rows and (str(rows[0][1]).upper() in ("ON", "1")) != explicit:
            query(conn, f"SET SESSION explicit_defaults_for_timestamp = {int(explicit)}")

    def shown(self, names: Iterable[tuple[str, str]], *, ids: bool = False) -> Shown:
        """The tables (or schemas) as the target has them now, with the numbers of their files if ``ids``.

        Raises DMError.
        """

        def look(conn: Conn) -> Shown:
            _plainly(conn)
            texts = tuple(_AUTO_INCREMENT.sub("", show_create_if_there(conn, *name)) for name in names)
            return Shown(texts, tuple(fetch_file_ids(conn, *name) for name in names) if ids else ())

        return self._on_connection(look, "SHOW CREATE …")

    def _connection(self) -> Conn:
        if self._conn is None:
            conn = connect(self._cfg, scope="downstream", read_timeout=TIMEOUT)
            try:
                if self._fence is not None:
                    self._fence.take(conn, self._ensure_ours)
            except BaseException:
                conn.close()
                raise
            self._conn = conn
        return self._conn

    def _session(self, conn: Connection[Any], kind: Kind, event: Query, timestamp: int) -> Iterable[str]:
        yield f"SET SESSION sql_mode = '{sql_mode_text(event.sql_mode)}'"
        yield f"SET SESSION time_zone = '{event.time_zone or '+00:00'}'"
        yield f"SET TIMESTAMP = {timestamp}"
        yield f"SET SESSION foreign_key_checks = {int(self._foreign_keys)}"
        if event.charsets is not None and kind in _OF_A_SCHEMA:
            # What a new schema without a charset gets. No other statement needs that the target knows the charset.
            yield self._server_charset(conn, event.charsets[2])

    def _server_charset(self, conn: Connection[Any], collation: int) -> str:
        """What a new schema without a charset gets: the collation if the target has it too, or else the charset."""
        if not self._collations:
            self._collations = fetch_collations(conn)
        name = self._collations.get(collation)
        if name is not None:
            return f"SET SESSION collation_server = {name}"
        return f"SET SESSION character_set_server = {collation_charset(collation)}"


def _plainly(conn: Conn) -> None:
    """Undoes what the session of a statement before changed of how texts are read and shown."""
    query(conn, "SET SESSION sql_mode = '', foreign_key_checks = 0")


class StatementFailed(Exception):
    """The target refused a statement with the server's error ``number``; ``error`` is for the operator."""

    def __init__(self, number: int, error: DMError) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error
