"""Reads DM's records of shard DDL: which groups have unsettled DDL. Pure.

DM keeps, per target table, the group's sequence of DDLs and that of each shard, and the number of DDLs that all shards
have completed. Its checkpoint stays before the first unsettled one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pkg import errors
from pkg.binlog.position import Position
from pkg.errors import Code, DMError

#: A row: target table, active index, whether it is the whole group's, data.
ShardingRow: TypeAlias = "tuple[str, int, bool, str]"


@dataclass(frozen=True, slots=True)
class UnsettledGroup:
    """``target`` is the quoted name. ``behind``: how many DDLs of the sequence are settled. ``first``: where the
    sequence begins in the binlog."""

    target: str
    statements: tuple[str, ...]
    behind: int
    first: Position | None


def is_foreign(data: str) -> bool:
    """Whether DM wrote a row with this data: a list of items that name their DDLs."""
    found = json.loads(data)
    return isinstance(found, list) and all(isinstance(item, dict) and "ddls" in item for item in found)


def unsettled_groups(rows: Iterable[ShardingRow]) -> list[UnsettledGroup]:
    """The groups of DM's rows. Raises 36007 for one that can't be parsed."""
    found = []
    for target, behind, whole, data in rows:
        if not whole:
            continue
        try:
            items = json.loads(data)
            statements = tuple(str(sql) for item in items for sql in item["ddls"])
            first = _position(items[0]["first-position"]) if items else None
        except (ValueError, KeyError, TypeError) as exc:
            raise errors.new(
                Code.SyncUnitInvalidShardMeta,
                f"DM's record of the shard DDL of {target} can't be read: {data[:200]}",
                raw=exc,
                scope="downstream",
                workaround=_SETTLE,
            ) from exc
        if items:
            found.append(UnsettledGroup(target, statements, behind, first))
    return found


_SETTLE = (
    "Go back to DM (docs/from-dm.md), let it settle the DDL (`shard-ddl-lock`), stop its task, and start the task here "
    "again. Or give the merged tables the same structure and start the task with --remove-meta."
)


def obstacle(group: UnsettledGroup, checkpoint: Position) -> DMError | None:
    """Why a group's DDL can't start again at DM's checkpoint; None when it can: nothing of it has been executed."""
    if group.behind:
        why = f"{group.behind} of them are executed and others are not"
    elif group.first is not None and group.first < checkpoint:
        why = f"the checkpoint {checkpoint} is behind the first of them, at {group.first}"
    else:
        return None
    return errors.new(
        Code.SyncUnitInvalidShardMeta,
        f"DM left DDLs of the merged table {group.target} unsettled ({'; '.join(group.statements)[:500]}), and they "
        f"can't be taken over: {why}; nothing was changed",
        scope="downstream",
        workaround=_SETTLE,
    )


def _position(data: Any) -> Position:
    return Position(str(data["Name"]), int(data["Pos"])).of_upstream()
