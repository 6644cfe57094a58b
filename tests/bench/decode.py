"""What decoding costs: CPU per row change, ours (compiled kernel and pure Python) against mysql-replication's decoder.

Each decoder runs in a process of its own and reads the same stretch of binlog from the server, as a replica does. Ours
makes SQL literals, the peer Python values; a decoder that misses rows fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pkg.binlog import constants as c
from pkg.binlog.position import Location, Position
from tests.bench.binlog import Tables, end_of_binlog, events
from tests.bench.figures import Figure
from tests.bench.rig import Rig
from tests.bench.workloads import SCHEMA, all_workloads
from tests.harness.mysql import MariaDBServer
from tests.harness.process import HarnessError

_ROOT = Path(__file__).resolve().parents[2]
ROWS = 60_000
#: Workload: row changes, and the ratio to reach.
_AIMS = {"insert-only": (60_000, None), "oltp": (40_000, 10.0), "wide": (34_000, 20.0)}
_PEER = "mysql-replication"


def run(rig: Rig) -> None:
    print("\nDecode: CPU us per row change, fetching included")
    for name, (changes, reach) in _AIMS.items():
        workload = all_workloads()[name]
        start = rig.fresh_source(workload, ROWS)
        written = workload.write(rig.source, ROWS, changes)
        costs: dict[str, float] = {}
        for who in ("native", "python", _PEER):
            found = _measure(rig.source, start, who)
            if found is None:
                print(f"  {name:12} {who:18} not built")
                continue
            if found["rows"] != written:
                raise HarnessError(f"{who} decoded {found['rows']} of {written} row changes of {name}")
            costs[who] = found["cpu"] / written * 1e6
            rig.report.measurements.append({"work": f"decode {name}", "who": who, **found})
            fetch = f" of which fetching {found['fetch'] / written * 1e6:.2f}" if found["fetch"] else ""
            print(f"  {name:12} {who:18} {costs[who]:8.2f}{fetch}", flush=True)
        for who in ("native", "python"):
            if who in costs:
                wanted = reach if who == "native" or "native" not in costs else None
                figure = Figure("T11", f"decode, {name}, {who}", _PEER, costs[_PEER] / costs[who], "x", wanted)
                rig.report.add(figure)


def _measure(source: MariaDBServer, start: Location, who: str) -> dict[str, float] | None:
    """Rows and CPU seconds of one decoder; None when there is no compiled kernel."""
    end = end_of_binlog(source).position
    place = [str(source.port), start.position.name, str(start.position.pos), end.name, str(end.pos)]
    environment = {**os.environ, "DM_KERNEL": who if who in ("native", "python") else ""}
    command = [sys.executable, "-m", "tests.bench.decode", who, *place]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and who == "native" and "ImportError" in done.stderr:
        return None
    if done.returncode:
        raise HarnessError(f"decoding with {who} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


class _Known(MariaDBServer):
    """A server that runs already."""

    def __init__(self, port: int) -> None:
        self.port = port


def _ours(server: MariaDBServer, start: Location, end: Position) -> dict[str, float]:
    tables = Tables(server, SCHEMA)
    rows, fetch = 0, 0.0
    begin = time.process_time()
    before = begin
    for piece in events(server, start, end):
        fetched = time.process_time()
        fetch += fetched - before
        for event in piece:
            if event.type == c.TABLE_MAP_EVENT:
                tables.learn(event)
            elif event.is_rows and (found := tables.of(event)):
                rows += len(found[0].changes(event.data))
        before = time.process_time()
    return {"rows": rows, "cpu": time.process_time() - begin, "fetch": fetch}


def _theirs(server: MariaDBServer, start: Location, end: Position) -> dict[str, float]:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    settings = {"host": "127.0.0.1", "port": server.port, "user": "root", "passwd": ""}
    stream = BinLogStreamReader(
        settings,
        server_id=4_000_000_001,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[SCHEMA],
        log_file=start.position.name,
        log_pos=start.position.pos,
        # Without it, it ends at BLOB columns whose charset the binlog does not tell.
        ignore_decode_errors=True,
        resume_stream=True,
    )
    rows = 0
    begin = time.process_time()
    for event in stream:
        rows += len(event.rows)
    spent = time.process_time() - begin
    stream.close()
    return {"rows": rows, "cpu": spent, "fetch": 0.0}


def main() -> None:
    """The child: decodes and prints what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", choices=["native", "python", _PEER])
    parser.add_argument("port", type=int)
    for name in ("file", "position", "end_file", "end_position"):
        parser.add_argument(name)
    args = parser.parse_args()
    start = Location(Position(args.file, int(args.position)), "")
    end = Position(args.end_file, int(args.end_position))
    measure: Callable[[MariaDBServer, Location, Position], dict[str, float]] = _theirs if args.who == _PEER else _ours
    found = measure(_Known(args.port), start, end)
    print(json.dumps({**found, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


if __name__ == "__main__":
    main()
