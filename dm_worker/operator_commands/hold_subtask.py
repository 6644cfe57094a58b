"""Holds a subtask at a location of its upstream's binlog, for work that compares both servers."""

from __future__ import annotations

from dm_worker.operator_commands.replicating_unit import replicating_unit
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.unit.hold import LONGEST_HOLD, HoldState
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, Position, file_number
from pkg.pb import dmworker_pb2 as pb


def hold_subtask(subtask: SubTask, request: pb.HoldSubTaskRequest) -> HoldState:
    """Waits until the subtask is held, or there is a reason why not.

    Raises 40056, 22002 for a file name, and 11093 or a similar error for a GTID set.
    """
    unit = replicating_unit(subtask)
    if not 0 < request.seconds <= LONGEST_HOLD:
        return HoldState(unit.flushed, f"the time limit must be over 0 s and at most {LONGEST_HOLD:g} s")
    location = Location(Position(request.binlogName, int(request.binlogPos)), request.binlogGTID).of_upstream()
    if location.position.name:
        file_number(location.position.name)
    parse_gtid_set(location.gtid_set, subtask.config.flavor)
    is_given = bool(location.position.name or location.gtid_set)
    return unit.hold.at(location if is_given else None, request.seconds)
