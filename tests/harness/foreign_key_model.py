"""A model of tables with foreign keys: what InnoDB does and refuses, row by row, and which changes the binlog has."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

#: Values of a row by column; the key is column 0.
Values = tuple[int | None, ...]
CASCADE, SET_NULL, RESTRICT = "CASCADE", "SET NULL", "RESTRICT"


class Refused(Exception):
    """The server refuses the change; the transaction is rolled back."""


@dataclass(frozen=True, slots=True)
class Key:
    """A foreign key from ``column`` of ``child`` to column 0 of ``parent``."""

    child: str
    column: int
    parent: str
    deleted: str
    changed: str


@dataclass
class Tables:
    """``uniques``: (table, column) of further unique keys."""

    keys: tuple[Key, ...]
    uniques: tuple[tuple[str, int], ...]
    rows: dict[str, dict[int, Values]] = field(default_factory=dict)

    def copy(self) -> Tables:
        return Tables(self.keys, self.uniques, deepcopy(self.rows))

    def insert(self, table: str, row: Values) -> None:
        rows = self.rows[table]
        if row[0] is None or row[0] in rows:
            raise Refused("duplicate key")
        self._ensure_unique(table, row)
        for key in self.keys:
            if key.child == table:
                self._ensure_parent(key, row, itself=row[0])
        rows[row[0]] = row

    def update(self, table: str, number: int | None, row: Values) -> int:
        """Returns the number of rows found."""
        rows = self.rows[table]
        if number is None or number not in rows or row[0] is None:
            return 0
        old = rows[number]
        if row[0] != number and row[0] in rows:
            raise Refused("duplicate key")
        del rows[number]
        self._ensure_unique(table, row)
        for key in self.keys:
            if key.child == table and row[key.column] != old[key.column]:
                self._ensure_parent(key, row, itself=row[0])
        rows[row[0]] = row
        if row[0] != number:
            self._act(table, number, row[0])
        return 1

    def delete(self, table: str, number: int | None) -> int:
        """Returns the number of rows found, without those that go with them."""
        if number is None or self.rows[table].pop(number, None) is None:
            return 0
        self._act(table, number, None)
        return 1

    def _ensure_unique(self, table: str, row: Values) -> None:
        for name, column in self.uniques:
            taken = name == table and row[column] is not None
            if taken and any(other[column] == row[column] for other in self.rows[table].values()):
                raise Refused("duplicate value")

    def _ensure_parent(self, key: Key, row: Values, itself: int) -> None:
        value = row[key.column]
        if value is None or value in self.rows[key.parent] or (key.child == key.parent and value == itself):
            return
        raise Refused("no parent")

    def _act(self, table: str, number: int, moved: int | None) -> None:
        """What the keys that refer to a row do when it is gone or moved."""
        for key in self.keys:
            if key.parent != table:
                continue
            action = key.deleted if moved is None else key.changed
            children = [child for child, row in self.rows[key.child].items() if row[key.column] == number]
            if children and action == RESTRICT:
                raise Refused("children")
            for child in children:
                row = self.rows[key.child].get(child)
                if row is None:
                    continue
                if action == CASCADE and moved is None:
                    self.delete(key.child, child)
                else:
                    value = moved if action == CASCADE else None
                    self._set(key, child, (*row[: key.column], value, *row[key.column + 1 :]))

    def _set(self, key: Key, child: int, row: Values) -> None:
        if key.column:
            self.rows[key.child][child] = row
        elif row[0] is None:
            raise Refused("a key can't be NULL")
        else:
            self.update(key.child, child, row)


def different(before: Tables, after: Tables) -> Iterable[str]:
    """The tables with other rows."""
    return [name for name in before.rows if before.rows[name] != after.rows[name]]
