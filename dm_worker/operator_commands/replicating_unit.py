"""The interface of the replication unit for the operator commands."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, cast

from dm_worker.subtask.subtask import SubTask
from dm_worker.subtask.unit import Unit
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from dm_worker.syncer.unit.hold import Hold
from dm_worker.syncer.unit.known_structures import KnownStructures
from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb


class ReplicatingUnit(Unit, Protocol):
    """The unit of type ``pb.Sync``, as far as operator commands and metrics use it."""

    #: Summed over all runs.
    figures: SyncFigures
    #: Holds the replication at a location.
    hold: Hold

    @property
    def stuck_at(self) -> BinlogStatement | SettleDDL | None:
        """The statement of the last failure, until the checkpoint is after it; or the DDL of merged shards that could
        not be settled, until it is."""
        ...

    @property
    def needed(self) -> Location | None:
        """From this location on, statements may still be executed; None before the last run took over."""
        ...

    @property
    def flushed(self) -> Location | None:
        """The checkpoint that the last run left; None before it took over."""
        ...

    def checkpoint(self) -> Location | None:
        """The checkpoint, read from the target if no run knows it; None when there is none yet. Raises DMError."""
        ...

    def structures(self) -> AbstractContextManager[KnownStructures]:
        """The known structures, to read and change; no run begins meanwhile. Raises 40051 during a run."""
        ...

    def hand_back(self, *, execute: bool) -> str:
        """Hands the task back to DM and describes the result; only describes it without ``execute``. Raises DMError;
        40051 during a run."""
        ...


def replication_of(subtask: SubTask) -> ReplicatingUnit | None:
    """The subtask's current unit if it replicates."""
    unit = subtask.unit()
    return cast(ReplicatingUnit, unit) if unit is not None and unit.unit_type == pb.Sync else None


def replicating_unit(subtask: SubTask) -> ReplicatingUnit:
    """The subtask's replication unit. Raises 40056 if another unit is current."""
    unit = replication_of(subtask)
    if unit is None:
        raise errors.new(
            Code.WorkerOperSyncUnitOnly,
            f"task {subtask.name} is in unit {pb.UnitType.Name(subtask.state.unit)}: the operation needs unit Sync",
            workaround="Wait until the full copy is complete.",
        )
    return unit


def paused_unit(subtask: SubTask) -> ReplicatingUnit:
    """The replication unit of a paused subtask. Raises 40056, and 40051 in any other stage."""
    unit = replicating_unit(subtask)
    state = subtask.state
    if state.stage != pb.Paused:
        raise errors.new(
            Code.WorkerNotPausedStage,
            f"current stage is {pb.Stage.Name(state.stage)} but not paused, invalid",
            raw=state.history,
            workaround=f"`pause-task {subtask.name}` first, and `resume-task {subtask.name}` afterwards.",
        )
    return unit
