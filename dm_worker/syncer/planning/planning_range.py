"""Where planning ends: at the end of an unfinished range, or at the location of another pass. Pure."""

from __future__ import annotations

from dm_worker.syncer.planning.reading_state import ReadingState
from dm_worker.syncer.planning.server_switch import ensure_server, ensure_transaction, gtid_of_cut
from pkg import errors
from pkg.binlog.events import Event
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.errors.workarounds import Advice


class PlanningRange:
    """``until`` requests one batch over exactly the range up to there; by GTID over exactly its transactions, even if
    this server has others between them. ``limit`` ends the planning at that end of a transaction."""

    def __init__(self, reading: ReadingState, until: Location | None, limit: Location | None, *, by_gtid: bool) -> None:
        self.until = until
        self.limit = limit
        self._reading = reading
        self._by_gtid = by_gtid

    @property
    def is_bounded(self) -> bool:
        return self.until is not None or self.limit is not None

    def ends_with(self, start: Location) -> bool:
        """Whether all is planned when the next batch begins at ``start``."""
        return start in (self.until, self.limit)

    def scan_may_pass_limit(self) -> bool:
        """Whether a scan, which stops at the end of a file, might pass ``limit``."""
        # Bytes do not show the position: servers leave out events, so fewer bytes arrive than lie between two offsets.
        limit = self.limit
        return limit is not None and (self._by_gtid or self._reading.file == limit.position.name)

    def ensure_server(self, server_id: int) -> None:
        """Raises ServerSwitched when the binlog being read is of another server than the one that was read before."""
        for location in (self._reading.resumed, self.until):
            if location is not None:
                ensure_server(location, server_id)

    def skips(self, gtid: str, event: Event) -> bool:
        """Whether the transaction of the GTID event is outside of the range up to ``until``."""
        until = self.until
        return until is not None and self._by_gtid and not self._has(gtid, until, event)

    def _has(self, gtid: str, until: Location, event: Event) -> bool:
        """Whether a transaction belongs to the range up to ``until``: as a whole, or as the one in which it ends."""
        reading = self._reading
        if reading.is_part(gtid, until.gtid_set):
            return True
        if not until.cut:
            # Written by an earlier version: the transaction after all others of the range.
            return bool(until.rows_events) and reading.is_at(until)
        if gtid != gtid_of_cut(until):
            return False
        ensure_transaction(until, reading.server_id, gtid, reading.file, event)
        return True

    def is_cut_here(self) -> bool:
        """Whether the unfinished range ends inside the transaction that begins here."""
        until = self.until
        return until is not None and bool(until.rows_events) and self._reading.is_at(until)

    def at_until(self, until: Location, *, rows_events: int) -> bool:
        """Whether the unfinished range ends here, ``rows_events`` inside a transaction. Raises DMError after it."""
        if rows_events == until.rows_events and self._reading.is_at(until):
            return True
        if self._reading.is_beyond(until):
            raise errors.new(
                Code.SyncerEvent,
                f"the binlog has no event that ends at {until}, the end of the unfinished batch",
                scope="upstream",
                workaround=Advice.BINLOG_REPLACED,
            )
        return False

    def at_limit(self, limit: Location) -> bool:
        """Whether the pass ends here, between transactions. Raises DMError after it."""
        if self._reading.is_at(limit):
            return True
        if self._reading.is_beyond(limit):
            raise errors.new(
                Code.SyncerEvent,
                f"the binlog has no transaction that ends at {limit}, the end of the part that is read again",
                scope="upstream",
                workaround=Advice.BINLOG_REPLACED,
            )
        return False

    def ensure_no_statement(self, position: object) -> None:
        """Raises DMError for a statement inside the unfinished range: statements end batches."""
        if self.until is not None:
            raise errors.new(
                Code.SyncerEvent,
                f"the statement at {position} is inside the unfinished batch, which ends at {self.until}",
                workaround=Advice.BINLOG_REPLACED,
            )
