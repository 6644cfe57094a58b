"""Ties: which rows of a batch must keep their order, beyond the rows of one key. Pure.

Two rows of different keys conflict when one gives up a value of a unique key that the other takes, or when a foreign
key refers from one to the other. Each change that touches such a value gives pairs (row hash, tie hash); rows with
one tie hash, directly or by way of others, form a *component* and are placed into one bucket, where they are written
in order. Rows in no component stay where their key puts them: nobody else waits.

Only keys of the target count. A unique key that only the upstream has can't be violated at the target, so nothing
there depends on the order.

A change that leaves a value as it was gives no pair for it: no other row can hold the value meanwhile.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from dm_worker.syncer.rows.key_normalization import (
    ANY,
    BLOCK,
    EXACT,
    NULL,
    Canon,
    Make,
    maker,
    split_literals,
    without_last_digits,
)
from pkg.binlog.rows import KERNEL
from pkg.mysql.names import TableId
from pkg.mysql.schema import ForeignKey

#: Row hash, tie hash.
PAIR = struct.Struct("<II")
#: Literals of a row image.
Image = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Tie:
    """Rows with equal values in ``columns`` (numbers in the upstream's structure) under one ``seed`` are tied.

    ``canons`` belong to ``columns``. A row with a NULL among them is not tied.
    """

    seed: int
    columns: tuple[int, ...]
    canons: tuple[Canon, ...]


#: From a key's literals, joined by commas, to its row hash.
Hasher = Callable[[bytes], int]


@lru_cache(maxsize=1024)
def hasher(canons: tuple[Canon, ...], seed: int) -> Hasher:
    """The row hash of keys with these canonical forms: stable across runs and machines.

    It is the CRC-32 of the columns' canonical bytes, joined by commas, that begins with ``seed``; ``seed`` itself for
    keys that tell nothing.
    """
    crc32 = zlib.crc32
    if all(canon.kind == ANY for canon in canons):
        return lambda _: seed
    if all(canon.kind == EXACT for canon in canons):
        return lambda key: crc32(key, seed)
    if canons[-1].kind == BLOCK and all(canon.kind == EXACT for canon in canons[:-1]):
        return lambda key: crc32(without_last_digits(key), seed)
    makers = [maker(canon) for canon in canons]
    if len(makers) == 1:
        make = makers[0]
        return lambda key: crc32(make(key), seed)

    def several(key: bytes) -> int:
        literals = split_literals(key)
        return crc32(b",".join([make(part) for make, part in zip(makers, literals, strict=True)]), seed)

    return several


class Pairs:
    """Collects the pairs of one slice."""

    def __init__(self) -> None:
        self._found: set[bytes] = set()
        self._packed: list[bytes] = []

    def add(self, row: int, tie: int) -> None:
        self._found.add(PAIR.pack(row, tie))

    def extend(self, packed: bytes) -> None:
        """Adds the pairs of the compiled kernel, which has each once."""
        self._packed.append(packed)

    def packed(self) -> bytes:
        """All pairs; equal slices give equal bytes."""
        return b"".join((*sorted(self._found), *self._packed))


class Binder:
    """Gives the pairs of the changes of one table plan.

    ``keeps_rows``: an update that changes the key ties its two row hashes, because it stays one row.
    """

    def __init__(self, ties: Sequence[Tie], seed: int, *, keeps_rows: bool) -> None:
        self._ties: list[tuple[int, tuple[int, ...], list[Make]]] = [
            (tie.seed, tie.columns, [maker(canon) for canon in tie.canons]) for tie in ties
        ]
        self._moved = zlib.crc32(b"\0moved", seed) if keeps_rows else None

    def bind(self, pairs: Pairs, old: int | None, new: int | None, before: Image | None, after: Image | None) -> bool:
        """Adds the pairs of a change from ``before`` (row hash ``old``) to ``after`` (``new``), None where there is
        none. True when a tied value changes hands: the row may not simply be updated."""
        changes = False
        for seed, columns, makers in self._ties:
            if before is not None and after is not None and all(before[i] == after[i] for i in columns):
                if old == new:
                    continue
            else:
                changes = True
            for row, image in ((old, before), (new, after)):
                if row is not None and image is not None and all(image[i] != NULL for i in columns):
                    values = [make(image[i]) for make, i in zip(makers, columns, strict=True)]
                    pairs.add(row, zlib.crc32(b",".join(values), seed))
        if self._moved is not None and old is not None and new is not None and old != new:
            tie = zlib.crc32(old.to_bytes(4, "little"), self._moved)
            pairs.add(old, tie)
            pairs.add(new, tie)
        return changes


def components(packed: Iterable[bytes], kernel: ModuleType | None = KERNEL) -> dict[int, int]:
    """Row hash → representative of its component, for the rows of components with two rows or more.

    ``packed`` are :data:`PAIR` records. The representative is the smallest row hash, so that the answer depends on
    the set of pairs alone. ``kernel``: the compiled row kernel, None for the Python code.
    """
    if kernel is not None:
        found: dict[int, int] = kernel.components(*packed)
        return found
    parent: dict[int, int] = {}
    first: dict[int, int] = {}

    def find(row: int) -> int:
        root = row
        while (above := parent.get(root, root)) != root:
            root = above
        while row != root:
            parent[row], row = root, parent.get(row, row)
        return root

    for data in packed:
        for row, tie in PAIR.iter_unpack(data):
            other = first.setdefault(tie, row)
            if other != row:
                one, two = find(row), find(other)
                if one != two:
                    parent[max(one, two)] = min(one, two)
                    parent.setdefault(min(one, two), min(one, two))
    return {row: find(row) for row in list(parent)}


# -- foreign keys ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Family:
    """Tables that foreign keys connect. ``acts``: one of the keys changes rows by itself (CASCADE, SET NULL): such
    changes are not in the binlog, so that the order of all their rows must be kept."""

    name: str
    tables: frozenset[TableId]
    keys: tuple[ForeignKey, ...]
    acts: bool


def checked_keys(checks: bool | None, fetch: Callable[[], Iterable[ForeignKey]]) -> list[ForeignKey]:
    """Those of the target's foreign keys by which rows are written with checks.

    ``checks`` is what the task's session says; when it says nothing, these are the keys of families in which one acts.
    """
    if checks is False:
        return []
    keys = list(fetch())
    found = families(keys)
    return [key for key in keys if checks or found[folded(key.child)].acts]


def folded(table: TableId) -> TableId:
    """The name without case: some servers fold it, and calling two tables one is harmless here."""
    return table[0].lower(), table[1].lower()


def families(keys: Iterable[ForeignKey]) -> Mapping[TableId, Family]:
    """Each table that takes part in a foreign key, by its :func:`folded` name → its family."""
    members: dict[TableId, set[TableId]] = {}
    keys = list(keys)
    for key in keys:
        child, parent = folded(key.child), folded(key.parent)
        joined = members.get(child, {child}) | members.get(parent, {parent})
        for table in joined:
            members[table] = joined
    found: dict[TableId, Family] = {}
    for table, joined in members.items():
        if table not in found:
            own = tuple(key for key in keys if folded(key.child) in joined)
            family = Family(".".join(min(joined)), frozenset(joined), own, any(key.acts for key in own))
            found.update(dict.fromkeys(joined, family))
    return found
