"""Conflict sets: rows of a batch with different keys that must keep their order. Pure.

Two rows of different keys conflict when one releases a value of a unique key that the other takes, or when a foreign
key refers from one to the other. Each change of such a value adds pairs (row hash, value hash); rows with
a common value hash, directly or through others, form a conflict set and belong to one bucket, which writes them in
order. Other rows stay in their key's bucket: nothing waits for a conflict that it is not part of.

Only keys of the target count. A unique key that only the upstream has can't be violated at the target, so nothing
there depends on the order.

An unchanged value adds no pair: no other row can have the value meanwhile. It is unchanged if all parts of the key are.
For parts that can't be compared, the bytes of their literals decide; for generated parts, the columns from which they
are computed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType

from dm_worker.syncer.rows.key_normalization import (
    BLOCK,
    EXACT,
    INCOMPARABLE,
    NULL,
    KeyNormalizer,
    Normalize,
    normalize_function,
    split_literals,
    without_last_digits,
)
from pkg.binlog.rows.row_decoder import KERNEL
from pkg.mysql.names import TableId
from pkg.mysql.schema import ForeignKey

#: Row hash, value hash.
CONFLICT_PAIR = struct.Struct("<II")
#: Literals of a row image.
LiteralImage = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class ConflictKey:
    """A unique or foreign key of the target: rows with equal values in ``columns`` (numbers in the upstream's
    structure) under one ``seed`` conflict.

    ``normalizers`` belong to ``columns``. A row with a NULL among them is in no conflict set.
    ``watched`` decide whether a change leaves the key's values unchanged; empty means ``columns``. They are
    needed for keys with parts that can't be compared: such parts are not in ``columns``, and may change alone.
    """

    seed: int
    columns: tuple[int, ...]
    normalizers: tuple[KeyNormalizer, ...]
    # Not in stored texts of keys that have none: see the plan's fingerprint.
    watched: tuple[int, ...] = field(default=(), repr=False)

    @property
    def deciding(self) -> tuple[int, ...]:
        """The literals that are equal before and after a change that leaves the key's values unchanged."""
        return self.watched or self.columns


#: From a key's literals, joined by commas, to its row hash.
KeyHash = Callable[[bytes], int]


@lru_cache(maxsize=1024)
def key_hash(normalizers: tuple[KeyNormalizer, ...], seed: int) -> KeyHash:
    """The row hash of keys with these normalizers: stable across runs and machines.

    It is the CRC-32 of the columns' normalized bytes, joined by commas, that begins with ``seed``; ``seed`` itself for
    keys whose columns are all incomparable.
    """
    crc32 = zlib.crc32
    if all(normalizer.kind == INCOMPARABLE for normalizer in normalizers):
        return lambda _: seed
    if all(normalizer.kind == EXACT for normalizer in normalizers):
        return lambda key: crc32(key, seed)
    if normalizers[-1].kind == BLOCK and all(normalizer.kind == EXACT for normalizer in normalizers[:-1]):
        return lambda key: crc32(without_last_digits(key), seed)
    functions = [normalize_function(normalizer) for normalizer in normalizers]
    if len(functions) == 1:
        normalize = functions[0]
        return lambda key: crc32(normalize(key), seed)

    def several(key: bytes) -> int:
        literals = split_literals(key)
        return crc32(b",".join([normalize(part) for normalize, part in zip(functions, literals, strict=True)]), seed)

    return several


class ConflictPairs:
    """Collects the pairs of one slice."""

    def __init__(self) -> None:
        self._found: set[bytes] = set()
        self._packed: list[bytes] = []

    def add(self, row: int, value: int) -> None:
        self._found.add(CONFLICT_PAIR.pack(row, value))

    def extend(self, packed: bytes) -> None:
        """Adds the pairs of the compiled kernel, which has each pair once."""
        self._packed.append(packed)

    def packed(self) -> bytes:
        """All pairs; equal slices give equal bytes."""
        return b"".join((*sorted(self._found), *self._packed))


