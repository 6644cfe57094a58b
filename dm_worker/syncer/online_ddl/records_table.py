"""The meta table of online changes, ``<task>_onlineddl``. It has DM's layout, so a task of DM can continue here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pymysql.connections import Connection

from dm_worker.syncer.online_ddl.ghost_records import GhostRecord
from pkg.mysql.introspect import BoundStatement, query
from pkg.mysql.names import TableId

#: DM's column ends at 64 KiB, and these sessions are not strict: a longer text would be truncated.
_DDLS = "LONGTEXT CHARACTER SET utf8mb4"


class OnlineDDLTable:
    """Reads and writes the rows of one source. ``name`` is quoted."""

    def __init__(self, name: str, source_id: str) -> None:
        self.name = name
        self._id = source_id

    def create(self, conn: Connection[Any], options: str) -> None:
        """Creates the table where it is missing, and enlarges DM's column for long statements."""
        query(
            conn,
            f"CREATE TABLE IF NOT EXISTS {self.name} (id VARCHAR(32) NOT NULL, ghost_schema VARCHAR(128) NOT NULL,"
            f" ghost_table VARCHAR(128) NOT NULL, ddls {_DDLS},"
            " update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            f" UNIQUE KEY uk_id_schema_table (id, ghost_schema, ghost_table)){options}",
        )
        types = {str(row[0]).lower(): str(row[1]).lower() for row in query(conn, f"SHOW COLUMNS FROM {self.name}")}
        if types["ddls"] != "longtext":
            query(conn, f"ALTER TABLE {self.name} MODIFY ddls {_DDLS}")

    def read(self, conn: Connection[Any]) -> dict[TableId, GhostRecord]:
        """Reads all records. Raises 36039 for an unreadable row."""
        rows = query(conn, f"SELECT ghost_schema, ghost_table, ddls FROM {self.name} WHERE id = %s", (self._id,))
        names = {(str(schema), str(table)): str(text) for schema, table, text in rows}
        return {name: GhostRecord.from_json(text, name) for name, text in names.items()}

    def changes(self, records: Mapping[TableId, GhostRecord | None]) -> Iterator[BoundStatement]:
        """The statements that store the records, and remove those that are None."""
        for name, record in records.items():
            if record is None:
                sql = f"DELETE FROM {self.name} WHERE id = %s AND ghost_schema = %s AND ghost_table = %s"
                yield sql, (self._id, *name)
            else:
                sql = f"REPLACE INTO {self.name} (id, ghost_schema, ghost_table, ddls) VALUES (%s, %s, %s, %s)"
                yield sql, (self._id, *name, record.to_json())
