"""Snapshots of servers that no task connects: opened one right after the other, at no common position."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.diff.snapshot_pair import SnapshotPair
from dm_worker.diff.upstream_snapshot import SNAPSHOT
from dm_worker.table_reads.session import open_session
from pkg.mysql import driver
from pkg.mysql.connection import classify
from pkg.mysql.introspect import server_info
from pkg.settings.connections import DBConfig


@dataclass(frozen=True, slots=True)
class UnheldServers:
    """The upstreams in the order of their ids, and the target. Nothing is written to them."""

    upstreams: tuple[DBConfig, ...]
    target: DBConfig


@contextlib.contextmanager
def open_unheld_pair(servers: UnheldServers) -> Iterator[SnapshotPair]:
    """The snapshots until the end of the block. Raises DMError."""
    with contextlib.ExitStack() as sessions:

        def opened(conn: Connection[Any]) -> Connection[Any]:
            sessions.callback(driver.drop, conn)
            return conn

        # All sessions first: between the snapshots there is then one statement.
        upstreams = [opened(open_session(server)) for server in servers.upstreams]
        target = opened(open_session(servers.target, scope="downstream"))
        try:
            for conn in (*upstreams, target):
                conn.query(SNAPSHOT)
        except pymysql.Error as exc:
            raise classify(exc, scope="upstream", statement=SNAPSHOT) from exc
        place = time.strftime("%Y-%m-%d %H:%M:%S UTC, no position", time.gmtime())
        rewound = [conn for conn in (*upstreams, target) if server_info(conn).flavor != "tidb"]
        yield SnapshotPair(tuple(upstreams), target, place, exact=False, rewound=tuple(rewound))
