"""How a run applies what it has read: row batches and statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from dm_worker.engine.engine import SparkEngine
from dm_worker.meta.stored_text import stored_text
from dm_worker.syncer.checkpoint.protocol import Sequencer
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.barrier_assembly import ddl_barrier
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.routed_steps import StepRouter, Unaltered
from dm_worker.syncer.ddl.statement_decisions import StatementDecisions
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.upstream_collations import UpstreamCollations
from dm_worker.syncer.ddl.variables import UpstreamSession
from dm_worker.syncer.execution.row_statements import StatementForm, wants_alias
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.figures.sync_figures import ApplyFigures
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.batch_policy import BatchPolicy
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.shard_ddl.coordination import ShardCoordination
from dm_worker.syncer.unit.batch_observer import NOBODY, BatchObserver
from dm_worker.syncer.unit.batch_runner import BatchRunner
from dm_worker.syncer.unit.computed_sampler import BothValues, ComputedSampler, first_row
from dm_worker.syncer.unit.recovery import is_unsafe
from dm_worker.syncer.unit.run_scope import RunScope
from pkg.ha.binlog_operator import OperatorSource
from pkg.mysql.introspect import list_all_tables, server_info

#: Statements stay well below the target's packet limit.
STATEMENT_BYTES = 1024 * 1024


class RunApplying:
    """Builds the parts that change the target. ``group``: that of the run's Spark jobs; ``orders``: operators' orders
    for statements."""

    def __init__(
        self,
        scope: RunScope,
        engine: SparkEngine,
        group: str,
        policy: BatchPolicy,
        orders: OperatorSource,
        figures: ApplyFigures,
        observer: BatchObserver = NOBODY,
    ) -> None:
        self._observer = observer
        self._scope = scope
        self._engine = engine
        self._group = group
        self._policy = policy
        self._orders = orders
        self._figures = figures

    def router(self, source: SchemaSource, is_unaltered: Unaltered) -> StepRouter:
        """Routes statements for :meth:`barrier`. ``is_unaltered``: as in :class:`StepRouter`."""
        flavor = self._scope.connections.target.ask(server_info).flavor
        return StepRouter(self._scope.cfg, self._scope.rules, source, flavor, self._upstream_tables, is_unaltered)

    def _upstream_tables(self) -> Mapping[str, Sequence[str]]:
        return self._scope.connections.upstream.ask(list_all_tables)

    def barrier(
        self,
        source: SchemaSource,
        online: OnlineDDL,
        temporary: TemporaryTables,
        router: StepRouter,
        decisions: StatementDecisions,
    ) -> DDLBarrier:
        """Builds the part that executes statements."""
        session, server = self._scope.connections.ddl_session, source.tracker.server
        flavor = self._scope.connections.target.ask(server_info).flavor
        executor = DDLExecutor(
            store=self._scope.connections.store,
            session=session,
            trial=Trial(self._scope.cfg, session, flavor),
            target_flavor=flavor,
            upstream=UpstreamSession(self._scope.cfg.flavor, server.version, server.explicit_timestamp, server.engine),
            should_stop=self._scope.should_stop,
            collations=UpstreamCollations(server) if self._scope.cfg.collation_compatible == "strict" else None,
        )
        return ddl_barrier(
            self._scope.cfg,
            rules=self._scope.rules,
            source=source,
            online=online,
            store=self._scope.connections.store,
            executor=executor,
            router=router,
            decisions=decisions,
            system_zone=self._scope.connections.upstream.system_zone,
            upstream_tables=self._upstream_tables,
            orders=self._orders,
            temporary=temporary,
        )

    def batch_runner(self, sequencer: Sequencer, source: SchemaSource, sharding: ShardCoordination) -> BatchRunner:
        """Builds the part that applies batches."""
        cfg, store = self._scope.cfg, self._scope.connections.store
        form = StatementForm(
            multiple=cfg.syncer.multiple_rows is not False,
            limit=min(STATEMENT_BYTES, max(16 * 1024, cfg.to.max_allowed_packet // 2)),
            alias=wants_alias(self._scope.connections.target.ask(server_info)),
            checks=bool(cfg.to.foreign_key_checks),
        )
        return BatchRunner(
            engine=self._engine,
            driver_tasks=self._scope.connections.driver_tasks,
            group=self._group,
            store=store,
            sequencer=sequencer,
            source=source,
            target=TargetSpec(cfg.to, cfg.to.session, store.markers, store.batches, form),
            workers=cfg.syncer.worker_count,
            policy=self._policy,
            settings=self._settings(),
            is_unsafe=lambda location: is_unsafe(cfg, store.exit_safe, location),
            should_stop=self._scope.should_stop,
            figures=self._figures,
            sharding=sharding,
            sampler=ComputedSampler(self._first_row),
            observer=self._observer,
        )

    def _first_row(self, statement: bytes) -> BothValues | None:
        return self._scope.connections.written_rows.ask(lambda conn: first_row(conn, statement))

    def _settings(self) -> bytes:
        """The settings that decide how a range is planned. A digest of them is stored."""
        syncer = self._scope.cfg.syncer
        rules = (self._scope.rules.settings, syncer.compact, bool(self._scope.cfg.to.foreign_key_checks))
        if syncer.safe_mode:
            # A batch that stopped in another mode gets a new number and is applied again in this one.
            return blake2b(stored_text((*rules, "safe mode")).encode(), digest_size=16).digest()
        return blake2b(stored_text(rules).encode(), digest_size=16).digest()
