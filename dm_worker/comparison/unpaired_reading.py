"""Reads the whole rows of both sides side by side, until only those are left that have not met their equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pymysql.connections import Connection

from dm_worker.comparison.row_difference import TooManyRowsError
from dm_worker.comparison.unpaired_rows import UnpairedRows
from dm_worker.table_reads.row_stream import send, stream


@dataclass(frozen=True, slots=True)
class RowsStatement:
    """A SELECT of whole rows, and the number of the table that it reads."""

    conn: Connection[Any]
    sql: str
    source: int


class UnpairedReader:
    """Reads statements of one side, in order, into ``table``. ``rows`` and ``bytes`` count what has come."""

    def __init__(self, statements: Sequence[RowsStatement], table: UnpairedRows) -> None:
        self.rows = 0
        self.bytes = 0
        self.done = False
        self._table = table
        # The other side's server works at the same time.
        send(statements[0].conn, statements[0].sql)
        self._steps = self._read(statements)

    def step(self) -> None:
        """Takes what has come; nothing any more at the end."""
        self.done = not next(self._steps, False)

    def _read(self, statements: Sequence[RowsStatement]) -> Iterator[bool]:
        for number, one in enumerate(statements):
            begin = partial(self._table.rows_of, one.source)
            for rows, size in stream(one.conn, one.sql, begin, sent=number == 0):
                self.rows += rows
                self.bytes += size
                yield True


def read_unpaired(upstream: UnpairedReader, target: UnpairedReader, table: UnpairedRows, most: int) -> None:
    """Reads both to their ends. Raises TooManyRowsError when both sessions are free again, for rows of more than
    ``most`` bytes that wait for their equal."""
    crowded = False
    while not (upstream.done and target.done):
        behind = upstream if target.done or (not upstream.done and upstream.rows <= target.rows) else target
        behind.step()
        if not crowded and table.held > most:
            crowded = True
            table.discard()
    if crowded:
        raise TooManyRowsError
