"""How a catch-up grows with the executors: a model of measured parts, of clusters of some processes on this machine.

Each process has a core's worth of tasks. A machine of two cores does not get faster with more of them: what counts is
whether the CPU of a row change stays the same. Network traffic is encrypted, as in production.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.figures.batch_report import SHUFFLE
from pkg.binlog.position import Location
from tests.bench.figures import Cost, Figure
from tests.bench.rig import Copies, Rig, cost_of
from tests.bench.workloads import Workload, all_workloads
from tests.harness.proctree import descendants
from tests.harness.spark import SparkCluster

#: Executors that are measured, and those that the model is told for.
MEASURED, TOLD = (2, 3, 4), (2, 4, 8, 16)
#: Catch-ups of a new cluster that are not counted.
_WARM = 2


@dataclass(frozen=True)
class Parts:
    """µs of CPU of one row change by where they are, and the bytes of it that cross a shuffle."""

    driver: float
    driver_jvm: float
    executors: float
    target: float
    shuffle: float

    def limits(self, executors: int) -> dict[str, float]:
        """Row changes per second that each part allows; the target's is for one of its cores.

        The driver's Python uses one core: its threads share an interpreter.
        """
        busy = {"driver": self.driver, "driver JVM": self.driver_jvm, "target core": self.target}
        return {
            **{part: 1e6 / microseconds for part, microseconds in busy.items()},
            "executors": executors * 1e6 / self.executors,
        }

    def most_executors(self) -> float:
        """With more executors, the driver is the limit."""
        return self.executors / self.driver


def parts_of(turns: Sequence[tuple[Cost, int]], changes: int) -> Parts:
    """The medians of the turns, each with its bytes that crossed a shuffle. Pure."""

    def per_row(kind: str) -> float:
        return statistics.median(cost.cpu[kind] for cost, _ in turns) * 1e6 / changes

    shuffle = statistics.median(size for _, size in turns) / changes
    return Parts(per_row("driver"), per_row("driver JVM"), per_row("executors"), per_row("target"), shuffle)


def run(rig: Rig) -> None:
    rig.renew_engine()
    rig.durability(True)
    workload = all_workloads()["oltp"]
    start, kept, changes = rig.behind(workload, rig.rows, rig.changes)
    found = {executors: _measured(rig, workload, start, kept, changes, executors) for executors in MEASURED}
    least = found[MEASURED[0]]
    for executors, parts in list(found.items())[1:]:
        growth = {"driver": parts.driver / least.driver, "executors": parts.executors / least.executors}
        for who, ratio in growth.items():
            title = f"scale, {executors} executors: CPU of the {who} per row"
            rig.report.add(Figure("", title, f"{MEASURED[0]} executors", ratio, "x"))
    _tell(rig, found[MEASURED[-1]])


def _measured(rig: Rig, workload: Workload, start: Location, kept: Copies, changes: int, executors: int) -> Parts:
    with SparkCluster(workers=executors, cores=1) as cluster:
        engine = SparkEngine(master=cluster.master.url, conf=cluster.conf)
        try:
            beside = replace(rig, engine=engine, threads=max(rig.threads, executors))
            turns = []
            for turn in range(_WARM + rig.runs):
                kept.restore()
                engine.context()
                one = _turn(beside, start, cluster)
                rig.check(workload.tables, f"scale, {executors} executors")
                if turn >= _WARM:
                    turns.append(one)
        finally:
            engine.close()
    parts = parts_of(turns, changes)
    work = f"scale, {executors} executors"
    print(f"\n{work}: {changes:,} row changes", flush=True)
    rig.report.turns(work, "ours", [cost for cost, _ in turns], changes, shuffle=[size for _, size in turns])
    print(f"  {parts.shuffle:.0f} bytes per row change cross the shuffle", flush=True)
    return parts


def _turn(rig: Rig, start: Location, cluster: SparkCluster) -> tuple[Cost, int]:
    """What a catch-up takes, and the bytes of the blocks that are shuffled."""
    shuffled: list[int] = []

    def work() -> None:
        with rig.syncing(start) as running:
            running.wait_synced()
            shuffled.append(running.unit.figures.applying.stage_bytes[SHUFFLE])

    return cost_of(work, lambda: _processes(rig, cluster)), shuffled[0]


def _processes(rig: Rig, cluster: SparkCluster) -> Mapping[str, Sequence[int]]:
    executors = [pid for executor in cluster.executors() for pid in (executor, *descendants(executor))]
    servers = {"target": [rig.target.pid], "source": [rig.source.pid]}
    return {"driver": [os.getpid()], "driver JVM": [rig.engine.jvm_pid], "executors": executors, **servers}


def _tell(rig: Rig, parts: Parts) -> None:
    print("\nscale: row changes per second that each part allows, one core each", flush=True)
    for executors in TOLD:
        limits = ", ".join(f"{part} {rate:,.0f}" for part, rate in parts.limits(executors).items())
        print(f"  {executors:2} executors: {limits}", flush=True)
    rig.report.add(Figure("", "scale: the driver's limit", "-", parts.limits(1)["driver"], " rows/s"))
    rig.report.add(Figure("", "scale: executors, then the driver limits", "-", parts.most_executors(), ""))
