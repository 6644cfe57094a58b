"""Hazard: what the upstream's table is now is taken for what it was when rows were logged, in more than its columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.errors.workarounds import way_on
from pkg.rules.model import BlockAllowList
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask


def begun(upstream: MariaDBServer, target: MariaDBServer, table: str, at_target: str = "") -> SubTaskConfig:
    """A subtask from the creation of ``d.t``, which both servers have."""
    for server, form in ((upstream, table), (target, at_target or table)):
        server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", f"CREATE TABLE d.t ({form})")
    return subtask(upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))


@pytest.mark.parametrize(
    ("table", "statements"),
    [
        ("id INT PRIMARY KEY, v INT", ["ALTER TABLE d.t ADD UNIQUE KEY k (v)"]),
        ("id INT NOT NULL, v INT", ["ALTER TABLE d.t ADD PRIMARY KEY (id)"]),
        ("id INT PRIMARY KEY, v INT, UNIQUE KEY k (v)", ["ALTER TABLE d.t RENAME INDEX k TO l"]),
        ("id INT PRIMARY KEY, v INT, UNIQUE KEY k (v)", ["ALTER TABLE d.t DROP KEY k"]),
        ("id INT PRIMARY KEY, v INT", ["CREATE UNIQUE INDEX k ON d.t (v)", "DROP INDEX k ON d.t"]),
        (
            "id INT PRIMARY KEY, v INT",
            ["ALTER TABLE d.t ADD UNIQUE KEY (v)", "ALTER TABLE d.t ADD UNIQUE KEY (v, id)"],
        ),
        ("id INT NOT NULL PRIMARY KEY, v INT NOT NULL", ["ALTER TABLE d.t DROP PRIMARY KEY, ADD PRIMARY KEY (v)"]),
        ("id INT PRIMARY KEY, v INT", ["ALTER TABLE d.t ADD CONSTRAINT c CHECK (v > 0), ADD UNIQUE KEY k (v)"]),
    ],
)
def test_keys_that_are_added_after_the_start_are_no_contradiction(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, table: str, statements: list[str]
) -> None:
    cfg = begun(mariadb_upstream, target, table)
    mariadb_upstream.execute(
        "INSERT INTO d.t VALUES (1, 10), (2, 20)",
        *statements,
        "INSERT INTO d.t VALUES (3, 30)",
        "DELETE FROM d.t LIMIT 1",
    )
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


@pytest.mark.parametrize(
    ("before", "statement", "value"),
    [
        ("ENUM('x', 'y')", "ALTER TABLE d.t MODIFY v ENUM('y', 'x', 'z')", "'x'"),
        ("SET('x', 'y')", "ALTER TABLE d.t MODIFY v SET('y', 'x')", "'x'"),
        ("BIGINT UNSIGNED", "ALTER TABLE d.t MODIFY v BIGINT", "18446744073709551615"),
        ("VARCHAR(9) CHARACTER SET latin1", "ALTER TABLE d.t MODIFY v VARCHAR(9) CHARACTER SET utf8mb3", "'é'"),
        ("VARCHAR(9) CHARACTER SET utf8mb3", "ALTER TABLE d.t MODIFY v VARCHAR(9) CHARACTER SET latin1", "'é'"),
        ("CHAR(9) CHARACTER SET latin1", "ALTER TABLE d.t CONVERT TO CHARACTER SET latin2", "'ä'"),
        ("BINARY(4)", "ALTER TABLE d.t MODIFY v CHAR(4)", "x'61'"),
        ("INT", "ALTER TABLE d.t MODIFY v INT AS (id + 1) STORED", "7"),
    ],
)
def test_rows_from_before_a_change_of_a_column_are_read_as_they_were(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, before: str, statement: str, value: str
) -> None:
    """The types in the binlog's TABLE_MAP are the same before and after it."""
    cfg = begun(mariadb_upstream, target, f"id INT PRIMARY KEY, v {before}")
    mariadb_upstream.execute(
        "SET SESSION sql_mode = ''",
        f"INSERT INTO d.t VALUES (1, {value})",
        "UPDATE d.t SET id = 3 WHERE id = 1",
        statement,
        "INSERT INTO d.t (id) VALUES (2)",
    )
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt
    assert "`v` is " in error.message
    assert "`dmctl binlog-schema update t d t -s source-1 --from-source`" in error.workaround
    assert "--from-target" in error.workaround
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    with run.unit.structures() as structures:
        structures.update_from_target("d", "t")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


