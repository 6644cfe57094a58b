"""Which class implements a unit type. Imported on first use, so that the process starts quickly."""

from __future__ import annotations

from collections.abc import Callable

from dm_worker.engine.engine import SparkEngine
from dm_worker.relay.source_selection import RelayReader
from dm_worker.subtask.unit import Unit
from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.ha.binlog_operator import OperatorSource
from pkg.pb import dmworker_pb2 as pb

#: Makes the unit of one type for one subtask, which may read the source's relay log, obeys the operators' orders, and
#: takes part in the locks of its task's shard DDL.
UnitFactory = Callable[
    [pb.UnitType, SubTaskConfig, SparkEngine, RelayReader | None, OperatorSource, EtcdLockService | None], Unit
]


def make_unit(
    unit_type: pb.UnitType,
    config: SubTaskConfig,
    engine: SparkEngine,
    relay: RelayReader | None = None,
    orders: OperatorSource = tuple,
    reports: EtcdLockService | None = None,
) -> Unit:
    """The real units. Raises 40060 for a type that no unit serves."""
    match unit_type:
        case pb.Dump:
            from dm_worker.dumper import DumpUnit

            return DumpUnit(config, engine)
        case pb.Load:
            from dm_worker.loader import LoadUnit

            return LoadUnit(config, engine)
        case pb.Sync:
            from dm_worker.syncer import SyncUnit

            return SyncUnit(config, engine, relay, orders, reports)
    raise errors.new(
        Code.WorkerNoAvailUnits,
        f"no unit serves type {unit_type} of task {config.name}",
        workaround="Check the task's task-mode, and that masters and workers are of one version.",
    )
