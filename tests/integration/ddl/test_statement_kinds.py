"""Hazard: a server logs as one statement what changed rows, and the service takes it for one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from pkg.binlog import constants as c
from pkg.binlog.events import parse_query
from tests.integration.binlog_replay import events_between, here
from tests.statement_kinds import decision, statement_kinds

pytestmark = [pytest.mark.timeout(300)]

_PREPARED = (
    "CREATE DATABASE d",
    "USE d",
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO t VALUES (1, 1), (2, 2)",
    "CREATE VIEW v0 AS SELECT 1 AS a",
    "CREATE PROCEDURE p0() UPDATE t SET v = v + 1",
    "CREATE FUNCTION chg() RETURNS INT BEGIN UPDATE t SET v = v + 1; RETURN 1; END",
)


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[SQLServer]:
    """Its own server: what is run changes accounts and settings."""
    own = MariaDBServer() if request.param == "mariadb" else MySQLServer(version="8.0")
    own.extra = ["--log-bin-trust-function-creators=1", "--event-scheduler=OFF"]
    with up(own):
        yield own


def logged_by(server: SQLServer, statements: list[str]) -> list[str]:
    """The statements that the server has in its binlog of these, in a session that logs by statement."""
    start = here(server)
    with closing(server.connect(database="d")) as conn, conn.cursor() as cursor:
        cursor.execute("SET binlog_format = STATEMENT")
        for statement in statements:
            cursor.execute(statement)
    events = events_between(server, start, here(server).position)
    return [parse_query(event).sql for event in events if event.type in c.QUERY_EVENTS]


def rows(server: SQLServer) -> list[tuple[object, ...]]:
    return server.execute("SELECT * FROM d.t ORDER BY id")


def test_what_a_server_logs_is_decided_as_the_table_says(server: SQLServer) -> None:
    """No statement that is skipped has changed a row; none that has changed one is executed or skipped."""
    server.execute(*_PREPARED)
    seen = set()
    for kind in statement_kinds():
        if not kind.of(server.flavor):
            continue
        before = rows(server)
        try:
            logged = logged_by(server, [kind.example])
        except pymysql.Error:
            continue  # it needs what the server does not have, such as a plugin
        changed = rows(server) != before
        decisions = {decision(sql, server.flavor) for sql in logged}
        if changed:
            assert any(one.startswith("refused") for one in decisions), (kind, logged)
        if kind.example in logged:
            assert decision(kind.example, server.flavor) == kind.becomes
            seen.add(kind.becomes)
    assert seen >= {"executed", "skipped", "refused 36014"}
