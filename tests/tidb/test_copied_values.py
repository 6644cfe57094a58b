"""Hazard: replication into TiDB writes a value differently than the full copy, and does not find the copy's row."""

from __future__ import annotations

from pathlib import Path

from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, dump, load
from tests.integration.syncer.replay import Replay
from tests.tidb import values_workload


def test_rows_of_a_full_copy_are_found_by_replication(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    made = values_workload.tables("mariadb")
    values_workload.create(mariadb_upstream, "c", made, target=False)
    values_workload.fill(mariadb_upstream, "c", made)
    cfg = config(mariadb_upstream, tidb, tmp_path)
    dump(cfg, spark)
    for table in made:
        # In charsets that TiDB has. The load compares the sizes of files.
        (file,) = tmp_path.rglob(f"c.{table.name}-schema.sql")
        text = f"CREATE TABLE `{table.name}` ({table.there});\n".encode()
        assert len(text) <= file.stat().st_size
        file.write_bytes(text.ljust(file.stat().st_size))
    load(cfg, spark)
    assert values_workload.differences(mariadb_upstream, tidb, "c", made) == []
    replay = Replay(mariadb_upstream, tidb, slice_bytes=4000)
    values_workload.change(mariadb_upstream, "c", made)
    assert replay.catch_up()
    assert values_workload.differences(mariadb_upstream, tidb, "c", made) == []
