"""The kinds of server to migrate into."""

from __future__ import annotations

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import HarnessError
from deploy.local.tidb import TiDBServer

TARGETS = ("mariadb", "tidb")


def new_target(kind: str, *, binlog: bool = False) -> SQLServer:
    """A server of that kind, not started. ``binlog``: MariaDB writes one, which shows the executed DDL."""
    if kind not in TARGETS:
        raise HarnessError(f"there is no target of kind {kind}, only {', '.join(TARGETS)}")
    return TiDBServer() if kind == "tidb" else MariaDBServer(binlog=binlog)