class ConflictCollector:
    """Collects the pairs of the changes of one table plan.

    ``key_changes_conflict``: an update that changes the key brings both row hashes into one conflict set.
    """

    def __init__(self, conflict_keys: Sequence[ConflictKey], seed: int, *, key_changes_conflict: bool) -> None:
        self._conflict_keys: list[tuple[int, tuple[int, ...], tuple[int, ...], list[Normalize]]] = [
            (key.seed, key.deciding, key.columns, [normalize_function(normalizer) for normalizer in key.normalizers])
            for key in conflict_keys
        ]
        self._moved = zlib.crc32(b"\0moved", seed) if key_changes_conflict else None

    def collect(
        self,
        pairs: ConflictPairs,
        old: int | None,
        new: int | None,
        before: LiteralImage | None,
        after: LiteralImage | None,
    ) -> bool:
        """Adds the pairs of a change from ``before`` (row hash ``old``) to ``after`` (``new``), None where there is
        none. True when a value of a conflict key moves to another row: the row may not simply be updated."""
        changes = False
        for seed, deciding, columns, functions in self._conflict_keys:
            if before is not None and after is not None and all(before[i] == after[i] for i in deciding):
                if old == new:
                    continue
            else:
                changes = True
            for row, image in ((old, before), (new, after)):
                if row is not None and image is not None and all(image[i] != NULL for i in columns):
                    values = [normalize(image[i]) for normalize, i in zip(functions, columns, strict=True)]
                    pairs.add(row, zlib.crc32(b",".join(values), seed))
        if self._moved is not None and old is not None and new is not None and old != new:
            value = zlib.crc32(old.to_bytes(4, "little"), self._moved)
            pairs.add(old, value)
            pairs.add(new, value)
        return changes


def find_conflict_sets(packed: Iterable[bytes], kernel: ModuleType | None = KERNEL) -> dict[int, int]:
    """Row hash → representative of its conflict set, for the rows of sets with two rows or more.

    ``packed`` are :data:`CONFLICT_PAIR` records. The representative is the smallest row hash, so that the result
    depends only on the set of pairs. ``kernel``: the compiled row kernel, None for the Python code.
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
        for row, value in CONFLICT_PAIR.iter_unpack(data):
            other = first.setdefault(value, row)
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
    """The target's foreign keys by which rows are written with checks.

    ``checks`` is the task's session setting; without one, these are the keys of families in which one acts.
    """
    if checks is False:
        return []
    keys = list(fetch())
    found = families(keys)
    return [key for key in keys if checks or found[lower_case(key.child)].acts]


def lower_case(table: TableId) -> TableId:
    """The name in lower case: some servers ignore case, and it is harmless here to treat two tables as one."""
    return table[0].lower(), table[1].lower()


def families(keys: Iterable[ForeignKey]) -> Mapping[TableId, Family]:
    """Each table that takes part in a foreign key, by its :func:`lower_case` name → its family."""
    keys = list(keys)
    beside: dict[TableId, set[TableId]] = {}
    of_child: dict[TableId, list[int]] = {}
    for number, key in enumerate(keys):
        child, parent = lower_case(key.child), lower_case(key.parent)
        beside.setdefault(child, set()).add(parent)
        beside.setdefault(parent, set()).add(child)
        of_child.setdefault(child, []).append(number)
    found: dict[TableId, Family] = {}
    for table in beside:
        if table not in found:
            joined = _reached(table, beside)
            numbers = sorted(number for child in joined for number in of_child.get(child, ()))
            own = tuple(keys[number] for number in numbers)
            family = Family(".".join(min(joined)), frozenset(joined), own, any(key.acts for key in own))
            found.update(dict.fromkeys(joined, family))
    return found


def _reached(table: TableId, beside: Mapping[TableId, set[TableId]]) -> set[TableId]:
    """All tables that keys lead to from ``table``, in either direction; with it."""
    reached: set[TableId] = set()
    new = {table}
    while new:
        reached |= new
        new = {other for one in new for other in beside[one]} - reached
    return reached
