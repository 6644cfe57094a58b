"""How the shards of a run are coordinated: by the shard mode and the durable state."""

from __future__ import annotations

from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.checkpoint.start_location import dumped_tables
from dm_worker.syncer.ddl.routed_steps import StepRouter
from dm_worker.syncer.ddl.statement_decisions import AtOnce, ByShardGroups, StatementDecisions
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.shard_ddl.coordination import NoSharding, ShardCoordination
from dm_worker.syncer.shard_ddl.initial_groups import ensure_settled, new_groups, regroup, stored_groups
from dm_worker.syncer.shard_ddl.lock_client import LockClient, LockService
from dm_worker.syncer.shard_ddl.pessimistic import Pessimistic
from dm_worker.syncer.shard_ddl.source_groups import SourceGroups
from dm_worker.syncer.unit.run_scope import RunScope
from pkg.binlog.position import Location
from pkg.mysql.introspect import list_all_tables
from pkg.mysql.names import qualified
from pkg.process.log import get_logger

log = get_logger("syncer")


class ShardAssembly:
    """Creates the coordination of one run."""

    def __init__(self, scope: RunScope, lock_service: LockService | None) -> None:
        self._scope = scope
        self._lock_service = lock_service

    def groups(self, durable: DurableState) -> SourceGroups | None:
        """The groups that an earlier run stored. Raises 36007 or 36058."""
        cfg = self._scope.cfg
        return stored_groups(durable.shards, self._scope.rules.route, by_gtid=cfg.enable_gtid)

    def build(
        self,
        groups: SourceGroups | None,
        source: SchemaSource,
        router: StepRouter,
        online: OnlineDDL,
        checkpoint: Location | None,
        *,
        ours: bool,
    ) -> tuple[ShardCoordination, StatementDecisions]:
        """Builds the coordination of the shard mode. ``ours``: the checkpoint is that of ``groups``."""
        if self._scope.cfg.shard_mode:
            sharding = self._pessimistic(groups, source, checkpoint, ours=ours)
            return sharding, ByShardGroups(sharding, router, online)
        if groups is not None:
            ensure_settled(groups, "shard-mode is switched off")
            self._scope.connections.store.forget_shards()
        return NoSharding(source, self._scope.rules.takes_rows), AtOnce()

    def _pessimistic(
        self, groups: SourceGroups | None, source: SchemaSource, checkpoint: Location | None, *, ours: bool
    ) -> Pessimistic:
        if groups is not None and not ours:
            ensure_settled(groups, "the checkpoint was changed by hand")
            # Otherwise, groups of targets that no table is routed to any more would stay.
            self._scope.connections.store.forget_shards()
            groups = None
        assert self._lock_service is not None, "merged shards need the other sources"
        listed = self._tables(checkpoint)
        if groups is None:
            groups = new_groups(listed, self._scope.rules.route, by_gtid=self._scope.cfg.enable_gtid)
            changed = set(groups.groups)
        else:
            changed = regroup(groups, listed, self._scope.rules.allows)
            if changed:
                log.info("grouped merged tables again", targets=", ".join(qualified(*one) for one in sorted(changed)))
        return Pessimistic(
            groups,
            LockClient(self._lock_service, self._scope.cfg.name, self._scope.cfg.source_id),
            source,
            takes_rows=self._scope.rules.takes_rows,
            task=self._scope.cfg.name,
            source_id=self._scope.cfg.source_id,
            changed=changed,
        )

    def _tables(self, checkpoint: Location | None) -> list[tuple[str, str]]:
        """The current migrated tables, and those at the time of the full copy."""
        found = self._scope.connections.upstream.ask(list_all_tables)
        names = {(schema, table) for schema, tables in found.items() for table in tables}
        if checkpoint is None:
            # For those dropped since, a DROP follows the position of the copy.
            names |= dumped_tables(self._scope.cfg)
        return sorted(name for name in names if self._scope.rules.allows(*name))
