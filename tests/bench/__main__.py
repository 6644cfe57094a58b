"""`make bench`: full copy and catch-up, side by side with the native ways, printed as ratios.

Each figure is the median of ``--runs``; ours and the peers' runs alternate on the same servers' settings. After each
run the target's checksum is compared with the source's: a fast wrong answer counts as a failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dm_worker.dumper import DumpUnit
from dm_worker.loader import LoadUnit
from dm_worker.spark import SparkEngine
from dm_worker.syncer import SyncUnit
from dm_worker.unit import Unit, UnitOutcome
from pkg.binlog.position import Location
from pkg.config.model import BlockAllowList, LoaderConfig, Meta, MydumperConfig, SubTaskConfig, SyncerConfig
from pkg.mysql.connection import connect
from pkg.mysql.introspect import master_status
from tests.bench import data, peers
from tests.harness.mysql import MariaDBServer
from tests.harness.process import HarnessError, wait_until


@dataclasses.dataclass
class Bench:
    """One run of everything."""

    rows: int
    changes: int
    runs: int
    threads: int
    engine: SparkEngine = dataclasses.field(default_factory=lambda: SparkEngine(slots=8))
    source: MariaDBServer = dataclasses.field(default_factory=lambda: MariaDBServer(gtid=True))
    target: MariaDBServer = dataclasses.field(default_factory=lambda: MariaDBServer(binlog=False))
    task: int = 0

    def config(self, mode: str, meta: Meta | None = None) -> SubTaskConfig:
        self.task += 1
        folder = Path(tempfile.gettempdir()) / f"dm-bench-{self.source.port}"
        return SubTaskConfig(
            name=f"bench{self.task}",
            source_id="bench",
            task_mode=mode,  # type: ignore[arg-type]
            from_=self.source.db_config,
            to=self.target.db_config,
            flavor="mariadb",
            server_id=429496729 + self.task,
            meta=meta,
            block_allow_list=BlockAllowList(do_dbs=("sb",)),
            mydumper=MydumperConfig(threads=self.threads, rows=50_000),
            loader=LoaderConfig(pool_size=self.threads, dir=str(folder)),
            syncer=SyncerConfig(worker_count=self.threads),
        )

    # Full copy

    def full_copy(self) -> None:
        dump, load, pipe, my_dump, my_load = [], [], [], [], []
        for _ in range(self.runs):
            self.empty_target()
            cfg = self.config("full")
            dump.append(timed(DumpUnit(cfg, self.engine)))
            load.append(timed(LoadUnit(cfg, self.engine)))
            self.check("full copy")
            self.empty_target()
            pipe.append(peers.dump_pipe(self.source, self.target))
            self.empty_target()
            seconds = peers.mydumper(self.source, self.target, self.threads)
            my_dump.append(seconds[0])
            my_load.append(seconds[1])
        total = [a + b for a, b in zip(dump, load, strict=True)]
        my_total = [a + b for a, b in zip(my_dump, my_load, strict=True)]
        print(f"\nFull copy of {self.rows:,} rows, {self.threads} threads, median of {self.runs}")
        self.row("dump", self.rows, dump, {"mydumper": my_dump})
        self.row("load", self.rows, load, {"myloader": my_load})
        self.row("both", self.rows, total, {"mariadb-dump | mariadb": pipe, "mydumper + myloader": my_total})

    # Catch-up

    def catch_up(self, mix: str, durable: bool) -> None:
        """Ours, then a native replica, over the same stretch of binlog."""
        self.source.wipe()
        self.source.execute("RESET MASTER")
        data.create(self.source, self.rows)
        start = self.status()
        with peers.replica_of(self.source) as replica:
            for server in (self.target, replica):
                server.execute(f"SET GLOBAL innodb_flush_log_at_trx_commit = {1 if durable else 2}")
            self.empty_target()
            peers.dump_pipe(self.source, self.target)
            keep = [self.keep_copy(server) for server in (self.target, replica) if self.runs > 1]
            changes = data.MIXES[mix](self.source, self.rows, self.changes)
            ours: list[float] = []
            native: list[float] = []
            for run in range(self.runs):
                if run:
                    for restore in keep:
                        restore()
                    self.rewind(replica, start)
                ours.append(self.sync(start))
                self.check(f"{mix} catch-up")
                native.append(peers.replica_catches_up(self.source, replica, 0))
        setting = "default durability" if durable else "relaxed durability"
        print(f"\nCatch-up, {mix}, {changes:,} row changes, {setting}, median of {self.runs}")
        self.row("sync", changes, ours, {"native replica": native})

    def sync(self, start: Location) -> float:
        """From the unit's start (warm engine) to the checkpoint at the upstream's end; seconds."""
        meta = Meta(start.position.name, start.position.pos)
        unit = SyncUnit(self.config("incremental", meta), self.engine)
        outcome: list[UnitOutcome] = []
        thread = threading.Thread(target=lambda: outcome.append(unit.run()))
        begin = time.monotonic()
        thread.start()

        def synced() -> bool:
            if not thread.is_alive():
                raise HarnessError(f"the syncer ended: {outcome}")
            return bool(unit.status().synced)

        wait_until(synced, "the syncer catches up", 900, step=0.02)
        seconds = time.monotonic() - begin
        unit.stop(graceful=True)
        thread.join()
        return seconds

    def keep_copy(self, server: MariaDBServer) -> Callable[[], None]:
        """Keeps the server's table as it is now; the answer puts it back."""
        server.execute("CREATE OR REPLACE DATABASE keep", f"CREATE TABLE keep.t LIKE {data.TABLE}")
        server.execute(f"INSERT INTO keep.t SELECT * FROM {data.TABLE}")

        def restore() -> None:
            server.execute(f"TRUNCATE TABLE {data.TABLE}", f"INSERT INTO {data.TABLE} SELECT * FROM keep.t")

        return restore

    def rewind(self, replica: MariaDBServer, start: Location) -> None:
        replica.execute(
            "STOP SLAVE",
            f"CHANGE MASTER TO MASTER_LOG_FILE='{start.position.name}', MASTER_LOG_POS={start.position.pos}",
        )

    # Helpers

    def status(self) -> Location:
        conn = connect(self.source.db_config, scope="upstream")
        location = master_status(conn, "mariadb")
        conn.close()
        assert location is not None
        return location

    def empty_target(self) -> None:
        self.target.wipe()

    def check(self, what: str) -> None:
        sums = [server.execute(f"CHECKSUM TABLE {data.TABLE}")[0][1] for server in (self.source, self.target)]
        if sums[0] != sums[1]:
            raise HarnessError(f"{what}: the target's checksum differs: {sums}")

    def row(self, name: str, rows: int, ours: list[float], others: dict[str, list[float]]) -> None:
        mine = statistics.median(ours)
        print(f"  {name:6} ours {mine:7.2f} s {rows / mine:10,.0f} rows/s")
        for peer, seconds in others.items():
            theirs = statistics.median(seconds)
            print(f"         {peer:24} {theirs:7.2f} s {rows / theirs:10,.0f} rows/s   ratio {theirs / mine:5.2f}x")

    def close(self) -> None:
        self.engine.close()
        self.source.cleanup()
        self.target.cleanup()


def warm(_: int) -> None:
    """Has each of Spark's Python workers start and import what the units' tasks need."""
    importlib.import_module("dm_worker.syncer.tasks")
    time.sleep(2)


def timed(unit: Unit) -> float:
    start = time.monotonic()
    outcome = unit.run()
    if not outcome.finished:
        raise HarnessError(f"the unit did not finish: {outcome}")
    return time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--only", choices=["copy", *data.MIXES], help="just this part")
    args = parser.parse_args()
    bench = Bench(args.rows, args.changes, args.runs, args.threads)
    try:
        bench.source.start()
        bench.target.start()
        begin = time.monotonic()
        bench.engine.context().parallelize(range(bench.engine.slots), bench.engine.slots).foreach(warm)
        print(f"cold start of Spark and its Python workers: {time.monotonic() - begin:.1f} s")
        if args.only in (None, "copy"):
            data.create(bench.source, args.rows)
            bench.full_copy()
        for mix in data.MIXES:
            if args.only in (None, mix):
                for durable in (False, True):
                    bench.catch_up(mix, durable)
    except HarnessError as exc:
        print(f"bench failed: {exc}", file=sys.stderr)
        return 1
    finally:
        bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
