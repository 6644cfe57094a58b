"""Cold start: from a fresh process to its first batch applied at the target."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.local.process import Process, wait_until
from tests.bench.figures import Figure
from tests.bench.rig import Rig, copy_tables
from tests.bench.workloads import TABLE, all_workloads

_ROOT = Path(__file__).resolve().parents[2]


class _Syncer(Process):
    """One syncer in its own process."""

    name = "cold-syncer"

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__()
        self._arguments = arguments

    def command(self) -> Sequence[str]:
        run = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.bench.cold import main; main()"
        return [sys.executable, "-c", run, str(_ROOT), *self._arguments]

    def ready(self) -> bool:
        return True


def run(rig: Rig) -> None:
    workload = all_workloads()["insert-only"]
    took: list[float] = []
    for _ in range(rig.runs):
        start = rig.fresh_source(workload, 1000)
        copy_tables(rig.source, rig.target)
        workload.write(rig.source, 1000, 1000)
        place = (start.position.name, str(start.position.pos))
        syncer = _Syncer([str(rig.next_task()), str(rig.source.port), str(rig.target.port), *place])
        begin = time.monotonic()
        syncer.start(wait=False)
        try:
            wait_until(lambda: rig.target.execute(f"SELECT COUNT(*) FROM {TABLE}")[0][0] > 1000, "first batch", 120)
            took.append(time.monotonic() - begin)
        finally:
            syncer.stop()
            syncer.cleanup()
    print("\nCold start: from the process's start to rows at the target", flush=True)
    rig.report.measured("cold start", "ours", took, 1000)
    rig.report.add(Figure("T13", "cold start", "-", statistics.median(took), " s", 15.0, at_most=True))


def main() -> None:
    """The child: replicates until it is ended."""
    # The imports are part of the measured time.
    from dm_worker.engine.engine import SparkEngine
    from dm_worker.syncer import SyncUnit
    from pkg.config.model import Meta
    from pkg.settings.connections import DBConfig
    from tests.bench.rig import subtask

    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("number", "source", "target"):
        parser.add_argument(name, type=int)
    parser.add_argument("file")
    parser.add_argument("position", type=int)
    args = parser.parse_args()
    servers = [DBConfig(host="127.0.0.1", port=port, user="root") for port in (args.source, args.target)]
    meta = Meta(args.file, args.position)
    cfg = subtask(args.number, servers[0], servers[1], "incremental", threads=4, meta=meta)
    # Its files are removed with the process's folder.
    engine = SparkEngine(slots=8, folder=Path.cwd())
    engine.warm_up()
    SyncUnit(cfg, engine).run()
