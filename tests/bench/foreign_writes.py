"""The cost of reading the target's binlog: own transactions, as the syncer writes them, are skipped."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from deploy.local.process import HarnessError
from dm_worker.foreign_writes.known_tables import KnownTables
from dm_worker.foreign_writes.log_reading import log_reading
from dm_worker.foreign_writes.row_keys import BinlogKeys
from dm_worker.foreign_writes.write_sorter import WriteSorter
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Figure
from tests.bench.rig import Rig

#: Rows of a transaction and of a statement, about those of a bucket of a busy task.
_TRANSACTION, _STATEMENT = 500, 100
#: The limit for the CPU of the client, in µs per row.
MOST_CPU = 0.5


def run(rig: Rig) -> None:
    """Reads the same binlog several times; the source stands for a target with a binlog."""
    server = rig.source
    server.execute(
        "CREATE DATABASE IF NOT EXISTS dm_meta",
        "CREATE OR REPLACE TABLE dm_meta.bench_syncer_marker (id INT PRIMARY KEY, batch INT)",
        "CREATE DATABASE IF NOT EXISTS foreign_writes",
        "CREATE OR REPLACE TABLE foreign_writes.t"
        " (id INT PRIMARY KEY AUTO_INCREMENT, k INT, c CHAR(120), pad CHAR(60))",
        "INSERT INTO dm_meta.bench_syncer_marker VALUES (1, 0)",
    )
    start = end_of_binlog(server).position
    rows = rig.rows - rig.rows % _TRANSACTION
    values = ", ".join(f"({n}, REPEAT('c', 120), REPEAT('p', 60))" for n in range(_STATEMENT))
    inserts = [f"INSERT INTO foreign_writes.t (k, c, pad) VALUES {values}"] * (_TRANSACTION // _STATEMENT)
    for _ in range(rows // _TRANSACTION):
        server.execute("BEGIN", "UPDATE dm_meta.bench_syncer_marker SET batch = batch + 1", *inserts, "COMMIT")
    end = end_of_binlog(server).position
    cfg = replace(rig.config("incremental"), to=server.db_config)
    print(f"\nthe target's binlog: {rows:,} rows of own transactions", flush=True)
    costs = []
    for _ in range(rig.runs):
        sorter = WriteSorter(KnownTables("dm_meta"), BinlogKeys(cfg.to), start)
        before = time.thread_time()
        with log_reading(cfg, "mariadb", sorter, {}) as reading:
            while sorter.boundary < end:
                if reading.read(1.0):
                    raise HarnessError("an own transaction was taken for a foreign one")
        costs.append(1e6 * (time.thread_time() - before) / rows)
        print(f"  {costs[-1]:.3f} µs of CPU per row", flush=True)
    cost = statistics.median(costs)
    rig.report.add(Figure("", "target's binlog", "our CPU per own row", cost, "µs", MOST_CPU, True))
