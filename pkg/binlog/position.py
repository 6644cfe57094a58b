"""Binlog positions and locations in the event stream. Pure, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pkg import errors
from pkg.errors import Code

_PARENTHESISED = re.compile(r"^\(([^,()]+),\s*(\d+)\)$")
_RELAYED = re.compile(r"^(.+)\|(\d{6,})(\.\d+)$")


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
        """Of two positions in a relay log, that in the earlier sub-folder comes first; otherwise as
        :meth:`sort_key`."""
        ours, theirs = relay_suffix(self.name), relay_suffix(other.name)
        if ours and theirs and ours != theirs:
            return ours < theirs
        return self.sort_key() < other.sort_key()

    def __le__(self, other: Position) -> bool:
        return not other < self

    def of_upstream(self) -> Position:
        """The same position under the upstream's own name of the file; see :func:`upstream_name`."""
        name = upstream_name(self.name)
        return self if name == self.name else Position(name, self.pos)


def file_number(name: str) -> int:
    """The number at the end of a binlog file's name. Raises 22002 when there is none."""
    _, dot, digits = name.rpartition(".")
    if not dot or not digits.isdigit():
        raise errors.new(Code.BinlogInvalidFilename, f"binlog file name {name!r} has no number after its last dot")
    return int(digits)


def relay_suffix(name: str) -> int:
    """The sub-folder's number in DM's name of a relay file, ``mysql-bin|000001.000003``; 0 for any other name."""
    match = _RELAYED.match(name)
    return int(match[2]) if match else 0


def upstream_name(name: str) -> str:
    """A relay file's name without the number of its sub-folder: the upstream's name. Other names stay unchanged."""
    match = _RELAYED.match(name)
    return match[1] + match[3] if match else name


def bytes_between(here: Position, end: Position, sizes: Mapping[str, int]) -> int | None:
    """Bytes of binlog from ``here`` to ``end``; None when ``sizes``, of the files in their order, lacks one of them."""
    if here.name == end.name:
        return max(0, end.pos - here.pos)
    names = list(sizes)
    if here.name not in sizes or end.name not in sizes:
        return None
    files = names[names.index(here.name) : names.index(end.name)]
    return max(0, sum(sizes[name] for name in files) - here.pos + end.pos)


def parse_position(text: str) -> Position:
    """Reads ``(mysql-bin.000001, 4)`` or ``mysql-bin.000001:4``. Raises 22003 for anything else."""
    match = _PARENTHESISED.match(text.strip())
    if match:
        return Position(match[1].strip(), int(match[2]))
    name, colon, digits = text.strip().rpartition(":")
    if not colon or not digits.isdigit() or not name:
        why = "; the pos should be digital" if colon and name else ""
        raise errors.new(
            Code.BinlogParsePosFromStr, f"{text!r} is not a binlog position such as mysql-bin.000001:4{why}"
        )
    return Position(name, int(digits))


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a binlog file from its FORMAT_DESCRIPTION; the same however often the file is sent.

    ``server_id``: the server that wrote it. ``created``: when it began (unix seconds).
    """

    name: str
    server_id: int
    created: int

    def __str__(self) -> str:
        return f"{self.name}, created at {self.created} (unix time) by server_id {self.server_id}"

    def stored(self) -> str:
        """The text form; :func:`stored_identity` reads it."""
        return f"{self.server_id} {self.created} {self.name}"


def stored_identity(text: str, name: str) -> FileIdentity | None:
    """The identity of the file ``name``; None where none is stored, or it belongs to another file.

    A version without identities moves the position and leaves the old identity.
    """
    server_id, _, rest = text.partition(" ")
    created, _, file = rest.partition(" ")
    if file != name or not (server_id.isdigit() and created.isdigit()):
        return None
    return FileIdentity(file, int(server_id), int(created))


@dataclass(frozen=True, slots=True)
class Location:
    """Where replication is: always at a transaction's start, plus how much of that transaction is done.

    ``gtid_set`` is the executed set as the server's text ('' when unknown). ``rows_events`` counts the rows events of
    the transaction starting here that are already applied: a cut inside a large transaction is part of the location,
    and a new read from ``position`` skips that many. ``cut`` identifies their owner: the server that wrote them and the
    transaction's GTID; '' where it was not recorded. ``file`` is the identity of the position's file, None if unknown;
    it does not make two locations different.
    """

    position: Position
    gtid_set: str = ""
    rows_events: int = 0
    cut: str = ""
    file: FileIdentity | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"[position: {self.position}, gtid-set: {self.gtid_set}]"

    def of_upstream(self) -> Location:
        """The same location under the upstream's own name of the file; see :func:`upstream_name`."""
        position = self.position.of_upstream()
        return self if position is self.position else replace(self, position=position)

    def at_transaction_start(self) -> Location:
        return replace(self, rows_events=0, cut="")


def location_range(start: Location, end: Location) -> str:
    """DM's form of a range, which operators' scripts parse."""
    return f"startLocation: {start}, endLocation: {end}"
