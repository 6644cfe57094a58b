"""Runs a statement at the target in the session that it had upstream, and reads the structure of its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.ddl_fence import DDLFence
from dm_worker.syncer.checkpoint.ddl_table import ShownTables
from dm_worker.syncer.ddl.target_jobs import TargetJob, unfinished_jobs
from dm_worker.syncer.ddl.target_progress import AskJobs, TargetProgress
from dm_worker.syncer.ddl.variables import (
    NO_FOREIGN_KEY_CHECKS,
    OPTIONAL,
    TargetSession,
    UpstreamSession,
    settings,
)
from pkg import errors
from pkg.binlog.events import QueryEvent
from pkg.ddl import IGNORABLE_ERRORS, DDLKind, Dialect, by_copying, parse_dialect
from pkg.ddl.engines import in_innodb
from pkg.ddl.sql_modes import sql_mode_text
from pkg.ddl.target_collations import TargetCollations, choice, nearest, unknown_in
from pkg.ddl.target_words import in_target_words
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.driver import break_off
from pkg.mysql.introspect import fetch_file_ids, fetch_table_info, query, server_info, show_create_if_there
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.mysql.target_values import folds_names
from pkg.process.log import get_logger
from pkg.schema_tracker import fetch_collations
from pkg.settings.connections import DBConfig

log = get_logger("syncer.ddl")

T = TypeVar("T")
Conn: TypeAlias = "Connection[Any]"

#: A statement may rebuild a large table.
TIMEOUT = 24 * 3600.0
_ABORT_TIMEOUT = 5.0
_EARLIER = "the target has to end the connection of an earlier DDL"
_AUTO_INCREMENT = re.compile(r"\sAUTO_INCREMENT=\d+")
_MISSING_TABLE = 1146
_READ_ONLY_VARIABLE = 1238
#: TiDB's number for all unsupported statements, and its message for several parts that it accepts one by one.
_UNSUPPORTED_IN_TIDB = 8200
_SEVERAL_PARTS = (
    "unsupported multi schema change",
    "operate same column",
    "operate same index",
    "constraint unique key when altering",
    "change column constraint (unique key)",
)
#: Error of a part that needs another part to run first: the column of a key is missing.
_NO_KEY_COLUMN = 1072
_OF_A_TABLE: frozenset[DDLKind] = frozenset({"create table", "alter table"})


class DDLSession:
    """The connection for statements. One per run, opened when needed.

    With a ``fence``, every connection takes the right to execute DDL first, and a statement runs only on the connection
    that wrote its intent. ``collations``: the task's replacement for those that the target lacks.
    """

    def __init__(
        self,
        cfg: DBConfig,
        foreign_keys: bool,
        fence: DDLFence | None = None,
        collations: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._cfg = cfg
        self._chosen_collations = tuple(collations)
        self._known_collations: frozenset[str] = frozenset()
        self._foreign_keys = foreign_keys
        self._fence = fence
        self._conn: Conn | None = None
        self._ensure_ours: Callable[[Conn], None] = lambda conn: None
        self._aborted = False
        self._running = False
        self._known: TargetSession | None = None
        self._progress = TargetProgress()
        #: Queries the jobs of the last statement, also when its connection has ended.
        self._ask: AskJobs | None = None

    @property
    def progress(self) -> str:
        """The statement that the target executes for this session, and its progress; '' for none. From any thread."""
        return self._progress.text

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
            self._known = None

    def take_over(self, ensure_ours: Callable[[Conn], None]) -> None:
        """Returns once no statement of an earlier run is running or can begin. Raises DMError.

        ``ensure_ours`` raises DMError when a later run has taken over: its connection must not be ended.
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
        """Runs a statement of our own, which does not depend on an upstream session. Raises DMError."""

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
        """Ends a running statement, from another thread: it may take hours, or wait for a lock. No other may begin.

        Asks the server to end it. After a mere disconnection it would wait there and run after the next retry. A server
        that continues the DDL by itself is not asked: the next run waits for its job, at any progress.
        """
        # First: a statement that is about to begin sees this, or its connection is the one that is killed.
        self._aborted = True
        running = self._conn
        if running is None or not self._running:
            return
        if self._known is not None and self._known.goes_on_alone:
            log.info("the target continues the statement that runs; ADMIN SHOW DDL JOBS shows it there")
            break_off(running)
            return
        try:
            conn = connect(self._cfg, scope="downstream", read_timeout=_ABORT_TIMEOUT)
            try:
                number = running.thread_id()  # type: ignore[no-untyped-call]
                query(conn, f"KILL {number}")
            finally:
                conn.close()
        except (pymysql.Error, OSError, DMError) as exc:
            log.warning("cannot end the statement that runs at the target", error=str(exc))

    def execute(self, sql: str, kind: DDLKind, event: QueryEvent, timestamp: int, upstream: UpstreamSession) -> None:
        """Runs a statement of this kind in the session of its event.

        Raises DMError when a retry may help (after :meth:`abort` as well: in another run), :class:`StatementFailed`
        when the target refuses the statement.
        """
        if self._fence is not None and self._conn is None:
            raise errors.new(Code.DBBadConn, "the connection was lost before a DDL whose intent it had", retryable=True)
        dialect = Dialect.of(sql_mode_text(event.sql_mode), upstream.flavor, upstream.version)
        if kind in _OF_A_TABLE:
            sql = in_innodb(sql, dialect)
        conn = self._connection()
        self._running = True
        try:
            if self._aborted:
                raise errors.new(Code.DBExecuteFailed, "the run was stopped before the statement", retryable=True)
            target = self._target(conn)
            self._known_collations = frozenset(target.collations.values())
            collations = TargetCollations.of(self._known_collations, self._chosen_collations)
            keywords = in_target_words(sql, dialect, target.flavor, partial(_constraint_kind, conn), collations)
            if keywords.left_out:
                log.info("executing DDL without unsupported options", statement=sql, left_out=keywords.left_out)
            variables = settings(
                kind, event, timestamp, upstream=upstream, target=target, foreign_keys=self._foreign_keys
            )
            for statement in variables:
                query(conn, statement)
            if kind in _OF_A_TABLE:
                # A table without an explicit engine must be able to roll back, too.
                query(conn, "SET SESSION default_storage_engine = InnoDB")
            if "timestamp" in sql.lower() and target.flavor != "tidb":
                # TiDB takes it from the SQL.
                self._timestamp_defaults(conn, upstream.explicit_timestamp_of(event))
            if target.goes_on_alone:
                self._ask = partial(self._ask_jobs, parse_dialect(sql, dialect, "").tables)
            copies = target.flavor == "mariadb" and not (event.flags or 0) & NO_FOREIGN_KEY_CHECKS
            for statement in (by_copying(one, dialect) if copies else one for one in keywords.statements):
                with self._progress.during(statement, self._ask):
                    query(conn, statement)
            query(conn, "SET TIMESTAMP = DEFAULT")
        except (pymysql.Error, OSError) as exc:
            self.close()
            error = classify(exc, scope="downstream", statement=sql)
            number = error_number(exc)
            if error.retryable or not number:
                raise error from exc
            raise StatementFailed(number, self._with_collation(error)) from exc
        finally:
            self._running = False

    def _with_collation(self, error: DMError) -> DMError:
        """The error with a collation to use, where the target lacks the statement's."""
        name = unknown_in(error.raw_cause)
        like = nearest(name, self._known_collations) if name else ""
        if not like:
            return error
        return error.with_workaround(
            f"The target lacks the collation {name}. Write `{choice(name, like)}` into the task file (check-task "
            f"compares what both servers call equal), then {Advice.RESTART_WITH_FILE}: the "
            f"statement then runs with {like}. {Advice.SKIP_OR_REPLACE}"
        )

    def _timestamp_defaults(self, conn: Connection[Any], explicit: bool) -> None:
        """Sets the meaning of TIMESTAMP without NULL or DEFAULT. Only if needed: some servers lack the setting."""
        rows = query(conn, "SHOW SESSION VARIABLES LIKE 'explicit_defaults_for_timestamp'")
        if rows and (str(rows[0][1]).upper() in ("ON", "1")) != explicit:
            query(conn, f"SET SESSION explicit_defaults_for_timestamp = {int(explicit)}")

    def shown(self, names: Iterable[tuple[str, str]], *, ids: bool = False) -> ShownTables:
        """The current tables (or schemas) at the target, with the numbers of their files if ``ids``.

        Raises DMError.
        """

        def look(conn: Conn) -> ShownTables:
            _plainly(conn)
            definitions = tuple(_AUTO_INCREMENT.sub("", show_create_if_there(conn, *name)) for name in names)
            return ShownTables(definitions, tuple(fetch_file_ids(conn, *name) for name in names) if ids else ())

        return self._on_connection(look, "SHOW CREATE …")

    def _connection(self) -> Conn:
        if self._conn is None:
            conn = connect(self._cfg, scope="downstream", read_timeout=TIMEOUT)
            try:
                if self._fence is not None:
                    with self._progress.during(_EARLIER, self._ask):
                        self._fence.take(conn, self._ensure_ours)
            except BaseException:
                conn.close()
                raise
            self._conn = conn
        return self._conn

    def target(self) -> TargetSession:
        """The capabilities of the target's sessions. Raises DMError."""
        return self._on_connection(self._target, "SHOW SESSION VARIABLES …")

    def _target(self, conn: Conn) -> TargetSession:
        if self._known is None:
            names = ", ".join(f"'{name}'" for name in OPTIONAL)
            rows = query(conn, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
            info = server_info(conn)
            variables = frozenset(str(row[0]) for row in rows if _settable(conn, str(row[0])))
            folds = folds_names(conn)
            self._known = TargetSession(info.flavor, info.version, variables, fetch_collations(conn), folds)
        return self._known

    def unfinished_jobs(self, names: Iterable[TableId]) -> list[TargetJob]:
        """The target's unfinished jobs of statements whose connections have ended. Raises DMError."""
        names = list(names)

        def look(conn: Conn) -> list[TargetJob]:
            return unfinished_jobs(conn, names) if self._target(conn).goes_on_alone else []

        found = self._on_connection(look, "the target's DDL jobs")
        self._progress.waits_for(found)
        return found

    def _ask_jobs(self, names: Iterable[TableId]) -> list[TargetJob]:
        """Queries over a separate connection: the statement uses the session's."""
        with closing(connect(self._cfg, scope="downstream", read_timeout=_ABORT_TIMEOUT)) as conn:
            return unfinished_jobs(conn, names)

    def has_rows(self, schema: str, table: str, condition: str) -> bool:
        """Whether the target's table has such rows; False when there is no such table. Raises DMError."""
        sql = f"SELECT 1 FROM {qualified(schema, table)} WHERE {condition} LIMIT 1"

        def look(conn: Conn) -> bool:
            _plainly(conn)
            try:
                return bool(query(conn, sql))
            except pymysql.Error as exc:
                if error_number(exc) == _MISSING_TABLE:
                    return False
                raise

        return self._on_connection(look, sql)

    def table(self, schema: str, table: str) -> TableInfo | None:
        """The target's table. Raises DMError."""
        return self._on_connection(lambda conn: fetch_table_info(conn, schema, table), "the structure of a table")


def _settable(conn: Conn, variable: str) -> bool:
    """Whether a session can set the variable: TiDB shows some that are constants there."""
    try:
        query(conn, f"SET SESSION {variable} = @@SESSION.{variable}")
    except pymysql.Error as exc:
        if error_number(exc) == _READ_ONLY_VARIABLE:
            return False
        raise
    return True


def _constraint_kind(conn: Conn, schema: str, table: str, name: str) -> str:
    """The kind of a table's constraint with that name; '' for none."""
    sql = (
        "SELECT CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND CONSTRAINT_NAME = %s"
    )
    rows = query(conn, sql, (schema, table, name))
    return str(rows[0][0]) if rows else ""


def _plainly(conn: Conn) -> None:
    """Resets what an earlier statement's session changed for the parsing and output of SQL, and of defaults in it."""
    plain = "sql_mode = '', foreign_key_checks = 0, character_set_connection = utf8mb4, time_zone = '+00:00'"
    query(conn, f"SET SESSION {plain}")


class StatementFailed(Exception):
    """The target refused a statement with the server's error ``number``; ``error`` is for the operator."""

    def __init__(self, number: int, error: DMError) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error

    @property
    def may_pass_in_parts(self) -> bool:
        """Whether an ALTER TABLE of several parts, none of which ran, can run part by part."""
        if self.number == _UNSUPPORTED_IN_TIDB:
            return any(text in self.error.raw_cause.lower() for text in _SEVERAL_PARTS)
        return self.number == _NO_KEY_COLUMN or self.number in IGNORABLE_ERRORS["alter table"]
