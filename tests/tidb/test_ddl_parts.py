"""Hazard: an ALTER TABLE that TiDB takes only in parts leads to another table there, or a part runs twice or never."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.ddl.variables import UpstreamSession
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import parse_position
from pkg.ddl import DDLStatement
from pkg.mysql.introspect import fetch_table_infos, list_tables
from pkg.mysql.schema import TableInfo
from tests.harness.altered_tables import TABLE, alters
from tests.integration.ddl.corpus_run import Logged
from tests.integration.syncer.support import Running, assert_equal, location, running, subtask
from tests.tidb.corpus_into_tidb import carry, difference

pytestmark = [pytest.mark.timeout(900, func_only=True)]

CHARSET = "CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
#: What TiDB never does, whatever else the statement does.
NEVER = ("composite index", "Unsupported modify column")


def table(server: SQLServer, schema: str) -> TableInfo:
    with closing(server.connect()) as conn:
        (found,) = fetch_table_infos(conn, schema, list_tables(conn, schema)).values()
    return found


@settings(max_examples=10, suppress_health_check=[*HealthCheck])
@given(whole=alters("mariadb", charsets=False))
def test_tidb_has_the_table_that_the_upstream_has(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, whole: DDLStatement
) -> None:
    schema = f"d{uuid.uuid4().hex[:12]}"
    made = TABLE.replace("CHARSET=latin1", CHARSET).replace("(c, a)", "(c)")
    for server in (mariadb_upstream, tidb):
        server.execute(f"CREATE DATABASE {schema}", f"USE {schema}", made)
    mariadb_upstream.execute(f"USE {schema}", whole.sql)
    with closing(DDLSession(tidb.db_config, foreign_keys=False)) as session:
        logged = Logged(QueryEvent(0, 0, 0, schema, whole.sql.encode()), 1)
        failed = carry(session, logged, UpstreamSession("mariadb", (10, 11, 0)))
    assume(not any(text in failed for text in NEVER))
    assert not failed, whole.sql
    assert not difference(table(mariadb_upstream, schema), table(tidb, schema)), whole.sql


def is_synced(run: Running, upstream: SQLServer) -> bool:
    here = run.unit.status().syncerBinlog
    return "." in here and location(upstream).position <= parse_position(here)


class Crash(Exception):
    """The process ends."""


@pytest.mark.parametrize("executed", [True, False], ids=["after each part", "before each part"])
def test_each_part_runs_once_though_the_run_ends_at_every_one(
    mariadb_upstream: MariaDBServer,
    tidb: TiDBServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    executed: bool,
) -> None:
    for server in (mariadb_upstream, tidb):
        server.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT, KEY k (a)) {CHARSET}")
    cfg = subtask(mariadb_upstream, tidb)
    mariadb_upstream.execute(
        "INSERT INTO d.t VALUES (1, 10, 20)",
        "ALTER TABLE d.t RENAME TO d.u, CHANGE a b INT, CHANGE b a INT, ADD n INT DEFAULT 5, ADD INDEX (n),"
        " ADD INDEX (n, a)",
        "INSERT INTO d.u VALUES (2, 30, 40, 50)",
    )
    met: set[str] = set()
    execute = DDLSession.execute

    def crash_once(session: DDLSession, sql: str, *args: Any) -> None:
        if sql in met or "dm_trial" in sql:
            return execute(session, sql, *args)
        if executed:
            execute(session, sql, *args)
        met.add(sql)
        raise Crash

    monkeypatch.setattr(DDLSession, "execute", crash_once)
    for _ in range(20):
        with running(cfg, spark) as run:
            wait_until(
                lambda: run.outcome is not None or is_synced(run, mariadb_upstream), "the end of the run", WAIT_TIMEOUT
            )
            if run.outcome is None:
                break
            assert "Crash" in str(run.outcome)
    assert len(met) >= 7
    assert_equal(mariadb_upstream, tidb, "d.u")
    assert not difference(table(mariadb_upstream, "d"), table(tidb, "d"))
