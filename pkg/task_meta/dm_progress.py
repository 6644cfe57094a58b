"""DM's progress with one source of a task, from its meta tables in the target. Only reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pymysql
from pymysql.connections import Connection

from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.errors import Code, DMError
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified
from pkg.task_meta.unsettled_ddl import UnsettledGroup, is_foreign, unsettled_groups

#: No schema, no table, or no such column: a table of this name with another origin.
_MISSING = frozenset({1049, 1146, 1054})
#: The state of DM's full copy, as far as it was recorded.
CopyState = Literal["", "unfinished", "finished"]


@dataclass(frozen=True, slots=True)
class DMProgress:
    """``checkpoint`` is the position of replication; None when it has not begun. ``ours``: this program has replicated,
    so the checkpoint may be its own. ``copy``: DM's full copy."""

    checkpoint: Location | None = None
    ours: bool = False
    copy: CopyState = ""
    unsettled: list[UnsettledGroup] = field(default_factory=list)

    @property
    def takes_over(self) -> bool:
        """Whether a start continues from a checkpoint that DM wrote."""
        return self.checkpoint is not None and not self.ours


def read_progress(conn: Connection[Any], schema: str, task: str, source: str) -> DMProgress:
    """Raises ``pymysql.Error`` as the server does, and 36007 for shard DDL that can't be parsed."""

    def ask(suffix: str, columns: str, where: str = "id = %s") -> list[tuple[Any, ...]]:
        try:
            return query(conn, f"SELECT {columns} FROM {qualified(schema, task + suffix)} WHERE {where}", (source,))
        except pymysql.Error as exc:
            if error_number(exc) in _MISSING:
                return []
            raise

    rows = ask("_syncer_checkpoint", "binlog_name, binlog_pos, binlog_gtid", "id = %s AND is_global = 1")
    sharding = ask("_syncer_sharding_meta", "target_table_id, active_index, is_global, data", "source_id = %s")
    copied = [str(row[0]) == "finished" for row in ask("_lightning_checkpoint_list", "status", "source_name = %s")]
    copied += [int(row[0]) >= int(row[1]) for row in ask("_loader_checkpoint", "`offset`, end_pos")]
    return DMProgress(
        checkpoint=_location(*rows[0]) if rows else None,
        ours=bool(ask("_syncer_batch", "1")),
        copy="" if not copied else "finished" if all(copied) else "unfinished",
        unsettled=unsettled_groups(
            (str(target), int(index), bool(whole), str(data))
            for target, index, whole, data in sharding
            if is_foreign(str(data))
        ),
    )


def read_structures(
    conn: Connection[Any], schema: str, task: str, source: str
) -> Iterator[tuple[tuple[str, str], object]]:
    """The structures that DM recorded with its checkpoint, as parsed JSON. Raises ``pymysql.Error``."""
    name = qualified(schema, f"{task}_syncer_checkpoint")
    rows = query(conn, f"SELECT cp_schema, cp_table, table_info FROM {name} WHERE id = %s AND is_global = 0", (source,))
    for table_schema, table, text in rows:
        data = json.loads(text)
        if isinstance(data, dict) and "format" not in data:
            yield (str(table_schema), str(table)), data


def ghost_tables(conn: Connection[Any], schema: str, task: str, source: str) -> frozenset[tuple[str, str]]:
    """The ghost tables that DM, or this program, has followed up to the checkpoint. Raises ``pymysql.Error``."""
    try:
        rows = query(
            conn,
            f"SELECT ghost_schema, ghost_table FROM {qualified(schema, f'{task}_onlineddl')} WHERE id = %s",
            (source,),
        )
    except pymysql.Error as exc:
        if error_number(exc) in _MISSING:
            return frozenset()
        raise
    return frozenset((str(ghost_schema), str(ghost)) for ghost_schema, ghost in rows)


def _location(name: Any, pos: Any, gtid: Any) -> Location | None:
    """DM also writes the row before it knows a position."""
    if not name and not gtid:
        return None
    return Location(Position(str(name or ""), int(pos or 0)).of_upstream(), str(gtid or ""))


def copy_obstacle(progress: DMProgress, task: str, source: str) -> DMError | None:
    """Why a task that copies first can't start: DM has copied and has not replicated yet. None when it can."""
    if not progress.copy or progress.checkpoint is not None or progress.ours:
        return None
    if progress.copy == "finished":
        what = "DM has finished the full copy and has not begun to replicate"
        ways = (
            "Continue without a copy: task-mode incremental, with `meta` from the file `metadata` in DM's dump folder "
            "and safe-mode: true for the first minutes. Or copy again: empty the target tables and start with "
            "--remove-meta."
        )
    else:
        what = "DM's full copy is not finished, and its files can't be continued here"
        ways = "Let DM finish it. Or copy again: empty the target tables and start with --remove-meta."
    return errors.new(
        Code.LoadTaskCheckPointNotMatch,
        f"task {task}, source {source}: {what}; nothing was changed",
        scope="downstream",
        workaround=ways,
    )
