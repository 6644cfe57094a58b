"""Hazard: a migration that Alembic generates, forth or back, stops a task or arrives as another structure."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, dump, load
from tests.integration.orm import application
from tests.integration.syncer.support import assert_equal, running, subtask

_SCHEMA = "CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
_TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' ORDER BY 1"
_COLUMNS = (
    "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, DATA_TYPE = 'enum' OR DATA_TYPE = 'set',"
    " CHARACTER_MAXIMUM_LENGTH, NUMERIC_SCALE, DATETIME_PRECISION, COLUMN_COMMENT FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = 'shop' AND DATA_TYPE NOT IN ('json', 'longtext')"
)
_KEYS = (
    "SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, SUB_PART FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = 'shop'"
)


def _assert_alike(upstream: SQLServer, target: SQLServer, after: object) -> None:
    tables = [name for (name,) in upstream.execute(_TABLES)]
    assert [name for (name,) in target.execute(_TABLES)] == tables, after
    for query in (_COLUMNS, _KEYS):
        assert set(target.execute(query)) == set(upstream.execute(query)), after
    assert_equal(upstream, target, *(f"shop.`{name}`" for name in tables))


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
@pytest.mark.target_with("MariaDB's words")
def test_alembic_migrates_up_and_down_while_it_is_replicated(
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: SQLServer,
    spark: SparkEngine,
    flavor: str,
    tmp_path: Path,
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    for server in (upstream, target):
        server.execute(_SCHEMA)
    with running(subtask(upstream, target), spark) as run:
        for command in (("1",), ("sell", "1"), ("2",), ("sell", "2"), ("1",)):
            application.run("store", upstream, *command)
            run.wait_synced(upstream)
            _assert_alike(upstream, target, command)
    target.wipe()
    cfg = config(upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    _assert_alike(upstream, target, "a full copy")
