"""Hazard: `dmctl diff` of a task into TiDB misses faults, reports rows that are right, or never ends a repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pymysql
import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_worker.diff.snapshot_pair import REPAIR
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query
from tests.harness.certified import NotAsked
from tests.harness.comparisons import ended, lines, tables
from tests.harness.migration import RANGE, Migration

NAME = "diffed"
#: Rows of the first shard, which writers do not change: they use ids up to twice the rows of a shard.
QUIET = RANGE // 2
FAULTS = (
    f"DELETE FROM {NAME}.orders WHERE id = {QUIET}",
    f"UPDATE {NAME}.orders SET note = 'it''s' WHERE id = {QUIET + 1}",
    f"INSERT INTO {NAME}.orders VALUES ({QUIET + 9}, 2, NULL, 1, NULL, NULL, '2020-01-01 00:00:00')",
    # Writers change kinds up to 20 only.
    f"INSERT INTO {NAME}.events VALUES (1000, 'once', 0.1), (1001, 'extra', NULL)",
    f"DELETE FROM {NAME}.events WHERE kind = 1002 LIMIT 1",
    f"DELETE FROM {NAME}.events WHERE kind = 1003",
)


def compared(cluster: Cluster, *flags: str) -> tuple[dict[str, Any], dict[tuple[str, str], str]]:
    """A comparison's answer, and what each difference is, by its table and key (without one by the first column)."""
    cluster.ok("diff", "start", NAME, *flags)
    answer = ended(cluster, NAME)
    found = {}
    for one in lines(answer):
        row = one["key"] or one["target"] or one["upstream"]
        times = f" {one['counts']['upstream']} : {one['counts']['target']}" if "counts" in one else ""
        found[one["table"].split("`")[3], row.get("id", row.get("kind"))] = f"{one['kind']}{times}"
    return answer, found


@pytest.mark.core
def test_the_transaction_of_a_repair_locks_rows(tidb: TiDBServer) -> None:
    """Replication waits for its locks: tasks' own transactions are optimistic and hold none before their COMMIT."""
    tidb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    locking = "SELECT id FROM d.t WHERE id = 1 FOR UPDATE"
    with (
        connect(tidb.db_config, scope="downstream") as repairing,
        connect(tidb.db_config, scope="downstream") as other,
    ):
        repairing.query(REPAIR)
        assert query(repairing, locking) == [(1,)]
        other.query("BEGIN PESSIMISTIC")
        with pytest.raises(pymysql.Error, match="NOWAIT"):
            query(other, f"{locking} NOWAIT")


@pytest.mark.core
@pytest.mark.timeout(600)
def test_seeded_faults_in_merged_shards_are_found_and_repaired_while_writers_write(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, tmp_path: Path
) -> None:
    with Cluster(workers=1, base=tmp_path) as cluster:
        migration = Migration(
            cluster, [mariadb_upstream], tidb, NAME, rows=300, pause=0.02, not_validated=NotAsked.SEEDED_FAULTS
        )
        migration.create(seed=25)
        quiet = ", ".join(f"({QUIET + n}, 1, 'quiet', 1.5, 0.1, x'00ff', '2020-01-01 00:00:00')" for n in range(3))
        mariadb_upstream.execute(
            f"INSERT INTO {migration.shards[0].name} VALUES {quiet}",
            f"INSERT INTO {NAME}_1.events_1 VALUES (1000, 'once', 0.1), (1002, 'twice', 0.1), (1003, NULL, NULL)",
            f"INSERT INTO {NAME}_1.events_2 VALUES (1002, 'twice', 0.1)",
        )
        migration.add_sources(gtid=True)
        migration.start_task()
        cluster.wait_stage(NAME, "Running", unit="Sync")
        migration.start_writers()
        try:
            tidb.execute(*FAULTS)
            seeded = {
                ("orders", str(QUIET)): "missing",
                ("orders", str(QUIET + 1)): "changed",
                ("orders", str(QUIET + 9)): "extra",
                ("events", "1000"): "doubled 1 : 2",
                ("events", "1001"): "extra",
                ("events", "1002"): "doubled 2 : 1",
                ("events", "1003"): "missing",
            }
            answer, found = compared(cluster)
            assert (answer["verdict"], found) == ("different", seeded), json.dumps(answer, indent=1)
            answer, found = compared(cluster, "--repair")
            assert (answer["verdict"], found) == ("equal", seeded), json.dumps(answer, indent=1)
            repaired = {name: table["repaired"] for name, table in tables(answer).items()}
            assert repaired == {f"`{NAME}`.`orders`": "3", f"`{NAME}`.`events`": "4"}
            migration.stop_writers()
            cluster.wait_synced(NAME)
        finally:
            migration.abandon()
        migration.compare()
