"""Which parts of which tables others may have changed: see :class:`dm_worker.diff.tables.TableParts`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dm_worker.comparison.pair import KeyRange, TablePair
from dm_worker.foreign_writes.suspects import Suspects, TableWrites
from pkg.mysql.names import TableId

#: Rows of one part: their conditions are one statement.
ROWS_PER_PART = 500


@dataclass(slots=True)
class SuspectRows:
    """The rows that are named by their keys. ``whole``: the tables whose rows can't be; nothing of them is compared
    here. ``seen``: all tables of the task that have suspects."""

    suspects: Suspects
    folded: bool
    whole: set[TableId] = field(default_factory=set)
    seen: set[TableId] = field(default_factory=set)

    def has(self, target: TableId) -> bool:
        found = self.suspects.of(target, folded=self.folded)
        if found is None:
            return False
        self.seen.add(target)
        if found.whole:
            self.whole.add(target)
        return not found.whole

    def of(self, pair: TablePair) -> Sequence[KeyRange]:
        target = (pair.target.schema, pair.target.name)
        found = self.suspects.of(target, folded=self.folded)
        points = None if found is None else points_of(found, [name for name, _ in pair.target.bases])
        if points is None:
            self.whole.add(target)
            return []
        starts = range(0, len(points), ROWS_PER_PART)
        return [KeyRange(points=tuple(points[start : start + ROWS_PER_PART])) for start in starts]

    @property
    def rows(self) -> int:
        """How many changes others made in the tables that were seen."""
        found = (self.suspects.of(target, folded=self.folded) for target in self.seen)
        return sum(one.rows for one in found if one is not None)

    def others(self) -> Collection[TableId]:
        """The tables that are none of those that were seen."""
        seen = {(schema.lower(), table.lower()) for schema, table in self.seen} if self.folded else self.seen
        return self.suspects.tables.keys() - seen


@dataclass(frozen=True, slots=True)
class WholeTables:
    """Some tables, with all of their rows."""

    targets: frozenset[TableId]

    def has(self, target: TableId) -> bool:
        return target in self.targets

    def of(self, _: TablePair) -> None:
        """All rows."""


def points_of(found: TableWrites, names: Sequence[str]) -> list[tuple[bytes, ...]] | None:
    """The values of the columns ``names`` in the rows of these keys; None if the keys do not have these columns, or a
    value can't be in a statement."""
    places = {name.lower(): number for number, name in enumerate(found.columns)}
    if not names or not all(name.lower() in places for name in names):
        return None
    numbers = [places[name.lower()] for name in names]
    points = sorted({tuple(key[number] for number in numbers) for key in found.keys})
    return points if all(_is_text(value) for point in points for value in point) else None


def _is_text(literal: bytes) -> bool:
    try:
        literal.decode()
    except UnicodeDecodeError:
        return False
    return True
