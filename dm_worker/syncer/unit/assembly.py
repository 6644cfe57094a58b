"""Assembles the parts of a run from its configuration and from what is durable at the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from dm_worker.engine.engine import SparkEngine
from dm_worker.meta.stored_text import stored_text
from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.checkpoint.protocol import BatchProgress, Sequencer
from dm_worker.syncer.checkpoint.start_location import dump_schema_files, dumped_tables
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.foreign_key_watch import ForeignKeyWatch
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.upstream_collations import UpstreamCollations
from dm_worker.syncer.ddl.variables import UpstreamSession
from dm_worker.syncer.execution.row_statements import StatementForm, wants_alias
from dm_worker.syncer.execution.target_spec import TargetSpec
from dm_worker.syncer.figures.sync_figures import ApplyFigures
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.batch_policy import BatchPolicy
from dm_worker.syncer.rows.key_normalization import TargetCharsets
from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.table_registry import TableRegistry
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.initial_groups import ensure_settled, new_groups, regroup, stored_groups
from dm_worker.syncer.shard_ddl.lock_client import LockClient, LockService
from dm_worker.syncer.shard_ddl.sharding import Sharding
from dm_worker.syncer.shard_ddl.source_groups import SourceGroups
from dm_worker.syncer.unit.batch_runner import BatchRunner
from dm_worker.syncer.unit.connections import RunConnections
from dm_worker.syncer.unit.recovery import is_unsafe, recovery_of
from dm_worker.syncer.unit.stream_opener import StreamOpener
from dm_worker.syncer.unit.takeover import TakeoverFacts, takeover_of, takeover_text
from dm_worker.syncer.unit.target_facts import TargetFacts
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig, SyncerConfig
from pkg.ha.binlog_operator import OperatorSource
from pkg.mysql.introspect import list_all_tables, server_info
from pkg.mysql.names import qualified
from pkg.mysql.retry import retrying
from pkg.process.log import get_logger
from pkg.rules.value_loss import ALLOW
from pkg.schema_tracker import fetch_server_defaults

log = get_logger("syncer")

#: Statements are kept well below what the target takes in one packet.
STATEMENT_BYTES = 1024 * 1024


def _nothing(*_: str) -> bool:
    return False


@dataclass(slots=True)
class RunParts:
    """What a run works with once it has taken over. ``redo`` is the open intent that must be finished first.
    ``sharding`` and ``lock_client``: only with merged shards. ``takeover``: what DM left, if it did."""

    runner: BatchRunner
    barrier: DDLBarrier
    registry: TableRegistry
    keys: ForeignKeyWatch
    sharding: Sharding | None
    lock_client: LockClient | None
    redo: BatchProgress | None
    takeover: TakeoverFacts | None


class RunAssembly:
    """Takes the subtask over, and builds the parts. All of it happens in the main thread, before anything is read."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        *,
        engine: SparkEngine,
        group: str,
        rules: TaskRules,
        connections: RunConnections,
        opener: StreamOpener,
        policy: BatchPolicy,
        orders: OperatorSource,
        lock_service: LockService | None,
        reading: Callable[[], Location | None],
        should_stop: Callable[[], bool],
        figures: ApplyFigures,
        safe_request: int = 0,
    ) -> None:
        """``reading``: where the planning thread reads; None while there is none. ``safe_request``: as in
        ``Control``."""
        self._cfg = cfg
        self._engine = engine
        self._group = group
        self._rules = rules
        self._connections = connections
        self._store = connections.store
        self._opener = opener
        self._policy = policy
        self._orders = orders
        self._lock_service = lock_service
        self._reading = reading
        self._should_stop = should_stop
        self._figures = figures
        self._safe_request = safe_request
        self._lock_client: LockClient | None = None

    def take_over(self) -> RunParts:
        """No other run of this subtask can write any more when it returns. Raises DMError."""
        durable = self._raise_epoch()
        groups = stored_groups(durable.shards, self._rules.route, by_gtid=self._cfg.enable_gtid)
        recovery = recovery_of(
            self._cfg,
            self._store,
            self._connections.upstream,
            self._opener,
            durable,
            None if groups is None else groups.reread,
        )
        log.info(
            "taking over", task=self._cfg.name, source=self._cfg.source_id, epoch=durable.epoch,
            location=str(recovery.location), unfinished=recovery.redo is not None, safe_mode=recovery.safe,
        )  # fmt: skip
        if self._cfg.syncer.batch != SyncerConfig().batch:
            log.info("syncers.batch has no effect: a transaction contains a writer's rows of one batch of the binlog")
        takeover = self._takeover(durable, foreign=recovery.safe)
        source = self._schema_source(durable, takeover, trust_dump=not recovery.safe)
        ours = durable.checkpoint is not None and not recovery.safe
        sharding = self._sharding(groups, source, durable.checkpoint, ours=ours)
        registry = self._registry(source, sharding)
        sequencer = Sequencer(durable.epoch, durable.progress, recovery.location, recovery.prepared, self._safe_request)
        runner = self._batch_runner(sequencer, source, sharding)
        online = OnlineDDL(self._rules.online, durable.ghosts)
        barrier = self._barrier(source, online, TemporaryTables(self._cfg.flavor, durable.temporary), sharding)
        keys = ForeignKeyWatch(self._connections.servers_keys.problems, self._connections.servers_keys.end)
        return RunParts(runner, barrier, registry, keys, sharding, self._lock_client, recovery.redo, takeover)

    def _raise_epoch(self) -> DurableState:
        self._store.prepare()
        durable = self._store.take_over(self._cfg.syncer.worker_count)
        # No intent of an earlier run can be written any more. A statement that has one must not begin later on.
        still_ours = partial(self._store.ensure_epoch, durable.epoch)
        retrying(lambda: self._connections.ddl_session.take_over(still_ours), should_stop=self._should_stop)
        return durable

    def _takeover(self, durable: DurableState, *, foreign: bool) -> TakeoverFacts | None:
        """What DM left. Nothing of its checkpoint is changed before it is copied."""
        server = self._connections.upstream.ask(fetch_server_defaults)
        takeover = takeover_of(durable, server, foreign=foreign)
        if takeover is not None and foreign:
            self._store.keep_foreign(durable.epoch)
            log.info(
                "taken over", task=self._cfg.name, source=self._cfg.source_id,
                what=takeover_text(takeover, self._store.exit_safe),
            )  # fmt: skip
        return takeover

    # -- merged shards ------------------------------------------------------------------------------------------

    def _sharding(
        self, groups: SourceGroups | None, source: SchemaSource, checkpoint: Location | None, *, ours: bool
    ) -> Sharding | None:
        """The shard groups at work; None when nothing merges. ``ours``: the checkpoint is the one of ``groups``."""
        if not self._cfg.shard_mode:
            if groups is not None:
                ensure_settled(groups, "shard-mode is switched off")
                self._store.forget_shards()
            return None
        if groups is not None and not ours:
            ensure_settled(groups, "the checkpoint was changed by hand")
            # Else those of targets that no table is routed to any more would stay.
            self._store.forget_shards()
            groups = None
        assert self._lock_service is not None, "merged shards need the other sources"
        listed = self._tables(checkpoint)
        if groups is None:
            groups = new_groups(listed, self._rules.route, by_gtid=self._cfg.enable_gtid)
            changed = set(groups.groups)
        else:
            changed = regroup(groups, listed, self._rules.allows)
            if changed:
                log.info("grouped merged tables again", targets=", ".join(qualified(*one) for one in sorted(changed)))
        self._lock_client = LockClient(self._lock_service, self._cfg.name, self._cfg.source_id)
        return Sharding(
            groups,
            self._lock_client,
            source,
            takes_rows=self._rules.takes_rows,
            task=self._cfg.name,
            source_id=self._cfg.source_id,
            changed=changed,
        )

    def _tables(self, checkpoint: Location | None) -> list[tuple[str, str]]:
        """The migrated tables that there are now, and those that there were when the full copy was made."""
        found = self._connections.upstream.ask(list_all_tables)
        names = {(schema, table) for schema, tables in found.items() for table in tables}
        if checkpoint is None:
            # Those that were dropped since have a DROP after the position of the copy.
            names |= dumped_tables(self._cfg)
        return sorted(name for name in names if self._rules.allows(*name))

    # -- table plans --------------------------------------------------------------------------------------------

    def _schema_source(
        self, durable: DurableState, takeover: TakeoverFacts | None, *, trust_dump: bool
    ) -> SchemaSource:
        upstream, target = self._connections.upstream, self._connections.target
        source = SchemaSource(
            server=upstream.ask(fetch_server_defaults),
            dump_files=dump_schema_files(self._cfg),
            upstream=upstream.table,
            target=lambda schema, table: target.table(*self._rules.route(schema, table)),
            schema_charset=upstream.schema_charset,
            trust_dump=trust_dump,
            filled=self._rules.filled,
            unaltered=self._is_unaltered,
        )
        stored = durable.structures
        source.restore(stored.tables, stored.given_up)
        if takeover is not None:
            source.take_over(takeover.structures, takeover.ghosts)
        return source

    def _is_unaltered(self, table: str) -> bool:
        """Whether no statement between the reading position and now may be about a table of that name."""
        location = self._reading()
        return location is not None and self._opener.is_unaltered(table, location)

    def _registry(self, source: SchemaSource, sharding: Sharding | None) -> TableRegistry:
        target = self._connections.target
        facts = TargetFacts(self._cfg, target, self._connections.servers_keys)
        compact = self._cfg.syncer.compact is not False
        return TableRegistry(
            allows=self._rules.takes_rows if sharding is None else sharding.allows,
            holds_back=_nothing if sharding is None else sharding.holds_back,
            route=self._rules.route,
            rules=self._rules.of_table,
            source=source if sharding is None else sharding,
            target=target.table,
            options=PlanOptions(
                compact,
                TargetCharsets(facts.collation_weights, facts.characters),
                facts.values(),
                lossy=self._cfg.lossy_conversions == ALLOW,
                differing=partial(facts.differing_variables, self._connections.upstream),
            ),
            foreign_keys=facts.checked_keys,
            unsafe_engines=facts.unsafe_engines,
            is_there=lambda name: source.tracker.table(*name) is not None,
        )

    # -- what the main loop calls -------------------------------------------------------------------------------

    def _barrier(
        self, source: SchemaSource, online: OnlineDDL, temporary: TemporaryTables, sharding: Sharding | None
    ) -> DDLBarrier:
        session, server = self._connections.ddl_session, source.tracker.server
        flavor = self._connections.target.ask(server_info).flavor
        executor = DDLExecutor(
            store=self._store,
            session=session,
            trial=Trial(self._cfg, session, flavor),
            target_flavor=flavor,
            upstream=UpstreamSession(self._cfg.flavor, server.version, server.explicit_timestamp, server.engine),
            should_stop=self._should_stop,
            collations=UpstreamCollations(server) if self._cfg.collation_compatible == "strict" else None,
        )
        return DDLBarrier(
            self._cfg,
            rules=self._rules,
            source=source,
            online=online,
            store=self._store,
            executor=executor,
            system_zone=self._connections.upstream.system_zone,
            upstream_tables=lambda: self._connections.upstream.ask(list_all_tables),
            orders=self._orders,
            sharding=sharding,
            temporary=temporary,
            unaltered=self._opener.is_unaltered,
        )

    def _batch_runner(self, sequencer: Sequencer, source: SchemaSource, sharding: Sharding | None) -> BatchRunner:
        cfg, store = self._cfg, self._store
        form = StatementForm(
            multiple=cfg.syncer.multiple_rows is not False,
            limit=min(STATEMENT_BYTES, max(16 * 1024, cfg.to.max_allowed_packet // 2)),
            alias=wants_alias(self._connections.target.ask(server_info)),
            checks=bool(cfg.to.foreign_key_checks),
        )
        return BatchRunner(
            engine=self._engine,
            group=self._group,
            store=store,
            sequencer=sequencer,
            source=source,
            target=TargetSpec(cfg.to, cfg.to.session, store.markers, store.batches, form),
            workers=cfg.syncer.worker_count,
            policy=self._policy,
            settings=self._settings(),
            is_unsafe=lambda location: is_unsafe(cfg, store.exit_safe, location),
            should_stop=self._should_stop,
            figures=self._figures,
            sharding=sharding,
        )

    def _settings(self) -> bytes:
        """What of the configuration decides how a range is planned. A digest of it is stored."""
        syncer = self._cfg.syncer
        rules = (self._rules.settings, syncer.compact, bool(self._cfg.to.foreign_key_checks))
        if syncer.safe_mode:
            # A batch that stopped in another mode gets a new number, and is applied again in this one.
            return blake2b(stored_text((*rules, "safe mode")).encode(), digest_size=16).digest()
        return blake2b(stored_text(rules).encode(), digest_size=16).digest()
