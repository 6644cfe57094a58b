"""A Spark task's pair of snapshots: the upstreams' and the target's rows at one position of each binlog."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.diff.meeting import ASKED, GIVEN_UP, HELD, OPENED, PLACE_SECONDS, READY, WANTED, PairMeeting
from dm_worker.diff.target_place import TargetPlace
from dm_worker.diff.upstream_snapshot import SNAPSHOT, UpstreamKind, open_upstream_snapshot
from dm_worker.syncer.checkpoint.target_location import Whereabouts
from dm_worker.table_reads.session import open_session
from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code, DMError
from pkg.mysql import driver
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import server_info
from pkg.mysql.names import TableId
from pkg.settings.connections import DBConfig

#: Seconds until a source's worker serves this task: it serves one after the other.
_TURN_SECONDS = 60.0
#: Seconds until the syncer is held or the worker says why not.
_HOLD_SECONDS = PLACE_SECONDS + 5.0
#: The session settings with which statements write exactly the values that were read.
REPAIR_SESSION = {"time_zone": "+00:00", "sql_mode": "NO_AUTO_VALUE_ON_ZERO", "foreign_key_checks": "0"}
#: Begins the transaction of a repair. The session of a task on TiDB is optimistic: it would hold no locks, and lose to
#: each batch that is written before its COMMIT. Other servers read a comment.
REPAIR = "BEGIN /*T! PESSIMISTIC */"
#: Before MySQL 5.7.
_UNKNOWN_VARIABLE = 1193
#: Attempts at a pair before the round ends without one, and seconds after which no other begins: the status shows the
#: reason then.
ATTEMPTS, _ATTEMPTS_SECONDS = 20, 60.0


@dataclass(frozen=True, slots=True)
class PairUpstream:
    """A source of a pair."""

    source_id: str
    server: DBConfig
    kind: UpstreamKind
    place: TargetPlace


@dataclass(frozen=True, slots=True)
class PairServers:
    """The servers of a pair, and the table through which they agree on it. ``upstreams`` are in the order of their ids:
    all tasks ask for them in that order, so that two tasks never wait for each other. ``asker``: the source that
    compares. ``repairs``: the target's session is not a snapshot but a transaction for which replication waits."""

    upstreams: tuple[PairUpstream, ...]
    target: DBConfig
    meeting: str
    asker: str
    repairs: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotPair:
    """Sessions in transactions that see the same position: of the upstreams, in order, and of the target. ``held``: the
    target tables for which rows are held back."""

    upstreams: tuple[Connection[Any], ...]
    target: Connection[Any]
    place: str
    held: frozenset[TableId] = frozenset()
    #: Whether the upstreams' snapshots certainly have all transactions before the positions, and none after them.
    exact: bool = True
    #: The sessions in which a rollback to a savepoint releases a table's metadata lock and keeps the snapshot.
    rewound: tuple[Connection[Any], ...] = ()

    def limit(self, seconds: float) -> None:
        """Sets a time limit for each statement of the upstreams' sessions, where the server has such a limit."""
        for conn in self.upstreams:
            mariadb = server_info(conn).flavor == "mariadb"
            limit = f"max_statement_time = {seconds:.1f}" if mariadb else f"max_execution_time = {seconds * 1000:.0f}"
            try:
                conn.query(f"SET SESSION {limit}")
            except pymysql.Error as exc:
                if error_number(exc) != _UNKNOWN_VARIABLE:
                    raise

    @contextlib.contextmanager
    def short_locks(self) -> Iterator[None]:
        """Releases the metadata locks at the end: DDL on a table waits for one chunk, not for the whole pair."""
        for conn in self.rewound:
            conn.query("SAVEPOINT dm_diff")
        yield
        for conn in self.rewound:
            conn.query("ROLLBACK TO SAVEPOINT dm_diff")


class _NoPair(Exception):
    """The reason why this attempt failed."""


@contextlib.contextmanager
def open_pair(servers: PairServers, slot: int) -> Iterator[SnapshotPair]:
    """A pair until the end of the block. Raises DMError: 43102 (retryable) when no attempt led to one."""
    with contextlib.ExitStack() as sessions:

        def opened(conn: Connection[Any]) -> Connection[Any]:
            # A QUIT could wait behind unread rows.
            sessions.callback(driver.drop, conn)
            return conn

        upstreams = [opened(open_session(upstream.server)) for upstream in servers.upstreams]
        target = opened(_target_session(servers))
        conn = opened(connect(servers.target, scope="downstream", autocommit=True, session={"sql_mode": ""}))
        meetings = [PairMeeting(conn, servers.meeting, upstream.source_id) for upstream in servers.upstreams]
        places, exact = open_pair_in(servers, f"{servers.asker} {slot}", upstreams, target, meetings)
        named = zip(servers.upstreams, places, strict=True)
        place = "; ".join(f"{upstream.source_id} {place}" for upstream, place in named)
        held = frozenset[TableId]().union(*(upstream.place.held(target) for upstream in servers.upstreams))
        keeps = servers.repairs or server_info(target).flavor == "tidb"
        rewound = (*upstreams, *([] if keeps else [target]))
        yield SnapshotPair(tuple(upstreams), target, place, held, exact, rewound)


