"""Opens the binlog where a run reads: from the relay log if it has the position, else from the upstream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pymysql

from dm_worker.relay.source_selection import RelayReader
from dm_worker.syncer.planning.server_switch import UpstreamBinlog, ensure_same_history
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.unit.look_ahead import is_unaltered
from pkg import errors
from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import master_status
from pkg.binlog.streams.server_stream import identity_of, open_upstream, replica_id
from pkg.binlog.streams.stream import BinlogStream
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify, connect
from pkg.mysql.introspect import query, variable
from pkg.process.log import get_logger

log = get_logger("syncer")


class StreamOpener:
    """Used by the planning thread; by the main thread only while no planning thread reads."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        upstream: ServerLookup,
        relay: RelayReader | None,
        should_stop: Callable[[], bool],
        received: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``received`` receives the bytes that the upstream sends as binlog stream."""
        self._received = received
        self._cfg = cfg
        self._upstream = upstream
        self._relay = relay
        self._should_stop = should_stop
        #: Whether the binlog is read from the relay log.
        self.is_local = False

    def open(self, location: Location) -> BinlogStream:
        # A checkpoint from before enable-gtid was set has no GTID set yet.
        location = self.with_gtid(location)
        relay, use_gtid = self._relay, self._reads_by_gtid(location)
        local = relay.open(location, use_gtid=use_gtid) if relay is not None else None
        if use_gtid:
            self._ensure_same_history(location, required=local is None)
        self.is_local = local is not None
        if local is not None:
            return local
        stream = self._open_upstream(location)
        return relay.watched(stream) if relay is not None else stream

    def with_gtid(self, location: Location) -> Location:
        """The location with its GTID set, if the task reads by GTID. Raises DMError when the server has none.

        The set of an upstream that had not written any transaction is empty, and remains so.
        """
        if not self._cfg.enable_gtid or location.gtid_set or not location.position.name:
            return location
        known = self._upstream.gtid_of(location.position, self._cfg.flavor)
        if known is None:
            raise errors.new(
                Code.SyncerUnitRemoteSteamerWithGTID,
                f"enable-gtid is on, but the start position {location.position} has no GTID set",
                workaround="Set enable-gtid: false for this source, or give meta.binlog-gtid and start the task with "
                "--remove-meta.",
            )
        return replace(location, gtid_set=known, cut="")

    def _reads_by_gtid(self, location: Location) -> bool:
        """False where no transaction has a GTID yet: the position is exact, an empty set may be any start."""
        return self._cfg.enable_gtid and bool(location.gtid_set or not location.position.name)

    def _ensure_same_history(self, location: Location, *, required: bool) -> None:
        """Checks the history: a position names a file, which the planner compares. GTIDs mean the same in another
        binlog unless it numbers them again, so this queries the upstream. Not ``required``: the relay log can be read
        while the upstream is down."""
        known = location.file
        if known is None:
            return
        try:
            found = self._binlog_of_upstream(known.name)
        except DMError as exc:
            if required or not exc.retryable:
                raise
            log.warning("the upstream's binlog is not compared with the checkpoint", error=str(exc))
            return
        ensure_same_history(location, found, self._cfg.flavor)

    def _binlog_of_upstream(self, file: str) -> UpstreamBinlog:
        cfg = self._cfg
        try:
            with closing(connect(cfg.from_, scope="upstream", read_timeout=30.0)) as conn:
                server_id = int(variable(conn, "server_id") or 0)
                files = [str(row[0]) for row in query(conn, "SHOW BINARY LOGS")]
                end = master_status(conn, cfg.flavor)
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="upstream", statement="asking for the upstream's binlog files") from exc
        namesake = None
        if file in files:
            namesake = identity_of(cfg.from_, file, flavor=cfg.flavor, server_id=self._replica_id("identity"))
        return UpstreamBinlog(server_id, files, "" if end is None else end.gtid_set, namesake)

    def _replica_id(self, purpose: str) -> int:
        """The same id for every run, so that the upstream ends an earlier run's connection."""
        return replica_id(self._cfg.name, self._cfg.source_id, f"{self._cfg.server_id}{purpose}")

    def is_unaltered(self, table: str, location: Location) -> bool:
        """Whether no statement from ``location`` up to now may refer to a table of that name."""
        end = self._upstream.end_of_binlog(self._cfg.flavor)
        if end is None:
            return False
        by_gtid = self._cfg.enable_gtid
        if (location.gtid_set == end.gtid_set) if by_gtid else (location.position == end.position):
            return True
        with closing(self._open_upstream(self.with_gtid(location), "ahead")) as stream:
            return is_unaltered(stream, end.position, table, self._should_stop)

    def _open_upstream(self, location: Location, purpose: str = "") -> BinlogStream:
        return open_upstream(
            self._cfg.from_,
            location,
            flavor=self._cfg.flavor,
            server_id=self._replica_id(purpose),
            use_gtid=self._reads_by_gtid(location),
            received=self._received,
        )
