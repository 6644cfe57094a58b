"""Hazard: after a crash, what became of a statement is guessed: it runs twice, not at all, or over what came later."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.ddl.session import DDLSession
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.ha.binlog_operator import BinlogOperator, position_name
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

pytestmark = [pytest.mark.timeout(600)]


@pytest.fixture(params=["target", "mysql_upstream"])
def server(request: pytest.FixtureRequest, target: SQLServer) -> SQLServer:
    """The target, of both families."""
    found: SQLServer = request.getfixturevalue(request.param)
    return found


class Crash(Exception):
    """The process ends."""


class Crashes:
    """Runs that end right before a statement, or right after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patches = monkeypatch

    def stop(self, cfg: SubTaskConfig, spark: SparkEngine, *, executed: bool, at: str = "") -> None:
        """One run that ends at the next statement, or the next with a text in it."""
        execute = DDLSession.execute

        def crash(session: DDLSession, sql: str, *args: Any) -> None:
            if executed or at not in sql:
                execute(session, sql, *args)
            if at in sql:
                raise Crash

        with self._patches.context() as patches:
            patches.setattr(DDLSession, "execute", crash)
            with running(cfg, spark) as run:
                (error,) = run.wait_ended().errors
        assert "Crash" in str(error)


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> Crashes:
    return Crashes(monkeypatch)


def on_both(upstream: SQLServer, target: SQLServer, *statements: str) -> None:
    for each in (upstream, target):
        each.execute("CREATE DATABASE d", "USE d", *statements)


def indexes(server: SQLServer, table: str) -> list[str]:
    return sorted({str(row[2]) for row in server.execute(f"SHOW INDEX FROM {table}")})


def stopped(cfg: SubTaskConfig, spark: SparkEngine) -> tuple[DMError, str]:
    """The error of a run that can't know what became of its statement, and where that is."""
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
        assert run.unit.stuck_at is not None
        at = position_name(run.unit.stuck_at.at)
    assert error.kind is Code.SyncerUnitHandleDDLFailed, error
    return error, at


PARTITIONED = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"


@pytest.mark.parametrize("executed", [True, False], ids=["ran", "did not run"])
def test_a_partition_is_exchanged_once(
    mariadb_upstream: MariaDBServer, server: SQLServer, spark: SparkEngine, crashes: Crashes, executed: bool
) -> None:
    """Nothing that SHOW CREATE prints shows whether it ran; a second time swaps the rows back."""
    on_both(
        mariadb_upstream,
        server,
        f"CREATE TABLE `p-t` (id INT PRIMARY KEY) {PARTITIONED}",
        "CREATE TABLE aside (id INT PRIMARY KEY)",
        "INSERT INTO `p-t` VALUES (1), (11)",
        "INSERT INTO aside VALUES (2), (3)",
    )
    cfg = subtask(mariadb_upstream, server)
    mariadb_upstream.execute("ALTER TABLE d.`p-t` EXCHANGE PARTITION p0 WITH TABLE d.aside")
    crashes.stop(cfg, spark, executed=executed)
    mariadb_upstream.execute("INSERT INTO d.aside VALUES (7)")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, server, "d.`p-t`", "d.aside")


def test_what_somebody_else_altered_does_not_count_as_the_statement(
    mariadb_upstream: MariaDBServer, server: SQLServer, spark: SparkEngine, crashes: Crashes
) -> None:
    on_both(mariadb_upstream, server, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, server)
    mariadb_upstream.execute("ALTER TABLE d.t ADD COLUMN n INT")
    crashes.stop(cfg, spark, executed=False)
    server.execute("ALTER TABLE d.t ADD COLUMN theirs INT DEFAULT 5")
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 1, 1)")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert server.execute("SELECT id, v, n, theirs FROM d.t") == [(1, 1, 1, 5)]


