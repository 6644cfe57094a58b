"""The durable state of a source's shard groups, as JSON. Pure.

It belongs to one location of the main pass, like the checkpoint. A group's text changes with statements and with the
lock service's decisions; ``progress`` (the re-read, the counts) is small and may change with each batch. So a store
writes only what differs. The texts are ASCII, independent of the charset of their table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dm_worker.syncer.shard_ddl.group import (
    Boundary,
    GroupDDL,
    PassedDDL,
    PendingAcknowledgement,
    ShardGroup,
    TableLifetime,
)
from dm_worker.syncer.shard_ddl.reread import RereadPass
from dm_worker.syncer.shard_ddl.source_groups import SourceGroups, TargetOf
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.errors import Code
from pkg.mysql.names import TableId

_FORMAT = "shard-groups/1"


@dataclass(frozen=True, slots=True)
class GroupsSnapshot:
    """One text per group, by target table, and the rest."""

    groups: dict[TableId, str] = field(default_factory=dict)
    progress: str = ""


def encode(groups: SourceGroups) -> GroupsSnapshot:
    """The state to store at the location up to which everything was reported to ``groups``."""
    encoded = {group.target: encode_group(group) for group in groups.groups.values()}
    return GroupsSnapshot({target: text for target, text in encoded.items() if text}, encode_progress(groups))


def encode_group(group: ShardGroup) -> str:
    """All of a group except its counts; '' for one that need not be stored."""
    return _dumps(_Texts().group(group)) if group.members or group.ddls or group.pending_acknowledgement else ""


def encode_progress(groups: SourceGroups) -> str:
    """The part that changes with a batch."""
    reread = groups.reread
    progress = {
        "format": _FORMAT,
        "newest": [groups.newest, groups.newest_key],
        "inside": groups.inside,
        "by_gtid": groups.by_gtid,
        "reread": None if reread is None else _from_pass(reread),
        "held": [[list(one.target), [ddl.held for ddl in one.ddls]] for one in groups.groups.values() if one.ddls],
    }
    return _dumps(progress)


def decode(snapshot: GroupsSnapshot, route: TargetOf) -> SourceGroups:
    """Restores the state; an empty snapshot has no groups. Raises 36007 for any other input than :func:`encode`'s."""
    groups = SourceGroups(route)
    if not snapshot.progress:
        return groups
    try:
        progress = json.loads(snapshot.progress)
        _ensure_format(progress)
        for target, text in snapshot.groups.items():
            groups.groups[target] = _to_group(target, json.loads(text))
        for target, counts in progress["held"]:
            for ddl, held in zip(groups.groups[_table(target)].ddls, counts, strict=True):
                ddl.held = held
        number, key = progress["newest"]
        groups.newest, groups.newest_key = int(number), str(key)
        groups.inside = bool(progress["inside"])
        # Earlier versions did not store it.
        groups.by_gtid = progress.get("by_gtid")
        if progress["reread"] is not None:
            groups.reread = _to_pass(progress["reread"], groups)
    except (ValueError, KeyError, TypeError, IndexError) as exc:
        raise errors.new(
            Code.SyncUnitInvalidShardMeta,
            "the stored state of the sharding groups can't be read",
            raw=exc,
            scope="downstream",
            workaround="Another version of this program or a manual change wrote it. Continue with the version that "
            "wrote it, or give the merged tables the same structure and start the task again with "
            "--remove-meta.",
        ) from exc
    return groups