def _target_session(servers: PairServers) -> Connection[Any]:
    if not servers.repairs:
        return open_session(servers.target, scope="downstream")
    conn = connect(servers.target, scope="downstream", autocommit=False, session=REPAIR_SESSION)
    conn.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    return conn


def open_pair_in(
    servers: PairServers,
    asker: str,
    upstreams: Sequence[Connection[Any]],
    target: Connection[Any],
    meetings: Sequence[PairMeeting],
) -> tuple[list[Location], bool]:
    """Opens the snapshots in these sessions; returns where they are, and whether certainly. Raises as
    :func:`open_pair`."""
    return _PairOpening(servers, asker, upstreams, target, meetings).agreed()


class _PairOpening:
    """The task's part of the steps in :mod:`meeting`, for all of its sources."""

    def __init__(
        self,
        servers: PairServers,
        asker: str,
        upstreams: Sequence[Connection[Any]],
        target: Connection[Any],
        meetings: Sequence[PairMeeting],
    ) -> None:
        self._servers = servers
        self._asker = asker
        self._upstreams = upstreams
        self._target = target
        self._meetings = meetings

    def agreed(self) -> tuple[list[Location], bool]:
        """The locations of the snapshots of all upstreams, where the target's snapshot is exactly too, and whether the
        upstreams' are certainly there."""
        attempts, end = 0, time.monotonic() + _ATTEMPTS_SECONDS
        try:
            while True:
                attempts += 1
                try:
                    return self._attempt()
                except _NoPair as exc:
                    self._give_up()
                    if attempts == ATTEMPTS or time.monotonic() > end:
                        raise no_pair(str(exc)) from None
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream", statement=SNAPSHOT) from exc

    def _attempt(self) -> tuple[list[Location], bool]:
        for upstream, meeting in zip(self._servers.upstreams, self._meetings, strict=True):
            meeting.want(self._asker)
            ready = meeting.await_other(self._asker, WANTED, _TURN_SECONDS)
            if ready is None or ready.step != READY:
                why = "its worker does not answer" if ready is None else ready.reason
                raise _NoPair(f"source {upstream.source_id}: {why}")
        places = [
            open_upstream_snapshot(conn, upstream.kind, lambda server=upstream.server: open_session(server))  # type: ignore[misc]
            for conn, upstream in zip(self._upstreams, self._servers.upstreams, strict=True)
        ]
        for place, meeting, upstream in zip(places, self._meetings, self._servers.upstreams, strict=True):
            if not meeting.move(self._asker, READY, ASKED, place=place):
                raise _NoPair(f"source {upstream.source_id}: its worker did not wait for the snapshot")
        for meeting, upstream in zip(self._meetings, self._servers.upstreams, strict=True):
            held = meeting.await_other(self._asker, ASKED, _HOLD_SECONDS)
            if held is None or held.step != HELD:
                why = "replication was not held in time" if held is None else held.reason
                raise _NoPair(f"source {upstream.source_id}: {why}")
        self._open_target()
        exact = True
        for place, upstream in zip(places, self._servers.upstreams, strict=True):
            found = upstream.place.look(self._target, place)
            if found.where is not Whereabouts.EXACT:
                raise _NoPair(f"source {upstream.source_id}: {found.reason}")
            exact = exact and is_certain(upstream.kind, place, found.checkpoint)
        if self._servers.repairs and not exact:
            raise _NoPair("a transaction of an upstream is being committed")
        for meeting in self._meetings:
            meeting.move(self._asker, HELD, OPENED)
        return places, exact

    def _open_target(self) -> None:
        if not self._servers.repairs:
            self._target.query(SNAPSHOT)
            return
        self._target.query(REPAIR)
        # The first read that is not for update opens the transaction's snapshot: after the last batch.
        for upstream in self._servers.upstreams:
            if not upstream.place.lock(self._target):
                raise _NoPair(f"source {upstream.source_id}: a batch was written while the snapshots were opened")

    def _give_up(self) -> None:
        """After an attempt without a pair: no worker waits, no snapshot stays open."""
        for meeting in self._meetings:
            for step in (WANTED, READY, ASKED, HELD):
                meeting.move(self._asker, step, GIVEN_UP)
        for conn in (*self._upstreams, self._target):
            conn.query("ROLLBACK")


def is_certain(kind: UpstreamKind, place: Location, checkpoint: Location | None) -> bool:
    """Whether a snapshot has exactly the transactions before its position.

    A MySQL writes a transaction into the binlog, then makes it visible, then adds it to the executed GTIDs: if the
    binlog's end is the checkpoint by position and by GTIDs, no transaction is between these steps.
    """
    if kind.flavor == "mariadb" or kind.lock:
        return True
    if checkpoint is None or not (place.gtid_set and checkpoint.gtid_set):
        return False
    return checkpoint.position == place.position


def no_pair(reason: str) -> DMError:
    return errors.new(
        Code.DiffNoPair,
        f"there is no snapshot of both sides at one position: {reason}",
        workaround="It is tried again automatically. See `query-status` for what the task waits for.",
        retryable=True,
    )
