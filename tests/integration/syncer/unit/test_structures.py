"""Hazard: a known structure that is wrong can't be put right, or is put right under a run that stores its own."""

from __future__ import annotations

import re

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer import SyncUnit
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.ha.binlog_operator import BinlogOperator, position_name
from pkg.rules.model import BlockAllowList
from tests.harness.targets import target_has
from tests.integration.syncer.support import assert_equal, refusal, run_until_synced, running, subtask

WRONG = "CREATE TABLE x (id INT PRIMARY KEY)"


def prepared(upstream: MariaDBServer, target: MariaDBServer) -> SubTaskConfig:
    for server in (upstream, target):
        # The default collation is another one in each kind of server.
        table = "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT 'x', KEY (v)) CHARSET utf8mb4"
        server.execute("CREATE DATABASE d", f"{table} COLLATE utf8mb4_general_ci")
    return subtask(upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))


def test_a_structure_is_shown_set_and_forgotten(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = prepared(mariadb_upstream, target)
    with SyncUnit(cfg, spark).structures() as structures:
        refusal(44005, lambda: structures.show("d", "t"))
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 'a')")
        run.wait_synced(mariadb_upstream)
        refusal(40051, lambda: run.unit.structures().__enter__())
        run.stop()
        with run.unit.structures() as structures:
            right = structures.show("d", "t")
            assert re.match(r"CREATE TABLE `t` \(`id` int(\(11\))? NOT NULL, `v` varchar\(9\) CHARACTER SET", right)
            assert " DEFAULT 'x', PRIMARY KEY (`id`), KEY `v` (`v`)) " in right
            structures.update("d", "t", WRONG)
            assert "`v`" not in structures.show("d", "t")
            refusal(44009, lambda: structures.update("d", "t", "CREATE TABLE t (id INT"))
            refusal(44009, lambda: structures.update("d", "t", "DROP TABLE t"))
            refusal(44005, lambda: structures.update_from_source("d", "nothing"))
            refusal(44005, lambda: structures.show("mysql", "user"))

    mariadb_upstream.execute("INSERT INTO d.t VALUES (2, 'b')")
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
        assert error.kind is Code.SyncerUnitDMLColumnNotMatch
        assert "dmctl binlog-schema update t d t -s source-1 --from-source" in error.workaround
    unit = run.unit
    with unit.structures() as structures:
        structures.update("d", "t", right)
        assert structures.show("d", "t") == right
        structures.update("d", "t", WRONG)
        structures.update_from_target("d", "t")
        # Both kinds of server name the same type in their own words.
        assert structures.show("d", "t").replace("`id` int NOT", "`id` int(11) NOT") == right
        structures.update("d", "t", WRONG)
        structures.delete("d", "t")
        refusal(44005, lambda: structures.show("d", "t"))
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_the_structure_of_a_statement_that_was_skipped_comes_from_the_upstream(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = prepared(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 'a')")
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute(
            "CREATE DATABASE other",
            "CREATE SEQUENCE other.s",
            "ALTER TABLE d.t ADD COLUMN n INT DEFAULT NEXTVAL(other.s)",
            "INSERT INTO d.t (id) VALUES (2)",
            # The statement itself filled the column.
            "UPDATE d.t SET n = 7 WHERE id = 1",
        )
        assert [error.code for error in run.wait_ended().errors] == [36067]
        assert run.unit.stuck_at is not None
        skip = BinlogOperator("skip", "t", "source-1", position_name(run.unit.stuck_at.at))
    target.execute("ALTER TABLE d.t ADD COLUMN n INT")
    with running(cfg, spark, lambda: [skip]) as run:
        (error,) = run.wait_ended().errors
        assert error.kind is Code.SyncerUnitDMLColumnNotMatch
    with run.unit.structures() as structures:
        structures.update_from_source("d", "t")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_a_column_that_was_moved_after_the_start_does_not_get_the_values_of_another(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)",
            "CREATE TABLE d.same (id INT PRIMARY KEY, a INT, b INT)",
        )
    cfg = subtask(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    mariadb_upstream.execute(
        "INSERT INTO d.same VALUES (1, 10, 20)",
        "INSERT INTO d.t VALUES (1, 10, 20)",
        "ALTER TABLE d.t MODIFY a INT AFTER b",
        "INSERT INTO d.t (id, a, b) VALUES (2, 100, 200)",
    )
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt
    assert "the upstream now has the columns (id, b, a) and the target table has (id, a, b)" in error.message
    assert "`dmctl binlog-schema update t d t -s source-1 --from-source`" in error.workaround
    # What needs no proof was not held up.
    assert_equal(mariadb_upstream, target, "d.same")
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    with run.unit.structures() as structures:
        structures.update_from_target("d", "t")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert target.execute("SELECT id, a, b FROM d.t ORDER BY id") == [(1, 10, 20), (2, 100, 200)]
    assert_equal(mariadb_upstream, target, "d.t")


def test_names_in_the_binlog_make_it_certain(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)")
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (b INT, a INT, id INT PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    mariadb_upstream.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 10, 20)")
    finally:
        mariadb_upstream.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert target.execute("SELECT id, a, b FROM d.t") == [(1, 10, 20)]


def test_a_start_at_the_present_needs_no_proof_by_the_target(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)")
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (b INT, own INT, a INT, id INT PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 10, 20)", "CREATE TABLE d.other (id INT PRIMARY KEY)")
        run.wait_synced(mariadb_upstream)
    assert target.execute("SELECT id, a, b, own FROM d.t") == [(1, 10, 20, None)]


HASHED = {
    "told_to_be": "a VARCHAR(20), UNIQUE (a) USING HASH, UNIQUE USING HASH (v)",
    "none": "a VARCHAR(768), b TEXT, c BIGINT, UNIQUE (a), UNIQUE (b(10)), KEY (v) USING HASH",
}
if target_has("unique keys of any length"):
    HASHED |= {
        "over_text": "a TEXT, UNIQUE (a)",
        "prefix_of_a_text": "a TEXT, UNIQUE (a(1000))",
        "too_long": "a VARCHAR(769), UNIQUE (a)",
        "too_long_together": "a VARCHAR(400), b VARCHAR(500) NOT NULL DEFAULT 'b', UNIQUE (a, b)",
    }


def test_every_kind_of_hashed_key_made_before_and_while_the_task_runs(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    cfg = prepared(mariadb_upstream, target)
    for name, columns in HASHED.items():
        for server in (mariadb_upstream, target):
            server.execute(f"CREATE TABLE d.before_{name} (id INT PRIMARY KEY, v INT, {columns})")
    tables = [f"d.{when}_{name}" for name in HASHED for when in ("before", "while", "altered")]
    with running(cfg, spark) as run:
        for name, columns in HASHED.items():
            mariadb_upstream.execute(
                f"CREATE TABLE d.while_{name} (id INT PRIMARY KEY, v INT, {columns})",
                f"CREATE TABLE d.altered_{name} (id INT PRIMARY KEY, v INT)",
                f"ALTER TABLE d.altered_{name} ADD " + columns.replace(", ", ", ADD ").replace("(a, ADD ", "(a, "),
            )
        for table in tables:
            mariadb_upstream.execute(
                f"INSERT INTO {table} (id, v, a) VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, NULL)",
                f"UPDATE {table} SET a = NULL WHERE id = 1",
                f"UPDATE {table} SET a = 'x' WHERE id = 2",
                f"DELETE FROM {table} WHERE id = 3",
                f"ALTER TABLE {table} ADD d BIGINT UNSIGNED",
                f"UPDATE {table} SET d = id",
            )
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, *tables)


@pytest.mark.target_with("unique keys of any length")
def test_unique_keys_over_whole_text_columns(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """The upstream keeps such a key in a column that no statement shows, and logs it with every row."""
    cfg = prepared(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "CREATE TABLE d.h (id INT PRIMARY KEY, a TEXT, b BLOB, UNIQUE (a), UNIQUE (b, id))",
            "CREATE TABLE d.k (a TEXT, v INT, UNIQUE (a))",
            "INSERT INTO d.h VALUES (1, 'x', 'y'), (2, 'y', NULL), (3, NULL, NULL)",
            "INSERT INTO d.k VALUES ('x', 1), (NULL, 2), (NULL, 2)",
            "DELETE FROM d.h WHERE id = 1",
            "UPDATE d.h SET a = 'x' WHERE id = 2",
            "UPDATE d.k SET v = 3 WHERE a IS NULL LIMIT 1",
            "ALTER TABLE d.h ADD c BIGINT UNSIGNED",
            "INSERT INTO d.h VALUES (4, 'z', 'z', 7)",
            "ALTER TABLE d.h DROP INDEX a",
            "UPDATE d.h SET c = 8, b = 'w'",
        )
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.h", "d.k")
