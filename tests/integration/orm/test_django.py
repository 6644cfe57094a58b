"""Hazard: what an ORM sends, and no person writes that way, stops a task or arrives in another form."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.targets import TARGET
from tests.integration.orm import application
from tests.integration.syncer.support import assert_equal, running, subtask

_COLLATIONS = {"mariadb": "utf8mb4_general_ci", "mysql": "utf8mb4_0900_ai_ci"}
_TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' ORDER BY 1"
_KEYS = (
    "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE"
    " WHERE TABLE_SCHEMA = 'shop'"
)


@pytest.mark.parametrize("flavor", [pytest.param("mariadb", marks=pytest.mark.target_with("MariaDB's words")), "mysql"])
def test_django_migrates_up_and_down_while_it_is_replicated(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, flavor: str
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    # MariaDB does not have the collation of MySQL 8; MariaDB's tables get the type UUID, which TiDB does not have.
    upstream.execute(f"CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE {_COLLATIONS[flavor]}")
    target.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    # TiDB does not change the type of a primary key.
    back = "0002" if TARGET == "tidb" else "zero"
    with running(subtask(upstream, target), spark) as run:
        for command in (
            ("migrate", "shop", "0001"),
            ("migrate", "shop", "0002"),
            ("migrate",),
            ("sell",),
            ("migrate", "shop", back),
            ("migrate", "admin", "zero"),
        ):
            application.run("shop", upstream, *command)
            run.wait_synced(upstream)
            tables = [name for (name,) in upstream.execute(_TABLES)]
            assert [name for (name,) in target.execute(_TABLES)] == tables, command
            assert set(target.execute(_KEYS)) == set(upstream.execute(_KEYS)), command
            assert_equal(upstream, target, *(f"shop.`{name}`" for name in tables))
