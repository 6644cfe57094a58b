"""``<task>_syncer_checkpoint``: the checkpoint of one source, and the structures of its tables. It has DM's layout.

DM's own rows are read too. ``<task>_syncer_taken_over`` has the same layout: the rows that DM left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql

from dm_worker.syncer.checkpoint.meta_connection import SMALL_KEYS, MetaConnection, stored_location
from pkg.binlog.position import Location, Position
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import BoundStatement, query
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo

#: Distinguishes our table structures from DM's in the column ``table_info``.
_FORMAT = "dm-spark/1"
#: In place of a structure: the name was dropped or renamed, so the full copy's schema file of it is not used any more.
_GIVEN_UP = "dm-spark/given-up"
_SYNTAX = 1064
#: Before 2.0, DM's table lacked these columns and had shorter GTID columns, which would cut off a longer set.
_LATE_COLUMNS = {
    "exit_safe_binlog_name": "VARCHAR(128) DEFAULT ''",
    "exit_safe_binlog_pos": "BIGINT UNSIGNED DEFAULT 0",
    "exit_safe_binlog_gtid": "LONGTEXT",
}
_GTID_SETS = ("binlog_gtid", "exit_safe_binlog_gtid")
_COLUMNS = (
    "id, cp_schema, cp_table, binlog_name, binlog_pos, binlog_gtid, exit_safe_binlog_name, exit_safe_binlog_pos,"
    " exit_safe_binlog_gtid, table_info, is_global, create_time, update_time"
)


@dataclass(frozen=True, slots=True)
class ForeignStructure:
    """A table's structure that DM left: TiDB's JSON, parsed."""

    table: TableId
    data: object


@dataclass(slots=True)
class StoredStructures:
    """The content of the table rows. ``given_up``: names that were dropped or renamed since the full copy, table '' for
    a whole schema. ``ahead``: tables whose rows DM applied beyond its checkpoint; their structures are later ones."""

    tables: list[TableInfo] = field(default_factory=list)
    given_up: list[TableId] = field(default_factory=list)
    foreign: list[ForeignStructure] = field(default_factory=list)
    ahead: list[TableId] = field(default_factory=list)


class CheckpointTable:
    """The table of one task, and its rows of one source. ``keeps_names``: a dropped or renamed name keeps its row."""

    def __init__(self, name: str, source: str, *, keeps_names: bool) -> None:
        self.name = name
        self._source = source
        self._keeps_names = keeps_names

    def create(self, conn: MetaConnection) -> None:
        """Creates the table where it is missing. Raises ``pymysql.Error``."""
        try:
            query(conn, self._creation("JSON"))
        except pymysql.Error as exc:
            if error_number(exc) != _SYNTAX:
                raise
            query(conn, self._creation("LONGTEXT"))  # servers before JSON

    def _creation(self, json_type: str) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name} (id VARCHAR(32) NOT NULL, cp_schema VARCHAR(128) NOT NULL,"
            " cp_table VARCHAR(128) NOT NULL, binlog_name VARCHAR(128), binlog_pos BIGINT UNSIGNED,"
            " binlog_gtid LONGTEXT,"
            " exit_safe_binlog_name VARCHAR(128) DEFAULT '', exit_safe_binlog_pos BIGINT UNSIGNED DEFAULT 0,"
            f" exit_safe_binlog_gtid LONGTEXT, table_info {json_type} NOT NULL, is_global BOOLEAN,"
            " create_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
            " update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            f" UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table)){SMALL_KEYS}"
        )

    def adapt(self, conn: MetaConnection) -> None:
        """Adds what a table that DM created lacks. Raises ``pymysql.Error``."""
        types = {str(row[0]).lower(): str(row[1]).lower() for row in query(conn, f"SHOW COLUMNS FROM {self.name}")}
        changes = [f"ADD COLUMN {name} {kind}" for name, kind in _LATE_COLUMNS.items() if name not in types]
        changes += [f"MODIFY {name} LONGTEXT" for name in _GTID_SETS if types.get(name, "longtext") != "longtext"]
        for change in changes:
            query(conn, f"ALTER TABLE {self.name} {change}")

    def copied_from(self, other: CheckpointTable) -> Iterator[BoundStatement]:
        """The statements that replace this table's rows by those of ``other``."""
        yield f"DELETE FROM {self.name} WHERE id = %s", (self._source,)
        yield f"INSERT INTO {self.name} ({_COLUMNS}) SELECT {_COLUMNS} FROM {other.name} WHERE id = %s", (self._source,)

    def read(self, conn: MetaConnection) -> tuple[Location | None, Location | None]:
        """The checkpoint, and where safe mode ends; None where there is none. DM's row may have no position yet."""
        rows = query(
            conn,
            "SELECT binlog_name, binlog_pos, binlog_gtid, exit_safe_binlog_name, exit_safe_binlog_pos,"
            f" exit_safe_binlog_gtid FROM {self.name} WHERE id = %s AND is_global = 1",
            (self._source,),
        )
        if not rows or not (rows[0][0] or rows[0][2]):
            return None, None
        name, pos, gtid, exit_name, exit_pos, exit_gtid = rows[0]
        exit_safe = stored_location(exit_name, exit_pos, exit_gtid) if exit_name or exit_gtid else None
        return stored_location(name, pos, gtid), exit_safe

    def moved(self, location: Location, exit_safe: Location | None) -> BoundStatement:
        """The statement that moves the checkpoint. ``exit_safe``: safe mode holds until there."""
        leave = exit_safe or Location(Position("", 0))
        return self._upsert("", "", location, leave, "null", is_global=True)

    def read_tables(self, conn: MetaConnection, checkpoint: Location | None = None) -> StoredStructures:
        """The content of the table rows; those of DM are compared with its ``checkpoint``."""
        sql = f"SELECT cp_schema, cp_table, binlog_name, binlog_pos, table_info FROM {self.name}"
        found = StoredStructures()
        for schema, table, name, pos, text in query(conn, f"{sql} WHERE id = %s AND is_global = 0", (self._source,)):
            data = json.loads(text)
            form = data.get("format") if isinstance(data, dict) else None
            if form == _FORMAT:
                found.tables.append(TableInfo.from_data(data["table"]))
            elif form == _GIVEN_UP:
                found.given_up.append((str(schema), str(table)))
            elif data is not None and checkpoint is not None:
                point = stored_location(name, pos, "")
                if checkpoint.position < point.position:
                    found.ahead.append((str(schema), str(table)))
                else:
                    found.foreign.append(ForeignStructure((str(schema), str(table)), data))
        return found

    def stored_table(self, info: TableInfo, location: Location) -> BoundStatement:
        """The statement that stores a structure."""
        text = f'{{"format":"{_FORMAT}","table":{info.to_json()}}}'
        return self._upsert(info.schema, info.name, location, Location(Position("", 0)), text, is_global=False)

    def described_table(self, name: TableId, text: str, location: Location) -> BoundStatement:
        """The statement that stores a structure in DM's form, as JSON."""
        return self._upsert(*name, location, Location(Position("", 0)), text, is_global=False)

    def given_up_name(self, schema: str, table: str, location: Location) -> BoundStatement:
        """The statement that records that a table was dropped or renamed, or a schema dropped (table '')."""
        if not self._keeps_names:
            return self.removed_table(schema, table)
        # Another worker may have the full copy's files: the row stays, even if this worker has none.
        text = f'{{"format":"{_GIVEN_UP}"}}'
        return self._upsert(schema, table, location, Location(Position("", 0)), text, is_global=False)

    def removed_table(self, schema: str, table: str) -> BoundStatement:
        """The statement that removes a structure."""
        sql = f"DELETE FROM {self.name} WHERE id = %s AND cp_schema = %s AND cp_table = %s AND is_global = 0"
        return sql, (self._source, schema, table)

    def _upsert(
        self, schema: str, table: str, location: Location, leave: Location, text: str, *, is_global: bool
    ) -> BoundStatement:
        values = (location.position.name, location.position.pos, location.gtid_set)
        safe = (leave.position.name, leave.position.pos, leave.gtid_set)
        sql = (
            f"INSERT INTO {self.name} (id, cp_schema, cp_table, binlog_name, binlog_pos, binlog_gtid,"
            " exit_safe_binlog_name, exit_safe_binlog_pos, exit_safe_binlog_gtid, table_info, is_global)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE"
            " binlog_name = VALUES(binlog_name), binlog_pos = VALUES(binlog_pos), binlog_gtid = VALUES(binlog_gtid),"
            " exit_safe_binlog_name = VALUES(exit_safe_binlog_name),"
            " exit_safe_binlog_pos = VALUES(exit_safe_binlog_pos),"
            " exit_safe_binlog_gtid = VALUES(exit_safe_binlog_gtid), table_info = VALUES(table_info),"
            " is_global = VALUES(is_global)"
        )
        return sql, (self._source, schema, table, *values, *safe, text, int(is_global))
