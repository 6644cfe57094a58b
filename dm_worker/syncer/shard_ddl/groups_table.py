"""The shard groups in the target's meta schema: ``<task>_syncer_sharding_meta``, in DM's layout.

One row per group, with its number of settled DDLs as ``active_index``, and one with ``is_global`` for the common state
of all. All changes are parts of :class:`MetaStore`'s transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.shard_ddl.groups_snapshot import GroupsSnapshot
from dm_worker.syncer.shard_ddl.held_targets import groups_table_name
from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import BoundStatement, query
from pkg.mysql.names import TableId, qualified
from pkg.task_meta.unsettled_ddl import ShardingRow, UnsettledGroup, is_foreign, unsettled_groups

_MISSING = frozenset({1146, 1049})
_ID_LENGTH = 144


@dataclass(frozen=True, slots=True)
class GroupsChanges:
    """The differences from the stored state: texts of groups, '' for those to remove, with their numbers."""

    groups: Mapping[TableId, tuple[int, str]] = field(default_factory=dict)
    progress: str = ""


class GroupsTable:
    """The table of one task, and its rows of one source."""

    def __init__(self, meta_schema: str, task: str, source: str) -> None:
        self.table = groups_table_name(meta_schema, task)
        self._source = source

    def creation(self) -> str:
        """The statement that creates the table where it is missing."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table} (source_id VARCHAR(32) NOT NULL,"
            f" target_table_id VARCHAR({_ID_LENGTH}) NOT NULL, source_table_id VARCHAR({_ID_LENGTH}) NOT NULL,"
            " active_index INT NOT NULL, is_global BOOLEAN NOT NULL, data LONGTEXT NOT NULL,"
            " create_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
            " update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            # An index over three names would be too long for old row formats; the third is always ''.
            " UNIQUE KEY uk_source_id_table_id (source_id, target_table_id))"
            " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_bin"
        )

    def read(self, conn: Connection[Any]) -> GroupsSnapshot | None:
        """The state that this program stored; None for none, or no table. Raises 36007 for unreadable rows."""
        rows = [row for row in self._rows(conn) if not is_foreign(row[3])]
        if not rows:
            return None
        progress = next((data for _, _, is_global, data in rows if is_global), "")
        return GroupsSnapshot(dict(self._group(data) for _, _, is_global, data in rows if not is_global), progress)

    def read_foreign(self, conn: Connection[Any]) -> list[UnsettledGroup]:
        """The groups with DDL that DM did not settle. Raises 36007 for an unreadable row of DM."""
        return unsettled_groups(row for row in self._rows(conn) if is_foreign(row[3]))

    def _rows(self, conn: Connection[Any]) -> list[ShardingRow]:
        sql = f"SELECT target_table_id, active_index, is_global, data FROM {self.table} WHERE source_id = %s"
        try:
            rows = query(conn, sql, (self._source,))
        except pymysql.Error as exc:
            if error_number(exc) in _MISSING:
                return []
            raise
        try:
            return [(str(target), int(index), bool(whole), self._json(data)) for target, index, whole, data in rows]
        except ValueError as exc:
            raise self._not_ours(exc) from exc

    @staticmethod
    def _json(data: object) -> str:
        json.loads(str(data))
        return str(data)

    def without_foreign(self, conn: Connection[Any]) -> Iterator[BoundStatement]:
        """The statements that remove DM's rows."""
        for target in {target for target, _, _, data in self._rows(conn) if is_foreign(data)}:
            yield (
                f"DELETE FROM {self.table} WHERE source_id = %s AND target_table_id = %s AND target_table_id <> ''",
                (self._source, target),
            )

    def written(self, changes: GroupsChanges) -> Iterator[BoundStatement]:
        """The statements that store ``changes``."""
        for target, (number, text) in changes.groups.items():
            if text:
                yield self._put(_id_of(target), number, json.dumps([list(target), text]), is_global=False)
            else:
                sql = f"DELETE FROM {self.table} WHERE source_id = %s AND target_table_id = %s"
                yield sql, (self._source, _id_of(target))
        if changes.progress:
            yield self._put("", 0, changes.progress, is_global=True)

    def deletion(self) -> BoundStatement:
        """The statement that removes all rows of the source."""
        return f"DELETE FROM {self.table} WHERE source_id = %s", (self._source,)

    def _put(self, target: str, number: int, data: str, *, is_global: bool) -> BoundStatement:
        sql = (
            f"INSERT INTO {self.table} (source_id, target_table_id, source_table_id, active_index, is_global, data)"
            " VALUES (%s, %s, '', %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE active_index = VALUES(active_index), data = VALUES(data)"
        )
        return sql, (self._source, target, number, int(is_global), data)

    def _group(self, data: str) -> tuple[TableId, str]:
        try:
            (schema, table), text = json.loads(data)
        except (ValueError, TypeError) as exc:
            raise self._not_ours(exc) from exc
        return (str(schema), str(table)), str(text)

    def _not_ours(self, cause: Exception) -> DMError:
        return errors.new(
            Code.SyncUnitInvalidShardMeta,
            f"a row of {self.table} was written neither by this program nor by DM",
            raw=cause,
            scope="downstream",
            workaround="Give the merged tables the same structure and start the task again with --remove-meta.",
        )


def _id_of(target: TableId) -> str:
    """The target's quoted name, or a replacement for one that is too long for the column."""
    name = qualified(*target)
    return name if len(name) <= _ID_LENGTH else blake2b(name.encode(), digest_size=32).hexdigest()
