"""Which shards can have rows with the same key of their target table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import Index, TableInfo

#: Types whose values can't be looked up by a literal.
_INEXACT = frozenset({"bit", "float", "double", "json", "enum", "set"})


@dataclass(frozen=True, slots=True)
class ShardTable:
    """One upstream table that merges with others. ``added``: columns of the target that a route fills, with their text.
    ``mapped``: columns that a mapping changes. ``filtered``: some rows are left out."""

    source: str
    table: TableId
    columns: frozenset[str]
    added: Mapping[str, str]
    mapped: frozenset[str]
    filtered: bool = False

    def __str__(self) -> str:
        return f"{self.source}: {qualified(*self.table)}"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Two shards whose rows must differ in these columns."""

    target: TableId
    columns: tuple[str, ...]
    one: ShardTable
    other: ShardTable


@dataclass(frozen=True, slots=True)
class UndecidedKey:
    """A key that can't be compared, and why."""

    target: TableId
    columns: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{qualified(*self.target)} ({', '.join(self.columns)}): {self.reason}"


def key_pairs(target: TableInfo, shards: Sequence[ShardTable]) -> Iterator[KeyPair | UndecidedKey]:
    """The pairs of shards to compare for each unique key of the target. Shards that a filled column distinguishes need
    none."""
    name = (target.schema, target.name)
    types = {column.name.lower(): column.type_name for column in target.columns}
    for index in target.indexes:
        if not index.unique:
            continue
        reason = _unusable(index, types)
        if reason:
            yield UndecidedKey(name, index.columns, reason)
            continue
        for one, other in combinations(shards, 2):
            compared = _compared(index.columns, one, other)
            if isinstance(compared, str):
                yield UndecidedKey(name, index.columns, compared)
            elif compared:
                yield KeyPair(name, compared, one, other)


def _unusable(index: Index, types: Mapping[str, str]) -> str:
    if index.without_overlaps or any(part.length for part in index.parts):
        return "a key of periods or of prefixes"
    kinds = {types.get(column.lower(), "an expression") for column in index.columns}
    odd = sorted(kinds & (_INEXACT | {"an expression"}))
    return f"a key of type {', '.join(odd)}" if odd else ""


def _compared(columns: tuple[str, ...], one: ShardTable, other: ShardTable) -> tuple[str, ...] | str:
    """The columns whose values must differ; none if the rows differ in any case; the reason as text if that is not
    known."""
    added = [{name.lower(): text for name, text in shard.added.items()} for shard in (one, other)]
    if any(
        column.lower() in added[0] and added[0][column.lower()] != added[1].get(column.lower()) for column in columns
    ):
        return ()
    own = tuple(column for column in columns if column.lower() not in added[0])
    for shard in (one, other):
        if shard.filtered:
            return f"{shard} is filtered"
        changed = sorted({column.lower() for column in own} & shard.mapped)
        if changed:
            return f"a column mapping changes {', '.join(changed)} of {shard}"
        missing = [column for column in own if column.lower() not in shard.columns]
        if missing:
            return f"{shard} has no column {', '.join(missing)}"
    return own or f"{one} and {other} fill all of its columns with the same text"
