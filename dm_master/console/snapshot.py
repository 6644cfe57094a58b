"""What the console knows of the cluster at one moment, and how it asks the leader for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from dm_master.service.dispatcher import MasterCall
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb

#: Points of a task's curves: three minutes.
CURVE_POINTS = 90


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """``stream``: seconds that the readers are behind; ``lag``: the age of the oldest commit that is not applied. They
    are the slowest source's, and 0 while unknown."""

    rows_per_second: int
    stream: int
    lag: int


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """``number`` grows with each. ``curves`` hold the last points of each task."""

    number: int
    at: float
    status: pb.QueryStatusListResponse
    members: pb.ListMemberResponse
    locks: pb.ShowDDLLocksResponse
    curves: Mapping[str, tuple[CurvePoint, ...]] = field(default_factory=dict)

    @property
    def problem(self) -> str:
        """Why the cluster cannot be seen; '' when it can."""
        return next((one.msg for one in (self.status, self.members) if not one.result and one.msg), "")


class ClusterReader:
    """Asks the leader. One thread at a time."""

    def __init__(self, call: MasterCall) -> None:
        self._call = call
        self._number = 0
        self._curves: dict[str, deque[CurvePoint]] = {}

    def read(self) -> ClusterSnapshot:
        status = cast(pb.QueryStatusListResponse, self._call("QueryStatus", pb.QueryStatusListRequest(profile=True)))
        members = cast(pb.ListMemberResponse, self._call("ListMember", pb.ListMemberRequest()))
        locks = cast(pb.ShowDDLLocksResponse, self._call("ShowDDLLocks", pb.ShowDDLLocksRequest()))
        self._number += 1
        self._extend(status)
        curves = {task: tuple(points) for task, points in self._curves.items()}
        return ClusterSnapshot(self._number, time.time(), status, members, locks, curves)

    def _extend(self, status: pb.QueryStatusListResponse) -> None:
        found: dict[str, list[worker_pb.SyncStatus]] = {}
        for source in status.sources:
            for subtask in source.subTaskStatus:
                if subtask.name:
                    found.setdefault(subtask.name, []).append(subtask.sync)
        for gone in set(self._curves) - set(found):
            del self._curves[gone]
        for task, parts in found.items():
            point = CurvePoint(
                sum(one.recentRps for one in parts),
                max(0, *(one.streamSecondsBehind for one in parts)),
                max(0, *(one.secondsBehindMaster for one in parts)),
            )
            self._curves.setdefault(task, deque(maxlen=CURVE_POINTS)).append(point)
