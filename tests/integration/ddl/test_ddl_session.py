"""Hazard: a statement means something else at the target than in the session that ran it upstream."""

from __future__ import annotations

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.syncer.ddl.session import DDLSession, StatementFailed
from dm_worker.syncer.ddl.variables import UpstreamSession
from pkg.binlog.events import QueryEvent

_BIN, _GREEK, _ONLY_MYSQL_8 = 46, 25, 305


def event(*, explicit: bool | None = None, collation: int = 45) -> QueryEvent:
    return QueryEvent(
        *(1, 0, 0, "", b""),
        sql_mode=0,
        charsets=(45, 45, collation),
        explicit_defaults_for_timestamp=explicit,
    )


def upstream(explicit: bool) -> UpstreamSession:
    return UpstreamSession("mysql", (8, 0, 12), explicit)


@pytest.fixture(params=["target", "mysql_upstream"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    found.execute("CREATE DATABASE d")
    return found


def test_timestamp_means_what_the_session_said_or_else_its_server(server: SQLServer) -> None:
    session = DDLSession(server.db_config, foreign_keys=True)
    told = {"a": (False, True, "NO"), "b": (None, False, "NO"), "c": (True, False, "YES"), "e": (None, True, "YES")}
    if server.execute("SELECT @@version LIKE '5.6%'") == [(1,)]:
        with pytest.raises(StatementFailed):
            session.execute("CREATE TABLE d.c (x TIMESTAMP)", "create table", event(explicit=True), 1, upstream(False))
        told = {name: told[name] for name in ("a", "b")}
    for name, (explicit, default, _) in told.items():
        session.execute(
            f"CREATE TABLE d.{name} (x TIMESTAMP)", "create table", event(explicit=explicit), 1, upstream(default)
        )
    session.close()
    found = server.execute("SELECT TABLE_NAME, IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd'")
    assert sorted(found) == [(name, nullable) for name, (*_, nullable) in told.items()]


def test_a_new_schema_gets_the_sessions_collation_or_else_its_charset(server: SQLServer) -> None:
    session = DDLSession(server.db_config, foreign_keys=True)
    for name, collation in (("d1", _BIN), ("d2", _GREEK), ("d3", _ONLY_MYSQL_8)):
        session.execute(f"CREATE DATABASE {name}", "create database", event(collation=collation), 1, upstream(True))
    session.close()
    found = dict(
        server.execute("SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA")  # type: ignore[arg-type]
    )
    assert (found["d1"], found["d2"]) == ("utf8mb4_bin", "greek_general_ci")
    known = server.execute("SELECT @@version LIKE '8.%'") == [(1,)]
    assert found["d3"] == ("utf8mb4_0900_as_ci" if known else "utf8mb4_general_ci")
