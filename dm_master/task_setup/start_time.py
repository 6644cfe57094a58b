"""The start of an incremental task by time: asks its upstream where that is in the binlog."""

from __future__ import annotations

from contextlib import closing

import pymysql

from dm_master.inspection.inspected_server import QUERY_TIMEOUT
from dm_master.task_setup.server_steps import seconds_of
from dm_master.task_setup.task_end import Moment, checked_seconds
from dm_master.task_setup.time_search import TimeSearch
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.binlog.streams.server_stream import identity_of, open_upstream, replica_id
from pkg.config.model import Meta, SubTaskConfig
from pkg.errors import Code
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified

_READ_BYTES, _READ_SECONDS = 4 << 20, 1.0
_NO_SUCH_TABLE, _NO_SUCH_SCHEMA = 1146, 1049


def start_at(subtask: SubTaskConfig, moment: Moment, *, removes_meta: bool) -> Meta:
    """Where the subtask starts: at the first transaction with an event that is not older.

    Raises 38041 for a subtask that would not start there, 20057 for a time after the last event, 11125 for an upstream
    without a binlog, and errors of both servers.
    """
    if subtask.task_mode != "incremental":
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"--start-time needs task-mode incremental, not {subtask.task_mode}",
            workaround="Leave the flag out: replication starts where the full copy was taken.",
        )
    if not removes_meta and _has_checkpoint(subtask):
        raise errors.new(
            Code.MasterInvalidOperateOp,
            f"source {subtask.source_id} continues at the checkpoint of task {subtask.name}, not at --start-time",
            workaround="Leave the flag out, or give --remove-meta to start at that time instead.",
        )
    found = location_at(subtask, moment)
    return Meta(found.position.name, found.position.pos, found.gtid_set if subtask.enable_gtid else "")


def location_at(subtask: SubTaskConfig, moment: Moment) -> Location:
    """The first transaction with an event that is not older. Raises as :func:`start_at`; 38041 only for a time that no
    server knows."""
    try:
        with closing(connect(subtask.from_, scope="upstream", read_timeout=QUERY_TIMEOUT)) as conn:
            seconds = checked_seconds(seconds_of(conn, moment), moment.text, "--start-time")
            files = [str(row[0]) for row in query(conn, "SHOW BINARY LOGS")]
            end = master_status(conn, subtask.flavor)
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream") from exc
    if end is None or not files:
        raise errors.new(
            Code.NoMasterStatus,
            f"the upstream of {subtask.source_id} writes no binlog",
            workaround="Set log-bin in the upstream's configuration and restart it.",
            scope="upstream",
        )
    found = _search(subtask, seconds, _first_file(subtask, files, seconds), end.position)
    if found is None:
        raise errors.new(
            Code.ConfigStartTimeTooLate,
            f"the binlog of source {subtask.source_id} has no event at or after {moment.text}",
            scope="upstream",
            workaround="Give an earlier time, or leave the flag out to start at the end of the binlog.",
        )
    return found


def _has_checkpoint(subtask: SubTaskConfig) -> bool:
    table = qualified(subtask.meta_schema, f"{subtask.name}_syncer_checkpoint")
    sql = f"SELECT 1 FROM {table} WHERE id = %s AND is_global = 1 AND (binlog_name <> '' OR binlog_gtid <> '')"
    try:
        with closing(connect(subtask.to, scope="downstream", read_timeout=QUERY_TIMEOUT)) as conn:
            return bool(query(conn, sql, (subtask.source_id,)))
    except pymysql.Error as exc:
        if error_number(exc) in (_NO_SUCH_TABLE, _NO_SUCH_SCHEMA):
            return False
        raise classify(exc, scope="downstream") from exc


def _first_file(subtask: SubTaskConfig, files: list[str], seconds: int) -> str:
    """The last file that was begun before the time, by its FORMAT_DESCRIPTION; the first one where none was."""
    low, high = 0, len(files)
    while high - low > 1:
        middle = (low + high) // 2
        identity = identity_of(subtask.from_, files[middle], flavor=subtask.flavor, server_id=_replica_id(subtask))
        low, high = (middle, high) if identity.created < seconds else (low, middle)
    return files[low]


def _search(subtask: SubTaskConfig, seconds: int, file: str, end: Position) -> Location | None:
    search = TimeSearch(file, seconds, subtask.flavor)
    location = Location(search.read_to)
    stream = open_upstream(
        subtask.from_, location, flavor=subtask.flavor, server_id=_replica_id(subtask), use_gtid=False
    )
    with closing(stream):
        while search.read_to < end:
            for event in stream.read(_READ_BYTES, _READ_SECONDS):
                found = search.take(event)
                if found is not None:
                    return found
    return None


def _replica_id(subtask: SubTaskConfig) -> int:
    return replica_id(subtask.name, subtask.source_id, "start time")
