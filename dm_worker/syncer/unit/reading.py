"""How a run reads: its start location, the structures of the rows, and the plans of their tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.checkpoint.protocol import Recovery
from dm_worker.syncer.checkpoint.start_location import dump_schema_files
from dm_worker.syncer.rows.key_normalization import TargetCharsets
from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.table_registry import TableRegistry
from dm_worker.syncer.shard_ddl.coordination import ShardCoordination
from dm_worker.syncer.shard_ddl.reread import RereadPass
from dm_worker.syncer.unit.recovery import recovery_of
from dm_worker.syncer.unit.run_scope import RunScope
from dm_worker.syncer.unit.stream_opener import StreamOpener
from dm_worker.syncer.unit.takeover import TakeoverFacts
from dm_worker.syncer.unit.target_facts import TargetFacts
from pkg.binlog.position import Location
from pkg.rules.value_loss import ALLOW
from pkg.schema_tracker import fetch_server_defaults


class RunReading:
    """Builds the parts that interpret the binlog. ``position``: where the planning thread reads; None while there is no
    such thread."""

    def __init__(self, scope: RunScope, opener: StreamOpener, position: Callable[[], Location | None]) -> None:
        self._scope = scope
        self._opener = opener
        self._position = position

    def recovery(self, durable: DurableState, reread: RereadPass | None) -> Recovery:
        """Where to continue from the durable state; sets where the store leaves safe mode. Raises DMError."""
        connections = self._scope.connections
        return recovery_of(self._scope.cfg, connections.store, connections.upstream, self._opener, durable, reread)

    def structures(self, durable: DurableState, takeover: TakeoverFacts | None, *, trust_dump: bool) -> SchemaSource:
        """The structures of upstream tables that an earlier run or DM left."""
        upstream, target = self._scope.connections.upstream, self._scope.connections.target
        source = SchemaSource(
            server=upstream.ask(fetch_server_defaults),
            dump_files=dump_schema_files(self._scope.cfg),
            upstream=upstream.table,
            target=lambda schema, table: target.table(*self._scope.rules.route(schema, table)),
            schema_charset=upstream.schema_charset,
            trust_dump=trust_dump,
            filled=self._scope.rules.filled,
            unaltered=self._is_unaltered,
        )
        stored = durable.structures
        source.restore(stored.tables, stored.given_up)
        if takeover is not None:
            source.take_over(takeover.structures, takeover.ghosts)
        return source

    def is_unaltered(self, table: str, location: Location) -> bool:
        """See :meth:`StreamOpener.is_unaltered`."""
        return self._opener.is_unaltered(table, location)

    def _is_unaltered(self, table: str) -> bool:
        """Whether no statement between the reading position and now may refer to a table of that name."""
        location = self._position()
        return location is not None and self.is_unaltered(table, location)

    def registry(self, source: SchemaSource, sharding: ShardCoordination) -> TableRegistry:
        """The plans of the tables whose rows ``sharding`` accepts."""
        target = self._scope.connections.target
        facts = TargetFacts(self._scope.cfg, target, self._scope.connections.servers_keys)
        compact = self._scope.cfg.syncer.compact is not False
        return TableRegistry(
            allows=sharding.allows,
            holds_back=sharding.holds_back,
            route=self._scope.rules.route,
            rules=self._scope.rules.of_table,
            source=sharding,
            target=target.table,
            options=PlanOptions(
                compact,
                TargetCharsets(facts.collation_weights, facts.characters),
                facts.values(),
                lossy=self._scope.cfg.lossy_conversions == ALLOW,
                differing=partial(facts.differing_variables, self._scope.connections.upstream),
            ),
            foreign_keys=facts.checked_keys,
            unsafe_engines=facts.unsafe_engines,
            is_there=lambda name: source.tracker.table(*name) is not None,
        )
