"""Checks whether the target can repeat the actions of the upstream's foreign keys, which are not in the binlog."""

from __future__ import annotations

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.precheck.result import CheckFinding, fail, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.mysql.foreign_key_introspect import enforces_foreign_keys, fetch_foreign_keys, logs_actions, shown_foreign_keys
from pkg.rules.foreign_keys import ForeignKeySetting, MigratedTables, find_problems


def check_foreign_keys(upstream: InspectedUpstream, target: InspectedServer) -> list[CheckFinding]:
    """Failures if the task starts with the current structures; warnings if the stream may still add what is missing."""
    if logs_actions(upstream.conn):
        return []
    keys = shown_foreign_keys(upstream.conn, upstream.tables)
    there = fetch_foreign_keys(target.conn)
    subtask, mapper = upstream.subtask, upstream.rules.mapper
    setting = ForeignKeySetting(
        checks=subtask.to.foreign_key_checks,
        merges=bool(subtask.shard_mode),
        mapped=[table for table in upstream.tables if mapper.rules_for(*table)],
        acts=enforces_foreign_keys(target.conn, target.info),
    )
    present = target.table_infos(upstream.routed.values())
    problem = fail if upstream.starts_now(target) else warn
    found = find_problems(keys, there, MigratedTables.of(upstream.routed), present, setting)
    return [problem(one.what, one.workaround, subject=subtask.source_id) for one in found]
