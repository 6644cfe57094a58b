"""Where a stream of binlog events stands: positions and locations. Pure, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pkg import errors

_PARENTHESISED = re.compile(r"^\(([^,()]+),\s*(\d+)\)$")


@dataclass(frozen=True, slots=True, order=False)
class Position:
    """A byte offset in a binlog file. ``pos`` is 64 bits wide: files beyond 4 GiB exist."""

    name: str
    pos: int

    def __str__(self) -> str:
        """DM's form, ``(mysql-bin.000001, 3234)``."""
        return f"({self.name}, {self.pos})"

    def sort_key(self) -> tuple[int, int]:
        """Orders positions of one server by the number in the file's name, then by offset."""
        return (file_number(self.name), self.pos)

    def __lt__(self, other: Position) -> bool:
        return self.sort_key() < other.sort_key()

    def __le__(self, other: Position) -> bool:
        return self.sort_key() <= other.sort_key()


def file_number(name: str) -> int:
    """The number at the end of a binlog file's name. Raises 22002 when there is none."""
    _, dot, digits = name.rpartition(".")
    if not dot or not digits.isdigit():
        raise errors.new("BinlogInvalidFilename", f"binlog file name {name!r} has no number after its last dot")
    return int(digits)


def parse_position(text: str) -> Position:
    """Reads ``(mysql-bin.000001, 4)`` or ``mysql-bin.000001:4``. Raises 22003 for anything else."""
    match = _PARENTHESISED.match(text.strip())
    if match:
        return Position(match[1].strip(), int(match[2]))
    name, colon, digits = text.strip().rpartition(":")
    if not colon or not digits.isdigit() or not name:
        raise errors.new("BinlogParsePosFromStr", f"{text!r} is no binlog position such as mysql-bin.000001:4")
    return Position(name, int(digits))


@dataclass(frozen=True, slots=True)
class Location:
    """Where replication stands: always at a transaction's start, plus how much of that transaction is done.

    ``gtid_set`` is the executed set as the server's text ('' when unknown). ``rows_events`` counts the rows events
    of the transaction starting here that are already applied: a cut inside a large transaction is part of the
    location, and reading again from ``position`` skips that many.
    """

    position: Position
    gtid_set: str = ""
    rows_events: int = 0

    def __str__(self) -> str:
        return f"[position: {self.position}, gtid-set: {self.gtid_set}]"

    def at_transaction_start(self) -> Location:
        return replace(self, rows_events=0)
