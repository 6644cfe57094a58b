"""Checks whether keys stay unique when shards merge, and proposes how to keep them unique. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dm_master.precheck.result import CheckFinding, warn
from dm_master.precheck.table_checks import RoutedTable, TablesByTarget
from dm_master.rules.mapping_proposal import propose
from pkg.mysql.names import TableId
from pkg.mysql.schema import Index, TableInfo
from pkg.rules.column_mapping.transforms import Affix, PartitionId

#: (target, column, shards) → a mapping to paste, '' if none can be proposed.
Propose = Callable[[TableId, str, Sequence[RoutedTable]], str]
_APART = "Make sure that no two shards use the same number, for example with auto_increment_offset"


def proposer(migrated: Mapping[str, Sequence[TableId]], case_sensitive: bool) -> Propose:
    """``migrated``: the tables of each source that the task migrates."""

    def run(target: TableId, column: str, shards: Sequence[RoutedTable]) -> str:
        by_source: dict[str, list[TableInfo]] = {}
        for shard in shards:
            by_source.setdefault(shard.source_id, []).append(shard.info)
        return propose(target, column, by_source, migrated, case_sensitive)

    return run


def check_unique_keys(
    groups: TablesByTarget, present: Mapping[TableId, TableInfo], proposed: Propose
) -> list[CheckFinding]:
    """Warns of unique keys whose values may be equal in tables that merge; ``present`` are the target's tables.

    Extracted and mapped columns with the same value in two shards do not keep these apart.
    """
    findings = []
    for target, shards in groups.items():
        for key in _keys(shards, present.get(target)) if len(shards) > 1 else ():
            alike = _largest_alike(key, shards)
            if len(alike) > 1:
                findings.append(_may_repeat(target, key, alike, shards, proposed))
    return findings


def _keys(shards: Sequence[RoutedTable], there: TableInfo | None) -> list[Index]:
    """The unique keys that the target table has or will be created with."""
    infos = [there] if there is not None else [shard.info for shard in shards]
    keys: dict[frozenset[str], Index] = {}
    for info in infos:
        for key in info.unique_keys:
            keys.setdefault(frozenset(name.lower() for name in key.columns), key)
    return list(keys.values())


def _largest_alike(key: Index, shards: Sequence[RoutedTable]) -> Sequence[RoutedTable]:
    """The largest set of shards that the key's extracted and mapped columns do not distinguish."""
    columns = {name.lower() for name in key.columns}
    groups: dict[object, list[RoutedTable]] = {}
    for shard in shards:
        filled = tuple((c.lower(), value) for c, value in shard.filled if c.lower() in columns)
        # Another check reports equal bits of partition ids, with the rules that cause them.
        if not any(isinstance(transform, PartitionId) for transform in _transforms(shard, columns)):
            affixes = tuple((t.prefix, t.suffix) for t in _transforms(shard, columns) if isinstance(t, Affix))
            groups.setdefault((filled, affixes), []).append(shard)
    return max(groups.values(), key=len, default=())


def _transforms(shard: RoutedTable, columns: set[str]) -> list[PartitionId | Affix]:
    transforms = shard.mapping.transforms if shard.mapping is not None else ()
    return [one for one in transforms if shard.info.columns[one.target].name.lower() in columns]


def _may_repeat(
    target: TableId, key: Index, alike: Sequence[RoutedTable], shards: Sequence[RoutedTable], proposed: Propose
) -> CheckFinding:
    column = _number_of(key, alike)
    counts = column and any(_is_auto_increment(shard.info, column) for shard in alike)
    what = "the auto-increment primary key" if counts and key.primary else "the unique key"
    text = proposed(target, column, shards) if column and not any(shard.mapping for shard in shards) else ""
    if text:
        way = f"{_APART}, or add {text} (and make `{column}` BIGINT in the target)"
    else:
        way = f"{_APART}, or add a column that extract-table, -schema or -source fills to the target's key"
    return warn(
        f"{what} `{key.name}` ({', '.join(key.columns)}) may repeat in the {len(alike)} tables that merge into"
        f" `{target[0]}`.`{target[1]}`",
        f"{way}.",
        subject=str(alike[0]),
        other=str(alike[1]),
    )


def _number_of(key: Index, shards: Sequence[RoutedTable]) -> str:
    """The key's column that could take a partition id: the auto-increment one, or the only one if it is an integer."""
    info = shards[0].info
    counted = [name for name in key.columns if _is_auto_increment(info, name)]
    if counted:
        return counted[0]
    column = info.column(key.columns[0])
    alone = len(key.columns) == 1 and column is not None and not column.generated
    whole = ("tinyint", "smallint", "mediumint", "int", "bigint")
    return key.columns[0] if alone and column is not None and column.type_name in whole else ""


def _is_auto_increment(info: TableInfo, name: str) -> bool:
    column = info.column(name)
    return column is not None and column.auto_increment
