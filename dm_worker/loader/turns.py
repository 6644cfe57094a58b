"""Writers of one table with AUTO_INCREMENT take turns at a MariaDB. Pure.

InnoDB stores the counter in the root page of the primary key there, and latches that page for each row that is
inserted. Writers side by side then do not insert faster than one, and take twice the CPU: they wait in loops. MySQL
stores the counter elsewhere.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pkg.mysql.schema import TableInfo

#: Most of the work for larger rows needs no latch (bytes on average). docs/performance.md has rates for 300 and 900.
_MOST_BYTES = 512
#: Then a statement runs without its turn: the order is for speed alone.
_PATIENCE_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Turn:
    """A lock of the server (GET_LOCK) that one writer of a table holds while its statement runs.

    ``begin`` and ``end`` are sent together with the statement, so that the server goes from one writer to the next
    without a round trip.
    """

    begin: bytes
    end: bytes


def suits(head: bytes, tail: bytes, row_bytes: float) -> bool:
    """Whether rows of this size take turns when the statement has ``head`` and ``tail`` before and after them.

    Not those that may replace rows: two writers can then lock each other's rows, and the server would not see that one
    of them waits for a turn.
    """
    return head.startswith(b"INSERT") and not tail and row_bytes < _MOST_BYTES


def turn_of(info: TableInfo) -> Turn | None:
    """The turn for the rows of a MariaDB's table; None when its writers do not wait for each other."""
    if not any(column.auto_increment for column in info.columns):
        return None
    name = hashlib.sha1(f"{info.schema}.{info.name}".encode(), usedforsecurity=False).hexdigest()
    lock = f"'dm-rows-{name}'"
    return Turn(f"DO GET_LOCK({lock}, {_PATIENCE_SECONDS})".encode(), f"DO RELEASE_LOCK({lock})".encode())
