"""Selects the class that implements a unit type. Imported on first use, so that the process starts quickly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dm_worker.engine.engine import SparkEngine
from dm_worker.relay.source_selection import RelayReader
from dm_worker.subtask.unit import Unit
from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.ha.binlog_operator import OperatorSource
from pkg.pb import dmworker_pb2 as pb

if TYPE_CHECKING:
    from dm_worker.syncer.unit.batch_observer import BatchObserver
    from dm_worker.validator.validator import Validator


@dataclass(frozen=True, slots=True)
class UnitContext:
    """What the units of one subtask may use: the source's relay log, the operators' orders, and the locks of the task's
    shard DDL; and the continuous validation, which follows what is applied. Each unit's constructor takes what it
    needs."""

    config: SubTaskConfig
    engine: SparkEngine
    relay: RelayReader | None = None
    orders: OperatorSource = tuple
    lock_service: EtcdLockService | None = None
    observer: BatchObserver | None = None


#: Creates the unit of one type.
UnitFactory = Callable[[pb.UnitType, UnitContext], Unit]


def make_unit(unit_type: pb.UnitType, context: UnitContext) -> Unit:
    """Creates the real units. Raises 40060 for a type that no unit serves."""
    config, engine = context.config, context.engine
    match unit_type:
        case pb.Dump:
            from dm_worker.dumper import DumpUnit
            from dm_worker.loader.early_load import EarlyLoad, suits_task

            return DumpUnit(config, engine, EarlyLoad(config, engine) if suits_task(config, engine) else None)
        case pb.Load:
            from dm_worker.loader import LoadUnit

            return LoadUnit(config, engine)
        case pb.Sync:
            from dm_worker.syncer import SyncUnit

            return SyncUnit(config, engine, context.relay, context.orders, context.lock_service, context.observer)
    raise errors.new(
        Code.WorkerNoAvailUnits,
        f"no unit serves type {unit_type} of task {config.name}",
        workaround="Check the task's task-mode, and that masters and workers are of one version.",
    )


def make_validator(config: SubTaskConfig, engine: SparkEngine) -> Validator:
    """The companion that compares what the sync unit applies."""
    from dm_worker.validator.validator import Validator

    return Validator(config, engine)
