"""A snapshot of the upstream whose binlog position is known exactly, without holding a lock.

MariaDB reports the position of a consistent snapshot itself. Another server is asked for its position before and after
the snapshot opens: if both are equal, no transaction was committed between them, so that position is the snapshot's. A
transaction may be committed in the binlog and not yet be visible: with GTIDs the syncer's own set at that position
shows it; without them a short global lock (``lock``) excludes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify
from pkg.mysql.introspect import query

SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
#: Attempts to open a snapshot at one position while others commit. Each takes a few milliseconds.
ATTEMPTS = 200
#: The most seconds to wait for the short global lock; all writers queue after it.
_LOCK_WAIT = 2


@dataclass(frozen=True, slots=True)
class UpstreamKind:
    """The settings that decide how the position of a snapshot is found."""

    flavor: str
    lock: bool


def open_upstream_snapshot(
    conn: Connection[Any], kind: UpstreamKind, open_lock_session: Callable[[], Connection[Any]]
) -> Location:
    """Opens a snapshot in ``conn`` and returns its exact position. Raises DMError."""
    try:
        if kind.lock:
            return _under_lock(conn, kind, open_lock_session)
        if kind.flavor == "mariadb":
            found = _of_mariadb(conn)
            if found is not None:
                return found
        return _between_commits(conn, kind)
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream", statement=SNAPSHOT) from exc


def _of_mariadb(conn: Connection[Any]) -> Location | None:
    conn.query(SNAPSHOT)
    rows = query(conn, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = {str(name).lower(): str(value) for name, value in rows}
    name, offset = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "")
    if not name or not offset:
        conn.query("ROLLBACK")
        return None
    gtid = query(conn, "SELECT BINLOG_GTID_POS(%s, %s)", (name, int(offset)))[0][0]
    return Location(Position(name, int(offset)), "" if gtid is None else str(gtid))


def _between_commits(conn: Connection[Any], kind: UpstreamKind) -> Location:
    for _ in range(ATTEMPTS):
        before = _end(conn, kind.flavor)
        conn.query(SNAPSHOT)
        if _end(conn, kind.flavor) == before:
            return before
        conn.query("ROLLBACK")
    raise errors.new(
        Code.DiffSnapshot,
        f"the upstream commits so often that {ATTEMPTS} snapshots had no exact position",
        scope="upstream",
        workaround="Start the comparison with --lock: each snapshot then takes the global lock for some milliseconds.",
        retryable=True,
    )


def _under_lock(
    conn: Connection[Any], kind: UpstreamKind, open_lock_session: Callable[[], Connection[Any]]
) -> Location:
    locking = open_lock_session()
    try:
        query(locking, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT}")
        query(locking, "FLUSH TABLES WITH READ LOCK")
        conn.query(SNAPSHOT)
        return _end(locking, kind.flavor)
    finally:
        locking.close()  # closing the session releases the lock


def _end(conn: Connection[Any], flavor: str) -> Location:
    location = master_status(conn, flavor)
    if location is None:
        raise no_binlog()
    return location


def no_binlog() -> DMError:
    return errors.new(
        Code.DiffSnapshot,
        "the upstream writes no binlog, so a snapshot of it has no position",
        scope="upstream",
        workaround="Turn on log_bin on the upstream, or compare without a task.",
    )
