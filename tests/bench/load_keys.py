"""Loads of tables with several secondary keys: with keys after the rows, with keys from the start, and myloader."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir
from dm_worker.loader import LoadUnit
from tests.bench import peers
from tests.bench.rig import Rig, timed
from tests.bench.workloads import TABLE, all_workloads
from tests.harness.cputime import cpu_seconds

#: Without k_1, which the table has by itself.
_KEYS = ("k_1 (k)", "c_1 (c)", "pad_1 (pad)", "both (k, pad)")
_LATE, _EARLY, _PEER = "ours", "ours, keys from the start", "myloader"


def run(rig: Rig, rows: int) -> None:
    """``rows`` of sysbench's shape with no, one and four secondary keys."""
    rig.warm_up()
    for count in (0, 1, 4):
        rig.fresh_source(all_workloads()["oltp"], rows)
        rig.source.execute(
            f"ALTER TABLE {TABLE} DROP KEY k_1" + "".join(f", ADD KEY {key}" for key in _KEYS[:count]),
            "DROP DATABASE bench",
        )
        _turns(rig, count, rows)


def _turns(rig: Rig, count: int, rows: int) -> None:
    rig.durability(False)
    cfg = rig.config("full")
    timed(DumpUnit(cfg, rig.engine))
    folder = dump_dir(cfg)
    seconds: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    try:
        with peers.mydump(rig.source, rig.threads) as (theirs, _):
            ways: dict[str, Callable[[], float]] = {
                _LATE: partial(_load, rig, folder, True),
                _EARLY: partial(_load, rig, folder, False),
                _PEER: lambda: peers.myload(rig.target, rig.threads, theirs),
            }
            for _ in range(rig.runs):
                for name, load in ways.items():
                    rig.target.wipe()
                    before = cpu_seconds(rig.target.pid)
                    seconds.setdefault(name, []).append(load())
                    cpu.setdefault(name, []).append(cpu_seconds(rig.target.pid) - before)
                    rig.check([TABLE], f"load with {count} keys, {name}")
    finally:
        shutil.rmtree(folder)
    work = f"load, {count} secondary keys"
    print(f"\n{work}: {rows:,} rows, {rig.threads} threads, relaxed durability", flush=True)
    for name, values in seconds.items():
        rig.report.measured(work, name, values, rows, cpu=cpu[name])
        print(f"    CPU of the target: {', '.join(f'{one:.2f}' for one in cpu[name])} s", flush=True)
    for name in (_EARLY, _PEER):
        rig.report.ratio("", work, name, seconds[_LATE], seconds[name])
        rig.report.ratio("", f"{work}: CPU of the target", name, cpu[_LATE], cpu[name])


def _load(rig: Rig, folder: Path, late: bool) -> float:
    cfg = rig.config("load")
    loader = replace(cfg.loader, dir=str(folder), keys_after_rows=late)
    return timed(LoadUnit(replace(cfg, loader=loader), rig.engine))
