"""Hazard: what every migration into TiDB does, full copy, replication, DDL, differs from what MariaDB made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.engine.engine import SparkEngine
from tests.harness.mysql import MariaDBServer
from tests.harness.tidb import TiDBServer
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal
from tests.tidb.support import migrating


@pytest.mark.core
def test_copy_and_replication_give_equal_tables(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    make_tables(mariadb_upstream)
    scramble(mariadb_upstream, 11)
    with migrating(mariadb_upstream, tidb, spark, tmp_path) as run:
        scramble(mariadb_upstream, 12)
        mariadb_upstream.execute("ALTER TABLE d.plain ADD COLUMN extra DATETIME(3), ADD INDEX (v)")
        scramble(mariadb_upstream, 13)
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, *[f"d.{name}" for name in TABLES])
