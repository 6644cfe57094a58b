"""Replication lag as an application sees it: from a commit upstream to the row in the target."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError
from deploy.local.workload import Shard

_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Lag:
    """Seconds."""

    probes: int
    median: float
    longest: float


def measure(shard: Shard, target: SQLServer, first_id: int, probes: int) -> Lag:
    """Writes one row after another to ``shard`` and waits for each in the target."""
    times = [_probe(shard, target, shard.offset + first_id + i) for i in range(probes)]
    return Lag(probes, median(times), max(times))


def _probe(shard: Shard, target: SQLServer, row_id: int) -> float:
    upstream, conn = shard.server.connect(), target.connect()
    try:
        with upstream.cursor() as writing, conn.cursor() as reading:
            writing.execute(
                f"INSERT INTO {shard.name} (id, customer, amount, created) VALUES ({row_id}, 0, 0, '2026-01-01')"
            )
            began = time.monotonic()
            while not reading.execute(f"SELECT 1 FROM shop.orders WHERE id = {row_id}"):
                if time.monotonic() - began > _LIMIT:
                    raise HarnessError(f"a row of {shard.name} did not arrive within {_LIMIT:.0f} s")
                time.sleep(0.005)
            return time.monotonic() - began
    finally:
        upstream.close()
        conn.close()
