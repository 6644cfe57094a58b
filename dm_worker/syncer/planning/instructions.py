"""The planner's output besides batches. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field

from dm_worker.syncer.planning.batch import Batch, HeldRowCounts
from dm_worker.syncer.planning.cut_points import AtCut
from dm_worker.syncer.planning.xa import PreparedLocations
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position


@dataclass(frozen=True, slots=True)
class Advance:
    """Nothing to apply up to ``location``: only filtered events. ``prepared`` and ``held`` as in a batch."""

    location: Location
    prepared: PreparedLocations = field(default_factory=dict)
    held: HeldRowCounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BinlogStatement:
    """A statement in a QUERY event: a barrier. ``position`` is the event's end, its name across restarts.

    ``after`` is where to continue without it; ``end`` is the same unless the statement is part of a transaction.
    ``name`` is its GTID if the task reads by GTID, else its position: the same on every server.
    """

    event: Event
    position: Position
    start: Location
    end: Location
    after: Location
    name: str = ""

    @property
    def inside(self) -> bool:
        """Whether the rest of its transaction follows."""
        return self.end == self.start

    @property
    def at(self) -> Position:
        """The event's start: its name in commands, as in DM."""
        return Position(self.position.name, self.position.pos - self.event.size)

    @property
    def first(self) -> Position:
        """From here on a position refers to this statement: its transaction's start, unless it is part of one."""
        return self.at if self.inside else self.start.position

    def covers(self, position: Position) -> bool:
        """Whether ``position`` refers to this statement."""
        return self.first <= position < self.position


PlannerInstruction = Batch | Advance | BinlogStatement | AtCut
