"""Assembles the parts of a run from its configuration and from the durable state at the target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.checkpoint.protocol import BatchProgress, Sequencer
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.foreign_key_watch import ForeignKeyWatch
from dm_worker.syncer.ddl.temporary_tables import TemporaryTables
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.rows.table_registry import TableRegistry
from dm_worker.syncer.shard_ddl.coordination import ShardCoordination
from dm_worker.syncer.unit.applying import RunApplying
from dm_worker.syncer.unit.batch_runner import BatchRunner
from dm_worker.syncer.unit.reading import RunReading
from dm_worker.syncer.unit.run_scope import RunScope
from dm_worker.syncer.unit.shard_assembly import ShardAssembly
from dm_worker.syncer.unit.takeover import TakeoverFacts, takeover_of, takeover_text
from pkg.config.model import SyncerConfig
from pkg.mysql.retry import retrying
from pkg.process.log import get_logger
from pkg.schema_tracker import fetch_server_defaults

log = get_logger("syncer")


@dataclass(slots=True)
class RunParts:
    """The parts of a run once it has taken over. ``redo`` is the open intent that must be finished first.
    ``takeover``: what DM left, if it did."""

    runner: BatchRunner
    barrier: DDLBarrier
    registry: TableRegistry
    keys: ForeignKeyWatch
    sharding: ShardCoordination
    redo: BatchProgress | None
    takeover: TakeoverFacts | None


class RunAssembly:
    """Takes the subtask over and builds the parts. All of it runs in the main thread, before anything is read.

    ``safe_request``: as in ``Control``.
    """

    def __init__(
        self,
        scope: RunScope,
        *,
        reading: RunReading,
        applying: RunApplying,
        shards: ShardAssembly,
        safe_request: int = 0,
    ) -> None:
        self._scope = scope
        self._store = scope.connections.store
        self._reading = reading
        self._applying = applying
        self._shards = shards
        self._safe_request = safe_request

    def take_over(self) -> RunParts:
        """Takes over: when it returns, no other run of this subtask can write any more. Raises DMError."""
        cfg, rules, connections = self._scope.cfg, self._scope.rules, self._scope.connections
        durable = self._raise_epoch()
        groups = self._shards.groups(durable)
        recovery = self._reading.recovery(durable, None if groups is None else groups.reread)
        log.info(
            "taking over", task=cfg.name, source=cfg.source_id, epoch=durable.epoch,
            location=str(recovery.location), unfinished=recovery.redo is not None, safe_mode=recovery.safe,
        )  # fmt: skip
        if cfg.syncer.batch != SyncerConfig().batch:
            log.info("syncers.batch has no effect: a transaction contains a writer's rows of one batch of the binlog")
        takeover = self._takeover(durable, foreign=recovery.safe)
        source = self._reading.structures(durable, takeover, trust_dump=not recovery.safe)
        ours = durable.checkpoint is not None and not recovery.safe
        online = OnlineDDL(rules.online, durable.ghosts)
        router = self._applying.router(source, self._reading.is_unaltered)
        sharding, decisions = self._shards.build(groups, source, router, online, durable.checkpoint, ours=ours)
        registry = self._reading.registry(source, sharding)
        sequencer = Sequencer(durable.epoch, durable.progress, recovery.location, recovery.prepared, self._safe_request)
        runner = self._applying.batch_runner(sequencer, source, sharding)
        temporary = TemporaryTables(cfg.flavor, durable.temporary)
        barrier = self._applying.barrier(source, online, temporary, router, decisions)
        keys = ForeignKeyWatch(connections.servers_keys.problems, connections.servers_keys.end)
        return RunParts(runner, barrier, registry, keys, sharding, recovery.redo, takeover)

    def _raise_epoch(self) -> DurableState:
        self._store.prepare()
        durable = self._store.take_over(self._scope.cfg.syncer.worker_count)
        # No intent of an earlier run can be written any more. A statement with an intent must not begin later.
        still_ours = partial(self._store.ensure_epoch, durable.epoch)
        retrying(lambda: self._scope.connections.ddl_session.take_over(still_ours), should_stop=self._scope.should_stop)
        return durable

    def _takeover(self, durable: DurableState, *, foreign: bool) -> TakeoverFacts | None:
        """What DM left. Its checkpoint is copied before anything of it changes."""
        server = self._scope.connections.upstream.ask(fetch_server_defaults)
        takeover = takeover_of(durable, server, foreign=foreign)
        if takeover is not None and foreign:
            self._store.keep_foreign(durable.epoch)
            log.info(
                "taken over", task=self._scope.cfg.name, source=self._scope.cfg.source_id,
                what=takeover_text(takeover, self._store.exit_safe),
            )  # fmt: skip
        return takeover
