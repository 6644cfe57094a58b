"""Locations at which a batch must end, because something waits for the rows up to exactly there. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from dm_worker.syncer.planning.reading_state import ReadingState
from pkg.binlog.events import Event
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, Position


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Where a batch must end: at ``gtid_set``, else at ``position``, else before the first event outside of a
    transaction that is not older than ``time`` (unix seconds).

    ``number`` identifies it. ``exact``: the end of another transaction does not do; otherwise the first end at or after
    it does. ``careful``: every event is looked at, from a location before the cut on; otherwise reading may pass it.
    """

    number: int
    gtid_set: str = ""
    position: Position | None = None
    time: int = 0
    exact: bool = True
    careful: bool = False

    @classmethod
    def at(cls, number: int, location: Location, *, by_gtid: bool, exact: bool = True) -> CutPoint:
        """By the GTID set if the task reads by GTID, or if the location has no position."""
        if location.gtid_set and (by_gtid or not location.position.name):
            return cls(number, location.gtid_set, exact=exact)
        return cls(number, position=location.position, exact=exact)

    def is_at(self, location: Location, flavor: str) -> bool:
        """Whether a location between transactions is the cut. False for a time."""
        if self.gtid_set:
            return parse_gtid_set(self.gtid_set, flavor) == parse_gtid_set(location.gtid_set, flavor)
        return self.position == location.position

    def is_before(self, end: Location, flavor: str) -> bool:
        """Whether something after the cut is before ``end``. False for a time."""
        inside = end.rows_events > 0
        if self.gtid_set:
            wanted, there = parse_gtid_set(self.gtid_set, flavor), parse_gtid_set(end.gtid_set, flavor)
            return there.contains(wanted) and (inside or there != wanted)  # type: ignore[arg-type]
        if self.position is None:
            return False
        return self.position < end.position or (inside and self.position == end.position)


@dataclass(frozen=True, slots=True)
class AtCut:
    """The instruction: all before ``end`` was output, and ``end`` is the cut; or reading has ``passed`` the cut, so
    that no batch ends there."""

    cut: CutPoint
    end: Location
    passed: bool = False


class _Side(Enum):
    """Where the reading is, seen from a cut."""

    BEFORE, HERE, PASSED = auto(), auto(), auto()


@dataclass(slots=True)
class CutPoints:
    """The cuts that a planner has not come to yet."""

    _reading: ReadingState
    waiting: list[CutPoint] = field(default_factory=list)

    @property
    def are_careful(self) -> bool:
        """Whether every event must be looked at."""
        # Times do not rise from event to event: what was scanned does not show the latest.
        return any(cut.careful or cut.time for cut in self.waiting)

    def take_met(self, start: Location, *, certain: bool) -> list[AtCut]:
        """The cuts at or before the end of the last transaction. ``start`` is where the next batch begins. ``certain``:
        no transaction has ended since the last call but the last one."""
        if self._reading.reread is not None:
            return []
        here = self._reading.at_boundary()
        # A part of the current transaction is output already.
        is_split = start.rows_events > 0 and start.position == here.position
        return self._take((cut, self._side(cut, certain=certain, is_split=is_split)) for cut in list(self.waiting))

    def take_due(self, event: Event) -> list[AtCut]:
        """The cuts by time that the reading comes to with an event outside of a transaction."""
        if event.artificial:
            return []
        due = [cut for cut in self.waiting if cut.time and event.timestamp >= cut.time]
        return self._take((cut, _Side.HERE) for cut in due)

    def _take(self, found: Iterable[tuple[CutPoint, _Side]]) -> list[AtCut]:
        here, met = self._reading.at_boundary(), []
        for cut, side in found:
            if side is not _Side.BEFORE:
                self.waiting.remove(cut)
                met.append(AtCut(cut, here, side is _Side.PASSED))
        return met

    def _side(self, cut: CutPoint, *, certain: bool, is_split: bool) -> _Side:
        reading = self._reading
        if cut.time:
            return _Side.BEFORE
        if cut.gtid_set:
            is_reached, is_beyond = reading.has_executed(cut.gtid_set), reading.has_more_than(cut.gtid_set)
        else:
            assert cut.position is not None
            is_reached = cut.position <= reading.boundary
            is_beyond = cut.position < reading.ended
        if not is_reached:
            return _Side.BEFORE
        if cut.exact:
            return _Side.PASSED if is_beyond or is_split else _Side.HERE
        if is_split:
            return _Side.BEFORE
        return _Side.PASSED if is_beyond and not certain else _Side.HERE
