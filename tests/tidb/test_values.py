"""Hazard: a value of some type arrives in TiDB as another one, or a row is not found there by its key."""

from __future__ import annotations

import pytest

from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.harness.tidb import TiDBServer
from tests.integration.syncer.replay import Replay
from tests.tidb import values_workload


@pytest.mark.parametrize(
    ("flavor", "safe"), [pytest.param("mariadb", False, marks=pytest.mark.core), ("mariadb", True), ("mysql", False)]
)
def test_values_of_every_type_are_replicated(
    flavor: str, safe: bool, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, tidb: TiDBServer
) -> None:
    upstream: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    made = values_workload.tables(upstream.flavor)
    values_workload.create(upstream, "d", made, target=False)
    values_workload.create(tidb, "d", made, target=True)
    replay = Replay(upstream, tidb, safe=safe, slice_bytes=4000)
    values_workload.fill(upstream, "d", made)
    assert replay.catch_up()
    assert values_workload.differences(upstream, tidb, "d", made) == []
    values_workload.change(upstream, "d", made)
    assert replay.catch_up()
    assert values_workload.differences(upstream, tidb, "d", made) == []
