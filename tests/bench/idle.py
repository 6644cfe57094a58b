"""What tasks cost that have little to do: ten without a change, and one with a row a second, also after catch-ups."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack

from pkg.binlog.position import Location
from tests.bench.figures import Figure
from tests.bench.rig import Rig, copy_tables
from tests.bench.workloads import all_workloads
from tests.harness.cputime import cpu_by_kind, spent
from tests.harness.memory import MemorySampler
from tests.harness.proctree import by_kind

TASKS, SECONDS = 10, 60
#: Seconds after which Spark has ended Python processes that have nothing to do.
REST = 80.0
#: Share of a core, and MiB of all our processes, that are allowed.
MOST_CPU, MOST_MEMORY = 0.02, 400.0


def run(rig: Rig) -> None:
    rig.durability(True)
    workload = all_workloads()["oltp"]
    # As in a worker that has worked before: an idle Spark is part of what idle tasks cost.
    rig.fill_slots()
    start = rig.fresh_source(workload, 1000)
    copy_tables(rig.source, rig.target)
    _measured(rig, f"{TASKS} idle tasks", start, TASKS, lambda _: None)

    def write(number: int) -> None:
        workload.write(rig.source, 1000, workload.changes, first=number)

    _measured(rig, "a transaction a second", start, 1, write)
    rig.check(workload.tables, "a transaction a second")
    rig.warm_up()
    rig.durability(True)
    start = rig.fresh_source(workload, 1000)
    copy_tables(rig.source, rig.target)
    _measured(rig, "a transaction a second after catch-ups", start, 1, write, rest=REST)


def _measured(
    rig: Rig, title: str, start: Location, tasks: int, tick: Callable[[int], None], rest: float = 5.0
) -> None:
    with ExitStack() as stack:
        running = [stack.enter_context(rig.syncing(start)) for _ in range(tasks)]
        tick(1)
        # Whatever begins once is over.
        for one in running:
            one.wait_synced()
        time.sleep(rest)
        before, began = cpu_by_kind(rig.stages()), time.monotonic()
        for second in range(SECONDS):
            tick(2 + second)
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
        taken, seconds = spent(before, cpu_by_kind(rig.stages())), time.monotonic() - began
        # At the end: by then, what was needed before the minute is given back.
        with MemorySampler(os.getpid()) as sampler:
            sampler.sample()
        for one in running:
            one.wait_synced()
    shares = {kind: cpu / seconds for kind, cpu in taken.items()}
    ours = sum(share for kind, share in shares.items() if kind in by_kind(os.getpid()))
    print(
        f"\n{title}: " + ", ".join(f"{kind} {share:.2%}" for kind, share in shares.items()) + " of a core", flush=True
    )
    print(f"  {sampler.peak}", flush=True)
    rig.report.measurements.append({"work": title, "cpu": shares, "memory": sampler.peak.kinds})
    rig.report.add(Figure("T23", f"{title}: all our CPU", "a core", ours * 100, " %", MOST_CPU * 100, at_most=True))
    rig.report.add(
        Figure("T23", f"{title}: all our memory", "", sampler.peak.total / 2**20, " MiB", MOST_MEMORY, at_most=True)
    )
