"""The differences between the rows of one identity on both sides. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair
from dm_worker.comparison.unpaired_rows import TARGET
from dm_worker.table_reads.column_literals import FieldValue


class FoundRow(NamedTuple):
    """A row: ``values`` as they are compared, ``literals`` for the target; ``source`` is -1 for one of the target."""

    source: int
    values: tuple[FieldValue, ...]
    literals: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """The row's size in memory, in bytes."""
        return sum(map(len, self.literals)) + sum(len(value) for value in self.values if value is not None)


class RowDifferences:
    """Makes the differences between rows of a pair's tables."""

    def __init__(self, pair: TablePair) -> None:
        self._names = tuple(column.name for column in pair.columns)
        self._key = pair.key
        self._may_keep, self._may_lack = pair.may_keep, pair.may_lack

    def between(self, upstream: Sequence[FoundRow], target: Sequence[FoundRow]) -> Difference | None:
        """The differences between the rows of one key; without a key, between the numbers of equal rows."""
        counts = (len(upstream), len(target))
        if not upstream or not target:
            rows = upstream or target
            alone = self.alone(rows[0].source, [(value,) for value in rows[0].literals], counts) if rows else []
            return alone[0] if alone else None
        if counts == (1, 1):
            same = upstream[0].values == target[0].values
            return None if same else self._both(DifferenceKind.CHANGED, upstream[0], target[0], counts)
        if (self._may_keep and counts[0] < counts[1]) or (self._may_lack and counts[0] > counts[1]):
            return None
        if Counter(row.values for row in upstream) == Counter(row.values for row in target):
            return None
        return self._both(DifferenceKind.DOUBLED, upstream[0], target[0], counts)

    def alone(
        self, source: int, literals: Sequence[Sequence[bytes]], counts: tuple[int, int] | None = None
    ) -> list[Difference]:
        """Of rows of one side, by their columns, whose identities the other side does not have at all. ``counts`` is of
        each; one row without it."""
        rows: Iterable[tuple[bytes, ...] | None] = zip(*literals, strict=True)
        nothing: Iterable[tuple[bytes, ...] | None] = repeat(None)
        if self._may_keep if source == TARGET else self._may_lack:
            return []
        kind, number, upstream, target = DifferenceKind.MISSING, (1, 0), rows, nothing
        if source == TARGET:
            kind, number, upstream, target = DifferenceKind.EXTRA, (0, 1), nothing, rows
        keys = zip(*(literals[column] for column in self._key), strict=True) if self._key else repeat(())
        fields = zip(
            repeat(kind), keys, repeat(self._names), upstream, target, repeat(source), repeat(counts or number)
        )
        new = tuple.__new__  # what Difference._make calls, for each
        return [new(Difference, one) for one in fields]

    def _both(self, kind: DifferenceKind, here: FoundRow, there: FoundRow, counts: tuple[int, int]) -> Difference:
        names = tuple(
            name for name, mine, theirs in zip(self._names, here.values, there.values, strict=True) if mine != theirs
        )
        key = tuple([there.literals[number] for number in self._key])
        return Difference(kind, key, names, here.literals, there.literals, here.source, counts)
