"""Loads of tables with several secondary keys: with keys after the rows, with keys from the start, and myloader."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir
from dm_worker.loader import LoadUnit
from tests.bench import peers
from tests.bench.figures import Cost
from tests.bench.rig import Rig, timed
from tests.bench.workloads import SECONDARY_KEYS, TABLE, all_workloads

_LATE, _EARLY = "ours", "ours, keys from the start"
#: How many keys, and how many times as fast as the peer a load should be.
AIMS = {0: 1.5, 1: 1.5, 4: 2.0}


def run(rig: Rig, rows: int) -> None:
    """``rows`` of sysbench's shape with no, one and four secondary keys."""
    rig.warm_up()
    for count in AIMS:
        rig.fresh_source(all_workloads()["oltp"], rows)
        rig.source.execute(
            f"ALTER TABLE {TABLE} DROP KEY k_1" + "".join(f", ADD KEY {key}" for key in SECONDARY_KEYS[:count]),
            "DROP DATABASE bench",
        )
        _turns(rig, count, rows)


def _turns(rig: Rig, count: int, rows: int) -> None:
    rig.durability(False)
    cfg = rig.config("full")
    timed(DumpUnit(cfg, rig.engine))
    folder = dump_dir(cfg)
    try:
        with peers.mydump(rig.source, rig.threads) as (theirs, _):
            work = f"load, {count} secondary keys"
            kept = _Loads(rig, folder, theirs, work)
            ways = [_LATE, _EARLY] if count else [_LATE]
            ours: dict[str, list[Cost]] = {name: [] for name in ways}
            peer = peers.myloader(kept.peer)
            for _ in range(rig.runs):
                for name in ways:
                    ours[name].append(kept.ours(late_keys=name == _LATE))
                peer.run()
    finally:
        shutil.rmtree(folder)
    print(f"\n{work}: {rows:,} rows, {rig.threads} threads, relaxed durability", flush=True)
    for name, turns in {**ours, **peer.turns}.items():
        rig.report.turns(work, name, turns, rows)
    rig.report.compare("T16", work, peer.best, ours[_LATE], peer.costs, AIMS[count])
    if count:
        rig.report.compare("", work, _EARLY, ours[_LATE], ours[_EARLY])


@dataclass(frozen=True)
class _Loads:
    """Loads of one table from our dump and from mydumper's, each into an empty target and checked."""

    rig: Rig
    folder: Path
    theirs: Path
    work: str

    def ours(self, *, late_keys: bool) -> Cost:
        self.rig.target.wipe()
        cfg = self.rig.config("load")
        loader = replace(cfg.loader, dir=str(self.folder), keys_after_rows=late_keys)
        cost = self.rig.copied(LoadUnit(replace(cfg, loader=loader), self.rig.engine))
        self.rig.check([TABLE], f"{self.work}, ours")
        return cost

    def peer(self, late_keys: bool) -> Cost:
        self.rig.target.wipe()
        cost = peers.myload(self.rig.target, self.rig.threads, self.theirs, late_keys=late_keys)
        self.rig.check([TABLE], f"{self.work}, {peers.MYLOADER}")
        return cost
