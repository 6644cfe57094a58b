"""The differences between the rows of one identity on both sides. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair
from dm_worker.table_reads.column_literals import FieldValue


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row: ``values`` as they are compared, ``literals`` for the target; ``source`` is -1 for one of the target."""

    source: int
    values: tuple[FieldValue, ...]
    literals: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return sum(map(len, self.literals)) + sum(len(value) for value in self.values if value is not None)


def differences(pair: TablePair, upstream: Sequence[FoundRow], target: Sequence[FoundRow]) -> Iterator[Difference]:
    """What differs between the rows of one key; without a key, between equal rows."""
    counts = (len(upstream), len(target))
    if not upstream or not target:
        if upstream:
            yield _one_sided(pair, DifferenceKind.MISSING, upstream[0], counts)
        elif target and not pair.one_sided:
            yield _one_sided(pair, DifferenceKind.EXTRA, target[0], counts)
    elif counts == (1, 1):
        here, there = upstream[0], target[0]
        if here.values != there.values:
            yield _both(pair, DifferenceKind.CHANGED, here, there, counts)
    elif pair.one_sided and counts[0] < counts[1]:
        return
    elif Counter(row.values for row in upstream) != Counter(row.values for row in target):
        yield _both(pair, DifferenceKind.DOUBLED, upstream[0], target[0], counts)


def _one_sided(pair: TablePair, kind: DifferenceKind, row: FoundRow, counts: tuple[int, int]) -> Difference:
    names = tuple(column.name for column in pair.columns)
    here, there = (row.literals, None) if kind is DifferenceKind.MISSING else (None, row.literals)
    return Difference(kind, _key(pair, row), names, here, there, row.source, counts)


def _both(
    pair: TablePair, kind: DifferenceKind, here: FoundRow, there: FoundRow, counts: tuple[int, int]
) -> Difference:
    names = tuple(
        column.name
        for column, mine, theirs in zip(pair.columns, here.values, there.values, strict=True)
        if mine != theirs
    )
    return Difference(kind, _key(pair, there), names, here.literals, there.literals, here.source, counts)


def _key(pair: TablePair, row: FoundRow) -> tuple[bytes, ...]:
    return tuple(row.literals[number] for number in pair.key)
