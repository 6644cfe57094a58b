"""Which parts of which tables others may have changed: see :class:`dm_worker.diff.tables.TableParts`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import KeyRange, TablePair
from dm_worker.foreign_writes.suspects import RowKey, Suspects, TableWrites
from pkg.mysql.names import TableId

#: Rows of one part: their conditions are one statement.
ROWS_PER_PART = 500


@dataclass(slots=True)
class SuspectRows:
    """The rows that are named by their keys. ``whole``: the tables whose rows can't be; nothing of them is compared
    here. ``seen``: all tables of the task that have suspects.

    By text, a server may find more rows than the wanted ones, and the other server not the same ones. Such rows that
    differ are suspects themselves: :meth:`others_found`.
    """

    suspects: Suspects
    folded: bool
    whole: set[TableId] = field(default_factory=set)
    seen: set[TableId] = field(default_factory=set)
    _more: Suspects = field(default_factory=Suspects)
    _wanted: dict[TableId, frozenset[RowKey]] = field(default_factory=dict)
    #: The rows that were wanted before these.
    _before: dict[TableId, frozenset[RowKey]] = field(default_factory=dict)

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
        points = None if found is None else points_of(found, point_names(pair))
        if points is None:
            self.whole.add(target)
            return []
        self._wanted[target] = frozenset(points)
        starts = range(0, len(points), ROWS_PER_PART)
        return [KeyRange(points=tuple(points[start : start + ROWS_PER_PART])) for start in starts]

    def wanted(self, pair: TablePair, found: Sequence[Difference]) -> list[Difference]:
        """The differences of wanted rows; the others become suspects."""
        target, names = (pair.target.schema, pair.target.name), point_names(pair)
        if len(names) <= len(pair.ranged):
            return list(found)
        wanted, before = (known.get(target, frozenset()) for known in (self._wanted, self._before))
        keys = {one.key for one in found if one.key[: len(names)] not in wanted | before}
        if keys:
            writes = self._more.tables.setdefault(self._name(target), TableWrites())
            writes.add(pair.key_names, keys, 0)
        return [one for one in found if one.key[: len(names)] in wanted]

    def others_found(self) -> SuspectRows | None:
        """The rows that differ and were not wanted; None without any."""
        if not self._more:
            return None
        before = {one: found | self._before.get(one, frozenset()) for one, found in self._wanted.items()}
        return SuspectRows(self._more, self.folded, _before=before)

    def _name(self, target: TableId) -> TableId:
        return (target[0].lower(), target[1].lower()) if self.folded else target

    @property
    def rows(self) -> int:
        """How many changes others made in the tables that were seen."""
        found = (self.suspects.of(target, folded=self.folded) for target in self.seen)
        return sum(one.rows for one in found if one is not None)

    def others(self) -> Collection[TableId]:
        """The tables that are none of those that were seen."""
        return self.suspects.tables.keys() - set(map(self._name, self.seen))


@dataclass(frozen=True, slots=True)
class WholeTables:
    """Some tables, with all of their rows."""

    targets: frozenset[TableId]

    def has(self, target: TableId) -> bool:
        return target in self.targets

    def of(self, _: TablePair) -> None:
        """All rows."""


def point_names(pair: TablePair) -> list[str]:
    """The target's columns by which all servers find rows."""
    common = min(len(side.point_columns) for side in (pair.target, *pair.sources))
    return [name for name, _ in pair.target.point_columns[:common]]


def points_of(found: TableWrites, names: Sequence[str]) -> list[RowKey] | None:
    """The values of the columns ``names`` in the rows of these keys; None if the keys do not have these columns, or a
    value can't be in a statement."""
    places = {name.lower(): number for number, name in enumerate(found.columns)}
    if not names or not all(name.lower() in places for name in names):
        return None
    numbers = [places[name.lower()] for name in names]
    points: list[RowKey] = sorted({tuple(key[number] for number in numbers) for key in found.keys})
    return points if all(_is_text(value) for point in points for value in point) else None


def _is_text(literal: bytes) -> bool:
    try:
        literal.decode()
    except UnicodeDecodeError:
        return False
    return True
