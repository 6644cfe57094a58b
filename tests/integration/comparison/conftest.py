"""Pairs of servers that rows are compared between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.integration.comparison.support import PAIRS


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, SQLServer]]:
    """Two servers of each kind, started when they are first asked for."""
    started: dict[str, SQLServer] = {}
    try:
        yield started
    finally:
        for server in started.values():
            server.cleanup()


def server(started: dict[str, SQLServer], kind: str, number: int) -> SQLServer:
    name = f"{kind}{number}"
    if name not in started:
        made = (MariaDBServer if kind == "mariadb" else MySQLServer)(binlog=False)
        made.start()
        started[name] = made
    return started[name]


@pytest.fixture(params=PAIRS)
def sides(request: pytest.FixtureRequest, servers: dict[str, SQLServer]) -> tuple[SQLServer, SQLServer]:
    """Upstream and target."""
    upstream, target = request.param.split("-")
    return server(servers, upstream, 0), server(servers, target, 1)


@pytest.fixture
def mariadbs(servers: dict[str, SQLServer]) -> tuple[SQLServer, SQLServer]:
    return server(servers, "mariadb", 0), server(servers, "mariadb", 1)
