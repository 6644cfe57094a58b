"""The meta table ``<task>_syncer_temporary``: the temporary tables of the upstream's sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import BoundStatement, query


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """A session's temporary table. The session is the server's ``thread_id``, on the server that wrote the event."""

    server_id: int
    thread_id: int
    schema: str
    table: str


#: The binlog file in which each temporary table was created; None for a dropped one.
TemporaryChanges = Mapping[TemporaryTable, str | None]


class TemporaryNames:
    """Reads and writes the rows of one source. ``name`` is quoted."""

    def __init__(self, name: str, source_id: str) -> None:
        self.name = name
        self._id = source_id

    def creation(self, options: str) -> str:
        """The statement that creates the table where it is missing."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name} (id VARCHAR(32) NOT NULL, server_id INT UNSIGNED NOT NULL,"
            " thread_id INT UNSIGNED NOT NULL, temporary_schema VARCHAR(64) NOT NULL,"
            " temporary_table VARCHAR(64) NOT NULL, file VARCHAR(255) NOT NULL,"
            f" PRIMARY KEY (id, server_id, thread_id, temporary_schema, temporary_table)){options}"
        )

    def read(self, conn: Connection[Any]) -> dict[TemporaryTable, str]:
        rows = query(
            conn,
            f"SELECT server_id, thread_id, temporary_schema, temporary_table, file FROM {self.name} WHERE id = %s",
            (self._id,),
        )
        return {TemporaryTable(int(row[0]), int(row[1]), str(row[2]), str(row[3])): str(row[4]) for row in rows}

    def changes(self, changes: TemporaryChanges) -> Iterator[BoundStatement]:
        """The statements that store the changes, and remove dropped tables."""
        for one, file in changes.items():
            key = (self._id, one.server_id, one.thread_id, one.schema, one.table)
            if file is None:
                yield (
                    f"DELETE FROM {self.name} WHERE id = %s AND server_id = %s AND thread_id = %s"
                    " AND temporary_schema = %s AND temporary_table = %s",
                    key,
                )
            else:
                yield (
                    f"REPLACE INTO {self.name} (id, server_id, thread_id, temporary_schema, temporary_table, file)"
                    " VALUES (%s, %s, %s, %s, %s, %s)",
                    (*key, file),
                )
