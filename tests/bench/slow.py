"""A slow target: 5 ms more for each round trip, with 1, 4 and 16 workers."""

from __future__ import annotations

from dataclasses import replace

from tests.bench.figures import Figure
from tests.bench.proxy import SlowProxy
from tests.bench.rig import Rig
from tests.bench.workloads import all_workloads

ROUND_TRIP = 0.005
WORKERS = (1, 4, 16)
#: Rows per statement: name, row changes (in the second, each takes its own round trip), multi-row and compacted.
_FORMS = (("multi-row statements", 100_000, True), ("one statement per row", 4_000, False))


def run(rig: Rig) -> None:
    """Runs both forms: the first is a task's default, in the second only the round trips count."""
    rig.warm_up()
    rig.durability(False)
    with_proxy = SlowProxy(rig.target.port, ROUND_TRIP)
    with_proxy.start()
    try:
        for name, changes, multiple in _FORMS:
            _form(rig, with_proxy.port, name, changes, multiple)
    finally:
        with_proxy.cleanup()


def _form(rig: Rig, port: int, name: str, changes: int, multiple: bool) -> None:
    workload = all_workloads()["oltp"]
    start, kept, written = rig.behind(workload, 100_000, changes)
    title = f"slow target (+5 ms), {name}"
    print(f"\n{title}: {written:,} row changes", flush=True)
    took: dict[int, float] = {}
    for workers in WORKERS:
        kept.restore()
        cfg = rig.config("incremental", target=replace(rig.target.db_config, port=port))
        syncer = replace(cfg.syncer, worker_count=workers, multiple_rows=multiple, compact=multiple)
        took[workers] = rig.sync(start, replace(cfg, syncer=syncer)).seconds
        rig.check(workload.tables, title)
        rig.report.measured(title, f"worker-count {workers}", [took[workers]], written)
    rig.report.add(Figure("T10", title, "worker-count 1, by 16", took[1] / took[16], "x", 10.0))
