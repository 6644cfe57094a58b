"""Hazards: rows differ after replication, by kind of key, kind of upstream, place of a restart, or statement."""

from __future__ import annotations

from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.rows.known_collations import KnownCollations
from dm_worker.syncer.unit import target_facts
from pkg.config.model import SyncerConfig
from pkg.errors import Code
from pkg.mysql.collation_weights import CollationWeights, fetch_collation_weights
from pkg.rules.model import RouteRule
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, location, rows, run_until_synced, running, subtask


@pytest.fixture(params=["mariadb-position", "mariadb-gtid", "mysql-position", "mysql-gtid"])
def upstream(request: pytest.FixtureRequest) -> tuple[SQLServer, bool]:
    kind, way = request.param.split("-")
    return request.getfixturevalue(f"{kind}_upstream"), way == "gtid"


def test_every_kind_of_key_and_upstream(
    upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    make_tables(server, target)
    cfg = subtask(server, target, enable_gtid=gtid)
    scramble(server, 1)
    with running(cfg, spark) as run:
        run.wait_synced(server)
        scramble(server, 2)
        run.wait_synced(server)
        assert run.stop().canceled
    assert_equal(server, target, *[f"d.{name}" for name in TABLES])
    scramble(server, 3)
    with running(cfg, spark) as run:
        run.wait_synced(server)
        assert run.unit.status().totalRows > 0
        # The checkpoint is written a moment before the batch counts as applied.
        wait_until(lambda: run.unit.status().secondsBehindMaster == 0, "nothing is behind")
    assert_equal(server, target, *[f"d.{name}" for name in TABLES])


@pytest.mark.parametrize("syncer", [SyncerConfig(compact=False), SyncerConfig(compact=False, multiple_rows=False)])
def test_one_statement_per_row_gives_the_same_rows(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, syncer: SyncerConfig
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, syncer=syncer)
    scramble(mariadb_upstream, 4, 100)
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, *[f"d.{name}" for name in TABLES])


def test_a_resumed_task_does_not_ask_for_collations_again(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(conn: Connection[Any], charset: str, collation: str) -> CollationWeights | None:
        asked.append(collation)
        return fetch_collation_weights(conn, charset, collation)

    monkeypatch.setattr(target_facts, "fetch_collation_weights", counted)
    # What earlier tests asked the shared target is known already.
    monkeypatch.setattr(target_facts, "KNOWN_COLLATIONS", KnownCollations())
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target)
    for key in "ab":
        mariadb_upstream.execute(f"INSERT INTO d.t VALUES ('{key}')")
        run_until_synced(cfg, spark, mariadb_upstream)
    assert asked == ["utf8mb4_general_ci"]
    assert_equal(mariadb_upstream, target, "d.t")


def test_statements_are_barriers_and_run_once(
    upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    cfg = subtask(server, target, enable_gtid=gtid)
    with running(cfg, spark) as run:
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
            "INSERT INTO d.t VALUES (1, 'a'), (2, 'b')",
            "ALTER TABLE d.t ADD COLUMN n INT NOT NULL DEFAULT 7 AFTER id",
            "INSERT INTO d.t VALUES (3, 8, 'c')",
            "ALTER TABLE d.t ADD INDEX (n), DROP COLUMN v",
            "UPDATE d.t SET n = n + 1",
            "CREATE TABLE d.gone (id INT PRIMARY KEY)",
            "INSERT INTO d.gone VALUES (1)",
            "TRUNCATE TABLE d.gone",
            "INSERT INTO d.gone VALUES (5)",
            "RENAME TABLE d.gone TO d.kept",
            "INSERT INTO d.kept VALUES (6)",
            "CREATE TABLE d.a (id INT)",
            "CREATE TABLE d.b (id INT)",
            "DROP TABLE d.a, d.b",
            "CREATE DATABASE e",
            "DROP DATABASE e",
        )
        run.wait_synced(server)
    assert_equal(server, target, "d.t", "d.kept")
    assert [name for (name,) in target.execute("SHOW TABLES FROM d")] == ["kept", "t"]
    assert "e" not in [name for (name,) in target.execute("SHOW DATABASES")]


def test_create_table_as_select_in_one_transaction(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
            "INSERT INTO d.t VALUES (1, 'a'), (2, 'b')",
            "CREATE TABLE d.u AS SELECT * FROM d.t",
            "INSERT INTO d.u VALUES (3, 'c')",
        )
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t", "d.u")


