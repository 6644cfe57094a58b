"""Memory: the most that driver, JVM and Python workers use during a big backlog and one big transaction."""

from __future__ import annotations

import os

from pkg.binlog.position import Location
from tests.bench.figures import Figure
from tests.bench.rig import Rig, copy_tables
from tests.bench.workloads import TABLE, all_workloads, big_transaction
from tests.harness.memory import MemorySampler


def run(rig: Rig, rows: int, budget: int) -> None:
    """``rows`` of the transaction and row changes of the backlog; ``budget`` in MiB for all processes together."""
    rig.warm_up()
    rig.durability(False)
    workload = all_workloads()["oltp"]
    print("\nMemory: the most at one moment, proportional set size, sampled every 100 ms", flush=True)
    start = rig.fresh_source(workload, rig.rows)
    copy_tables(rig.source, rig.target)
    _sampled(rig, f"backlog of {workload.write(rig.source, rig.rows, rows):,} row changes", start, budget)
    start = rig.fresh_source(workload, 1000)
    copy_tables(rig.source, rig.target)
    big_transaction(rig.source, 1001, 1000 + rows)
    _sampled(rig, f"one transaction of {rows:,} rows", start, budget)


def _sampled(rig: Rig, title: str, start: Location, budget: int) -> None:
    with MemorySampler(os.getpid()) as sampler:
        caught = rig.sync(start)
    rig.check([TABLE], title)
    peak = sampler.peak
    print(f"  {title}, {caught.seconds:.1f} s: {peak}", flush=True)
    rig.report.measurements.append({"work": title, "kinds": peak.kinds, "total": peak.total})
    rig.report.add(Figure("T12", title, "all processes", peak.total / 2**20, " MiB", budget, at_most=True))
