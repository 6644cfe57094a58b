"""Notes of repaired chunks in the state table of a comparison, in the target.

Before chunks are repaired, it is noted which differences the files must keep. The transaction that repairs a chunk adds
how many rows it has changed. So no repair is without a trace, whenever a process dies: that of the comparison, or one
of Spark's, which may commit even later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pymysql.connections import Connection

from dm_worker.diff.progress import ChunkRepair, ChunkWork
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId


@dataclass(frozen=True, slots=True)
class RepairNotes:
    """``table`` is the state table's qualified name. All methods raise ``pymysql.Error``, and commit nothing."""

    table: str
    source: str
    run: str

    def plan(self, conn: Connection[Any], planned: Mapping[ChunkWork, tuple[int, int]]) -> None:
        """These chunks are about to be repaired; their differences end there in the files."""
        for work, ends in planned.items():
            known = self._locked(conn, work)
            self._put(conn, work, replace(known, ends=ends) if known is not None else ChunkRepair(ends))

    def add(self, conn: Connection[Any], work: ChunkWork, rows: int) -> int:
        """The transaction repairs so many rows of a planned chunk. Returns how many it and earlier ones have."""
        known = self._locked(conn, work) or ChunkRepair((0, 0))
        self._put(conn, work, replace(known, rows=known.rows + rows, is_done=True))
        return known.rows + rows

    def read(self, conn: Connection[Any]) -> dict[TableId, dict[int, ChunkRepair]]:
        """All repairs of the run."""
        columns = "target_schema, target_table, chunk, detail"
        sql = f"SELECT {columns} FROM {self.table} WHERE id = %s AND run = %s AND chunk < -1"
        found: dict[TableId, dict[int, ChunkRepair]] = {}
        for schema, table, number, detail in query(conn, sql, (self.source, self.run)):
            repair = ChunkRepair.from_data(json.loads(detail))
            found.setdefault((str(schema), str(table)), {})[repaired_chunk(int(number))] = repair
        return found

    def _locked(self, conn: Connection[Any], work: ChunkWork) -> ChunkRepair | None:
        sql = (
            f"SELECT detail FROM {self.table} WHERE id = %s AND run = %s AND target_schema = %s AND target_table = %s"
            " AND chunk = %s FOR UPDATE"
        )
        found = query(conn, sql, self._row(work))
        return ChunkRepair.from_data(json.loads(found[0][0])) if found else None

    def _put(self, conn: Connection[Any], work: ChunkWork, repair: ChunkRepair) -> None:
        query(
            conn,
            f"INSERT INTO {self.table} (id, run, target_schema, target_table, chunk, detail)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE detail = VALUES(detail)",
            (*self._row(work), json.dumps(repair.to_data())),
        )

    def _row(self, work: ChunkWork) -> tuple[str, str, str, str, int]:
        return self.source, self.run, *work.target, repaired_chunk(work.number)


def repaired_chunk(number: int) -> int:
    """The number of the row of a chunk's repair, below that of the table's own row (-1); and back."""
    return -2 - number
