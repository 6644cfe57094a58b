"""What query-status and the log show of a syncer: positions, lag, rates. A status never waits for a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dm_worker.subtask.rate import Rate
from dm_worker.syncer.figures.lag_reason import LONG_WAIT, LagFacts, lag_reason
from dm_worker.syncer.figures.stream_lag import StreamWatch
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.shard_ddl.group_status import NO_GROUPS, GroupStatus, ShardingStatus
from dm_worker.syncer.unit.target_look import TargetLook
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, Position, bytes_between
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread
from pkg.status.lag import STOPPED, UNKNOWN, StreamLag

log = get_logger("syncer.status")

#: Seconds between queries for the end of the upstream's binlog, and between log lines about progress.
INTERVAL, LOG_INTERVAL = 1.0, 30.0
#: Seconds until a stopped monitor cancels its running query.
STOP_TIMEOUT = 5.0
CLOCK_INTERVAL = 600.0


@dataclass(slots=True)
class RunSnapshot:
    """What the running parts report. ``flushed``: the checkpoint; ``needed``: the same, but before a DDL of merged
    shards while that waits. ``oldest_commit``: upstream time of the oldest transaction that was read and is not
    applied; ``newest``: of the newest event that was read; ``read``: its end.
    ``batch_bytes``: bytes of rows events in the last batch. ``local``: the binlog is read from the relay log.
    ``sharding``: unsettled DDL of merged shards. ``taken_over``: what DM left. ``target_ddl``: what the target
    executes, and its progress. ``received``: bytes of the binlog stream that the upstream sent, over all runs."""

    rows: int = 0
    flushed: Location | None = None
    needed: Location | None = None
    oldest_commit: int = 0
    newest: int = 0
    read: Position | None = None
    received: int = 0
    batch_bytes: int = 0
    local: bool = False
    sharding: ShardingStatus = NO_GROUPS
    taken_over: str = ""
    target_ddl: str = ""


def _group(status: GroupStatus) -> pb.ShardingGroup:
    return pb.ShardingGroup(
        target=status.target,
        DDLs=status.ddls,
        firstLocation=status.first_location,
        synced=status.synced,
        unsynced=status.unsynced,
        heldRows=status.held_rows,
        waitingDDLs=status.waiting,
        rereading=status.rereading,
    )


class Monitor:
    """Watches a run from its own thread."""

    def __init__(
        self,
        server: ServerLookup,
        flavor: str,
        look: Callable[[], RunSnapshot],
        *,
        by_gtid: bool,
        target: TargetLook,
        figures: SyncFigures | None = None,
    ) -> None:
        """``figures`` receive the lag and its reason at every check; ``target`` is queried for a possible reason."""
        self._target = target
        self._figures = figures or SyncFigures()
        self._server = server
        self._flavor = flavor
        self._look = look
        self._by_gtid = by_gtid
        self._master: Location | None = None
        #: The upstream's time when its end was queried, and the end.
        self._end_seen: tuple[float, Location | None] = (0.0, None)
        self._clock_offset = 0.0
        self._clock_at = 0.0
        self._recent = Rate(5.0)
        #: Bytes behind the upstream, None while unknown; the rate of their decrease; the sizes of closed binlog files.
        self._behind: int | None = None
        self._nearing = Rate(LOG_INTERVAL)
        self._sizes: dict[str, int] = {}
        self._stream = StreamWatch()
        #: When the checkpoint last moved, or was at the upstream's end.
        self._at_end = time.monotonic()
        self._seen: Location | None = None
        self._logged_rows = 0
        self._began = time.monotonic()
        self._logged = self._began
        self._end = threading.Event()
        self._thread = ServiceThread("syncer-monitor", self._main, self._end)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        while not self._thread.join(STOP_TIMEOUT):
            log.warning("the monitor is still querying a server: cancelling the query")
            self._server.interrupt()
            self._target.interrupt()
        self._server.close()
        self._target.close()

    def _main(self) -> None:
        while not self._end.is_set():
            self._tick()
            self._end.wait(INTERVAL)

    def _tick(self) -> None:
        now = time.monotonic()
        snapshot = self._look()
        self._recent.sample(now, snapshot.rows)
        self._sample(now, snapshot)
        at_end: bool | None = None
        asked = self._upstream_time()
        try:
            self._master = self._server.end_of_binlog(self._flavor)
            self._end_seen = (asked if self._clock_at else 0.0, self._master)
            at_end = self._is_at_end(self._master, snapshot.flushed)
            if not self._clock_at or now - self._clock_at > CLOCK_INTERVAL:
                self._clock_offset, self._clock_at = self._server.now() - time.time(), now
            self._measure(now, asked, snapshot)
        except DMError as exc:
            self._stream.missed()
            log.debug("cannot get the end of the upstream's binlog", error=str(exc))
        held = bool(snapshot.sharding.unresolved)
        self._figures.lag_watch.look(
            asked, oldest=snapshot.oldest_commit, newest=snapshot.newest, at_end=at_end, held=held
        )
        if now - self._logged >= LOG_INTERVAL:
            self._logged = now
            self._log()

    def _sample(self, now: float, snapshot: RunSnapshot) -> None:
        if not self._behind or snapshot.flushed != self._seen:
            self._at_end, self._seen = now, snapshot.flushed
        figures, lag, behind = self._figures, self._lag(snapshot), self._behind
        applying = figures.applying
        reading = figures.reading
        facts = LagFacts(
            applying.clock.stage,
            reading.clock.stage,
            main_for=applying.clock.seconds,
            reader_for=reading.clock.seconds,
            retrying=applying.retrying,
            locked=any(not one.rereading for one in snapshot.sharding.unresolved),
            lag=lag if snapshot.oldest_commit else 0,
            unread=now - self._at_end >= LONG_WAIT,
            job=applying.recent_job,
            shares=tuple(applying.recent_shares.items()),
        )
        if lag != UNKNOWN:
            figures.lag.add(lag)
        if facts.may_wait_for_target:
            facts = replace(facts, target=self._target.state())
        figures.reason = lag_reason(facts)
        rate = self._nearing.per_second
        figures.remaining = 0.0 if behind == 0 else behind / rate if behind and rate else None
        figures.sample()

    def _measure(self, now: float, asked: float, snapshot: RunSnapshot) -> None:
        """Measures how far the run, and its reader, are behind. Raises DMError."""
        flushed, end = snapshot.flushed, self._master.position if self._master else None
        if flushed is None or end is None:
            return
        self._behind = self._bytes_to(end, flushed.position)
        if self._behind is not None:
            self._nearing.sample(now, -self._behind)
        # What is applied is read.
        unread = self._bytes_to(end, snapshot.read) if snapshot.read and self._behind else self._behind
        self._stream.look(asked, newest=snapshot.newest, unread=unread)

    def _bytes_to(self, end: Position, here: Position) -> int | None:
        if here.name != end.name and not {here.name, end.name} <= self._sizes.keys():
            self._sizes = self._server.binlog_files()
        return bytes_between(here, end, self._sizes)

    def _log(self) -> None:
        status, behind = self.status(), self._behind
        if status.totalRows == self._logged_rows and not behind:
            return
        self._logged_rows = status.totalRows
        log.info(
            "sync progress",
            rows=status.totalRows,
            rows_per_second=status.recentRps,
            lag_seconds=status.secondsBehindMaster,
            bytes_behind="unknown" if behind is None else behind,
            eta="unknown" if behind is None else self._nearing.eta(behind) if behind else "0s",
            batch_bytes=self._look().batch_bytes,
            position=status.syncerBinlog,
            upstream=status.masterBinlog,
        )

    def end_after(self, moment: float) -> Location | None:
        """The end of the upstream's binlog if it was queried after ``moment`` (unix seconds) of the upstream."""
        asked, end = self._end_seen
        # Events have whole seconds.
        return end if asked > moment + 1 else None

    def _upstream_time(self) -> float:
        return time.time() + self._clock_offset

    def _lag(self, snapshot: RunSnapshot) -> int:
        """Seconds since the oldest change that is not applied was committed upstream; 0 when all is applied."""
        return self._figures.lag_watch.seconds(self._upstream_time(), snapshot.oldest_commit)

    def _bytes_behind(self) -> int:
        """The last measured bytes; UNKNOWN while the upstream may have written more."""
        known = not self._end.is_set() and self._stream.answers(self._upstream_time())
        return self._behind if self._behind is not None and known else UNKNOWN

    def _stream_lag(self, snapshot: RunSnapshot) -> StreamLag:
        if self._end.is_set():
            # What is not applied is to be read again.
            return StreamLag(self._lag(snapshot), UNKNOWN, STOPPED)
        stage = self._figures.reading.clock.stage
        return self._stream.lag(self._upstream_time(), stage, local=snapshot.local)

    def status(self) -> pb.SyncStatus:
        snapshot = self._look()
        rows = snapshot.rows
        total = int(rows / max(time.monotonic() - self._began, 1e-3))
        recent = self._recent.per_second
        master, flushed = self._master, snapshot.flushed
        # Held rows are not applied, regardless of the checkpoint.
        synced = not snapshot.sharding.unresolved and self._is_at_end(master, flushed)
        up_to_date = synced and not snapshot.oldest_commit and not self._end.is_set()
        behind, stream = self._bytes_behind(), self._stream_lag(snapshot)
        shown = snapshot.needed or flushed
        return pb.SyncStatus(
            totalEvents=rows,
            totalTps=total,
            recentTps=recent,
            totalRows=rows,
            totalRps=total,
            recentRps=recent,
            masterBinlog=str(master.position) if master else "",
            masterBinlogGtid=master.gtid_set if master else "",
            # As in DM, the position stays before a DDL that waits for its shards.
            syncerBinlog=str(shown.position) if shown else "",
            syncerBinlogGtid=shown.gtid_set if shown else "",
            synced=synced,
            blockingDDLs=snapshot.sharding.blocking_ddls,
            unresolvedGroups=[_group(one) for one in snapshot.sharding.unresolved],
            binlogType="local" if snapshot.local else "remote",
            secondsBehindMaster=0 if up_to_date else self._lag(snapshot),
            ioTotalBytes=snapshot.received,
            takenOver=snapshot.taken_over,
            targetDDL=snapshot.target_ddl,
            lagReason=self._figures.reason,
            bytesBehind=behind,
            eta=self._nearing.eta(behind) if behind > 0 else "0s" if behind == 0 else "unknown",
            streamSecondsBehind=stream.seconds,
            streamBytesBehind=stream.unread,
            streamLagReason=stream.reason,
        )

    def _is_at_end(self, master: Location | None, flushed: Location | None) -> bool:
        if master is None or flushed is None:
            return False
        if self._by_gtid:
            # Servers list GTID domains and sources in their own order.
            wanted = parse_gtid_set(master.gtid_set, self._flavor)
            return parse_gtid_set(flushed.gtid_set, self._flavor).contains(wanted)  # type: ignore[arg-type]
        return master.position == flushed.position
