"""Rows of the target that differ from the binlog, and the snapshots that showed it. Pure data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pkg.mysql.names import TableId

#: (the target's table, the key's literals joined by commas)
RowId = tuple[TableId, bytes]
#: Kinds of differences, with DM's numbers.
DELETED_EXISTS, MISSING, CHANGED = 0, 1, 2
#: DM's texts.
KIND_TEXTS = ("Deleted rows exist", "Expected rows not exist", "Column data not matched")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot of the target may contain, by numbers: ``batch`` is the newest of which it has rows, ``intent``
    the newest that was announced. ``in_ddl``: that one is a statement, and its end is not known."""

    batch: int
    intent: int
    in_ddl: bool = False


@dataclass(frozen=True, slots=True)
class RowMismatch:
    """A row that differs in a snapshot. ``check`` is a SELECT that returns a row when the row is right. ``expected``
    and ``found`` are its values as text, '' for a row that is gone. ``swept``: the round of the sweep that found it, ''
    for a row that the binlog named."""

    target: TableId
    source: TableId
    key: bytes
    kind: int
    expected: str
    found: str
    check: bytes
    swept: str = ""

    @property
    def row(self) -> RowId:
        return self.target, self.key


@dataclass(frozen=True, slots=True)
class Uncompared:
    """``rows`` of a table that were not compared, and why."""

    target: TableId
    source: TableId
    rows: int
    reason: str


@dataclass(frozen=True, slots=True)
class LookResult:
    """The result of comparing the rows that the batches ``first`` to ``last`` touched. ``right``: the watched ones of
    them that are right."""

    first: int
    last: int
    snapshot: Snapshot
    differences: Sequence[RowMismatch] = ()
    right: Collection[RowId] = ()
    uncompared: Sequence[Uncompared] = ()


@dataclass(frozen=True, slots=True)
class Restructured:
    """A statement changed tables of the target. ``number``: its own among those of batches, None when another source
    may have executed it at any time. Table '' stands for a whole schema, and with schema '' for unknown names."""

    number: int | None
    tables: Collection[TableId]

    def names(self, table: TableId) -> bool:
        """Whether it may have changed ``table``."""
        mine = _lower(table)
        return any(_covers(_lower(named), mine) for named in self.tables)


def _lower(table: TableId) -> TableId:
    return table[0].lower(), table[1].lower()


def _covers(named: TableId, table: TableId) -> bool:
    schema, name = named
    if not name:
        return schema in ("", table[0])
    return named == table
