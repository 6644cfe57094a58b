"""Opens the binlog where a run reads: from the relay log if it has the position, else from the upstream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from dm_worker.relay.source_selection import RelayReader
from dm_worker.syncer.planning.look_ahead import is_unaltered
from dm_worker.syncer.rows.server_lookup import ServerLookup
from pkg import errors
from pkg.binlog.position import Location
from pkg.binlog.server_stream import open_upstream, replica_id
from pkg.binlog.stream import BinlogStream
from pkg.config.model import SubTaskConfig
from pkg.errors import Code


class StreamOpener:
    """The planning thread uses it; the main thread only while no planning thread reads."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        upstream: ServerLookup,
        relay: RelayReader | None,
        should_stop: Callable[[], bool],
        received: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``received`` gets the bytes that the upstream sends as binlog stream."""
        self._received = received
        self._cfg = cfg
        self._upstream = upstream
        self._relay = relay
        self._should_stop = should_stop
        #: Whether the binlog is read from the relay log.
        self.is_local = False

    def open(self, location: Location) -> BinlogStream:
        # What was prepared before enable-gtid was set has no GTID set yet.
        location = self.with_gtid(location)
        relay, use_gtid = self._relay, self._cfg.enable_gtid
        local = relay.open(location, use_gtid=use_gtid) if relay is not None else None
        self.is_local = local is not None
        if local is not None:
            return local
        stream = self._open_upstream(location)
        return relay.watched(stream) if relay is not None else stream

    def with_gtid(self, location: Location) -> Location:
        """The location with its GTID set, if the task reads by GTID. Raises DMError when the server has none."""
        if not self._cfg.enable_gtid or location.gtid_set or not location.position.name:
            return location
        known = self._upstream.gtid_of(location.position) if self._cfg.flavor == "mariadb" else ""
        if not known:
            raise errors.new(
                Code.SyncerUnitRemoteSteamerWithGTID,
                f"enable-gtid is on, but the start position {location.position} has no GTID set",
                workaround="Set enable-gtid: false for this source, or give meta.binlog-gtid and start the task with "
                "--remove-meta.",
            )
        return Location(location.position, known, location.rows_events)

    def is_unaltered(self, table: str, location: Location) -> bool:
        """Whether no statement from ``location`` up to now may be about a table of that name."""
        end = self._upstream.end_of_binlog(self._cfg.flavor)
        if end is None:
            return False
        with closing(self._open_upstream(self.with_gtid(location), "ahead")) as stream:
            return is_unaltered(stream, end.position, table, self._should_stop)

    def _open_upstream(self, location: Location, purpose: str = "") -> BinlogStream:
        return open_upstream(
            self._cfg.from_,
            location,
            flavor=self._cfg.flavor,
            # The same for every run, so that the upstream ends the connection of an earlier one.
            server_id=replica_id(self._cfg.name, self._cfg.source_id, f"{self._cfg.server_id}{purpose}"),
            use_gtid=self._cfg.enable_gtid,
            received=self._received,
        )