@pytest.mark.parametrize("way", ["restore", "skip"])
def test_what_can_be_proven_neither_way_stops_with_both_actions(
    mariadb_upstream: MariaDBServer, server: SQLServer, spark: SparkEngine, crashes: Crashes, way: str
) -> None:
    on_both(mariadb_upstream, server, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, server)
    mariadb_upstream.execute("ALTER TABLE d.t ADD INDEX (v)")
    crashes.stop(cfg, spark, executed=False)
    server.execute("ALTER TABLE d.t ADD COLUMN theirs INT")
    mariadb_upstream.execute("INSERT INTO d.t (id, v) VALUES (1, 1)")
    error, at = stopped(cfg, spark)
    assert "`theirs`" in error.message
    assert error.message.count("CREATE TABLE") >= 2
    assert f"dmctl binlog skip t -s source-1 -b {at}" in error.workaround
    assert "resume" in error.workaround
    if way == "restore":
        server.execute("ALTER TABLE d.t DROP COLUMN theirs")
    orders = [BinlogOperator("skip", "t", "source-1", at)] if way == "skip" else []
    run_until_synced(cfg, spark, mariadb_upstream, lambda: orders)
    assert server.execute("SELECT id, v FROM d.t") == [(1, 1)]
    assert indexes(server, "d.t") == (["PRIMARY", "v"] if way == "restore" else ["PRIMARY"])
    assert server.execute("SHOW TABLES FROM dm_meta LIKE '%trial%'") == []


@pytest.mark.parametrize("executed", [True, False], ids=["ran", "did not run"])
def test_a_record_of_an_earlier_version_is_settled(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, crashes: Crashes, executed: bool
) -> None:
    on_both(mariadb_upstream, target, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("ALTER TABLE d.t ADD INDEX (v)")
    crashes.stop(cfg, spark, executed=executed)
    target.execute("ALTER TABLE dm_meta.t_syncer_ddl DROP COLUMN shown")
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 1)")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert indexes(target, "d.t") == ["PRIMARY", "v"]
    assert_equal(mariadb_upstream, target, "d.t")


#: The rest of a table's definition, and what has its effect once.
ONCE = [
    ("", "ALTER TABLE {} ADD INDEX (v), ADD INDEX (v, id)"),
    (", KEY (v)", "ALTER TABLE {} ADD FOREIGN KEY (v) REFERENCES {} (id)"),
    (", KEY (v), FOREIGN KEY (v) REFERENCES {} (id)", "ALTER TABLE {} ADD FOREIGN KEY (v) REFERENCES {} (id)"),
    (") PARTITION BY HASH (id) PARTITIONS 4 /*", "ALTER TABLE {} COALESCE PARTITION 1"),
    (") COMMENT 'a' /*", "ALTER TABLE {} COMMENT 'b', ADD CHECK (v > 0)"),
    ("", "ALTER TABLE {} CHANGE v w INT COMMENT 'it''s', RENAME TO moved_1"),
    ("", "RENAME TABLE {} TO moved_2"),
    ("", "ALTER TABLE {} FORCE"),
    ("", "ALTER TABLE {} RENAME COLUMN v TO w"),
]


@pytest.mark.parametrize("executed", [True, False], ids=["ran", "did not run"])
def test_a_statement_has_its_effect_once(
    mariadb_upstream: MariaDBServer, server: SQLServer, spark: SparkEngine, crashes: Crashes, executed: bool
) -> None:
    names = [f"table_{i}_" for i in range(len(ONCE))]
    tables = [
        f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT{rest.format(name)})".replace("/*)", "")
        for name, (rest, _) in zip(names, ONCE, strict=True)
    ]
    on_both(mariadb_upstream, server, *tables)
    cfg = subtask(mariadb_upstream, server)
    for name, (_, statement) in zip(names, ONCE, strict=True):
        mariadb_upstream.execute("USE d", statement.format(name, name))
        # It first settles the one before.
        crashes.stop(cfg, spark, executed=executed, at=f"`{name}`")
    run_until_synced(cfg, spark, mariadb_upstream)
    found = [str(row[0]) for row in mariadb_upstream.execute("SHOW TABLES FROM d")]
    assert len(found) == len(ONCE)
    assert {name: shape(server, name) for name in found} == {name: shape(mariadb_upstream, name) for name in found}


def shape(server: SQLServer, table: str) -> dict[str, Any]:
    """What the statements above change, in syntax that both families share."""
    counted = {
        "foreign keys": "KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL AND",
        "indexes": "STATISTICS WHERE",
        "partitions": "PARTITIONS WHERE PARTITION_NAME IS NOT NULL AND",
        "columns": "COLUMNS WHERE",
    }
    return {
        what: server.execute(
            f"SELECT COUNT(*) FROM information_schema.{where} TABLE_SCHEMA = 'd' AND TABLE_NAME = '{table}'"
        )
        for what, where in counted.items()
    } | {
        "comment": server.execute(
            f"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = '{table}'"
        )
    }
