"""The progress of rows that are loaded while their dump is still running: ``<task>_loader_early`` in the meta schema.

These rows are in early tables, which nobody else knows. A table has a row under the early table's name, each of its
files one under the file's, and the dump one with an empty name. A file's row commits with its rows, as in
``<task>_loader_progress``. When the dump is complete, the load renames the tables and takes over their files'
progress; otherwise the tables are dropped. An early table has its name as its comment, which a rename keeps, so that
the target's table shows whether it is the early one. The offset of a table's row is its :class:`EarlyState`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.epoch import next_epoch
from dm_worker.meta.load_progress import create_progress, fenced, progress_table
from pkg.config.model import SubTaskConfig
from pkg.mysql.connection import error_number
from pkg.mysql.early_tables import drop_early_tables, early_prefix
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified

_MISSING = frozenset({1049, 1146})


class EarlyState(IntEnum):
    """How far an early table is on its way to the target's name."""

    LOADED = 0
    RENAMING = 1  # the rename may have been executed
    ADOPTED = 2  # the load has the files' progress; the table may still have the early one's comment


@dataclass(frozen=True, slots=True)
class EarlyTable:
    """A table that is loaded under another ``name`` in its schema. ``keys`` (name → clause) are created after the rows;
    ``comment`` is its own, which it gets back with the target's name."""

    name: str
    target: TableId
    keys: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    state: EarlyState = EarlyState.LOADED

    @property
    def early(self) -> TableId:
        return self.target[0], self.name


@dataclass(frozen=True, slots=True)
class EarlyFile:
    size: int
    offset: int
    finished: bool


def early_table(meta_schema: str, task: str) -> str:
    return qualified(meta_schema, f"{task}_loader_early")


