"""Servers that several tests of the full copy share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[SQLServer, SQLServer]]:
    """Upstream and target of one family."""
    kind = MariaDBServer if request.param == "mariadb" else MySQLServer
    servers = kind(), kind(binlog=False)
    with up(*servers):
        yield servers
