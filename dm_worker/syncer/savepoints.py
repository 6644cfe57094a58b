"""SAVEPOINT and ROLLBACK TO SAVEPOINT inside a logged transaction. Pure.

Servers cut a rolled back part out of the binlog by themselves, except where MariaDB can't: when the part also changed
tables of an engine without transactions, it logs the rows and then what undoes those of its transactional tables. (The
others are logged in transactions of their own.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(
    rb"^\s*(?:(?P<set>SAVEPOINT)|(?P<back>ROLLBACK(?:\s+WORK)?\s+TO(?:\s+SAVEPOINT)?)|(?P<release>RELEASE\s+SAVEPOINT))"
    rb"\s+(?P<name>`(?:[^`]|``)+`|[^\s`;]+)\s*;?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """``rows_events`` of its transaction were logged before it; ``held`` of them wait in the planner."""

    name: str
    rows_events: int
    held: int


@dataclass(frozen=True, slots=True)
class Word:
    """``kind`` is ``set``, ``back`` or ``release``. Names are compared without case."""

    kind: str
    name: str


def savepoint_word(statement: bytes) -> Word | None:
    """What a statement says of savepoints; None when it is another one."""
    match = _WORD.match(statement)
    if match is None:
        return None
    name = match["name"]
    if name.startswith(b"`"):
        name = name[1:-1].replace(b"``", b"`")
    kind = next(kind for kind in ("set", "back", "release") if match[kind])
    # The server writes names in UTF-8, as they are in the statement.
    return Word(kind, name.decode(errors="surrogateescape").casefold())


class Savepoints:
    """Those of the transaction that is being read, in order."""

    def __init__(self) -> None:
        self._set: list[Savepoint] = []

    def add(self, savepoint: Savepoint) -> None:
        """A name that is set again moves to the end."""
        self._set = [known for known in self._set if known.name != savepoint.name]
        self._set.append(savepoint)

    def back_to(self, name: str) -> Savepoint | None:
        """The savepoint, which stays; those after it are gone. None when there is none of this name."""
        at = self._find(name)
        if at is None:
            return None
        del self._set[at + 1 :]
        return self._set[at]

    def release(self, name: str) -> None:
        """It and those after it are gone."""
        at = self._find(name)
        if at is not None:
            del self._set[at:]

    def clear(self) -> None:
        self._set.clear()

    def _find(self, name: str) -> int | None:
        return next((i for i, known in enumerate(self._set) if known.name == name), None)
