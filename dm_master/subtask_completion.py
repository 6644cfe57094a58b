"""What a subtask needs that only the servers know: the target's session, and where an incremental task begins."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from dm_master.task_split import needs_start_position, target_session, with_start_position
from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import Meta, SubTaskConfig, TaskConfig
from pkg.mysql.connection import connect
from pkg.mysql.introspect import ServerInfo, master_status, query, server_info


def complete(task: TaskConfig, subtask: SubTaskConfig) -> SubTaskConfig:
    """``subtask`` with its target session, and with its start position if the file names none.

    Raises the connections' ``DMError``, or 11125 for an upstream that writes no binlog.
    """
    with contextlib.closing(connect(subtask.to, scope="downstream")) as connection:
        target = server_info(connection)
    with contextlib.closing(connect(subtask.from_, scope="upstream")) as connection:
        sql_mode = str(query(connection, "SELECT @@GLOBAL.sql_mode")[0][0])
        meta = _position(subtask, master_status(connection, subtask.flavor)) if needs_start_position(subtask) else None
    completed = _with_session(task, subtask, target, sql_mode)
    return completed if meta is None else with_start_position(completed, meta)


def _with_session(task: TaskConfig, subtask: SubTaskConfig, target: ServerInfo, sql_mode: str) -> SubTaskConfig:
    return replace(subtask, to=replace(subtask.to, session=target_session(target, sql_mode, task)))


def _position(subtask: SubTaskConfig, location: Location | None) -> Meta:
    if location is None:
        raise errors.new(
            "NoMasterStatus",
            f"upstream {subtask.source_id} returns an empty result for its binlog position",
            workaround="Switch its binlog on (log-bin), or check that the user may run SHOW MASTER STATUS.",
        )
    return Meta(location.position.name, location.position.pos, location.gtid_set)
