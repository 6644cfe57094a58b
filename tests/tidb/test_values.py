"""Hazard: a value of some type arrives in TiDB as another one, or a row is not found there by its key."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from tests.integration.syncer.replay import Replay
from tests.integration.syncer.support import assert_equal, running, subtask
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


def test_null_in_a_column_that_counts_stops_the_task(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    """TiDB would store a number in its place."""
    for server in (mariadb_upstream, tidb):
        server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    cfg = subtask(mariadb_upstream, tidb)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "CREATE TABLE d.t (id INT PRIMARY KEY, n INT AUTO_INCREMENT NULL, UNIQUE KEY (n))",
            "INSERT INTO d.t VALUES (1, NULL), (2, 7)",
        )
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncerUnitDMLColumnNotMatch
    assert tidb.execute("SELECT * FROM d.t") == []
    advice = error.workaround
    tidb.execute(*advice[advice.index("`") + 1 : advice.rindex(";")].split("; "))
    with running(cfg, spark) as run:
        mariadb_upstream.execute("UPDATE d.t SET n = NULL WHERE id = 2")
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, "d.t")
