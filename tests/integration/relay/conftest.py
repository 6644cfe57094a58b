"""Fixtures of the relay's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.local.mysql import MariaDBServer
from tests.integration.binlog_replay import here


@pytest.fixture
def successor(mariadb_upstream: MariaDBServer, new_mariadb: Callable[..., MariaDBServer]) -> MariaDBServer:
    """A replica of ``mariadb_upstream`` with binlogs of its own, which follows from now on."""
    server = new_mariadb(gtid=True, extra=["--log-slave-updates=1"])
    server.execute(
        f"SET GLOBAL gtid_slave_pos='{here(mariadb_upstream).gtid_set}'",
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={mariadb_upstream.port}, MASTER_USER='root', "
        "MASTER_USE_GTID=slave_pos",
        "START SLAVE",
    )
    return server