def test_shards_merge(mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine) -> None:
    cfg = subtask(
        mariadb_upstream,
        target,
        routes=(RouteRule("shard_*", "merged", "t_*", "t"), RouteRule("shard_*", "merged")),
    )
    with running(cfg, spark) as run:
        for shard in (1, 2):
            mariadb_upstream.execute(
                f"CREATE DATABASE shard_{shard}",
                f"CREATE TABLE shard_{shard}.t_{shard} (id INT PRIMARY KEY, v VARCHAR(20))",
                f"INSERT INTO shard_{shard}.t_{shard} VALUES ({shard}, 'a'), ({shard + 10}, 'b')",
            )
        for shard in (1, 2):
            mariadb_upstream.execute(f"ALTER TABLE shard_{shard}.t_{shard} ADD COLUMN n INT DEFAULT 5")
        mariadb_upstream.execute("INSERT INTO shard_1.t_1 VALUES (21, 'x', 9)", "DELETE FROM shard_2.t_2 WHERE id = 2")
        run.wait_synced(mariadb_upstream)
    want = sorted(rows(mariadb_upstream, "shard_1.t_1") + rows(mariadb_upstream, "shard_2.t_2"), key=repr)
    assert rows(target, "merged.t") == want


def test_duplicate_key_of_two_shards_stops_the_task_and_names_it(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for shard in (1, 2):
        mariadb_upstream.execute(f"CREATE DATABASE s{shard}", f"CREATE TABLE s{shard}.t (id INT PRIMARY KEY, v INT)")
    target.execute("CREATE DATABASE m", "CREATE TABLE m.t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, target, routes=(RouteRule("s*", "m"),))
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO s1.t VALUES (1, 1)")
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("INSERT INTO s2.t VALUES (1, 2)")
        outcome = run.wait_ended()
    (error,) = outcome.errors
    assert "1062" in error.message
    assert "`m`.`t`" in error.message
    assert "startLocation: [position: (" in error.message
    # The operator makes room; the same position is done again.
    target.execute("DELETE FROM m.t")
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO s1.t VALUES (7, 7)")
        run.wait_synced(mariadb_upstream)
    assert rows(target, "m.t") == [(1, 2), (7, 7)]


def test_missing_target_table_is_an_error_with_a_way_out(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1)")
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncerDownstreamTableNotFound
    assert "startLocation: [position: (" in error.message
    assert error.workaround
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert rows(target, "d.t") == [(1,)]


def test_key_changes_and_swaps_across_buckets(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute(
        "INSERT INTO d.t VALUES " + ",".join(f"({i}, {i})" for i in range(1, 51)),
        "UPDATE d.t SET id = id + 1000",
        "UPDATE d.t SET id = -1 WHERE v = 1",
        "UPDATE d.t SET id = 1001 WHERE v = 2",
        "UPDATE d.t SET id = 1002 WHERE v = -1 OR id = -1",
        "DELETE FROM d.t WHERE v % 7 = 0",
        "INSERT INTO d.t VALUES (1007, 7)",
    )
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_foreign_checkpoint_starts_in_safe_mode(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    tables = [f"d.{name}" for name in TABLES if name != "keyless"]
    cfg = subtask(mariadb_upstream, target)
    before = location(mariadb_upstream)
    scramble(mariadb_upstream, 5)
    mariadb_upstream.execute("DELETE FROM d.keyless")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        run.stop()
    target.execute(
        f"UPDATE dm_meta.t_syncer_checkpoint SET binlog_name='{before.position.name}',"
        f" binlog_pos={before.position.pos} WHERE is_global = 1"
    )
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        scramble(mariadb_upstream, 6)
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, *tables)
    assert target.execute("SELECT exit_safe_binlog_name FROM dm_meta.t_syncer_checkpoint WHERE is_global = 1")[0] == (
        "",
    )


def test_a_statement_does_not_end_safe_mode(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(mariadb_upstream, target)
    before = location(mariadb_upstream)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 1)")
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("ALTER TABLE d.t MODIFY v TINYINT", "INSERT INTO d.t VALUES (2, 2)")
        run.wait_synced(mariadb_upstream)
        run.stop()
    target.execute(
        f"UPDATE dm_meta.t_syncer_checkpoint SET binlog_name='{before.position.name}',"
        f" binlog_pos={before.position.pos} WHERE is_global = 1",
        "DELETE FROM dm_meta.t_syncer_checkpoint WHERE is_global = 0",
        "DELETE FROM dm_meta.t_syncer_ddl",
        "ALTER TABLE d.t MODIFY v INT",
        "UPDATE d.t SET v = 1000 WHERE id = 2",
    )
    end = location(mariadb_upstream).position
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
        assert error.kind is Code.SyncerUnitHandleDDLFailed
    leave = "SELECT exit_safe_binlog_name, exit_safe_binlog_pos FROM dm_meta.t_syncer_checkpoint WHERE is_global = 1"
    assert target.execute(leave) == [(end.name, end.pos)]
    target.execute("UPDATE d.t SET v = id")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_remove_meta_forgets_the_source(mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine) -> None:
    cfg = subtask(mysql_upstream, target)
    mysql_upstream.execute("CREATE DATABASE d")
    with running(cfg, spark) as run:
        run.wait_synced(mysql_upstream)
        run.stop()
        run.unit.remove_meta()
    for table in ("checkpoint", "batch", "marker", "ddl"):
        assert target.execute(f"SELECT COUNT(*) FROM dm_meta.t_syncer_{table}")[0] == (0,)
