"""What others have written into the target: rows and tables that may differ from the upstream since. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pkg.mysql.names import TableId

#: A table with more keys is compared as a whole.
MOST_KEYS = 20_000
#: With more statements, all tables are compared as a whole.
MOST_STATEMENTS = 100
RowKey = tuple[bytes, ...]
_OF_A_SCHEMA = re.compile(r"\b(database|schema)\b")


@dataclass(slots=True)
class TableWrites:
    """The writes into one table. ``columns``: names of its key's columns; ``keys``: the literals of the rows before and
    after; ``whole``: they do not name all rows. ``rows``: how many changes."""

    columns: tuple[str, ...] = ()
    keys: set[RowKey] = field(default_factory=set)
    whole: bool = False
    rows: int = 0

    def add(self, columns: tuple[str, ...], keys: Iterable[RowKey], rows: int) -> None:
        """Adds changes of rows with these keys. Without columns, the rows are unknown."""
        self.rows += rows
        if not columns or (self.columns and columns != self.columns):
            self.whole = True
        if self.whole:
            self.keys.clear()
            return
        self.columns = columns
        self.keys.update(keys)
        if len(self.keys) > MOST_KEYS:
            self.whole = True
            self.keys.clear()

    def merge(self, other: TableWrites) -> None:
        if other.whole or other.columns:
            self.add(() if other.whole else other.columns, other.keys, other.rows)


@dataclass(slots=True)
class Suspects:
    """``statements``: the texts, in lower case, of statements that may change tables; their names are not parsed: a
    statement concerns each table whose name is in its text. ``any_table``: there were too many of them."""

    tables: dict[TableId, TableWrites] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    any_table: bool = False

    def __bool__(self) -> bool:
        return bool(self.tables or self.statements or self.any_table)

    def add_statement(self, text: str) -> None:
        if self.any_table or len(self.statements) >= MOST_STATEMENTS:
            self.any_table = True
            self.statements.clear()
        else:
            self.statements.append(text.lower())

    def merge(self, other: Suspects) -> None:
        for target, writes in other.tables.items():
            self.tables.setdefault(target, TableWrites()).merge(writes)
        for text in other.statements:
            self.add_statement(text)
        self.any_table = self.any_table or other.any_table

    def of(self, target: TableId, *, folded: bool) -> TableWrites | None:
        """The writes into a table of the task; None without any. ``folded``: the target writes names in lower case."""
        name = (target[0].lower(), target[1].lower()) if folded else target
        found = self.tables.get(name)
        if self.any_table or any(_may_name(text, target) for text in self.statements):
            return TableWrites(whole=True, rows=found.rows if found is not None else 0)
        return found


def _may_name(text: str, target: TableId) -> bool:
    text = text.replace("``", "`")
    # DROP DATABASE names no table.
    return _has_word(text, target[1]) or (_has_word(text, target[0]) and _OF_A_SCHEMA.search(text) is not None)


def _has_word(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name.lower())}(?![\w$])", text) is not None
