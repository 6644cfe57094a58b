"""The kind of server that tests migrate into, where they name none: ``DM_TEST_TARGET``."""

from __future__ import annotations

import os

from tests.harness.mysql import MariaDBServer, SQLServer
from tests.harness.process import HarnessError
from tests.harness.tidb import TiDBServer

TARGETS = ("mariadb", "tidb")
TARGET = os.environ.get("DM_TEST_TARGET", "mariadb")


def new_target(*, binlog: bool = False) -> SQLServer:
    """A server of that kind, not started. ``binlog``: it can tell which DDL statements ran there."""
    if TARGET not in TARGETS:
        raise HarnessError(f"DM_TEST_TARGET={TARGET}: the tests know {', '.join(TARGETS)}")
    return TiDBServer() if TARGET == "tidb" else MariaDBServer(binlog=binlog)
