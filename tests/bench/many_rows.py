"""The peer "INSERTs of many rows": DM's ``multiple-rows`` at its best, for a binlog that only inserts.

Each statement has successive rows of one table and is a transaction; they take turns on 16 connections. As with one
statement per row, they are rendered before the clock starts, which is an advantage for the peer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError
from pkg.binlog.position import Location
from tests.bench import one_statement
from tests.bench.figures import Cost
from tests.bench.one_statement import CONNECTIONS, Change, Round, insert

NAME = f"many rows per INSERT x{CONNECTIONS}"
#: Rows of a statement: DM's default batch, and more.
ROWS = (100, 1000, 5000)


@dataclass(frozen=True)
class ManyRows:
    """The statements for ``rows`` rows each."""

    rows: int
    dealt: Round

    @property
    def name(self) -> str:
        return f"{NAME}, {self.rows:,} rows"

    def apply(self, target: SQLServer) -> Cost:
        return one_statement.apply(target, [self.dealt], per_transaction=1)


def inserts(source: SQLServer, start: Location) -> list[ManyRows]:
    """The statements for the binlog from ``start`` to its end, for each size."""
    changes = list(one_statement.changes(source, start))
    return [ManyRows(rows, deal(changes, rows)) for rows in ROWS]


def deal(changes: Iterable[Change], rows: int, connections: int = CONNECTIONS) -> Round:
    """Statements of at most ``rows`` successive rows of one table, in turn for each connection. Pure.

    Raises HarnessError for a change that is no insert.
    """
    made: list[bytes] = []
    for _, group in groupby(changes, lambda change: (change[0].schema, change[0].name)):
        part = list(group)
        info = part[0][0]
        images = [after for _, before, after in part if before is None and after is not None]
        if len(images) < len(part):
            raise HarnessError(f"{info.name} has changes that are no inserts")
        made += [insert(info, images[i : i + rows]) for i in range(0, len(images), rows)]
    return [made[i::connections] for i in range(connections)]
