"""``<task>_syncer_checkpoint``: the checkpoint of one source, and the structures of its tables. It has DM's layout."""

from __future__ import annotations

import json

import pymysql

from dm_worker.syncer.checkpoint.meta_connection import SMALL_KEYS, MetaConnection, stored_location
from pkg.binlog.position import Location, Position
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import BoundStatement, query
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo

#: Distinguishes our table structures from DM's in the column ``table_info``.
_FORMAT = "dm-spark/1"
#: Instead of a structure: the name was given up, so the full copy's schema file of it does not count any more.
_GIVEN_UP = "dm-spark/given-up"
_SYNTAX = 1064


class CheckpointTable:
    """The table of one task, and its rows of one source. ``keeps_names``: a name that is given up keeps its row."""

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

    def read(self, conn: MetaConnection) -> tuple[Location | None, Location | None]:
        """The checkpoint, and where safe mode ends; None where there is none."""
        rows = query(
            conn,
            "SELECT binlog_name, binlog_pos, binlog_gtid, exit_safe_binlog_name, exit_safe_binlog_pos,"
            f" exit_safe_binlog_gtid FROM {self.name} WHERE id = %s AND is_global = 1",
            (self._source,),
        )
        if not rows:
            return None, None
        name, pos, gtid, exit_name, exit_pos, exit_gtid = rows[0]
        exit_safe = stored_location(exit_name, exit_pos, exit_gtid) if exit_name or exit_gtid else None
        return stored_location(name, pos, gtid), exit_safe

    def moved(self, location: Location, exit_safe: Location | None) -> BoundStatement:
        """The statement that moves the checkpoint. ``exit_safe``: safe mode holds until there."""
        leave = exit_safe or Location(Position("", 0))
        return self._upsert("", "", location, leave, "null", is_global=True)

    def read_tables(self, conn: MetaConnection) -> tuple[list[TableInfo], list[TableId]]:
        """The structures, and the names that were given up."""
        sql = f"SELECT cp_schema, cp_table, table_info FROM {self.name} WHERE id = %s AND is_global = 0"
        found: list[TableInfo] = []
        given_up: list[TableId] = []
        for schema, table, text in query(conn, sql, (self._source,)):
            data = json.loads(text)
            # DM's own structures have another form; the table's other sources serve then.
            form = data.get("format") if isinstance(data, dict) else None
            if form == _FORMAT:
                found.append(TableInfo.from_data(data["table"]))
            elif form == _GIVEN_UP:
                given_up.append((str(schema), str(table)))
        return found, given_up

    def stored_table(self, info: TableInfo, location: Location) -> BoundStatement:
        """The statement that stores a structure."""
        text = f'{{"format":"{_FORMAT}","table":{info.to_json()}}}'
        return self._upsert(info.schema, info.name, location, Location(Position("", 0)), text, is_global=False)

    def given_up_name(self, schema: str, table: str, location: Location) -> BoundStatement:
        """The statement that notes that a table was dropped or renamed, or a schema dropped (table '')."""
        if not self._keeps_names:
            return self.removed_table(schema, table)
        # Another worker may have the full copy's files: the row stays, whether this one has them or not.
        text = f'{{"format":"{_GIVEN_UP}"}}'
        return self._upsert(schema, table, location, Location(Position("", 0)), text, is_global=False)

    def removed_table(self, schema: str, table: str) -> BoundStatement:
        """The statement that removes a structure."""
        sql = f"DELETE FROM {self.name} WHERE id = %s AND cp_schema = %s AND cp_table = %s AND is_global = 0"
        return sql, (self._source, schema, table)

    def _upsert(
        self, schema: str, table: str, place: Location, leave: Location, text: str, *, is_global: bool
    ) -> BoundStatement:
        values = (place.position.name, place.position.pos, place.gtid_set)
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
