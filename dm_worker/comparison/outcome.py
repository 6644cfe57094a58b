"""What a comparison finds. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class DifferenceKind(Enum):
    """``DOUBLED``: rows without a key, or shards that merge, have a row in another number on the two sides."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"
    DOUBLED = "doubled"


class Difference(NamedTuple):
    """One row that differs. Values are SQL literals that give the target's columns every bit of the value.

    ``key``: the literals of the pair's key, empty without a key. ``upstream`` and ``target``: the row in the order of
    the pair's columns, None where it is missing. ``columns``: names of those that differ, all for a missing or extra
    row. ``source``: the number of the upstream table in the pair that has the row, -1 for an extra row.
    ``counts``: how many such rows upstream and target have.
    """

    kind: DifferenceKind
    key: tuple[bytes, ...]
    columns: tuple[str, ...]
    upstream: tuple[bytes, ...] | None
    target: tuple[bytes, ...] | None
    source: int = -1
    counts: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class ComparisonLimits:
    """``most_rows``: rows held in memory at once, on each side. ``most_bytes``: the bytes of values held at once."""

    most_rows: int = 200_000
    most_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """``rows``: of upstream and target. ``read``: bytes that came from the servers. ``how``: the steps that were taken,
    as text for people. ``found``: how many differences of each kind were reported. ``dense``: so many that reading all
    rows at once would have been the shortest way."""

    rows: tuple[int, int]
    read: int
    how: str
    found: tuple[tuple[DifferenceKind, int], ...] = ()
    dense: bool = False

    @property
    def equal(self) -> bool:
        return not self.found
