"""Removes keys from tables that a load has just created, and creates them after the rows (:mod:`key_clauses`).

What a table lacks is recorded first, so that a run after any crash creates it. A second source that loads into the
same table creates the keys at its own end if they are missing by then; the first then finds them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.loader.key_clauses import adding, dropping, later_keys, missing
from dm_worker.meta.ddl_fence import TAKEOVER_TIMEOUT, DDLFence
from dm_worker.meta.end_connection import end_connection
from dm_worker.meta.loader_keys import LoaderKeys
from dm_worker.subtask.periodic import Periodic
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify, connect, error_number, error_text
from pkg.mysql.foreign_key_introspect import fetch_foreign_keys
from pkg.mysql.introspect import fetch_table_info, query, server_info, show_create, variable
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger

log = get_logger("loader.keys")

#: Tables whose keys are created at the same time. A server creates the keys of one table one after the other.
_PARALLEL = 4
#: Seconds between two checks for a stop, which ends running statements.
_WATCH_SECONDS = 0.5
_DUPLICATE_NAME = 1061
_NO_RIGHT = frozenset({1044, 1142, 1143, 1227})


def suits(conn: Connection[Any]) -> bool:
    """Whether the target is a MariaDB or MySQL that shows keys as they are. Raises ``pymysql.Error``.

    A Galera cluster executes DDL on all nodes at once, which then execute nothing else.
    """
    if server_info(conn).flavor == "tidb" or (variable(conn, "wsrep_on") or "0") in ("1", "ON"):
        return False
    ((mode,),) = query(conn, "SELECT @@sql_mode")
    return {"ANSI_QUOTES", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS"}.isdisjoint(str(mode).split(","))


def put_off(conn: Connection[Any], cfg: SubTaskConfig, created: Collection[TableId]) -> None:
    """Removes the keys of the empty tables that this run has just created. Raises ``pymysql.Error``.

    Without the right to alter tables, they keep them.
    """
    if not created or not suits(conn):
        return
    parents = {(key.parent[0].lower(), key.parent[1].lower()) for key in fetch_foreign_keys(conn)}
    record = LoaderKeys(cfg)
    for table in created:
        info = fetch_table_info(conn, *table)
        if info is None or (table[0].lower(), table[1].lower()) in parents:
            continue
        keys = later_keys(show_create(conn, *table), info)
        if not keys:
            continue
        record.put(conn, table, keys)
        try:
            conn.query(dropping(qualified(*table), keys))
        except pymysql.Error as exc:
            if error_number(exc) not in _NO_RIGHT:
                raise
            log.warning("the keys of a table are created before its rows", table=table, error=error_text(exc))
        else:
            log.info("the keys of a table are created after its rows", table=table, keys=", ".join(keys))


class KeyBuilding:
    """Creates what the load's tables lack, several tables at once.

    ``session``: the variables of the sessions in which the tables were created. ``ensure_ours`` raises when a later run
    has taken over.
    """

    def __init__(
        self,
        cfg: SubTaskConfig,
        session: Mapping[str, str],
        ensure_ours: Callable[[Connection[Any]], None],
        should_stop: Callable[[], bool],
    ) -> None:
        self._cfg = cfg
        self._session = session
        self._ensure_ours = ensure_ours
        self._should_stop = should_stop
        self._record = LoaderKeys(cfg)
        self._lock = threading.Lock()
        #: The connections that execute a statement now, by table.
        self._running: dict[TableId, int] = {}
        #: The tables that lack keys.
        self._left: set[TableId] = set()

    def step(self) -> str | None:
        """What an operator sees while keys are created; None when there are none to create."""
        with self._lock:
            left, running = len(self._left), len(self._running)
        if not left:
            return None
        waiting = "" if running else ": waiting for a statement of an earlier run"
        return f"creating the keys of {left} {'table' if left == 1 else 'tables'}{waiting}"

    def run(self, targets: Collection[TableId]) -> None:
        """Creates the missing keys of ``targets``. Returns early, without an error, when it is stopped.

        Raises DMError: the first error of a table, after the others have ended.
        """
        with closing(connect(self._cfg.to, scope="downstream")) as conn:
            try:
                lacking = {table: keys for table, keys in self._record.read(conn).items() if table in targets}
            except pymysql.Error as exc:
                raise classify(exc, scope="downstream", statement="reading the keys of the load") from exc
        if not lacking:
            return
        self._left = set(lacking)
        log.info("creating the keys of loaded tables", task=self._cfg.name, tables=len(lacking))
        with Periodic(_WATCH_SECONDS, self._watch), ThreadPoolExecutor(_PARALLEL, "load-keys") as threads:
            work = [threads.submit(self._build, table, keys) for table, keys in lacking.items()]
        failures = [exc for exc in (one.exception() for one in work) if exc is not None]
        if failures and not self._should_stop():
            raise min(failures, key=lambda exc: isinstance(exc, DMError) and exc.retryable)

    def _watch(self) -> None:
        """After a mere disconnection the server would go on with a statement."""
        with self._lock:
            running = list(self._running.values())
        if not running or not self._should_stop():
            return
        with closing(connect(self._cfg.to, scope="downstream", read_timeout=10.0)) as conn:
            for number in running:
                end_connection(conn, number, log, passes_on=lambda _: False)

    def _build(self, table: TableId, keys: dict[str, str]) -> None:
        if self._should_stop():
            return
        what = f"creating the keys of {qualified(*table)}"
        with closing(
            connect(self._cfg.to, scope="downstream", session=self._session, read_timeout=TAKEOVER_TIMEOUT)
        ) as conn:
            try:
                # An earlier run may still be creating them, or be about to begin.
                DDLFence(self._cfg, self._should_stop, table=table).take(conn, self._ensure_ours)
                self._ensure_ours(conn)
                built = self._add(conn, table, keys)
                self._record.remove(conn, table, own=not built)
                with self._lock:
                    self._left.discard(table)
            except pymysql.Error as exc:
                cause = classify(exc, scope="downstream", statement=what)
                raise cause if cause.retryable else self._refused(table, keys, exc) from exc

    def _add(self, conn: Connection[Any], table: TableId, keys: dict[str, str]) -> bool:
        """Returns whether there was a key to create."""
        lacking = self._missing(conn, table, keys)
        while lacking:
            try:
                self._execute(conn, table, adding(qualified(*table), lacking))
                return True
            except pymysql.Error as exc:
                if error_number(exc) != _DUPLICATE_NAME:
                    raise
                # Another source has created them, or some of them.
                before, lacking = lacking, self._missing(conn, table, keys)
                if lacking == before:
                    raise
        return False

    @staticmethod
    def _missing(conn: Connection[Any], table: TableId, keys: dict[str, str]) -> dict[str, str]:
        info = fetch_table_info(conn, *table)
        if info is None:
            log.warning("a loaded table is gone, its keys are not created", table=table)
            return {}
        return missing(keys, info)

    def _execute(self, conn: Connection[Any], table: TableId, sql: str) -> None:
        with self._lock:
            self._running[table] = conn.thread_id()  # type: ignore[no-untyped-call]
        try:
            if self._should_stop():
                raise errors.new(Code.DBExecuteFailed, "stopped before the keys were created", retryable=True)
            conn.query(sql)
        finally:
            with self._lock:
                del self._running[table]

    def _refused(self, table: TableId, keys: Mapping[str, str], exc: pymysql.Error) -> DMError:
        clauses = ", ".join(f"ADD {clause}" for clause in keys.values())
        return errors.new(
            Code.LoadUnitCreateSchemaFile,
            f"the rows of {qualified(*table)} are loaded, but the target refused its keys: {error_text(exc)}",
            raw=error_text(exc),
            scope="downstream",
            workaround="Remove the cause (see the message), then resume the task. Or create the keys by hand under the "
            f"same names, in a form that the target accepts: ALTER TABLE {qualified(*table)} {clauses}; then resume.",
        )
