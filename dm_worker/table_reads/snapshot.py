"""One consistent snapshot over several sessions. The tasks that open it share only the upstream.

The tasks synchronize by user-level locks of the upstream, which every MySQL and MariaDB has and which end with their
session, so that no task waits for a dead one. A session holds one such lock at a time (MySQL 5.6 releases the previous
one). Task number 0 is the leader::

    leader session: holds "lead" throughout      members: hold "ready-i"
    lock session:   FLUSH TABLES WITH READ LOCK, reads the position, holds "locked"
                                                  members see "locked", open their snapshot, hold "open-i"
    leader:         sees all "open-i", unlocks
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg import errors
from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import master_status
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify, error_number, shortened
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Seconds between two checks of a lock; the upstream's global lock is held for a few of these.
_POLL = 0.001
#: Seconds until all tasks must have connected, and how long members may take to open a snapshot under the lock.
_GATHER_TIMEOUT = 120.0
_OPEN_TIMEOUT = 10.0
#: Timeout in seconds of one attempt at the lock; meanwhile all writes to the upstream wait for it. When writers queue
#: for one row, the first may wait for the lock, which waits for the others: only a new attempt helps.
_LOCK_WAIT = 2
_LOCK_TRIES = 5
_LOCK_PAUSE = 0.3
#: Lock wait timeout, deadlock: caused by writers.
_BUSY = frozenset({1205, 1213})
_DENIED = frozenset({1044, 1045, 1142, 1227, 1289, 1290})
_PRIVILEGE_NEEDED = 1227
_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


@dataclass(frozen=True, slots=True)
class SnapshotRendezvous:
    """The tasks of one snapshot: ``token`` is unique to this attempt, ``count`` the number of tasks.

    ``needs_position``: replication will continue from the snapshot's binlog position.
    """

    token: str
    count: int
    consistency: str
    flavor: str
    tables: tuple[tuple[str, str], ...]
    needs_position: bool = True

    def name(self, word: str) -> str:
        return f"dm.{self.token}.{word}"


@dataclass(frozen=True, slots=True)
class DumpSnapshot:
    """The snapshot's location. ``waited`` and ``held``: seconds until the lock was taken, and until it was released.

    ``exit_location`` is set when no lock was taken: the rows are from between the two locations.
    """

    location: Location | None
    exit_location: Location | None
    consistency: str
    waited: float
    held: float


def join_snapshot(
    conn: Connection[Any], rendezvous: SnapshotRendezvous, index: int, should_stop: Callable[[], bool]
) -> None:
    """Opens a member's snapshot at the time that the leader sets. Raises DMError 32001 when the leader is gone."""
    _take(conn, rendezvous.name(f"ready-{index}"))
    deadline = time.monotonic() + _GATHER_TIMEOUT
    seen = False
    while True:
        locked, lead = _held(conn, [rendezvous.name("locked"), rendezvous.name("lead")])
        if locked:
            break
        seen = seen or lead
        _check(seen and not lead, deadline, should_stop, "the task that takes the lock has ended")
        time.sleep(_POLL)
    _execute(conn, _SNAPSHOT)
    _take(conn, rendezvous.name(f"open-{index}"))


def lead_snapshot(
    conn: Connection[Any],
    open_lock_session: Callable[[], Connection[Any]],
    rendezvous: SnapshotRendezvous,
    should_stop: Callable[[], bool],
) -> DumpSnapshot:
    """Creates the snapshot of all tasks; ``conn`` becomes the leader's part of it.

    Raises DMError 32004 when the lock is refused or unavailable, 32001 when a member is gone.
    """
    _take(conn, rendezvous.name("lead"))
    members = range(1, rendezvous.count)
    _wait_all(conn, rendezvous, [f"ready-{i}" for i in members], _GATHER_TIMEOUT, should_stop)
    flavor, needed = rendezvous.flavor, rendezvous.needs_position
    lock_session = open_lock_session()
    try:
        begun = time.monotonic()
        consistency = _lock(lock_session, rendezvous)
        locked = time.monotonic()
        location = end_of_binlog(lock_session, flavor, needed=needed)
        _take(lock_session, rendezvous.name("locked"))
        _execute(conn, _SNAPSHOT)
        _wait_all(conn, rendezvous, [f"open-{i}" for i in members], _OPEN_TIMEOUT, should_stop)
        exit_location = end_of_binlog(lock_session, flavor, needed=needed) if consistency == "none" else None
        _execute(lock_session, "UNLOCK TABLES")
        held = time.monotonic() - locked if consistency != "none" else 0.0
    finally:
        lock_session.close()  # always: the lock must not be held longer than needed
    return DumpSnapshot(location, exit_location, consistency, locked - begun, held)


