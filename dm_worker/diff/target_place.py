"""Where the target's rows of a source are, as a session's snapshot of the target shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from dm_worker.meta.syncer_tables import syncer_table
from dm_worker.syncer.checkpoint.target_location import TargetLocation, location_in
from dm_worker.syncer.shard_ddl.held_targets import held_targets
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """One source of one task. ``shards``: whether its tables may wait for a DDL of merged shards."""

    meta_schema: str
    task: str
    source: str
    flavor: str
    shards: bool

    @classmethod
    def of(cls, cfg: SubTaskConfig) -> TargetPlace:
        return cls(cfg.meta_schema, cfg.name, cfg.source_id, cfg.flavor, bool(cfg.shard_mode))

    def look(self, session: Connection[Any], place: Location) -> TargetLocation:
        """Where the target's rows are in the session's snapshot, seen from ``place``."""
        return location_in(
            session,
            meta_schema=self.meta_schema,
            task=self.task,
            source=self.source,
            location=place,
            flavor=self.flavor,
        )

    def lock(self, session: Connection[Any]) -> bool:
        """Until the end of the session's transaction, no batch of the source can be written: the syncer's transactions
        wait for these rows. Returns whether the transaction's snapshot has them as they are locked."""
        same = True
        for table, columns in (("batch", "batch, epoch, state, writes"), ("marker", "bucket, batch, epoch")):
            sql = f"SELECT {columns} FROM {qualified(self.meta_schema, syncer_table(self.task, table))} WHERE id = %s"
            locked = query(session, f"{sql} FOR UPDATE", (self.source,))
            same = same and sorted(locked) == sorted(query(session, sql, (self.source,)))
        return same

    def held(self, session: Connection[Any]) -> frozenset[TableId]:
        """The target tables for which rows may be held back until a DDL of merged shards is settled."""
        if not self.shards:
            return frozenset()
        return held_targets(session, self.meta_schema, self.task, self.source)
