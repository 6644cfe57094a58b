"""The shard groups at the start of a run: the stored ones, or those of the upstream's tables. Pure."""

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
    """The groups that an earlier run stored; None for none. ``by_gtid``: how statements are named from now on.

    Raises 36007 when they are unreadable; 36058 under other routes, and with other names, while a DDL is not settled.
    """
    if stored is None:
        return None
    groups = decode(stored, route)
    groups.ensure_routes()
    if groups.by_gtid not in (None, by_gtid):
        # The statements that the re-read must find would never have these names.
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
    """Adapts stored groups to the current routes and allow-list. Returns the targets of those that it changed.

    No group waits for a table that does not take part any more. Where no DDL is unsettled, the tables are those that
    existed at the checkpoint, and those that are ``listed`` now: each under its current route. Raises 36005 for one
    that existed and is now routed to a group with an unsettled DDL.
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
        # A table joins a sequence only by its creation, which may not be read yet.
        if not groups.group_of(table).ddls:
            groups.join(table)
    return {target for target, group in groups.groups.items() if set(group.members) != before.get(target, set())}


def ensure_settled(groups: SourceGroups, why: str) -> None:
    """Raises 36058 when a DDL is not settled: rows are held back, and only this state identifies them."""
    open_ = [group for group in groups.groups.values() if group.ddls]
    if open_:
        raise errors.new(
            Code.SyncerUnitUpdateConfigInSharding,
            f"{why}, but the DDL {'; '.join(open_[0].ddls[0].statements)[:500]} of {qualified(*open_[0].target)} "
            "is not resolved: the rows after it are held back",
            workaround="Undo the change, and repeat it when query-status shows no unresolvedGroups. Or migrate the "
            "merged tables again: start the task with --remove-meta.",
        )