def end_of_binlog(conn: Connection[Any], flavor: str, *, needed: bool) -> Location | None:
    """The end of the binlog; None if there is none, or the user lacks the privilege and it is not ``needed``."""
    try:
        return master_status(conn, flavor)
    except pymysql.Error as exc:
        if needed or error_number(exc) != _PRIVILEGE_NEEDED:
            raise classify(exc, scope="upstream", statement="SHOW MASTER STATUS") from exc
    return None


def _lock(conn: Connection[Any], rendezvous: SnapshotRendezvous) -> str:
    """Takes the lock for ``consistency``; returns its name."""
    _execute(conn, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT}, innodb_lock_wait_timeout = {_LOCK_WAIT}")
    wanted = ["flush", "lock"] if rendezvous.consistency == "auto" else [rendezvous.consistency]
    statements = {
        "flush": "FLUSH TABLES WITH READ LOCK",
        "lock": "LOCK TABLES " + ", ".join(f"{qualified(*table)} READ" for table in rendezvous.tables),
        "none": "",
    }
    for choice in wanted:
        statement = statements[choice]
        if choice == "none" or (choice == "lock" and not rendezvous.tables):
            return choice
        if choice == "lock":
            # Up to MySQL 5.6 only InnoDB's own table lock waits for transactions that have written already, and
            # autocommit would not take it: a transaction could still commit after the recorded position.
            _execute(conn, "SET SESSION autocommit = 0, innodb_table_locks = 1")
        try:
            _try_lock(conn, statement)
        except pymysql.Error as exc:
            if choice != wanted[-1] and error_number(exc) in _DENIED | _BUSY:
                log.warning(
                    "this statement did not get the lock; trying the next one", statement=statement[:60], error=str(exc)
                )
                continue
            raise _no_lock(exc, statement) from exc
        return choice
    raise AssertionError("the last choice returns or raises")


def _try_lock(conn: Connection[Any], statement: str) -> None:
    for attempt in range(1, _LOCK_TRIES + 1):
        try:
            conn.query(statement)
            return
        except pymysql.Error as exc:
            if error_number(exc) not in _BUSY or attempt == _LOCK_TRIES:
                raise
        time.sleep(_LOCK_PAUSE)


def _no_lock(exc: pymysql.Error, statement: str) -> DMError:
    cause = classify(exc, scope="upstream", statement=statement)
    if cause.kind is not Code.DBExecuteFailed:
        return cause
    return errors.new(
        Code.DumpUnitGlobalLock,
        f"the upstream did not grant the lock for a consistent dump: {cause.message}",
        # Scripts search for the statement and the server's answer in one text.
        raw=f"{shortened(statement)}: {cause.raw_cause}",
        scope="upstream",
        workaround="Grant RELOAD (for FLUSH TABLES WITH READ LOCK) or LOCK TABLES. If long statements block the lock, "
        "wait until they end. Or choose another method with `--consistency` in extra-args of mydumpers. "
        "Then resume the task.",
        retryable=cause.retryable,
    )


def _wait_all(
    conn: Connection[Any],
    rendezvous: SnapshotRendezvous,
    words: list[str],
    timeout: float,
    should_stop: Callable[[], bool],
) -> None:
    names = [rendezvous.name(word) for word in words]
    deadline = time.monotonic() + timeout
    while names and not all(_held(conn, names)):
        _check(False, deadline, should_stop, "not all tasks reached the snapshot in time")
        time.sleep(_POLL)


def _check(gone: bool, deadline: float, should_stop: Callable[[], bool], why: str) -> None:
    if gone or time.monotonic() > deadline or should_stop():
        raise errors.new(
            Code.DumpUnitRuntime,
            f"the dump's tasks could not open one snapshot together: {why}",
            workaround="Resume the task. If it happens again, check the upstream for killed connections.",
            retryable=True,
        )


def _take(conn: Connection[Any], name: str) -> None:
    taken = _query(conn, f"SELECT GET_LOCK('{name}', 10)")[0][0]
    if taken != 1:
        raise errors.new(Code.DumpUnitRuntime, f"user-level lock {name} is held by another connection", retryable=True)


def _held(conn: Connection[Any], names: list[str]) -> list[bool]:
    row = _query(conn, "SELECT " + ", ".join(f"IS_USED_LOCK('{name}')" for name in names))[0]
    return [holder is not None for holder in row]


def _query(conn: Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    try:
        return query(conn, sql)
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream", statement=sql) from exc


def _execute(conn: Connection[Any], sql: str) -> None:
    try:
        conn.query(sql)
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream", statement=sql) from exc
