"""Hazard: a key that the server names by itself, or makes for a short form, is another one in the target: a statement
about it stops the task, or leaves the key there. So is an expression with texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, dump, load
from tests.integration.syncer.support import assert_equal, running, subtask

pytestmark = pytest.mark.target_with("MariaDB's words")
_KEYS = (
    "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE"
    " WHERE TABLE_SCHEMA = 'd'"
)


def test_foreign_keys_without_a_name_beside_other_parts(
    mariadb_upstream: MariaDBServer, target: SQLServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d")
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute(
            "USE d",
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES p (id))",
            "ALTER TABLE t ADD b INT, ADD FOREIGN KEY (b) REFERENCES p (id) ON DELETE RESTRICT",
            "ALTER TABLE t ADD c INT REFERENCES p (id)",
            "RENAME TABLE t TO u",
            "ALTER TABLE u ADD e INT, ADD FOREIGN KEY (e) REFERENCES p (id)",
            "ALTER TABLE u DROP FOREIGN KEY u_ibfk_2",
            "INSERT INTO p VALUES (1)",
            "INSERT INTO u VALUES (1, 1, 5, 1, NULL)",
        )
        run.wait_synced(mariadb_upstream)
    assert set(target.execute(_KEYS)) == set(mariadb_upstream.execute(_KEYS))
    assert target.execute("SHOW CREATE TABLE d.u") == mariadb_upstream.execute("SHOW CREATE TABLE d.u")
    assert_equal(mariadb_upstream, target, "d.u")


def test_references_and_serials_of_a_mysql(mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine) -> None:
    for server in (mysql_upstream, target):
        server.execute("CREATE DATABASE d")
    with running(subtask(mysql_upstream, target), spark) as run:
        mysql_upstream.execute(
            "USE d",
            "CREATE TABLE t (id SERIAL AUTO_INCREMENT NOT NULL, CONSTRAINT t_id PRIMARY KEY (id))",
            # To MySQL 8 this makes no foreign key.
            "CREATE TABLE child (id INT PRIMARY KEY, t BIGINT UNSIGNED REFERENCES t (id) ON DELETE CASCADE)",
            "ALTER TABLE child ADD other BIGINT UNSIGNED REFERENCES t (id)",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO child VALUES (1, 1, 7), (2, 2, NULL)",
            "DELETE FROM t",
        )
        run.wait_synced(mysql_upstream)
    assert set(target.execute(_KEYS)) == set(mysql_upstream.execute(_KEYS))
    assert_equal(mysql_upstream, target, "d.t", "d.child")


def test_texts_in_generated_columns_of_a_mysql_arrive(
    mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    """It shows the charset of each text before it, which MariaDB does not keep well."""
    mysql_upstream.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(9), s VARCHAR(40) AS (concat(a, 'ä€\\\\''😀')) STORED)"
        " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "INSERT INTO d.t (id, a) VALUES (1, 'x')",
    )
    cfg = config(mysql_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    assert_equal(mysql_upstream, target, "d.t")


def test_the_current_time_in_parentheses_is_no_expression(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, spark: SparkEngine
) -> None:
    """MySQL before 8.0.13 has no expressions as defaults."""
    target = mysql_upstream
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d")
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute(
            "CREATE TABLE d.t (id INT PRIMARY KEY, a DATETIME DEFAULT (now()), b DATETIME(6) DEFAULT (NOW(6)))",
            "INSERT INTO d.t (id) VALUES (1)",
        )
        run.wait_synced(mariadb_upstream)
    shown = str(target.execute("SHOW CREATE TABLE d.t")[0][1])
    assert "DEFAULT CURRENT_TIMESTAMP," in shown
    assert "DEFAULT CURRENT_TIMESTAMP(6)," in shown
    assert_equal(mariadb_upstream, target, "d.t")
