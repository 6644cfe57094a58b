"""Statuses of subtasks for the tests of sources."""

from __future__ import annotations

from pkg.binlog.position import Location, Position
from pkg.pb import dmworker_pb2 as pb


def sharded(*, waiting: bool) -> pb.SubTaskStatus:
    place = Location(Position("bin.000003", 90), "0-1-5")
    group = pb.ShardingGroup(target="`m`.`t`", firstLocation=str(place), unsynced=["`d`.`t2`"], heldRows=7)
    blocking = ["ALTER …"] if waiting else []
    sync = pb.SyncStatus(syncerBinlog="(bin.000012, 4)", unresolvedGroups=[group], blockingDDLs=blocking)
    return pb.SubTaskStatus(name="t1", sync=sync)