def test_a_target_with_other_charsets_and_members_gets_the_rows(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """No statement about the table follows: the upstream's definition is the one of the rows."""
    cfg = begun(
        mariadb_upstream,
        target,
        "id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1, e ENUM('x', 'y')",
        "id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET utf8mb4, e ENUM('y', 'z', 'x')",
    )
    mariadb_upstream.execute("INSERT INTO d.t VALUES (1, 'é', 'x'), (2, 'ä', 'y')")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")


@pytest.mark.parametrize("there", ["ENUM('', 'a')", "ENUM('a', '', 'b')", "ENUM('b', 'a', '')"])
def test_number_0_of_an_enum_is_not_taken_for_the_target_s_member_without_text(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, there: str
) -> None:
    cfg = begun(mariadb_upstream, target, "id INT PRIMARY KEY, e ENUM('', 'a')", f"id INT PRIMARY KEY, e {there}")
    lenient = replace(cfg.to, session=(("sql_mode", "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"),))
    mariadb_upstream.execute("SET sql_mode = ''", "INSERT INTO d.t VALUES (1, 0), (2, ''), (3, 'a'), (4, NULL)")
    run_until_synced(replace(cfg, to=lenient), spark, mariadb_upstream)
    rows = "SELECT id, CONVERT(e USING utf8mb4), e + 0 = 0 FROM d.t ORDER BY id"
    assert (
        target.execute(rows) == mariadb_upstream.execute(rows) == [(1, "", 1), (2, "", 0), (3, "a", 0), (4, None, None)]
    )


@pytest.mark.parametrize(
    ("kind", "keys", "code", "words"),
    [
        ("CHAR(8) COLLATE utf8mb4_czech_ci", "UNIQUE (c, id)", 10006, "Column 'c' cannot be null"),
        ("CHAR(8) COLLATE utf8mb4_bin", "PRIMARY KEY (c)", 10006, "Column 'c' cannot be null"),
        ("TIMESTAMP", "PRIMARY KEY (id)", 36027, "would store another value than NULL for the row (3)"),
    ],
)
def test_a_null_that_only_the_target_s_column_excludes_is_refused(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    spark: SparkEngine,
    kind: str,
    keys: str,
    code: int,
    words: str,
) -> None:
    """The upstream's table is gone: the structure of its rows is taken from the target."""
    upstream_keys = keys.replace("PRIMARY KEY (c)", "UNIQUE (c)")
    cfg = begun(
        mariadb_upstream,
        target,
        f"id INT NOT NULL, c {kind} NULL, {upstream_keys}",
        f"id INT NOT NULL, c {kind} NOT NULL, {keys}",
    )
    mariadb_upstream.execute("INSERT INTO d.t VALUES (3, NULL)", "DROP TABLE d.t")
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.code == code
    assert words in error.message
    assert "`d`.`t`" in error.message
    assert target.execute("SELECT * FROM d.t") == []


ADD_NUMBERS = [
    "SET SESSION auto_increment_increment = 7, SESSION auto_increment_offset = 3",
    "ALTER TABLE d.t ADD COLUMN n INT AUTO_INCREMENT UNIQUE",
]
NUMBERS = "SELECT id, n FROM d.t ORDER BY n"


@pytest.mark.parametrize("rows_before", [False, True])
def test_rows_get_numbers_before_any_row_of_the_table_was_read(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, rows_before: bool
) -> None:
    table = "id INT PRIMARY KEY, v INT"
    begun(mariadb_upstream, target, table)
    for server in (mariadb_upstream, target):
        server.execute("INSERT INTO d.t VALUES (9, 1), (1, 2), (4, 3)")
    cfg = subtask(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    if rows_before:
        mariadb_upstream.execute("INSERT INTO d.t VALUES (7, 3)")
    mariadb_upstream.execute(*ADD_NUMBERS, "INSERT INTO d.t (id, v) VALUES (2, 4)")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert [n % 7 for _, n in target.execute(NUMBERS)] == [3] * (4 + rows_before)
    assert target.execute(NUMBERS) == mariadb_upstream.execute(NUMBERS)


def test_numbers_stop_where_the_primary_key_of_then_is_not_known(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    begun(mariadb_upstream, target, "id INT PRIMARY KEY, v INT")
    for server in (mariadb_upstream, target):
        server.execute("INSERT INTO d.t VALUES (9, 1), (1, 2), (4, 3)")
    cfg = subtask(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    mariadb_upstream.execute(*ADD_NUMBERS, "ALTER TABLE d.t MODIFY v BIGINT", "INSERT INTO d.t (id, v) VALUES (2, 4)")
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.code == 36068
    assert "it is not known which primary key the upstream table had before the statement" in error.message
    assert "`dmctl binlog-schema update t d t -s source-1 --from-target`" in way_on(error, "t", "source-1")
    with run.unit.structures() as structures:
        structures.update_from_target("d", "t")
    run_until_synced(cfg, spark, mariadb_upstream)
    assert target.execute(NUMBERS) == mariadb_upstream.execute(NUMBERS)


@pytest.mark.parametrize("later", [[], ["ALTER TABLE d.t MODIFY b BIGINT"]])
def test_the_primary_key_of_the_target_alone_is_no_proof_of_the_upstreams(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, later: list[str]
) -> None:
    begun(mariadb_upstream, target, "a INT NOT NULL, b INT", "a INT PRIMARY KEY, b INT")
    for server in (mariadb_upstream, target):
        server.execute("INSERT INTO d.t VALUES (9, 1), (1, 2), (4, 3)")
    cfg = subtask(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    mariadb_upstream.execute("INSERT INTO d.t VALUES (7, 4)", *ADD_NUMBERS, *later)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
    assert error.code == 36068
    assert ("it is not known which primary key" in error.message) == bool(later)
