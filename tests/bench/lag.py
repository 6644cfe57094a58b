"""Lag: from a commit at the source to the visible row at the target, at half of the maximum rate and idle.

The load, the probe rows and the queries of the target run in their own process: in the syncer's driver they would wait
for its interpreter lock, and the driver for theirs. Both times of a probe come from the same clock.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deploy.local.process import HarnessError
from pkg.binlog.position import Location
from pkg.mysql.driver import PreferringConnection
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Figure, cpu_line, histogram, percentile
from tests.bench.rig import Rig, copy_tables
from tests.bench.workloads import SCHEMA, TOOLS, all_workloads
from tests.harness.cputime import cpu_by_kind, spent

_ROOT = Path(__file__).resolve().parents[2]
PROBE = f"{SCHEMA}.probe"
PROBE_INTERVAL, LOOK_INTERVAL = 0.02, 0.004
#: Seconds between two additions to the load, and the most seconds of load that one call may catch up.
_LOAD_INTERVAL, _LOAD_MOST = 0.02, 0.2
#: The limit for the last probe (seconds).
_ARRIVAL_TIMEOUT = 120.0
_RATE_CHANGES = 200_000
_TRICKLE_SECONDS = 15.0
_CLASSES = (50, 100, 150, 200, 300, 400, 600, 1000, 2000, 5000)


def run(rig: Rig, rate: float, seconds: float) -> None:
    """``rate``: the maximum in row changes per second, 0 to measure it. ``seconds`` of writing."""
    rig.warm_up()
    # The source shares the cores, and its commits are not part of the measurement.
    rig.durability(False, rig.target, rig.source)
    if not rate:
        rate = _maximum(rig)
        print(f"\nmaximum rate, source and target on these cores: {rate:,.0f} rows/s", flush=True)
    lags = _measure(rig, "lag at half of the maximum rate", rate / 2, PROBE_INTERVAL, seconds)
    for share, limit in ((0.5, 400.0), (0.99, 1000.0)):
        work = f"lag at half of the maximum rate, p{share * 100:.0f}"
        rig.report.add(Figure("T9", work, "-", percentile(lags, share), " ms", limit, at_most=True))
    lags = _measure(rig, "lag of one transaction a second", 0, 1.0, _TRICKLE_SECONDS)
    rig.report.add(Figure("", "lag of one transaction a second, p50", "-", percentile(lags, 0.5), " ms"))


def _prepare(rig: Rig) -> Location:
    rig.fresh_source(all_workloads()["oltp"], rig.rows)
    rig.source.execute(f"CREATE TABLE {PROBE} (id BIGINT PRIMARY KEY)")
    copy_tables(rig.source, rig.target)
    return end_of_binlog(rig.source)


def _maximum(rig: Rig) -> float:
    """Row changes per second that the source writes while the syncer applies them, on the same cores."""
    start = _prepare(rig)
    with rig.syncing(start) as running:
        running.wait_synced()
        begin = time.monotonic()
        written = all_workloads()["oltp"].write(rig.source, rig.rows, _RATE_CHANGES)
        running.wait_synced()
        return written / (time.monotonic() - begin)


def _measure(rig: Rig, title: str, rate: float, interval: float, seconds: float) -> list[float]:
    """Milliseconds of every probe."""
    start = _prepare(rig)
    with rig.syncing(start) as running:
        running.wait_synced()
        ports = [str(rig.source.port), str(rig.target.port)]
        numbers = [str(rate), str(interval), str(seconds)]
        command = [sys.executable, "-m", "tests.bench.lag", *ports, *numbers]
        before, applied = cpu_by_kind(rig.stages()), running.unit.status().totalRows
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HarnessError(f"measuring the lag failed:\n{done.stderr[-2000:]}")
        found = Lags(**json.loads(done.stdout))
        running.wait_synced()
        cpu, applied = spent(before, cpu_by_kind(rig.stages())), running.unit.status().totalRows - applied
        cpu["driver"] -= found.cpu  # an ended child counts as this process's
    rig.check([*all_workloads()["oltp"].tables, PROBE], title)
    lags = [lag * 1000 for lag in found.lags]
    rig.report.measurements.append({"work": title, "asked": rate, **asdict(found)})
    _tell(title, rate, found.rate, lags)
    print(cpu_line(cpu, applied), flush=True)
    return lags


def _tell(title: str, asked: float, reached: float, lags: list[float]) -> None:
    shares = ", ".join(f"p{share * 100:g} {percentile(lags, share):.0f}" for share in (0.5, 0.9, 0.99))
    print(f"\n{title}: {len(lags)} probes, ms: {shares}, max {max(lags):.0f}")
    if asked:
        short = "" if reached > asked * 0.95 else "  (the source could not be written to as fast as asked)"
        print(f"  load: {reached:,.0f} of {asked:,.0f} row changes/s{short}")
    print("\n".join(f"  {line}" for line in histogram(lags, _CLASSES)), flush=True)


@dataclass(frozen=True)
class Lags:
    """Seconds of every probe, the load reached in row changes per second, CPU seconds of the measuring process."""

    lags: list[float]
    rate: float
    cpu: float


@dataclass
class Session:
    """The child's three threads: load, probes, and queries of the target."""

    source: int
    target: int
    rate: float
    interval: float
    seconds: float
    committed: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    written: int = 0
    failed: list[BaseException] = field(default_factory=list)

    def run(self) -> Lags:
        """Raises the error of a thread, HarnessError if a probe did not arrive."""
        work = [self._probe, self._look, *([self._load] if self.rate else [])]
        threads = [threading.Thread(target=self._guarded, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise self.failed[0]
        lags = [seen - committed for committed, seen in zip(self.committed, self.seen, strict=True)]
        return Lags(lags, self.written / self.seconds, time.process_time())

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except BaseException as exc:  # noqa: BLE001 - raised by run(), in the thread that waits for it
            self.failed.append(exc)

    def _probe(self) -> None:
        with _connect(self.source) as conn, conn.cursor() as cursor:
            begin = time.monotonic()
            for n in range(max(1, int(self.seconds / self.interval))):
                time.sleep(max(0.0, begin + n * self.interval - time.monotonic()))
                cursor.execute(f"INSERT INTO {PROBE} VALUES ({n + 1})")
                self.committed.append(time.monotonic())

    def _look(self) -> None:
        wanted = max(1, int(self.seconds / self.interval))
        end = time.monotonic() + self.seconds + _ARRIVAL_TIMEOUT
        # Probes of one batch may become visible in any order: all up to ``floor`` have arrived.
        floor, beyond = 0, set[int]()
        with _connect(self.target) as conn, conn.cursor() as cursor:
            while len(self.seen) < wanted and not self.failed:
                time.sleep(LOOK_INTERVAL)
                cursor.execute(f"SELECT id FROM {PROBE} WHERE id > {floor}")
                now = time.monotonic()
                found = {int(row[0]) for row in cursor.fetchall()}
                self.seen += [now] * (len(found) - len(beyond))
                while floor + 1 in found:
                    floor += 1
                    found.discard(floor)
                beyond = found
                if now > end:
                    missing = wanted - len(self.seen)
                    raise HarnessError(f"{missing} of {wanted} probes did not arrive within {_ARRIVAL_TIMEOUT:g} s")

    def _load(self) -> None:
        per_call = all_workloads()["oltp"].changes
        most = max(1, int(self.rate * _LOAD_MOST / per_call))
        done, begin = 0, time.monotonic()
        with _connect(self.source) as conn, conn.cursor() as cursor:
            while (elapsed := time.monotonic() - begin) < self.seconds and not self.failed:
                due = min(int(self.rate * elapsed / per_call) - done, most)
                if due > 0:
                    cursor.execute(f"CALL {TOOLS}.mix({done + 1}, {done + due})")
                    done += due
                else:
                    time.sleep(_LOAD_INTERVAL)
        self.written = done * per_call


def _connect(port: int) -> Any:
    return PreferringConnection(host="127.0.0.1", port=port, user="root", autocommit=True)


def main() -> None:
    """The child: writes, queries, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "target"):
        parser.add_argument(name, type=int)
    for name in ("rate", "interval", "seconds"):
        parser.add_argument(name, type=float)
    args = parser.parse_args()
    print(json.dumps(asdict(Session(**vars(args)).run())))


if __name__ == "__main__":
    main()
