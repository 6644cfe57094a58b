"""How a task reaches the target: connections that write, kept for the next batch, and what their servers can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.execution.row_statements import StatementForm
from pkg import errors
from pkg.config.target_session import writing_session
from pkg.errors import Code
from pkg.mysql.bulk import PreparedStatement, takes_bulk
from pkg.mysql.connection import classify, connect, is_alive
from pkg.mysql.driver import break_off
from pkg.mysql.introspect import query
from pkg.settings.connections import DBConfig

#: Settings with which all data is stored exactly; the task's own session settings come after them.
SESSION = {
    "time_zone": "+00:00",
    "sql_mode": "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION",
    "foreign_key_checks": "0",
}
#: Idle connections are checked before use after this many seconds.
REST = 10.0
#: After a connection with several pending statements was lost, its address gets one statement at a time for this many
#: seconds: some proxies don't support more.
ALONE = 60.0
#: Seconds for which a process caches what it knows of a table's triggers.
TRUST = 60.0
#: Seconds for which no rows are loaded into a table that did not store them exactly.
UNLOADABLE = 600.0
#: Prepared statements cached per connection. Servers allow 16382 by default, over all connections.
MOST_PREPARED = 64
#: Whether an optimistic transaction of TiDB checks duplicate keys in its statements instead of at its COMMIT.
CHECKS_IN_PLACE = "tidb_constraint_check_in_place"
_VARIABLES = (
    "log_bin",
    "binlog_format",
    "max_allowed_packet",
    "local_infile",
    "wsrep_on",
    "version",
    "innodb_autoinc_lock_mode",
    "tidb_txn_mode",
    CHECKS_IN_PLACE,
)
#: Whether a table has triggers that this user sees, and whether it would see them. Grants by a role don't count here.
_OWN_TRIGGER = "PRIVILEGE_TYPE = 'TRIGGER' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')"
_TRIGGERS = (
    "SELECT EXISTS (SELECT 1 FROM information_schema.TRIGGERS"
    " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s),"
    f" EXISTS (SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE {_OWN_TRIGGER})"
    f" OR EXISTS (SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES WHERE {_OWN_TRIGGER} AND %s LIKE TABLE_SCHEMA)"
    f" OR EXISTS (SELECT 1 FROM information_schema.TABLE_PRIVILEGES WHERE {_OWN_TRIGGER} AND TABLE_SCHEMA = %s"
    " AND TABLE_NAME = %s)"
)

TargetAddress = tuple[DBConfig, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class TargetWriter:
    """A connection. ``most_bytes``: the server's limit for a statement. ``loads``: LOAD DATA LOCAL is possible and
    transactional. ``loads_side_by_side``: loads into one AUTO_INCREMENT table do not block each other.
    ``bulk``: the server supports bulk execution. ``checks_late``: duplicate keys are an error of the COMMIT.
    ``reused``: opened for an earlier transaction, so the settings may have changed since.
    """

    conn: Connection[Any]
    most_bytes: int
    loads: bool
    loads_side_by_side: bool
    bulk: bool = False
    checks_late: bool = False
    reused: bool = False
    _prepared: dict[bytes, PreparedStatement] = field(default_factory=dict)

    @contextmanager
    def checking_in_place(self) -> Iterator[None]:
        """Within it, a statement that causes a duplicate key fails itself. Raises the driver's exceptions."""
        if not self.checks_late:
            yield
            return
        query(self.conn, f"SET SESSION {CHECKS_IN_PLACE} = ON")
        yield
        query(self.conn, f"SET SESSION {CHECKS_IN_PLACE} = OFF")

    def prepare(self, text: bytes, columns: int) -> PreparedStatement:
        """A statement for bulk executions, cached with the connection. No answers may be pending.

        Raises the driver's exceptions.
        """
        found = self._prepared.pop(text, None)
        if found is None:
            while len(self._prepared) >= MOST_PREPARED:
                self._prepared.pop(next(iter(self._prepared))).close()
            found = PreparedStatement(self.conn, text, columns)
        self._prepared[text] = found
        return found


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """How a task reaches the target: ``markers`` and ``batches`` are the quoted names of the protocol's tables."""

    config: DBConfig
    session: tuple[tuple[str, str], ...]
    markers: str
    batches: str
    form: StatementForm

    @property
    def address(self) -> TargetAddress:
        return self.config, self.session


