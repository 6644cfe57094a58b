"""What a comparison uses of the replication beside which it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_worker.diff.run import DiffSurroundings
from dm_worker.engine.engine import SparkEngine
from dm_worker.operator_commands.replicating_unit import ReplicatingUnit
from dm_worker.syncer.unit.hold import Hold
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.pb import dmworker_pb2 as pb


class SyncerHold:
    """See :class:`dm_worker.diff.holds.HoldSyncer`. The hold of an operator stays."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def hold(self, place: Location | None, seconds: float) -> str:
        return self._hold.at(place, seconds, yields=True).reason

    def release(self) -> None:
        self._hold.release(yields=True)


def diff_surroundings(
    unit: ReplicatingUnit,
    engine: SparkEngine,
    siblings: Callable[[], Sequence[SubTaskConfig]],
    neighbours: Callable[[], Sequence[SubTaskConfig]],
) -> DiffSurroundings:
    """For the subtask of ``unit``; ``siblings`` are the task's subtasks on other sources, ``neighbours`` those of other
    tasks."""

    def lag() -> int:
        status = pb.SubTaskStatus()
        unit.fill(status, 0)
        return int(status.sync.secondsBehindMaster)

    return DiffSurroundings(engine, SyncerHold(unit.hold), lag, siblings, neighbours)
