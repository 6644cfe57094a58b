"""The unit that replicates the binlog, as the operator commands see it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, cast

from dm_worker.subtask.subtask import SubTask
from dm_worker.subtask.unit import Unit
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from dm_worker.syncer.unit.known_structures import KnownStructures
from pkg import errors
from pkg.binlog.position import Location
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb


class ReplicatingUnit(Unit, Protocol):
    """The unit of type ``pb.Sync``, as far as operator commands and metrics use it."""

    #: Over all runs.
    figures: SyncFigures

    @property
    def stuck_at(self) -> BinlogStatement | SettleDDL | None:
        """The statement at which the last failure was, until the checkpoint is behind it; or the DDL of merged shards
        that could not be settled, until it is."""
        ...

    @property
    def needed(self) -> Location | None:
        """From here on statements may still be executed; None before the last run took over."""
        ...

    @property
    def flushed(self) -> Location | None:
        """The checkpoint as the last run left it; None before it took over."""
        ...

    def checkpoint(self) -> Location | None:
        """The checkpoint, asked of the target if no run knows it; None when there is none yet. Raises DMError."""
        ...

    def structures(self) -> AbstractContextManager[KnownStructures]:
        """The known structures, to be seen and changed; no run begins meanwhile. Raises 40051 during one."""
        ...

    def hand_back(self, *, execute: bool) -> str:
        """What is left for DM, as text; without ``execute`` it only would be. Raises DMError; 40051 during a run."""
        ...


def replication_of(subtask: SubTask) -> ReplicatingUnit | None:
    """The subtask's unit if its turn is replication."""
    unit = subtask.unit()
    return cast(ReplicatingUnit, unit) if unit is not None and unit.unit_type == pb.Sync else None


def replicating_unit(subtask: SubTask) -> ReplicatingUnit:
    """The same where an operator asks for it. Raises 40056."""
    unit = replication_of(subtask)
    if unit is None:
        raise errors.new(
            Code.WorkerOperSyncUnitOnly,
            f"task {subtask.name} is in unit {pb.UnitType.Name(subtask.state.unit)}: the operation needs unit Sync",
            workaround="Wait until the full copy is complete.",
        )
    return unit


def paused_unit(subtask: SubTask) -> ReplicatingUnit:
    """The same of a paused subtask. Raises 40056, and 40051 in any other stage."""
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