class EarlyProgress:
    """The rows of one subtask. Every method raises ``pymysql.Error``."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._cfg = cfg
        self._id = cfg.source_id
        self.table = early_table(cfg.meta_schema, cfg.name)
        self._prefix = early_prefix(cfg.meta_schema, cfg.name, cfg.source_id)

    def name(self, token: str, number: int) -> str:
        """The name of the early table ``number`` of a dump. No other dump has the same."""
        return f"{self._prefix}{token}_{number}"

    def record_dump(self, conn: Connection[Any], token: str) -> int:
        """Forgets earlier dumps, whose tasks then find no row, and records this one; returns its epoch.

        Raises DMError 34018 when a load has begun: its dump is complete.
        """
        progress = progress_table(self._cfg)
        for table in (self.table, progress):
            create_progress(conn, self._cfg.meta_schema, table)
        epoch = next_epoch(0)
        conn.begin()
        if query(conn, f"SELECT 1 FROM {progress} WHERE id = %s AND file = '' FOR UPDATE", (self._id,)):
            conn.rollback()
            raise fenced(self._id, "")
        query(conn, f"DELETE FROM {self.table} WHERE id = %s", (self._id,))
        self._insert(conn, epoch, [("", 0, json.dumps({"token": token}))])
        conn.commit()
        return epoch

    def add_table(self, conn: Connection[Any], epoch: int, table: EarlyTable) -> None:
        """Records a table before it is created. Raises DMError 34018 when a later dump has begun."""
        self._add(conn, epoch, [(table.name, 0, _detail(table))])

    def add_files(self, conn: Connection[Any], epoch: int, table: EarlyTable, files: Mapping[str, int]) -> None:
        """Records files (name → bytes) of a table. Raises DMError 34018 when a later dump has begun."""
        self._add(conn, epoch, [(name, size, table.name) for name, size in files.items()])

    def _add(self, conn: Connection[Any], epoch: int, rows: Iterable[tuple[str, int, str]]) -> None:
        conn.begin()
        sql = f"SELECT epoch FROM {self.table} WHERE id = %s AND file = '' FOR UPDATE"
        if [int(found) for (found,) in query(conn, sql, (self._id,))] != [epoch]:
            conn.rollback()
            raise fenced(self._id, "")
        self._insert(conn, epoch, rows)
        conn.commit()

    def _insert(self, conn: Connection[Any], epoch: int, rows: Iterable[tuple[str, int, str]]) -> None:
        with conn.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self.table} (id, file, size, `offset`, finished, epoch, detail)"
                " VALUES (%s, %s, %s, 0, 0, %s, %s)",
                [(self._id, name, size, epoch, detail) for name, size, detail in rows],
            )

    def set_detail(self, conn: Connection[Any], table: EarlyTable) -> None:
        """Records the keys and the comment that the table gets later, before it loses them."""
        sql = f"UPDATE {self.table} SET detail = %s WHERE id = %s AND file = %s"
        query(conn, sql, (_detail(table), self._id, table.name))

    def tables(self, conn: Connection[Any], token: str = "") -> list[EarlyTable]:
        """The tables of the dump with ``token``, or of any."""
        sql = f"SELECT file, `offset`, detail FROM {self.table} WHERE id = %s AND size = 0"
        try:
            rows = query(conn, sql, (self._id,))
        except pymysql.Error as exc:
            if error_number(exc) not in _MISSING:
                raise
            return []
        details = {_text(name): (int(offset), json.loads(detail)) for name, offset, detail in rows}
        _, dump = details.pop("", (0, {}))
        if token and dump.get("token") != token:
            return []
        return [
            EarlyTable(
                name, (detail["schema"], detail["table"]), dict(detail["keys"]), detail["comment"], EarlyState(offset)
            )
            for name, (offset, detail) in details.items()
        ]

    def files(self, conn: Connection[Any], table: EarlyTable) -> dict[str, EarlyFile]:
        sql = f"SELECT file, size, `offset`, finished FROM {self.table} WHERE id = %s AND detail = %s"
        rows = query(conn, sql, (self._id, table.name))
        return {_text(name): EarlyFile(int(size), int(at), bool(done)) for name, size, at, done in rows}

    def set_state(self, conn: Connection[Any], table: EarlyTable, state: EarlyState) -> None:
        sql = f"UPDATE {self.table} SET `offset` = %s WHERE id = %s AND file = %s"
        query(conn, sql, (int(state), self._id, table.name))

    def take_over(self, conn: Connection[Any], table: EarlyTable, epoch: int) -> bool:
        """Moves the files' progress to the load of ``epoch``, and records that, in one transaction.

        False, without a change, when another load has begun.
        """
        files = self.files(conn, table)
        progress = progress_table(self._cfg)
        conn.begin()
        sql = f"SELECT 1 FROM {self.table} WHERE id = %s AND file = %s FOR UPDATE"
        if not query(conn, sql, (self._id, table.name)):
            conn.rollback()
            return False
        for name, file in files.items():
            sql = f"UPDATE {progress} SET `offset` = %s, finished = %s WHERE id = %s AND file = %s AND epoch = %s"
            with conn.cursor() as cursor:
                cursor.execute(sql, (file.offset, int(file.finished), self._id, name, epoch))
            sql = f"SELECT `offset`, finished FROM {progress} WHERE id = %s AND file = %s AND epoch = %s AND size = %s"
            if query(conn, sql, (self._id, name, epoch, file.size)) != [(file.offset, int(file.finished))]:
                conn.rollback()
                return False
        query(conn, f"DELETE FROM {self.table} WHERE id = %s AND detail = %s", (self._id, table.name))
        self.set_state(conn, table, EarlyState.ADOPTED)
        conn.commit()
        return True

    def forget(self, conn: Connection[Any], table: EarlyTable) -> None:
        """Removes the rows of a table."""
        sql = f"DELETE FROM {self.table} WHERE id = %s AND (file = %s OR detail = %s)"
        query(conn, sql, (self._id, table.name, table.name))

    def remove(self, conn: Connection[Any], token: str = "") -> None:
        """Forgets the dump with ``token``, or any, and drops its tables."""
        try:
            conn.begin()
            rows = query(conn, f"SELECT detail FROM {self.table} WHERE id = %s AND file = '' FOR UPDATE", (self._id,))
            if not token or [json.loads(detail)["token"] for (detail,) in rows] == [token]:
                query(conn, f"DELETE FROM {self.table} WHERE id = %s", (self._id,))
            conn.commit()
        except pymysql.Error as exc:
            if error_number(exc) not in _MISSING:
                raise
        self.drop_tables(conn, token)

    def drop_tables(self, conn: Connection[Any], token: str = "") -> None:
        """Drops the early tables of the dump with ``token``, or of any dump of this subtask, recorded or not."""
        drop_early_tables(conn, self._prefix + token)


def _detail(table: EarlyTable) -> str:
    schema, name = table.target
    detail = {"schema": schema, "table": name, "keys": list(table.keys.items()), "comment": table.comment}
    return json.dumps(detail)


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
