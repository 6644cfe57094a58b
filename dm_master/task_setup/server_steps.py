"""What a subtask needs that only the servers know: the target's session, and where an incremental task begins."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from dm_master.precheck import fill_start_position
from dm_master.task_setup.task_split import target_session
from pkg.config.model import SubTaskConfig, TaskConfig
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query, server_info


def complete(task: TaskConfig, subtask: SubTaskConfig) -> SubTaskConfig:
    """``subtask`` with its target session, and with its start position if the file names none.

    Raises the connections' ``DMError``, or 11125 for an upstream that writes no binlog.
    """
    with contextlib.closing(connect(subtask.to, scope="downstream")) as connection:
        target = server_info(connection)
    with contextlib.closing(connect(subtask.from_, scope="upstream")) as connection:
        sql_mode = str(query(connection, "SELECT @@GLOBAL.sql_mode")[0][0])
    session = target_session(target, sql_mode, task)
    return fill_start_position(replace(subtask, to=replace(subtask.to, session=session)))
