"""Which cuts a run's planners have, for a hold and for the end of the task, and what becomes of those that are met."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from dm_worker.syncer.planning.cut_points import AtCut, CutPoint
from dm_worker.syncer.planning.instructions import Advance, PlannerInstruction
from dm_worker.syncer.unit.hold import Hold, HoldRequest
from pkg.binlog.position import Location, Position
from pkg.config.model import Until

#: The numbers of the cuts at the task's end: by position or GTID set, by time, and by the location of the upstream's
#: end when that time has passed. Those of holds are positive.
_UNTIL, _UNTIL_TIME, _UNTIL_PASSED_TIME = 0, -1, -2
#: The events before an end by time are planned one by one, which costs CPU: only from so many seconds before it on.
#: The clocks of the upstream and of this machine may differ by less.
TIME_AHEAD = 600.0


class CutOutcome(Enum):
    """What the main loop does at a cut."""

    CONTINUE, HOLD, FINISH = auto(), auto(), auto()


@dataclass(slots=True)
class _Armed:
    """A cut that the pass's planner knows. ``passed``: the planner has passed it."""

    cut: CutPoint
    passed: bool = False


class RunCuts:
    """The main loop's view of the hold and of the task's end. ``by_gtid``: the task reads by GTID."""

    def __init__(self, hold: Hold, flavor: str, *, by_gtid: bool, until: Until | None = None) -> None:
        self._hold = hold
        self._flavor = flavor
        self._by_gtid = by_gtid
        self._until = until
        #: By number.
        self._armed: dict[int, _Armed] = {}
        self._request: HoldRequest | None = None

    # -- holds --------------------------------------------------------------------------------------------------

    @property
    def request(self) -> HoldRequest | None:
        """The hold that waits for its cut."""
        request = self._hold.wanted()
        return request if request is not None and request is self._request else None

    def new_request(self) -> HoldRequest | None:
        """A hold that the pass does not know yet."""
        request = self._hold.wanted()
        return None if request is self._request else request

    def arm(self, request: HoldRequest, applied: Location) -> CutPoint | None:
        """The cut for a new request; None where the run holds at once: it is there, or anywhere will do."""
        self._forget_hold()
        self._request = request
        location = request.location
        if location is None:
            if not applied.rows_events:
                return None
            # The first end behind the transaction that is applied in parts.
            inside = Position(applied.position.name, applied.position.pos + 1)
            cut = CutPoint(request.number, position=inside, exact=False)
        else:
            cut = CutPoint.at(request.number, location, by_gtid=self._by_gtid)
            if not applied.rows_events and cut.is_at(applied, self._flavor):
                return None
        return self._add(cut)

    def _forget_hold(self) -> None:
        if self._request is not None:
            self._armed.pop(self._request.number, None)
            self._request = None

    # -- the task's end -----------------------------------------------------------------------------------------

    def new_ends(self, now: float, end_after_time: Location | None) -> list[CutPoint]:
        """The cuts at the task's end that the pass does not know and must know ``now`` (unix seconds).

        ``end_after_time``: the end of the upstream's binlog, read when the task's end by time had passed there.
        """
        until, found = self._until, []
        if until is None:
            return []
        if not until.time:
            location = Location(Position(until.binlog_name, until.binlog_pos), until.binlog_gtid)
            found.append(CutPoint.at(_UNTIL, location, by_gtid=self._by_gtid, exact=False))
        elif now + TIME_AHEAD >= until.time:
            found.append(CutPoint(_UNTIL_TIME, time=until.time))
            if end_after_time is not None:
                found.append(CutPoint.at(_UNTIL_PASSED_TIME, end_after_time, by_gtid=self._by_gtid, exact=False))
        return [self._add(cut) for cut in found if cut.number not in self._armed]

    @property
    def ends_by_time(self) -> int:
        """When the task ends (unix seconds); 0 for another end or none."""
        return 0 if self._until is None else self._until.time

    # -- passes -------------------------------------------------------------------------------------------------

    def _add(self, cut: CutPoint) -> CutPoint:
        self._armed[cut.number] = _Armed(cut)
        return cut

    def for_pass(self) -> list[CutPoint]:
        """The cuts of a new pass's planner: where the planner before has passed one, this one must be careful."""
        if self.request is None:
            self._forget_hold()
        for armed in self._armed.values():
            armed.cut = replace(armed.cut, careful=armed.cut.careful or armed.passed)
            armed.passed = False
        return [armed.cut for armed in self._armed.values()]

    def _current(self) -> list[_Armed]:
        """Without the cut of a hold that is not asked for any more."""
        request = self.request
        return [one for number, one in self._armed.items() if number <= 0 or (request and request.number == number)]

    def goes_beyond(self, item: PlannerInstruction) -> bool:
        """Whether an instruction ends behind a cut that its planner did not know, or has passed: the pass that must
        follow is careful."""
        if isinstance(item, AtCut):
            return False
        end = item.location if isinstance(item, Advance) else item.end
        passed = [one for one in self._current() if not one.cut.careful and one.cut.is_before(end, self._flavor)]
        for one in passed:
            one.passed = True
        return bool(passed)

    @property
    def is_passed(self) -> bool:
        """Whether a cut needs a pass of its own as soon as no instruction waits."""
        return any(one.passed for one in self._current())

    def met(self, item: AtCut, applied: Location) -> CutOutcome:
        """What follows from a planner's report."""
        armed = self._armed.get(item.cut.number)
        if armed is None or armed not in self._current() or item.cut != armed.cut:
            return CutOutcome.CONTINUE
        request = self.request if item.cut.number > 0 else None
        if not item.passed:
            return CutOutcome.FINISH if request is None else CutOutcome.HOLD
        if request is not None and item.cut.is_before(applied, self._flavor):
            self._hold.refuse(request, "the location is passed", applied)
        elif request is not None and item.cut.careful:
            self._hold.refuse(request, "the binlog has no transaction that ends at the location", applied)
        else:
            armed.passed = True
        return CutOutcome.CONTINUE
