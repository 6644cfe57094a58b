"""The syncer: reads binlog events, plans batches, applies them with Spark exactly once to the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dm_worker.syncer.unit.sync_unit import SyncUnit as SyncUnit


def __getattr__(name: str) -> object:
    # Spark's Python workers import modules of this package, and must not load what the unit needs (protobuf, grpc).
    if name == "SyncUnit":
        from dm_worker.syncer.unit.sync_unit import SyncUnit

        return SyncUnit
    raise AttributeError(name)
