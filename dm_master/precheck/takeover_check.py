"""Checks whether a task can continue from DM's records in the target, and reports what will be taken over."""

from __future__ import annotations

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.precheck.position_check import check_position
from dm_master.precheck.result import CheckFinding, fail, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.config.model import Meta, SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.names import qualified
from pkg.schema_tracker import fetch_server_defaults, table_of_tidb_model
from pkg.task_meta.dm_progress import DMProgress, copy_obstacle, read_progress, read_structures
from pkg.task_meta.unsettled_ddl import obstacle

_COPYING = ("all", "full", "dump", "load", "load&sync")
_REPLICATING = ("all", "incremental", "load&sync")
#: The most tables that a message names.
_NAMED = 5


def check_takeover(upstream: InspectedUpstream, target: InspectedServer) -> list[CheckFinding]:
    """Raises the servers' ``pymysql.Error``, and 36007 for shard DDL that can't be parsed."""
    subtask = upstream.subtask
    progress = read_progress(target.conn, subtask.meta_schema, subtask.name, subtask.source_id)
    if subtask.task_mode in _COPYING:
        refused = copy_obstacle(progress, subtask.name, subtask.source_id)
        if refused is not None:
            return [_failed(refused)]
    if not progress.takes_over or subtask.task_mode not in _REPLICATING:
        return []
    return [*_position(upstream, progress), *_groups(progress), _told(upstream, target, progress)]


def _position(upstream: InspectedUpstream, progress: DMProgress) -> list[CheckFinding]:
    location = progress.checkpoint
    assert location is not None
    meta = Meta(location.position.name, location.position.pos, location.gtid_set)
    return check_position(upstream, meta, "DM's checkpoint")


def _groups(progress: DMProgress) -> list[CheckFinding]:
    assert progress.checkpoint is not None
    found = []
    for group in progress.unsettled:
        refused = obstacle(group, progress.checkpoint.position)
        found.append(
            warn(
                f"DDL of the merged table {group.target} that DM has not executed begins again: "
                f"{'; '.join(group.statements)[:500]}",
                "Start all sources of the task. `shard-ddl-lock` shows the DDL when it is met again.",
            )
            if refused is None
            else _failed(refused)
        )
    return found


def _told(upstream: InspectedUpstream, target: InspectedServer, progress: DMProgress) -> CheckFinding:
    subtask = upstream.subtask
    understood, others = _structures(upstream, target, subtask)
    text = (
        f"source {subtask.source_id} continues from DM's checkpoint {progress.checkpoint}, without a full copy, with "
        f"DM's structures of {understood} tables, in safe mode up to the upstream's end"
    )
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        text += f"; structures that are not understood: {', '.join(others[:_NAMED])}{more}"
    return warn(text, "Stop the task in DM first (`stop-task`): two programs must not write. See docs/from-dm.md.")


def _structures(upstream: InspectedUpstream, target: InspectedServer, subtask: SubTaskConfig) -> tuple[int, list[str]]:
    """The number of DM's structures that can be read, and the others with the reasons."""
    server = fetch_server_defaults(upstream.conn)
    understood, others = 0, []
    for table, data in read_structures(target.conn, subtask.meta_schema, subtask.name, subtask.source_id):
        try:
            table_of_tidb_model(data, *table, server)
            understood += 1
        except ValueError as exc:
            others.append(f"{qualified(*table)} ({exc})")
    return understood, others


def _failed(error: DMError) -> CheckFinding:
    return fail(error.message, error.workaround)
