"""Reads what a way back needs from the servers: the migrated tables, and whether the upstreams accept writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pymysql

from dm_master.cutover.reversal import Routed
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg import errors
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.config.rule_names import numbered_names
from pkg.errors import Code
from pkg.mysql.connection import classify
from pkg.settings.connections import DBConfig

_ON = frozenset({"1", "ON"})
#: Privileges that allow writes while read_only is on, by the servers' names.
_BYPASS = ("SUPER", "CONNECTION_ADMIN", "READ_ONLY ADMIN", "READ ONLY ADMIN")


def read_routes(subtasks: Mapping[str, SubTaskConfig]) -> dict[str, Routed]:
    """The migrated tables of each upstream with their targets.

    Raises 43201 for an upstream that accepts no write of the source's user, and the errors of the servers.
    """
    return {source: _read(subtask) for source, subtask in subtasks.items()}


def _read(subtask: SubTaskConfig) -> Routed:
    with closing(InspectedUpstream(subtask, numbered_names(subtask))) as upstream:
        try:
            # MariaDB's values before 12 are 0 and 1.
            closed = upstream.variable("super_read_only").upper() in _ON
            guarded = upstream.variable("read_only").upper() not in ("", "0", "OFF")
            if closed or (guarded and not any(upstream.grants.allows(one) for one in _BYPASS)):
                name = "super_read_only" if closed else "read_only"
                raise errors.new(
                    Code.CutoverRefused,
                    f"the upstream of source {subtask.source_id} refuses writes: {name} is on",
                    workaround=f"On this upstream: SET GLOBAL {name} = 0. Its applications must stay away.",
                )
            return upstream.routed
        except pymysql.Error as exc:
            raise classify(exc, scope="upstream") from exc


def source_of(target: DBConfig, sources: Mapping[str, SourceConfig]) -> str:
    """The source that is the target. Raises 43201 without one."""
    address = (target.host, target.port)
    found = [name for name, one in sorted(sources.items()) if (one.from_.host, one.from_.port) == address]
    if found:
        return found[0]
    raise errors.new(
        Code.CutoverRefused,
        f"no source has the target's address {target.host}:{target.port}, so its binlog can't be read",
        workaround="Create one with exactly this host and port: `dmctl operate-source create FILE`.",
    )
