"""The state of a source's shard groups for query-status: plain values. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dm_worker.syncer.shard_ddl.group import ShardGroup
from dm_worker.syncer.shard_ddl.source_groups import SourceGroups
from pkg.mysql.names import qualified


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group with unsettled DDLs: DM's ``ShardingGroup``, with additional fields.

    ``target`` and the tables are quoted names; ``synced`` are past the DDL, ``unsynced`` not yet. ``ddls`` is the
    active DDL, ``first_location`` where the first table ran it. ``number`` counts the group's DDLs on this source,
    ``waiting`` those after the active one. ``held_rows`` were read and are not applied yet; ``rereading``: those of
    the active DDL are being applied.
    """

    target: str
    ddls: tuple[str, ...]
    first_location: str
    synced: tuple[str, ...]
    unsynced: tuple[str, ...]
    number: int
    waiting: int
    held_rows: int
    rereading: bool


@dataclass(frozen=True, slots=True)
class ShardingStatus:
    """``blocking_ddls`` are reported and wait for the lock service, of all groups."""

    unresolved: tuple[GroupStatus, ...] = ()
    blocking_ddls: tuple[str, ...] = ()

    @property
    def held_rows(self) -> int:
        return sum(group.held_rows for group in self.unresolved)


#: The status of a run without shards.
NO_GROUPS = ShardingStatus()


def status_of(groups: SourceGroups) -> ShardingStatus:
    """The state of all groups that have unsettled DDLs, by their targets' names."""
    busy = sorted((group for group in groups.groups.values() if group.ddls), key=lambda group: group.target)
    target = groups.reread.target if groups.reread is not None else None
    blocking = [text for one in busy if one.in_sync and one.target != target for text in one.ddls[0].statements]
    return ShardingStatus(tuple(_status(one, rereading=one.target == target) for one in busy), tuple(blocking))


def _status(group: ShardGroup, *, rereading: bool) -> GroupStatus:
    active = group.ddls[0]
    tables = sorted(group.members.items())
    return GroupStatus(
        target=group.name,
        ddls=active.statements,
        first_location=str(active.start),
        synced=tuple(qualified(*name) for name, lifetime in tables if lifetime.steps),
        unsynced=tuple(qualified(*name) for name, lifetime in tables if not lifetime.steps),
        number=group.number,
        waiting=len(group.ddls) - 1,
        held_rows=group.held,
        rereading=rereading,
    )
