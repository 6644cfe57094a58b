"""Makes early tables the target's when their dump is complete (:mod:`dm_worker.meta.early_progress`).

A table is renamed, then its files' progress becomes the load's, and then it gets its own comment back. Until then its
comment is the early table's name: after a crash, it tells whether the target's table is the early one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.early_progress import EarlyProgress, EarlyState, EarlyTable
from dm_worker.meta.load_progress import fenced
from dm_worker.meta.loader_keys import LoaderKeys
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify, connect, error_text
from pkg.mysql.early_tables import set_table_comment, table_comment
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger

log = get_logger("loader.early")


def remove_early(cfg: SubTaskConfig) -> None:
    """Removes all early rows of a subtask. Raises DMError."""
    with closing(connect(cfg.to, scope="downstream")) as conn:
        try:
            EarlyProgress(cfg).remove(conn)
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream", statement="removing the rows of an unfinished dump") from exc


class EarlyAdoption:
    """One load's adoption of what was loaded before its dump, ``token``, was complete.

    The connection has the right to execute the subtask's DDL. Methods raise ``pymysql.Error``.
    """

    def __init__(self, cfg: SubTaskConfig, conn: Connection[Any], token: str) -> None:
        self._cfg = cfg
        self._conn = conn
        self._progress = EarlyProgress(cfg)
        found = self._progress.tables(conn, token) if token else []
        self._tables = {table.target: table for table in found}

    @property
    def targets(self) -> frozenset[TableId]:
        """The tables that may be adopted. The load must not create them before."""
        return frozenset(self._tables)

    def run(self, epoch: int, files: Mapping[str, int]) -> set[TableId]:
        """Adopts what is possible for the load of ``epoch`` with ``files``; returns the tables that it adopted.

        Then no early table is left. Raises DMError 34018 when another load has begun, or when it is unknown whether a
        target's table has the early rows.
        """
        adopted = {table.target for table in self._tables.values() if self._adopt(table, epoch, files)}
        self._progress.remove(self._conn)
        if adopted:
            log.info(
                "tables with rows from before the end of the dump got their names",
                task=self._cfg.name, source=self._cfg.source_id, tables=len(adopted),
            )  # fmt: skip
        return adopted

    def _adopt(self, table: EarlyTable, epoch: int, files: Mapping[str, int]) -> bool:
        if table.state is not EarlyState.ADOPTED:
            sizes = {name: file.size for name, file in self._progress.files(self._conn, table).items()}
            if any(files.get(name) != size for name, size in sizes.items()):
                return self._not(table, "its files are not those of the dump")
            if not self._has_name(table):
                return False
            if not self._progress.take_over(self._conn, table, epoch):
                raise fenced(self._cfg.source_id, table.name)
        if self._comment(table.target) == table.name:
            set_table_comment(self._conn, *table.target, table.comment)
        self._progress.forget(self._conn, table)
        return True

    def _has_name(self, table: EarlyTable) -> bool:
        """Whether the early table is the target's now; renames it if it is not yet."""
        there = self._comment(table.target)
        if self._comment(table.early) is not None:
            if there is not None:
                return self._not(table, "the target has a table of this name meanwhile")
            return self._rename(table)
        if there is None or table.state is EarlyState.LOADED:
            return self._not(table, "it was dropped")
        if there != table.name:
            raise _unknown(table)
        return True

    def _rename(self, table: EarlyTable) -> bool:
        if table.keys:
            LoaderKeys(self._cfg).put(self._conn, table.target, table.keys)
        self._progress.set_state(self._conn, table, EarlyState.RENAMING)
        try:
            self._conn.query(f"RENAME TABLE {qualified(*table.early)} TO {qualified(*table.target)}")
        except pymysql.Error as exc:
            if classify(exc, scope="downstream").retryable:
                raise
            return self._not(table, error_text(exc))
        return True

    def _comment(self, table: TableId) -> str | None:
        return table_comment(self._conn, *table)

    def _not(self, table: EarlyTable, why: str) -> bool:
        log.info("the rows of a table are loaded again, after the dump", table=table.target, reason=why)
        self._progress.forget(self._conn, table)
        return False


def _unknown(table: EarlyTable) -> DMError:
    return errors.new(
        Code.LoadTaskCheckPointNotMatch,
        f"the run before was about to rename {qualified(*table.early)} to {qualified(*table.target)}; now the first is "
        "gone, and the second is another table or has another comment, so that its rows are unknown",
        scope="downstream",
        workaround="Nothing was written to the table. Stop the task, empty the target tables, and start it with "
        "--remove-meta to copy again.",
    )