class _Texts:
    """Most tables of a group have the same structure: each structure is written once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def group(self, group: ShardGroup) -> dict[str, Any]:
        pending_acknowledgement = group.pending_acknowledgement
        data = {
            "format": _FORMAT,
            "number": group.number,
            "owed": None
            if pending_acknowledgement is None
            else [
                pending_acknowledgement.number,
                pending_acknowledgement.statements,
                pending_acknowledgement.executed,
                pending_acknowledgement.revision,
            ],
            "ddls": [
                [
                    list(ddl.statements),
                    list(ddl.first),
                    _from_boundary(ddl.boundary),
                    _from_location(ddl.start),
                    ddl.session,
                ]
                for ddl in group.ddls
            ],
            "members": self._lifetimes(group.members.values()),
            "gone": self._lifetimes(group.gone),
        }
        return {**data, "structures": list(self._numbers)}

    def _lifetimes(self, lifetimes: Iterable[TableLifetime]) -> list[Any]:
        return [
            [
                list(lifetime.table),
                [
                    [self._at(step.boundary, step.structure), *(self._at(*change) for change in step.changes)]
                    for step in lifetime.steps
                ],
                None if lifetime.end is None else _from_boundary(lifetime.end),
            ]
            for lifetime in lifetimes
        ]

    def _at(self, boundary: Boundary, structure: str) -> list[Any]:
        return [*_from_boundary(boundary), self._numbers.setdefault(structure, len(self._numbers))]


def _from_pass(reread: RereadPass) -> list[Any]:
    prepared = [[xid.hex(), _from_location(start)] for xid, start in reread.prepared.items()]
    return [list(reread.target), _from_location(reread.at), _from_location(reread.end), reread.passed, prepared]


def _to_pass(data: Any, groups: SourceGroups) -> RereadPass:
    named, at, end, passed, prepared = data
    target = _table(named)
    reread = RereadPass(target, _to_location(at), _to_location(end), int(passed), groups.groups[target].segments())
    reread.prepared = {bytes.fromhex(xid): _to_location(start) for xid, start in prepared}
    return reread


def _to_group(target: TableId, data: Any) -> ShardGroup:
    _ensure_format(data)
    group = ShardGroup(target)
    group.number = int(data["number"])
    if data["owed"] is not None:
        number, statements, executed, revision = data["owed"]
        group.pending_acknowledgement = PendingAcknowledgement(
            int(number), tuple(statements), bool(executed), int(revision)
        )
    for statements, first, boundary, start, session in data["ddls"]:
        place = _to_boundary(boundary), _to_location(start)
        group.ddls.append(GroupDDL(tuple(statements), _table(first), *place, str(session)))
    structures = data["structures"]
    group.members = {lifetime.table: lifetime for lifetime in _to_lifetimes(data["members"], structures)}
    group.gone = _to_lifetimes(data["gone"], structures)
    return group


def _to_lifetimes(data: Any, structures: Sequence[str]) -> list[TableLifetime]:
    return [
        TableLifetime(
            _table(table),
            [_to_step(step, structures) for step in steps],
            None if end is None else _to_boundary(end),
        )
        for table, steps, end in data
    ]


def _to_step(data: Any, structures: Sequence[str]) -> PassedDDL:
    (first, structure), *changes = ((Boundary(int(at), str(key)), structures[number]) for at, key, number in data)
    return PassedDDL(first, structure, tuple(changes))


def _ensure_format(data: Any) -> None:
    if data["format"] != _FORMAT:
        raise ValueError(f"its format is {data['format']!r}, not {_FORMAT!r}")


def _table(data: Any) -> TableId:
    schema, table = data
    return str(schema), str(table)


def _from_boundary(boundary: Boundary) -> list[Any]:
    return [boundary.ordinal, boundary.key]


def _to_boundary(data: Any) -> Boundary:
    ordinal, key = data
    return Boundary(int(ordinal), str(key))


def _from_location(location: Location) -> list[Any]:
    place = [location.position.name, location.position.pos, location.gtid_set, location.rows_events]
    return [*place, location.cut] if location.cut else place


def _to_location(data: Any) -> Location:
    # Earlier versions did not record whose rows events they are.
    name, pos, gtid_set, rows_events, *cut = data
    return Location(Position(str(name), int(pos)), str(gtid_set), int(rows_events), "".join(map(str, cut)))


def _dumps(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))