class WriterPool:
    """Writers by target, and the known facts about targets and tables: one pool in each process of Spark's tasks, and
    one in the driver for each run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: After the end no writer is given out.
        self.has_ended = False
        self._busy: list[TargetWriter] = []
        self._idle: dict[TargetAddress, list[tuple[TargetWriter, float]]] = {}
        self._alone: dict[TargetAddress, float] = {}
        self._triggers: dict[tuple[TargetAddress, tuple[str, str]], tuple[bool, float]] = {}
        self._unloadable: dict[tuple[TargetAddress, tuple[str, str]], float] = {}

    @contextmanager
    def writer(self, address: TargetAddress) -> Iterator[TargetWriter]:
        """A writer for one transaction; closed when that raises. Raises DMError."""
        writer = self._take(address)
        with self._using(writer):
            yield writer
        writer.reused = True
        with self._lock:
            if not self.has_ended:
                self._idle.setdefault(address, []).append((writer, time.monotonic()))
                return
        writer.conn.close()

    @contextmanager
    def _using(self, writer: TargetWriter) -> Iterator[None]:
        """Within it, :meth:`end` breaks the writer's connection off. Raises DMError after the end."""
        try:
            with self._lock:
                self._ensure_open()
                self._busy.append(writer)
            try:
                yield
            finally:
                with self._lock:
                    self._busy = [one for one in self._busy if one is not writer]
        except BaseException:
            # In an unknown state, or lost: the server rolls back the open transaction.
            writer.conn.close() if writer.conn.open else None
            raise

    def _ensure_open(self) -> None:
        if self.has_ended:
            raise errors.new(
                Code.DBBadConn,
                "the batch is canceled: it gets no connection to the target",
                scope="downstream",
                retryable=True,
            )

    def end(self) -> None:
        """Closes idle writers and breaks off those in use: their users get a lost connection. From any thread; may be
        called again."""
        with self._lock:
            self.has_ended = True
            idle, self._idle = [writer for found in self._idle.values() for writer, _ in found], {}
            for writer in self._busy:
                break_off(writer.conn)
        for writer in idle:
            writer.conn.close() if writer.conn.open else None

    def _take(self, address: TargetAddress) -> TargetWriter:
        while True:
            with self._lock:
                self._ensure_open()
                idle = self._idle.get(address)
                found = idle.pop() if idle else None
            if found is None:
                return open_writer(address[0], dict(address[1]))
            writer, since = found
            if time.monotonic() - since < REST or is_alive(writer.conn):
                return writer

    def forget(self, address: TargetAddress) -> None:
        """Closes the idle writers: the next ones read the server's current settings."""
        with self._lock:
            idle = self._idle.pop(address, [])
        for writer, _ in idle:
            writer.conn.close() if writer.conn.open else None

    def lost_ahead(self, address: TargetAddress) -> None:
        """Records that a connection was lost while several statements were pending."""
        self._alone[address] = time.monotonic() + ALONE

    def may_send_ahead(self, address: TargetAddress) -> bool:
        return time.monotonic() >= self._alone.get(address, 0.0)

    def refuse_loads(self, address: TargetAddress, table: tuple[str, str]) -> None:
        """Records that rows of this table did not load exactly: for a time they are inserted."""
        self._unloadable[address, table] = time.monotonic() + UNLOADABLE

    def may_load(self, address: TargetAddress, table: tuple[str, str]) -> bool:
        return time.monotonic() >= self._unloadable.get((address, table), 0.0)

    def has_triggers(self, address: TargetAddress, conn: Connection[Any], table: tuple[str, str]) -> bool:
        """Whether the table has triggers, or may have some: a user without the TRIGGER privilege sees none.

        Raises pymysql.Error. ``conn`` must have no pending answers.
        """
        known, until = self._triggers.get((address, table), (True, 0.0))
        if time.monotonic() < until:
            return known
        ((seen, sees),) = query(conn, _TRIGGERS, (*table, table[0], *table))
        found = bool(seen) or not sees
        self._triggers[address, table] = found, time.monotonic() + TRUST
        return found


def open_writer(config: DBConfig, session: Mapping[str, str]) -> TargetWriter:
    """Opens a writer's connection. Raises DMError."""
    conn = connect(
        config,
        scope="downstream",
        autocommit=False,
        session=writing_session(SESSION, session),
        local_data=True,
        bulk=True,
    )
    try:
        names = ", ".join(f"'{name}'" for name in _VARIABLES)
        rows = query(conn, f"SHOW VARIABLES WHERE Variable_name IN ({names})")
        found = {str(name).lower(): str(value) for name, value in rows}
        if found.get("log_bin") != "ON" or found.get("binlog_format", "").upper() != "STATEMENT":
            # Without gap locks, writers of adjacent keys don't deadlock.
            query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        conn.commit()
    except (pymysql.Error, OSError) as exc:
        raise classify(exc, scope="downstream", statement="SET SESSION TRANSACTION …") from exc
    most_bytes = int(found.get("max_allowed_packet", 0)) or config.max_allowed_packet
    # In the other modes InnoDB locks the table for a load, whether or not the rows contain their numbers.
    side_by_side = found.get("innodb_autoinc_lock_mode") == "2"
    return TargetWriter(conn, most_bytes, loads(found), side_by_side, takes_bulk(found), checks_late(found))


def checks_late(variables: Mapping[str, str]) -> bool:
    """Whether a session with these variables checks duplicate keys only at its COMMIT."""
    return variables.get("tidb_txn_mode") == "optimistic" and variables.get(CHECKS_IN_PLACE) == "OFF"


def loads(variables: Mapping[str, str]) -> bool:
    """Whether a server with these variables executes LOAD DATA LOCAL as part of the transaction, exactly.

    A Galera node may commit a load in pieces, as TiDB did; a statement-based binlog would contain the load as a file.
    """
    return (
        variables.get("local_infile") == "ON"
        and "tidb" not in variables.get("version", "").lower()
        and variables.get("wsrep_on", "OFF") != "ON"
        and (variables.get("log_bin") != "ON" or variables.get("binlog_format", "").upper() == "ROW")
    )
