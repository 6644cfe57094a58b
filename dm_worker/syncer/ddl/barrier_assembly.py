"""Assembles a barrier from the steps of a statement."""

from __future__ import annotations

from collections.abc import Callable

from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.ordered_statements import OrderedStatements
from dm_worker.syncer.ddl.own_names import OwnNames, UpstreamTables
from dm_worker.syncer.ddl.parts import StatementParts
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.ddl.settled_statements import SettledStatements
from dm_worker.syncer.ddl.statement_decisions import StatementDecisions
from dm_worker.syncer.ddl.statement_reader import StatementReader
from dm_worker.syncer.ddl.structure_follower import StructureFollower
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.config.model import SubTaskConfig
from pkg.ha.binlog_operator import OperatorSource


def ddl_barrier(
    cfg: SubTaskConfig,
    *,
    rules: TaskRules,
    source: SchemaSource,
    online: OnlineDDL,
    temporary: TemporaryTables,
    store: MetaStore,
    executor: DDLExecutor,
    router: StepRouter,
    decisions: StatementDecisions,
    orders: OperatorSource,
    system_zone: Callable[[int], str],
    upstream_tables: UpstreamTables,
) -> DDLBarrier:
    """The barrier of one run. ``system_zone``: see :class:`StatementReader`."""
    parts = StatementParts(rules, source, online, temporary, cfg.flavor)
    return DDLBarrier(
        reader=StatementReader(executor.upstream, system_zone),
        statements=OrderedStatements(parts, store, orders, executor, router),
        decisions=decisions,
        router=router,
        names=OwnNames(rules, source, executor, upstream_tables),
        executor=executor,
        follower=StructureFollower(source, online, temporary, store, router.is_unaltered),
        settled=SettledStatements(parts, router, executor, store, orders),
    )
