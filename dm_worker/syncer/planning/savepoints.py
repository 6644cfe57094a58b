"""SAVEPOINT and ROLLBACK TO SAVEPOINT inside a logged transaction. Pure.

Servers remove a rolled back part from the binlog themselves, except where MariaDB can't: when the part also changed
tables of an engine without transactions, it logs the rows and then the undo of those of its transactional tables. (The
others are logged in separate transactions.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dm_worker.syncer.planning.event_buffer import EventBuffer
from pkg import errors
from pkg.binlog.position import Position
from pkg.errors import Code
from pkg.errors.workarounds import Advice

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
class SavepointStatement:
    """``kind`` is ``set``, ``back`` or ``release``. Names are compared without case."""

    kind: str
    name: str


def savepoint_statement(statement: bytes) -> SavepointStatement | None:
    """The savepoint statement in a QUERY; None for any other statement."""
    match = _WORD.match(statement)
    if match is None:
        return None
    name = match["name"]
    if name.startswith(b"`"):
        name = name[1:-1].replace(b"``", b"`")
    kind = next(kind for kind in ("set", "back", "release") if match[kind])
    # The server writes names in UTF-8, as they are in the statement.
    return SavepointStatement(kind, name.decode(errors="surrogateescape").casefold())


class Savepoints:
    """The savepoints of the transaction that is being read, in order."""

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
        """The savepoint and those after it are gone."""
        at = self._find(name)
        if at is not None:
            del self._set[at:]

    def clear(self) -> None:
        self._set.clear()

    def _find(self, name: str) -> int | None:
        return next((i for i, known in enumerate(self._set) if known.name == name), None)


class SavepointTracker:
    """Follows the savepoints of the transaction being read: it removes undone rows from the event buffer."""

    def __init__(self, buffer: EventBuffer, cut_at: int) -> None:
        """``cut_at``: rows events of the first transaction that an earlier batch contains."""
        self._buffer = buffer
        self._savepoints = Savepoints()
        #: Savepoint statements in this transaction: those read, and those that were followed before the stream broke.
        self._words = self._words_obeyed = 0
        #: Rows events of this transaction up to the last ROLLBACK TO SAVEPOINT, -1 for none, and up to the last cut.
        self._rolled_back_at = -1
        self.cut_at = cut_at

    @property
    def is_used(self) -> bool:
        """Whether this transaction had savepoint statements."""
        return bool(self._words or self._words_obeyed)

    @property
    def just_rolled_back(self) -> bool:
        """Whether no row followed the last ROLLBACK TO SAVEPOINT: the buffer's position is the same as before it."""
        return self._rolled_back_at == self._buffer.rows

    def reopened(self) -> None:
        """The transaction is read once more from its start: what was followed is not followed again."""
        self._words_obeyed = max(self._words, self._words_obeyed)
        self._words = 0

    def restart(self) -> None:
        """Earlier rows take this transaction's position, with their own savepoint statements."""
        self._words = self._words_obeyed = 0
        self._rolled_back_at = -1
        self._savepoints.clear()

    def end(self) -> None:
        """The transaction has ended."""
        self.restart()
        self.cut_at = 0

    def obey(self, word: SavepointStatement, position: Position, *, given_up: bool) -> None:
        """``given_up``: the transaction's rows are not in the buffer. Raises an error when applied rows are undone."""
        self._words += 1
        if self._words <= self._words_obeyed:
            return
        if word.kind == "set":
            held = self._buffer.count - self._buffer.marked
            self._savepoints.add(Savepoint(word.name, self._buffer.rows, held))
        elif word.kind == "release":
            self._savepoints.release(word.name)
        else:
            self._roll_back_to(self._savepoints.back_to(word.name), position, given_up)

    def _roll_back_to(self, savepoint: Savepoint | None, position: Position, given_up: bool) -> None:
        """The rows since ``savepoint`` never took effect."""
        if self._buffer.rows < self.cut_at or given_up:
            # Undone before the transaction was cut, or dropped already.
            return
        if savepoint is None or savepoint.rows_events < self.cut_at:
            raise unsupported(
                f"ROLLBACK TO SAVEPOINT in the binlog at {position} undoes rows of a transaction that was too large "
                "for one batch, and some of them are already applied"
            )
        self._buffer.truncate(self._buffer.marked + savepoint.held)
        self._rolled_back_at = self._buffer.rows


def unsupported(what: str) -> errors.DMError:
    """For a transaction that undoes a part of itself in a way that can't be followed."""
    return errors.new(
        Code.SyncerUnsupportedStmt,
        f"{what}: this is not supported",
        workaround=f"Copy the tables of this transaction again. {Advice.CONTINUE_AFTER_EVENT}",
        scope="upstream",
    )
