"""Counts by kind of change and target table, with a bound on the number of tables with a separate count. Pure."""

from __future__ import annotations

#: The number of a task's tables with separate series; the changes of all others are counted together.
MOST_TABLES = 500
#: The name for these, which no table has: a table's name has its schema's before it.
OTHERS = ("", "other tables")
#: Kinds of row changes, by their numbers.
CHANGE_KINDS = ("insert", "update", "delete")


class TableCounts:
    """Row changes by target table and kind. Only one thread adds."""

    def __init__(self, most: int = MOST_TABLES) -> None:
        self._most = most
        self._counts: dict[tuple[str, str], list[int]] = {}
        #: Counts of all tables.
        self.total = 0

    def add(self, table: tuple[str, str], changes: tuple[int, int, int]) -> None:
        """``changes``: inserts, updates and deletes."""
        counts = self._counts.get(table)
        if counts is None:
            room = len(self._counts) < self._most
            counts = self._counts.setdefault(table if room else OTHERS, [0, 0, 0])
        for kind, count in enumerate(changes):
            counts[kind] += count
            self.total += count

    def items(self) -> list[tuple[tuple[str, str], dict[str, int]]]:
        """(table, count by kind), without kinds whose count is 0. From any thread."""
        return [
            (table, {kind: count for kind, count in zip(CHANGE_KINDS, counts, strict=True) if count})
            for table, counts in list(self._counts.items())
        ]
