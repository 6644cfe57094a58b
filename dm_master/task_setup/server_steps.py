"""The steps of start-task that need the servers: completing a subtask, and ``--remove-meta``."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_master.inspection.inspected_server import QUERY_TIMEOUT
from dm_master.task_setup.task_end import Moment, TaskEnd
from dm_master.task_setup.task_split import (
    TARGET_DEFAULTS,
    needs_start_position,
    target_session,
    with_start_position,
)
from pkg import errors
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import Meta, SubTaskConfig, TaskConfig
from pkg.errors import Code
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.early_tables import drop_early_tables, early_prefix
from pkg.mysql.introspect import query, server_info
from pkg.mysql.names import qualified
from pkg.process.log import get_logger

log = get_logger("service")

#: DM's own meta tables, so that removing a task taken over from DM removes all of it.
_DM_META_TABLES = (
    "syncer_checkpoint",
    "loader_checkpoint",
    "lightning_checkpoint_list",
    "onlineddl",
    "syncer_sharding_meta",
    "validator_checkpoint",
    "validator_pending_change",
    "validator_error_change",
    "validator_table_status",
)
#: This program's meta tables: the load's progress by file, and the records of the exactly-once protocol.
_OWN_META_TABLES = (
    "loader_progress",
    "loader_early",
    "syncer_batch",
    "syncer_marker",
    "syncer_ddl",
    "syncer_xa",
    "syncer_temporary",
    "syncer_taken_over",
    "diff_state",
    "diff_pair",
    "sweep_state",
    "validator_target",
)
#: What tables of the target still lack: it outlives the task's progress (``dm_worker/meta/loader_keys.py``).
_KEYS_TABLE = "loader_keys"
#: Seconds that the target may take for each statement about the task's metadata.
META_TIMEOUT = 30.0
_MISSING = frozenset({1049, 1146})


def complete(task: TaskConfig, subtask: SubTaskConfig, end: TaskEnd | None = None) -> SubTaskConfig:
    """``subtask`` with its target session, with its start position if the file names none, and with its end.

    Raises the connections' ``DMError``, or 11125 for an upstream that writes no binlog.
    """
    with contextlib.closing(connect(subtask.to, scope="downstream")) as connection:
        known = known_defaults(connection)
    with contextlib.closing(connect(subtask.from_, scope="upstream")) as connection:
        sql_mode = str(query(connection, "SELECT @@GLOBAL.sql_mode")[0][0])
        until = None if end is None else end.until(0 if end.moment is None else seconds_of(connection, end.moment))
    session = target_session(known, sql_mode, task)
    return fill_start_position(replace(subtask, to=replace(subtask.to, session=session), until=until))


def seconds_of(upstream: Connection[Any], moment: Moment) -> int:
    """A moment in unix seconds; without an offset it is in the server's time zone. Raises pymysql.Error."""
    if moment.seconds is not None:
        return moment.seconds
    query(upstream, "SET SESSION time_zone = @@GLOBAL.time_zone")
    return int(query(upstream, "SELECT UNIX_TIMESTAMP(%s)", (moment.text,))[0][0] or 0)


def known_defaults(target: Connection[Any]) -> frozenset[str]:
    """Those of :data:`TARGET_DEFAULTS` that the target has. Raises pymysql.Error."""
    names = ", ".join(f"'{name}'" for name in TARGET_DEFAULTS)
    rows = query(target, f"SHOW VARIABLES WHERE Variable_name IN ({names})")
    return frozenset(str(name).lower() for name, _ in rows)


def fill_start_position(subtask: SubTaskConfig) -> SubTaskConfig:
    """An incremental subtask without ``meta`` starts at its upstream's current position; any other stays unchanged.

    Raises 10001 for an unreachable upstream, 11125 for one without a binlog.
    """
    if not needs_start_position(subtask):
        return subtask
    with contextlib.closing(connect(subtask.from_, scope="upstream", read_timeout=QUERY_TIMEOUT)) as conn:
        try:
            location = master_status(conn, server_info(conn).flavor)
        except pymysql.Error as exc:
            raise classify(exc, scope="upstream") from exc
    if location is None:
        raise errors.new(
            Code.NoMasterStatus,
            f"the upstream of {subtask.source_id} writes no binlog",
            workaround="Set log-bin in the upstream's configuration and restart it.",
            scope="upstream",
        )
    return with_start_position(subtask, Meta(location.position.name, location.position.pos, location.gtid_set))


def meta_tables(task: str) -> tuple[str, ...]:
    """Names of all meta tables that ``task`` may have, existing or not."""
    return tuple(f"{task}_{suffix}" for suffix in (*_DM_META_TABLES, *_OWN_META_TABLES))


def has_progress(subtask: SubTaskConfig) -> bool:
    """Whether the target has a table with the task's progress. Raises the target's ``DMError``."""
    names = meta_tables(subtask.name)
    marks = ", ".join(["%s"] * len(names))
    sql = f"SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name IN ({marks}) LIMIT 1"
    with contextlib.closing(connect(subtask.to, scope="downstream", read_timeout=QUERY_TIMEOUT)) as connection:
        try:
            return bool(query(connection, sql, (subtask.meta_schema, *names)))
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream") from exc


def reach_target(task: TaskConfig, seconds: float) -> None:
    """Raises the target's ``DMError`` when it does not answer within about ``seconds``."""
    with contextlib.closing(connect(task.target, scope="downstream", read_timeout=seconds, connect_timeout=seconds)):
        log.debug("the task's target answers", task=task.name)


def remove_meta(task: TaskConfig) -> None:
    """Drops the task's tables in the target's meta schema, and those that a dump which was killed left in the target.
    Raises the target's ``DMError``.

    The record of keys that tables still lack stays, because the next copy creates them.
    """
    kept = qualified(task.meta_schema, f"{task.name}_{_KEYS_TABLE}")
    with contextlib.closing(connect(task.target, scope="downstream", read_timeout=META_TIMEOUT)) as connection:
        try:
            drop_early_tables(connection, early_prefix(task.meta_schema, task.name))
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream", statement="removing the rows of an unfinished dump") from exc
        dropped = [qualified(task.meta_schema, table) for table in meta_tables(task.name)]
        if _is_empty(connection, kept):
            dropped.append(kept)
        for table in dropped:
            statement = f"DROP TABLE IF EXISTS {table}"
            try:
                query(connection, statement)
            except Exception as exc:
                raise classify(exc, scope="downstream", statement=statement) from exc
    log.info("removed the task's metadata", task=task.name, schema=task.meta_schema)


def _is_empty(target: Connection[Any], table: str) -> bool:
    """Whether a table has no row, or does not exist."""
    try:
        return not query(target, f"SELECT 1 FROM {table} LIMIT 1")
    except pymysql.Error as exc:
        if error_number(exc) not in _MISSING:
            raise classify(exc, scope="downstream", table=table) from exc
        return True
