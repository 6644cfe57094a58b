"""Queries an upstream for the settings that its source file leaves open, before the source is stored."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_master.inspection.inspected_server import QUERY_TIMEOUT
from dm_master.precheck.privilege_checks import lacking_privileges
from dm_master.precheck.server_checks import gtid_is_off
from pkg import errors
from pkg.config.model import SourceConfig
from pkg.errors import Code
from pkg.mysql.connection import classify, connect
from pkg.mysql.grants import fetch_grants
from pkg.mysql.introspect import ServerInfo, query, server_info

#: DM's range of server ids for sources without one.
_FIRST_SERVER_ID = 429496729
_SERVER_IDS = 100000
#: Seconds in which a server notices that a reader has left: more than twice the heartbeat that this program requests;
#: and between two queries.
_GONE_READER = 15.0
_LOOK_AGAIN = 0.5


def check_source(config: SourceConfig, warnings: list[str] | None = None) -> SourceConfig:
    """The source with flavor and server-id from its upstream. Adds to ``warnings`` what tasks will lack.

    Raises 10001 for an unreachable upstream or a wrong password, 11010 for a flavor that is not the server's, 11015
    for a server-id in use, 26007 for enable-gtid on a server without GTID.
    """
    with contextlib.closing(connect(config.from_, scope="upstream", read_timeout=QUERY_TIMEOUT)) as conn:
        try:
            info = server_info(conn)
            used = _settled_server_ids(conn, info, config.server_id)
            lacking = lacking_privileges(fetch_grants(conn, info.flavor))
        except pymysql.Error as exc:
            raise classify(exc, scope="upstream") from exc
    if config.enable_gtid and not info.gtid_on:
        raise gtid_is_off(config.source_id)
    if lacking and warnings is not None:
        listed, user = ", ".join(lacking), config.from_.user
        warnings.append(
            f"source {config.source_id}: user '{user}' lacks {listed} on *.* of the upstream; full copies and "
            f"replication need them. On the upstream: GRANT {listed} ON *.* TO '{user}'"
        )
    return replace(config, flavor=_flavor(config, info), server_id=_server_id(config, used))


def _flavor(config: SourceConfig, info: ServerInfo) -> str:
    real = "mariadb" if info.flavor == "mariadb" else "mysql"
    if config.flavor not in ("", real):
        raise errors.new(
            Code.NotSupportedFlavor,
            f"source {config.source_id} has flavor {config.flavor}, but its upstream is {info.version_text}",
            workaround=f"Set flavor: {real}, or remove the key.",
            scope="upstream",
        )
    return real


def _server_id(config: SourceConfig, used: set[int]) -> int:
    if config.server_id in used:
        raise errors.new(
            Code.InvalidServerID,
            f"server-id {config.server_id} of source {config.source_id} is in use by the upstream, or by something "
            "that reads its binlog: a replica, or a relay or a task of this cluster or of DM",
            workaround="Choose another server-id, or remove the key. Or stop the reader: `SHOW SLAVE HOSTS` (in "
            "MySQL 8.4 `SHOW REPLICAS`) on the upstream shows its host; a source of DM has it until `stop-relay` "
            "and `stop-task` there.",
            scope="upstream",
        )
    if config.server_id:
        return config.server_id
    free = [number for number in _candidates() if number not in used]
    return free[0]


def _candidates() -> list[int]:
    return [_FIRST_SERVER_ID + offset for offset in random.sample(range(_SERVER_IDS), 1000)]


def _settled_server_ids(conn: Connection[Any], info: ServerInfo, wanted: int) -> set[int]:
    """The server ids in use. The server lists a reader that has just left until it sends the next event to it."""
    deadline = time.monotonic() + _GONE_READER
    while True:
        used = _used_server_ids(conn, info)
        if wanted not in used - {info.server_id} or time.monotonic() > deadline:
            return used
        time.sleep(_LOOK_AGAIN)


def _used_server_ids(conn: Connection[Any], info: ServerInfo) -> set[int]:
    new_words = info.flavor == "mysql" and info.version >= (8, 0, 22)
    try:
        rows = query(conn, "SHOW REPLICAS" if new_words else "SHOW SLAVE HOSTS")
    except pymysql.err.OperationalError:
        rows = []  # without REPLICATION SLAVE replicas are not shown; the precheck of a task reports that it is missing
    return {info.server_id, *(int(row[0]) for row in rows)}
