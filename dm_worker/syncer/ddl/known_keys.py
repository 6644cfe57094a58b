"""A server's tables with their foreign keys: read in full once, then updated by the names in statements.

Reading all foreign keys takes seconds on a server with 10,000 tables. A statement can change the keys of the tables
that it names, and of those whose keys refer to one of them, so only these are read again. A manual change, without a
statement that the task sees, is found at the next full reading, which takes at most :data:`SHARE` of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from pkg.mysql.names import TableId
from pkg.mysql.schema import ForeignKey

#: Tables with their foreign keys, also those without any.
TableKeys = Mapping[TableId, Sequence[ForeignKey]]

#: Stands for all names in a statement that is not understood.
ANY_TABLE: TableId = ("", "")
#: The largest share of a run's time for reading what only checks: foreign keys in full, samples of generated columns.
SHARE = 0.01
#: More tables than this are not read one by one.
_FEW = 50


class KeyReader(Protocol):
    """Queries a server. Methods raise DMError."""

    def folds_names(self) -> bool:
        """Whether names that differ only in case are one table."""

    def everything(self, known: Collection[TableId]) -> TableKeys:
        """All tables; ``known`` are those of the previous reading."""

    def some(self, tables: Collection[TableId]) -> TableKeys:
        """The existing ones of the tables."""


class KnownKeys:
    """Not thread-safe: one thread at a time."""

    def __init__(self, reader: KeyReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._folds = False
        #: None before the first reading.
        self._known: dict[TableId, Sequence[ForeignKey]] | None = None
        #: The tables that statements named since the last reading.
        self._named: set[TableId] = set()
        #: When the last full reading took place, and its duration (seconds).
        self._read_at = self._took = 0.0

    def changed(self, named: Collection[TableId]) -> None:
        """A statement named these tables, a schema (table '') or :data:`ANY_TABLE`."""
        if self._known is not None:
            self._named.update(map(self._spelled, named))

    def read(self) -> TableKeys:
        """The tables as they are now, by names in lower case if the server ignores case. Raises DMError."""
        known = self._known
        if known is None or self._is_to_be_read_in_full(known):
            known = self._known = self._everything()
        else:
            asked = affected(known, self._named, self._spelled)
            found = self._by_spelling(self._reader.some(asked)) if asked else {}
            for table in asked:
                known.pop(table, None)
            known.update(found)
        self._named.clear()
        return known

    def has(self, table: TableId) -> bool:
        """Whether the table was there at the last reading."""
        return self._known is not None and self._spelled(table) in self._known

    def _is_to_be_read_in_full(self, known: TableKeys) -> bool:
        if not self._named:
            return False
        is_due = self._took <= SHARE * (self._clock() - self._read_at)
        return is_due or ANY_TABLE in self._named or len(affected(known, self._named, self._spelled)) > _FEW

    def _everything(self) -> dict[TableId, Sequence[ForeignKey]]:
        began = self._clock()
        self._folds = self._reader.folds_names()
        found = self._by_spelling(self._reader.everything(() if self._known is None else self._known.keys()))
        self._read_at = self._clock()
        self._took = self._read_at - began
        return found

    def _by_spelling(self, tables: TableKeys) -> dict[TableId, Sequence[ForeignKey]]:
        return {self._spelled(table): keys for table, keys in tables.items()}

    def _spelled(self, table: TableId) -> TableId:
        return (table[0].lower(), table[1].lower()) if self._folds else table


def affected(
    known: TableKeys, named: Collection[TableId], spelled: Callable[[TableId], TableId] = lambda table: table
) -> set[TableId]:
    """The tables whose foreign keys may have changed through a statement that named ``named``. Pure.

    Renaming a table or its columns also changes the keys that refer to it. ``spelled``: a table's name in a key, in
    the spelling of ``known`` and ``named``.
    """
    schemas = {schema for schema, table in named if not table}
    found = {table for table in named if table[1]}
    if schemas:
        found.update(table for table in known if table[0] in schemas)
    found.update(table for table, keys in known.items() if any(spelled(key.parent) in named for key in keys))
    return found
