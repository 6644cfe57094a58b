"""The number of rows per table that the planner skipped because they are held back. Pure."""

from __future__ import annotations

from collections import Counter

from dm_worker.syncer.planning.batch import HeldRowCounts
from dm_worker.syncer.planning.table_maps import HeldTable


class HeldRowCounter:
    """Counts them per table, separately for the open transaction.

    Rows that ROLLBACK TO SAVEPOINT undoes within a transaction stay counted: servers log such rows only in rare cases.
    """

    def __init__(self) -> None:
        self._finished: Counter[tuple[str, str]] = Counter()
        self._open: Counter[tuple[str, str]] = Counter()

    def count(self, table: HeldTable, event: bytes, file: str) -> None:
        """Counts a rows event of the open transaction, in the binlog file ``file``."""
        self._open[table.table] += table.count(event, file)

    def __bool__(self) -> bool:
        return bool(self._finished or self._open)

    def end_transaction(self) -> None:
        if self._open:
            self._finished += self._open
            self._open.clear()

    def roll_back(self) -> None:
        """The open transaction was rolled back, or is read again."""
        self._open.clear()

    def take(self, *, inside: bool) -> HeldRowCounts:
        """The counts for the next output: with ``inside``, including the open transaction's."""
        if inside:
            self.end_transaction()
        taken, self._finished = self._finished, Counter()
        return taken
