"""The sharding groups that a run begins with: those that are stored, or the tables that the upstream has. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dm_worker.syncer.shard_groups import Route, ShardGroups
from dm_worker.syncer.shard_snapshot import Snapshot, decode
from pkg import errors
from pkg.mysql.names import qualified


def stored_groups(stored: Snapshot | None, route: Route, *, by_gtid: bool) -> ShardGroups | None:
    """What an earlier run stored; None for nothing. ``by_gtid``: how statements are named from now on.

    Raises 36007 when it can't be read; 36058 under other routes, and with other names, while a DDL is not settled.
    """
    if stored is None:
        return None
    groups = decode(stored, route)
    groups.ensure_routes()
    if groups.by_gtid not in (None, by_gtid):
        # The statements that the re-read has to meet would never come under these names.
        ensure_settled(groups, f"enable-gtid was switched {'on' if by_gtid else 'off'}")
    groups.by_gtid = by_gtid
    return groups


def new_groups(tables: Iterable[tuple[str, str]], route: Route, *, by_gtid: bool = False) -> ShardGroups:
    """Groups of ``tables``, none of which has run a DDL. ``by_gtid``: how statements are named."""
    groups = ShardGroups(route)
    groups.by_gtid = by_gtid
    for table in tables:
        groups.join(table)
    return groups


def ensure_settled(groups: ShardGroups, why: str) -> None:
    """Raises 36058 when a DDL is not settled: rows are held back, and only this state knows which."""
    open_ = [group for group in groups.groups.values() if group.ddls]
    if open_:
        raise errors.new(
            "SyncerUnitUpdateConfigInSharding",
            f"{why}, but the DDL {'; '.join(open_[0].ddls[0].statements)[:500]} of {qualified(*open_[0].target)} is "
            "not settled: rows behind it are held back",
            workaround="Undo the change, and make it when query-status shows no unresolvedGroups. Or migrate the "
            "merged tables again: start the task with --remove-meta.",
        )
