"""Hazard: TiDB ignores case in names, so the rows of two tables of the upstream silently become one table's."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MySQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.name_spellings import two_spellings_stop_a_task


@pytest.mark.parametrize("met", [True, False])
def test_a_table_that_is_another_one_in_tidb_stops_the_task(
    mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine, met: bool
) -> None:
    two_spellings_stop_a_task(mysql_upstream, tidb, spark, met=met)
