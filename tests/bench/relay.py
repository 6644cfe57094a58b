"""The cost of fetching the binlog into files: the relay and ``mariadb-binlog --raw``, MB/s and CPU seconds per GB.

Both fetch all of a server's binlog files, after large row events and after one-row transactions; a check compares the
files with the server's own.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deploy.local.mysql import MariaDBServer
from deploy.local.process import HarnessError, binary
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay import Relay
from pkg.binlog.position import Position
from pkg.config.model import SourceConfig
from pkg.settings.connections import DBConfig
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Figure
from tests.bench.rig import Rig
from tests.bench.workloads import all_workloads

_ROOT = Path(__file__).resolve().parents[2]
PEER = "mariadb-binlog --raw"
#: Workload and row changes: one with large events, one with small transactions. Enough that connecting and the last
#: sync of a file to the disk, which the peer does not do, take the smaller part.
_WORK = {"insert-only": 1_600_000, "oltp": 200_000}
_FIRST = "mysql-bin.000001"


def run(rig: Rig) -> None:
    print("\nRelay: the binlog into files")
    for name, changes in _WORK.items():
        workload = all_workloads()[name]
        rig.fresh_source(workload, 60_000)
        workload.write(rig.source, 60_000, changes)
        rig.source.execute("FLUSH LOGS")
        speeds: dict[str, list[float]] = {"relay": [], PEER: []}
        # Unmeasured turns: the first makes the system allocate memory for the files, which later turns reuse.
        for who in speeds:
            _turn(rig, name, who)
        for _ in range(rig.runs):
            for who, found_speeds in speeds.items():
                found_speeds.append(_turn(rig, name, who))
        ours, theirs = (statistics.median(found) for found in speeds.values())
        rig.report.add(Figure("T8", f"relay, {name}", PEER, ours / theirs, "x", 0.8))


def _turn(rig: Rig, name: str, who: str) -> float:
    """Bytes per second of one turn."""
    folder = Path(tempfile.mkdtemp(prefix="dm-bench-relay-"))
    try:
        found = _ours(rig.source, folder) if who == "relay" else _theirs(rig.source, folder)
        size = _compared(rig.source, folder)
    finally:
        shutil.rmtree(folder)
    rig.report.measurements.append({"work": f"relay {name}", "who": who, "bytes": size, **found})
    speed, cost = size / found["wall"], found["cpu"] / size * 1e9
    print(f"  {name:12} {who:22} {speed / 1e6:8.1f} MB/s {cost:8.2f} CPU s/GB", flush=True)
    return speed


def _compared(source: MariaDBServer, folder: Path) -> int:
    """The bytes of all complete files; raises HarnessError for one that differs from the server's."""
    total = 0
    # The server still writes the last file, and marks it as such.
    for path in sorted(folder.rglob("mysql-bin.[0-9]*"))[:-1]:
        data = path.read_bytes()
        if data != (source.data / path.name).read_bytes():
            raise HarnessError(f"{path.name} differs from the server's")
        total += len(data)
    if not total:
        raise HarnessError("nothing was fetched")
    return total


def _theirs(source: MariaDBServer, folder: Path) -> dict[str, float]:
    command = [binary("mariadb-binlog", "mysqlbinlog"), "--raw", "--read-from-remote-server", "--to-last-log"]
    command += ["--host=127.0.0.1", f"--port={source.port}", "--user=root", f"--result-file={folder}/", _FIRST]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def _ours(source: MariaDBServer, folder: Path) -> dict[str, float]:
    end = end_of_binlog(source).position
    command = [sys.executable, "-m", "tests.bench.relay", str(source.port), str(folder), end.name, str(end.pos)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"the relay failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _pull(port: int, folder: Path, end: Position) -> dict[str, float]:
    """In its own process: from the relay's start until it has written its last byte."""
    upstream = DBConfig(host="127.0.0.1", port=port, user="root")
    source = SourceConfig("bench", upstream, flavor="mariadb", relay_binlog_name=_FIRST)
    readable_end = ReadableEnd()
    relay = Relay(source, folder, readable_end, server_id=4_100_000_000)
    cpu, begin = time.process_time(), time.monotonic()
    relay.start()
    at = readable_end.end()
    while at is None or Position(at.file, at.size) < end:
        if time.monotonic() > begin + 600:
            raise HarnessError(f"the relay did not arrive: {relay.status()}")
        time.sleep(0.005)
        at = readable_end.end()
    wall = time.monotonic() - begin
    relay.stop()
    return {"wall": wall, "cpu": time.process_time() - cpu}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file")
    parser.add_argument("pos", type=int)
    args = parser.parse_args()
    print(json.dumps(_pull(args.port, args.folder, Position(args.file, args.pos))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
