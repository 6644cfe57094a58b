"""Hazards: a rule that is not applied, applied to half of a change, or to keys too late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig, SyncerConfig
from pkg.errors import Code
from pkg.rules.column_mapping import VALUE_LIMIT
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
    TableName,
)
from tests.integration.syncer.support import rows, run_until_synced, running, subtask

MERGE = (RouteRule("shard_*", "merged", "t_*", "t"), RouteRule("shard_*", "merged"))
PARTITION = ColumnMappingRule("shard_*", "id", "partition id", "t_*", "", ("3", "shard_", "t_"))
FORMS = (SyncerConfig(), SyncerConfig(compact=False, multiple_rows=False), SyncerConfig(safe_mode=True))
FORM_NAMES = ("compact", "one by one", "safe")


def base(schema: int, table: int) -> int:
    return 3 << 59 | schema << 52 | table << 44


def ended(cfg: SubTaskConfig, spark: SparkEngine) -> Any:
    """The one error that ends a run."""
    with running(cfg, spark) as run:
        outcome = run.wait_ended()
    [error] = outcome.errors
    return error


def make_shards(upstream: SQLServer, columns: str = "id INT PRIMARY KEY, v VARCHAR(20)") -> None:
    for shard in (1, 2):
        upstream.execute(f"CREATE DATABASE shard_{shard}", f"CREATE TABLE shard_{shard}.t_{shard} ({columns})")


def make_target(target: SQLServer, columns: str) -> None:
    target.execute("CREATE DATABASE merged", f"CREATE TABLE merged.t ({columns})")


@pytest.mark.parametrize("syncer", FORMS, ids=FORM_NAMES)
def test_partition_ids_keep_merged_shards_apart(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, syncer: SyncerConfig
) -> None:
    """Inserts, updates, deletes and changes of keys, all by the mapped key; the referring column is mapped alike."""
    make_shards(mariadb_upstream, "id INT PRIMARY KEY, parent INT NULL, v VARCHAR(20), UNIQUE (parent)")
    make_target(target, "id BIGINT PRIMARY KEY, parent BIGINT NULL, v VARCHAR(20), UNIQUE (parent)")
    parent = ColumnMappingRule("shard_*", "parent", "partition id", "t_*", "", ("3", "shard_", "t_"))
    cfg = subtask(mariadb_upstream, target, routes=MERGE, column_mappings=(PARTITION, parent), syncer=syncer)
    with running(cfg, spark) as run:
        for shard in (1, 2):
            table = f"shard_{shard}.t_{shard}"
            mariadb_upstream.execute(
                f"INSERT INTO {table} VALUES (1, 2, 'a'), (2, 1, 'b'), (3, NULL, 'c'), (4, 9, 'd'), (5, 5, 'e')",
                f"UPDATE {table} SET v = 'x{shard}' WHERE id = 1",
            )
        run.wait_synced(mariadb_upstream)
        for shard in (1, 2):
            table = f"shard_{shard}.t_{shard}"
            mariadb_upstream.execute(
                f"UPDATE {table} SET v = 'y' WHERE id = 2",
                f"UPDATE {table} SET id = id + 10, v = 'moved' WHERE id > 3",
                f"DELETE FROM {table} WHERE id = 3",
                f"INSERT INTO {table} VALUES (4, 4, 'again')",
                f"UPDATE {table} SET parent = NULL WHERE id = 1",
                f"UPDATE {table} SET parent = 2 WHERE id = 4",
            )
        run.wait_synced(mariadb_upstream)
        assert run.stop().canceled
    want = [
        (base(shard, shard) | id_, None if parent is None else base(shard, shard) | parent, v)
        for shard in (1, 2)
        for id_, parent, v in rows(mariadb_upstream, f"shard_{shard}.t_{shard}")
    ]
    assert sorted(rows(target, "merged.t"), key=repr) == sorted(want, key=repr)
    assert len(want) == 10


def test_mapped_strings_are_keys_by_the_targets_collation(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    columns = "k VARCHAR(40) COLLATE utf8mb4_general_ci PRIMARY KEY, n VARCHAR(20), v INT"
    make_shards(mariadb_upstream, columns)
    make_target(target, columns)
    mappings = (
        ColumnMappingRule("shard_1", "k", "add prefix", "t_*", "", ("it's\\1-",)),
        ColumnMappingRule("shard_2", "k", "add suffix", "t_*", "n", ("-2",)),
    )
    cfg = subtask(mariadb_upstream, target, routes=MERGE, column_mappings=mappings)
    with running(cfg, spark) as run:
        for shard in (1, 2):
            table = f"shard_{shard}.t_{shard}"
            mariadb_upstream.execute(
                f"ALTER TABLE {table} ADD UNIQUE (n)",
                f"ALTER TABLE {table} MODIFY n VARCHAR(20) NOT NULL",
                f"INSERT INTO {table} VALUES ('a', 'x{shard}', 1), ('B''\\\\', 'y{shard}', 2)",
                f"UPDATE {table} SET v = 7, k = 'A' WHERE k = 'a'",
                f"UPDATE {table} SET k = 'c', n = 'Y{shard}' WHERE n = 'y{shard}'",
                f"DELETE FROM {table} WHERE n = 'x2'",
            )
        run.wait_synced(mariadb_upstream)
    assert rows(target, "merged.t") == sorted(
        [("it's\\1-A", "x1", 7), ("it's\\1-c", "Y1", 2), ("Y2-2", "Y2", 2)], key=repr
    )


def test_a_value_beyond_the_range_stops_with_its_table_and_location(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_shards(mariadb_upstream, "id BIGINT PRIMARY KEY")
    make_target(target, "id BIGINT PRIMARY KEY")
    cfg = subtask(mariadb_upstream, target, routes=MERGE, column_mappings=(PARTITION,))
    mariadb_upstream.execute(f"INSERT INTO shard_1.t_1 VALUES (1), ({VALUE_LIMIT})")
    error = ended(cfg, spark)
    assert error.kind is Code.SyncerUnitDoColumnMapping
    for part in ("`shard_1`.`t_1`", "`id`", str(VALUE_LIMIT), "rows event that ends at"):
        assert part in error.message
    assert rows(target, "merged.t") == []


def test_a_mapped_key_that_the_target_cannot_hold_stops_before_any_row(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_shards(mariadb_upstream)
    make_target(target, "id INT PRIMARY KEY, v VARCHAR(20)")
    cfg = subtask(mariadb_upstream, target, routes=MERGE, column_mappings=(PARTITION,))
    mariadb_upstream.execute("INSERT INTO shard_1.t_1 VALUES (1, 'a')")
    error = ended(cfg, spark)
    assert (error.code, "MODIFY COLUMN `id` BIGINT" in error.workaround) == (36027, True)


EXTRACTS = (
    RouteRule(
        "shard_*",
        "merged",
        "t_*",
        "t",
        extract_table=ExtractRule("t_(.*)", "c_table"),
        extract_schema=ExtractRule("shard_(.*)", "c_schema"),
        extract_source=ExtractRule("(.*)", "c_source"),
    ),
    RouteRule("shard_*", "merged"),
)


@pytest.mark.parametrize("syncer", FORMS, ids=FORM_NAMES)
def test_extracted_columns_are_part_of_the_key(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, syncer: SyncerConfig
) -> None:
    """Shards with the same ids; the table's number goes into a number, the source's name holds a quote."""
    make_shards(mariadb_upstream)
    make_target(
        target,
        "id INT, v VARCHAR(20), c_schema VARCHAR(9), c_source VARCHAR(40), c_table INT, "
        "PRIMARY KEY (c_table, id, c_schema)",
    )
    cfg = subtask(mariadb_upstream, target, routes=EXTRACTS, syncer=syncer, source_id="o'brien \\")
    with running(cfg, spark) as run:
        for shard in (1, 2):
            table = f"shard_{shard}.t_{shard}"
            mariadb_upstream.execute(
                f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
                f"UPDATE {table} SET v = 'x{shard}' WHERE id = 1",
            )
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute(
            "UPDATE shard_1.t_1 SET v = 'only here' WHERE id = 2",
            "DELETE FROM shard_2.t_2 WHERE id = 1",
            "UPDATE shard_2.t_2 SET id = 9 WHERE id = 3",
            "INSERT INTO shard_2.t_2 VALUES (3, 'new')",
        )
        run.wait_synced(mariadb_upstream)
    want = [
        (*row, str(shard), "o'brien \\", shard)
        for shard in (1, 2)
        for row in rows(mariadb_upstream, f"shard_{shard}.t_{shard}")
    ]
    assert rows(target, "merged.t") == sorted(want, key=repr)
    assert len(want) == 6


def test_many_rows_at_once(mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine) -> None:
    """Enough for LOAD DATA, with a mapped number, a mapped text and constants."""
    make_shards(mariadb_upstream, "id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4")
    constants = "c_table INT, c_schema VARCHAR(9), c_source VARCHAR(9)"
    make_target(target, f"id BIGINT PRIMARY KEY, v VARCHAR(40) CHARACTER SET utf8mb4, {constants}")
    affix = ColumnMappingRule("shard_*", "v", "add suffix", "t_*", "", ("',\\)é",))
    cfg = subtask(mariadb_upstream, target, routes=EXTRACTS, column_mappings=(PARTITION, affix), source_id="a,'b")
    for shard in (1, 2):
        mariadb_upstream.execute(
            f"INSERT INTO shard_{shard}.t_{shard} SELECT seq, CONCAT('(\\\\', seq, '\\'') FROM mysql.seq_1_to_6000",
            f"DELETE FROM shard_{shard}.t_{shard} WHERE id <= 1000",
        )
    run_until_synced(cfg, spark, mariadb_upstream)
    want = [
        (base(shard, shard) | number, f"(\\{number}'',\\)é", shard, str(shard), "a,'b")
        for shard in (1, 2)
        for number in range(1001, 6001)
    ]
    assert rows(target, "merged.t") == sorted(want, key=repr)


@pytest.mark.parametrize(
    ("upstream_columns", "target_columns", "code", "what"),
    [
        (
            "id INT PRIMARY KEY",
            "id INT PRIMARY KEY, c_schema INT, c_source INT",
            36027,
            "must contain extended columns that it lacks: `c_table`",
        ),
        (
            "id INT PRIMARY KEY, C_TABLE INT",
            "id INT PRIMARY KEY, C_TABLE INT",
            36027,
            "must not contain the extended column `c_table`",
        ),
    ],
)
def test_an_extract_without_a_place_is_an_error(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    spark: SparkEngine,
    upstream_columns: str,
    target_columns: str,
    code: int,
    what: str,
) -> None:
    make_shards(mariadb_upstream, upstream_columns)
    make_target(target, target_columns)
    cfg = subtask(mariadb_upstream, target, routes=EXTRACTS)
    mariadb_upstream.execute("INSERT INTO shard_1.t_1 (id) VALUES (1)")
    error = ended(cfg, spark)
    assert (error.code, what in error.message) == (code, True)


# -- row changes that are left out ---------------------------------------------------------------------------------

ROWS = "id INT PRIMARY KEY, v INT, n INT, UNIQUE (n)"


def make_pair(upstream: SQLServer, target: SQLServer, *tables: str, columns: str = ROWS) -> None:
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", *[f"CREATE TABLE d.{table} ({columns})" for table in tables])


def test_kinds_of_row_changes_are_left_out_per_table(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_pair(mariadb_upstream, target, "all_", "no_insert", "no_update", "no_delete", "none_")
    filters = (
        *(BinlogFilterRule("d", f"no_{kind}", (kind,), (), "Ignore") for kind in ("insert", "update", "delete")),
        BinlogFilterRule("d", "none_", ("all dml",), (), "Ignore"),
    )
    for name in ("no_insert", "no_update", "no_delete", "none_", "all_"):
        for server in (mariadb_upstream, target):
            server.execute(f"INSERT INTO d.{name} VALUES (1, 0, 1), (2, 0, 2), (3, 0, 3)")
    cfg = subtask(mariadb_upstream, target, filters=filters)
    for name in ("all_", "no_insert", "no_update", "no_delete", "none_"):
        mariadb_upstream.execute(
            f"INSERT INTO d.{name} VALUES (4, 0, 4), (5, 0, 5)",
            f"UPDATE d.{name} SET v = 1 WHERE id IN (1, 4)",
            f"UPDATE d.{name} SET id = id + 10 WHERE id IN (2, 5)",
            f"UPDATE d.{name} SET n = NULL WHERE id = 1",
            f"DELETE FROM d.{name} WHERE id IN (3, 4)",
        )
    run_until_synced(cfg, spark, mariadb_upstream)
    found = {name: rows(target, f"d.{name}") for name in ("all_", "no_insert", "no_update", "no_delete", "none_")}
    assert found["all_"] == rows(mariadb_upstream, "d.all_") == [(1, 1, None), (12, 0, 2), (15, 0, 5)]
    # A row that is not there is not made up by its update, nor by a change of its key.
    assert found["no_insert"] == [(1, 1, None), (12, 0, 2)]
    assert found["no_update"] == [(1, 0, 1), (2, 0, 2), (5, 0, 5)]
    assert found["no_delete"] == [(1, 1, None), (12, 0, 2), (15, 0, 5), (3, 0, 3), (4, 1, 4)]
    assert found["none_"] == [(1, 0, 1), (2, 0, 2), (3, 0, 3)]


def test_a_kind_that_must_not_come_stops_the_task_with_its_location(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_pair(mariadb_upstream, target, "t", "other")
    cfg = subtask(mariadb_upstream, target, filters=(BinlogFilterRule("d", "t", ("delete",), (), "Error"),))
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "INSERT INTO d.t VALUES (1, 0, 1)", "UPDATE d.t SET v = 1", "INSERT INTO d.other VALUES (1, 1, 1)",
            "DELETE FROM d.other",
        )  # fmt: skip
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute("DELETE FROM d.t")
        [error] = run.wait_ended().errors
    assert error.kind is Code.SyncerUnitBinlogEventFilter
    for part in ("'d.t: Error'", "event delete", "`d`.`t`", "rows event that ends at", "startLocation"):
        assert part in error.message
    assert not error.retryable
    assert rows(target, "d.t") == [(1, 1, 1)]


def test_expressions_leave_rows_out_and_follow_the_structure(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """One expression is about a column that comes and goes: it matches no row while there is none. NOW() is when the
    upstream changed the row."""
    make_pair(mariadb_upstream, target, "t", "plain", columns="id INT PRIMARY KEY, v INT, ts TIMESTAMP NULL")
    filters = (
        ExpressionFilter("d", "T", insert_value_expr="v > 10"),
        ExpressionFilter("d", "t", insert_value_expr="tag = 'skip'"),
        ExpressionFilter("d", "t", insert_value_expr="hour(ts) = 3"),
        ExpressionFilter("d", "t", insert_value_expr="NOW() BETWEEN '2024-01-01 05:00:00' AND '2024-01-01 05:00:01'"),
        ExpressionFilter("d", "t", update_old_value_expr="v = 1", update_new_value_expr="v = 2"),
        ExpressionFilter("d", "t", update_new_value_expr="id = 77"),
        ExpressionFilter("d", "t", delete_value_expr="id = 5"),
    )
    cfg = subtask(mariadb_upstream, target, expression_filters=filters, timezone="+02:00")
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "SET time_zone = '+00:00'",
            "INSERT INTO d.t VALUES (1, 1, NULL), (2, 11, NULL), (3, 1, NULL), (5, 5, NULL)",
            "INSERT INTO d.t VALUES (4, 3, '2024-01-01 01:30:00')",
            "INSERT INTO d.plain VALUES (1, 11, NULL)",
            "SET timestamp = 1704078000",
            "INSERT INTO d.t VALUES (31, 1, NULL)",
            "SET timestamp = 1704081600",
            "INSERT INTO d.t VALUES (32, 1, NULL)",
            "SET timestamp = DEFAULT",
            "UPDATE d.t SET v = 2 WHERE id = 1",
            "UPDATE d.t SET v = 3 WHERE id = 3",
            "UPDATE d.t SET v = 12 WHERE id = 2",
            "UPDATE d.t SET id = 20 WHERE id = 2",
            "ALTER TABLE d.t ADD COLUMN tag VARCHAR(9) COLLATE utf8mb4_general_ci FIRST",
            "INSERT INTO d.t VALUES ('SKIP', 6, 6, NULL), ('keep', 7, 7, NULL), ('keep', 8, 12, NULL)",
            "ALTER TABLE d.t DROP COLUMN tag",
            "INSERT INTO d.t VALUES (9, 9, NULL)",
            "UPDATE d.t SET id = 77 WHERE id = 9",
            "DELETE FROM d.t WHERE id IN (3, 5)",
        )
        run.wait_synced(mariadb_upstream)
    assert [row[:2] for row in rows(target, "d.t")] == [(1, 1), (32, 1), (5, 5), (7, 7), (9, 9)]
    assert rows(target, "d.plain") == [(1, 11, None)]


def test_an_expression_that_a_row_has_no_value_for_stops_with_its_location(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_pair(mariadb_upstream, target, "t")
    rule = ExpressionFilter("d", "t", insert_value_expr="v * 9223372036854775807 > 1")
    cfg = subtask(mariadb_upstream, target, expression_filters=(rule,))
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 3, 1)")
    error = ended(cfg, spark)
    assert error.kind is Code.SyncerUnitParseStmt
    for part in (rule.insert_value_expr, "rows event that ends at"):
        assert part in error.message


# -- statements ----------------------------------------------------------------------------------------------------


def columns_of(server: SQLServer, table: str) -> list[str]:
    return [row[0] for row in server.execute(f"SHOW COLUMNS FROM {table}")]


def test_filtered_statements_change_the_structure_but_not_the_target(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """Whole statements, single tables of DROP TABLE, single parts of ALTER TABLE; by type, by text, by both."""
    filters = (
        BinlogFilterRule("d", "t", ("drop column", "value range decrease"), (), "Ignore"),
        BinlogFilterRule("d", "keep*", ("drop table", "truncate table"), (), "Ignore"),
        BinlogFilterRule("d", "t", (), ("ADD\\s+INDEX",), "Ignore"),
        BinlogFilterRule("e", "", ("drop database",), (), "Ignore"),
    )
    cfg = subtask(mariadb_upstream, target, filters=filters)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "CREATE DATABASE d",
            "CREATE DATABASE e",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v BIGINT, old INT NOT NULL DEFAULT 5, n INT)",
            "CREATE TABLE d.keep1 (id INT PRIMARY KEY)",
            "CREATE TABLE d.gone (id INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (1, 1, 1, 1)",
            "INSERT INTO d.keep1 VALUES (1)",
            "ALTER TABLE d.t DROP COLUMN old, ADD COLUMN extra INT, ADD INDEX (n), MODIFY v INT",
            "INSERT INTO d.t VALUES (2, 2, 2, 2)",
            "ALTER TABLE d.t MODIFY n BIGINT",
            "TRUNCATE TABLE d.keep1",
            "INSERT INTO d.keep1 VALUES (2)",
            "DROP TABLE d.keep1, d.gone",
            "DROP DATABASE e",
            "UPDATE d.t SET extra = 9 WHERE id = 1",
        )
        run.wait_synced(mariadb_upstream)
        assert run.stop().canceled
    assert columns_of(mariadb_upstream, "d.t") == ["id", "v", "n", "extra"]
    assert columns_of(target, "d.t") == ["id", "v", "old", "n", "extra"]
    assert rows(target, "d.t") == [(1, 1, 1, 1, 9), (2, 2, 5, 2, 2)]
    types = {row[0]: row[1] for row in target.execute("SHOW COLUMNS FROM d.t")}
    assert (types["v"][:6], types["n"][:6]) == ("bigint", "bigint")
    assert not target.execute("SHOW INDEX FROM d.t WHERE Key_name <> 'PRIMARY'")
    assert rows(target, "d.keep1") == [(1,), (2,)]
    assert [name for (name,) in target.execute("SHOW TABLES FROM d")] == ["keep1", "t"]
    assert "e" in [name for (name,) in target.execute("SHOW DATABASES")]


def test_a_statement_that_must_not_come_stops_the_task_before_any_part_ran(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    rule = BinlogFilterRule("d", "b", ("drop table",), (), "Error")
    cfg = subtask(mariadb_upstream, target, filters=(rule,))
    mariadb_upstream.execute(
        "CREATE DATABASE d", "CREATE TABLE d.a (id INT)", "CREATE TABLE d.b (id INT)", "DROP TABLE d.a, d.b"
    )
    error = ended(cfg, spark)
    assert error.kind is Code.SyncerUnitBinlogEventFilter
    for part in ("'d.b: Error'", "event drop table", "`d`.`b`", "DROP TABLE", "startLocation"):
        assert part in error.message
    assert [name for (name,) in target.execute("SHOW TABLES FROM d")] == ["a", "b"]


def test_a_statement_that_is_not_understood_is_skipped_by_its_sql(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """ALTER SEQUENCE is none of ours: refused unless a filter for all schemas names it."""
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE SEQUENCE d.s")
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("ALTER SEQUENCE d.s RESTART 50", "CREATE TABLE d.u (id INT PRIMARY KEY)")
    assert ended(cfg, spark).kind is Code.SyncerParseDDL
    narrow = BinlogFilterRule("d", "", (), ("^ALTER SEQUENCE",), "Ignore")
    assert ended(subtask_again(cfg, narrow), spark).kind is Code.SyncerParseDDL
    wide = BinlogFilterRule("*", "", (), ("^ALTER SEQUENCE",), "Error")
    assert ended(subtask_again(cfg, wide), spark).kind is Code.SyncerUnitBinlogEventFilter
    with running(subtask_again(cfg, BinlogFilterRule("*", "", (), ("^alter\\s+sequence",), "Ignore")), spark) as run:
        run.wait_synced(mariadb_upstream)
    assert [name for (name,) in target.execute("SHOW TABLES FROM d")] == ["t", "u"]


def subtask_again(cfg: SubTaskConfig, *filters: BinlogFilterRule) -> SubTaskConfig:
    return replace(cfg, filters=filters)


def test_the_allow_list_parts_a_drop_of_several_tables(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    names = BlockAllowList(ignore_tables=(TableName("d", "mine"),))
    target.execute("CREATE DATABASE d", "CREATE TABLE d.mine (id INT)")
    cfg = subtask(mariadb_upstream, target, block_allow_list=names)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "CREATE DATABASE d", "CREATE TABLE d.a (id INT)", "CREATE TABLE d.mine (id INT)", "DROP TABLE d.mine, d.a"
        )
        run.wait_synced(mariadb_upstream)
    assert [name for (name,) in target.execute("SHOW TABLES FROM d")] == ["mine"]
