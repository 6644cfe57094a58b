"""Which tables of the target show that a transaction is this program's, and which belong to no task. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from pkg.mysql.names import SYSTEM_SCHEMAS, TableId

#: Written in each transaction of rows, by the syncer and by the load: tasks with another meta schema write them too.
_OWN_SUFFIXES = ("_syncer_marker", "_loader_progress", "_loader_early")
#: Before each name: see ``pass_known`` of the compiled scan.
_MARK = b"\0\0"


class WriterKind(Enum):
    """OWN: only this program writes it. OTHER: it gets no rows of the task. TARGET: it may get rows of the task."""

    OWN = "own"
    OTHER = "other"
    TARGET = "target"


class KnownTables:
    """Names are those of TABLE_MAP events; in lower case if the target ``folds`` names. One thread asks; any may call
    :meth:`add_others` and :meth:`forget`."""

    def __init__(self, meta_schema: str) -> None:
        self._meta_schema = meta_schema.lower()
        self.folds = False
        self._others: frozenset[TableId] = frozenset()
        #: The names that were met, for the compiled scan.
        self.own_names = self.other_names = b""

    def folded(self, name: TableId) -> TableId:
        return (name[0].lower(), name[1].lower()) if self.folds else name

    def kind(self, name: TableId, raw: bytes) -> WriterKind:
        """``raw``: the name as the event has it."""
        schema, table = name
        if schema.lower() == self._meta_schema or table.lower().endswith(_OWN_SUFFIXES):
            if _MARK + raw not in self.own_names:
                self.own_names += _MARK + raw
            return WriterKind.OWN
        if schema.lower() in SYSTEM_SCHEMAS or self.folded(name) in self._others:
            if _MARK + raw not in self.other_names:
                self.other_names += _MARK + raw
            return WriterKind.OTHER
        return WriterKind.TARGET

    def add_others(self, names: Collection[TableId]) -> None:
        """These tables get no rows of the task."""
        self._others |= frozenset(names)

    def forget(self) -> None:
        """A statement of the task may have created tables that now get rows."""
        self._others, self.other_names = frozenset(), b""
