"""The shard groups that a run begins with: those that are stored, or the tables that the upstream has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dm_worker.syncer.shard_ddl.groups_snapshot import GroupsSnapshot, decode
from dm_worker.syncer.shard_ddl.source_groups import SourceGroups, TargetOf
from pkg import errors
from pkg.errors import Code
from pkg.mysql.names import TableId, qualified

#: Whether an upstream table takes part in the task.
Allows = Callable[[str, str], bool]


def stored_groups(stored: GroupsSnapshot | None, route: TargetOf, *, by_gtid: bool) -> SourceGroups | None:
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


def new_groups(tables: Iterable[tuple[str, str]], route: TargetOf, *, by_gtid: bool = False) -> SourceGroups:
    """Groups of ``tables``, none of which has run a DDL. ``by_gtid``: how statements are named."""
    groups = SourceGroups(route)
    groups.by_gtid = by_gtid
    for table in tables:
        groups.join(table)
    return groups


def regroup(groups: SourceGroups, listed: Iterable[TableId], allows: Allows) -> set[TableId]:
    """Brings stored groups in line with the routes and the allow-list of now. Returns the targets of those it changed.

    No group waits for a table that does not take part any more. Where no DDL is unsettled, the tables are those that
    were there at the checkpoint, and those that are ``listed`` now: each under its present route. Raises 36005 for one
    that was there and is routed to a group with an unsettled DDL now.
    """
    before = {target: set(group.members) for target, group in groups.groups.items()}
    there: list[TableId] = []
    for group in groups.groups.values():
        kept = {table: lifetime for table, lifetime in group.members.items() if allows(*table)}
        there += [] if group.ddls else kept
        group.members = kept if group.ddls else {}
    for table in there:
        groups.join(table)
    for table in listed:
        # Into a sequence a table comes by its creation only, which may be still to be read.
        if not groups.group_of(table).ddls:
            groups.join(table)
    return {target for target, group in groups.groups.items() if set(group.members) != before.get(target, set())}


def ensure_settled(groups: SourceGroups, why: str) -> None:
    """Raises 36058 when a DDL is not settled: rows are held back, and only this state knows which."""
    open_ = [group for group in groups.groups.values() if group.ddls]
    if open_:
        raise errors.new(
            Code.SyncerUnitUpdateConfigInSharding,
            f"{why}, but the DDL {'; '.join(open_[0].ddls[0].statements)[:500]} of {qualified(*open_[0].target)} "
            "is not resolved: the rows after it are held back",
            workaround="Undo the change, and repeat it when query-status shows no unresolvedGroups. Or migrate the "
            "merged tables again: start the task with --remove-meta.",
        )
