"""The cost of decoding: CPU per row change of this program (compiled, pure Python) and of mysql-replication's decoder.

Each decoder runs in its own process and reads the same part of the binlog from the server, as a replica does. This
program's decoder creates SQL literals, the peer Python values; a decoder that misses rows fails. The cost of reading
the events from the socket is measured separately, for each by its own client, and is not part of the target's ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from deploy.local.mysql import MariaDBServer
from deploy.local.process import HarnessError
from pkg.binlog import constants as c
from pkg.binlog.position import Location, Position
from pkg.mysql import driver
from tests.bench.binlog import Tables, end_of_binlog, events
from tests.bench.figures import Figure
from tests.bench.rig import Rig
from tests.bench.workloads import SCHEMA, all_workloads

_ROOT = Path(__file__).resolve().parents[2]
ROWS = 60_000
#: Workload: row changes, and the required ratio.
_AIMS = {"insert-only": (60_000, None), "oltp": (40_000, 10.0), "wide": (34_000, 20.0)}
PEER = "mysql-replication"
#: The module that an import of the decoder loads if it was built.
KERNEL = "pkg.native._rows"
#: Exit code of a child that needs the compiled kernel and has none.
_NOT_BUILT = 77


def run(rig: Rig) -> None:
    print("\nDecode: CPU us per row change, one core")
    for name, (changes, reach) in _AIMS.items():
        workload = all_workloads()[name]
        start = rig.fresh_source(workload, ROWS)
        written = workload.write(rig.source, ROWS, changes)
        costs: dict[str, tuple[float, float]] = {}
        for who in ("native", "python", PEER):
            found = measure(rig.source, start, who)
            if found is None:
                print(f"  {name:12} {who:18} not built")
                continue
            if found["rows"] != written:
                raise HarnessError(f"{who} decoded {found['rows']} of {written} row changes of {name}")
            costs[who] = found["cpu"], found["cpu"] + found["fetch"]
            rig.report.measurements.append({"work": f"decode {name}", "who": who, **found})
            decoding, fetching = (found[part] / written * 1e6 for part in ("cpu", "fetch"))
            print(f"  {name:12} {who:18} decode {decoding:8.2f}   fetch {fetching:6.2f}", flush=True)
        _tell(rig, name, costs, reach)


def _tell(rig: Rig, name: str, costs: dict[str, tuple[float, float]], reach: float | None) -> None:
    """Reports the costs; the target applies to the kernel if there is one."""
    best = "native" if "native" in costs else "python"
    for who in costs.keys() - {PEER}:
        ratios = [theirs / ours for ours, theirs in zip(costs[who], costs[PEER], strict=True)]
        wanted = reach if who == best else None
        rig.report.add(Figure("T11", f"decode, {name}, {who}", PEER, ratios[0], "x", wanted))
        rig.report.add(Figure("", f"fetch and decode, {name}, {who}", PEER, ratios[1], "x"))


def measure(source: MariaDBServer, start: Location, who: str) -> dict[str, float] | None:
    """Rows and CPU seconds of one decoder; None if there is no compiled kernel."""
    end = end_of_binlog(source).position
    place = [str(source.port), start.position.name, str(start.position.pos), end.name, str(end.pos)]
    environment = {**os.environ, "DM_KERNEL": "python" if who == "python" else ""}
    command = [sys.executable, "-m", "tests.bench.decode", who, *place]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == _NOT_BUILT:
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
    return {"rows": rows, "cpu": time.process_time() - begin - fetch, "fetch": fetch}


def _theirs(server: MariaDBServer, start: Location, end: Position) -> dict[str, float]:
    fetch = _their_fetch(_their_stream(server, start), end)
    stream = _their_stream(server, start)
    rows = 0
    begin = time.process_time()
    for event in stream:
        rows += len(event.rows)
    spent = time.process_time() - begin
    stream.close()
    return {"rows": rows, "cpu": spent - fetch, "fetch": fetch}


def _their_stream(server: MariaDBServer, start: Location) -> Any:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    return BinLogStreamReader(
        {"host": "127.0.0.1", "port": server.port, "user": "root", "passwd": ""},
        server_id=4_000_000_001,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[SCHEMA],
        log_file=start.position.name,
        log_pos=start.position.pos,
        # Without it, the decoder fails at BLOB columns, whose charset is not in the binlog.
        ignore_decode_errors=True,
        resume_stream=True,
    )


def _their_fetch(stream: Any, end: Position) -> float:
    """CPU seconds that the peer's client alone needs to read the same packets."""
    stream._BinLogStreamReader__connect_to_stream()
    begin = time.process_time()
    position = 0
    while position < end.pos:
        # One status byte, then the event's header, with its end position at byte 13.
        position = int.from_bytes(driver.read_packet(stream._stream_connection).get_all_data()[14:18], "little")
    spent = time.process_time() - begin
    stream.close()
    return spent


def main() -> None:
    """The child: decodes and prints the cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", choices=["native", "python", PEER])
    parser.add_argument("port", type=int)
    for name in ("file", "position", "end_file", "end_position"):
        parser.add_argument(name)
    args = parser.parse_args()
    if args.who == "native" and KERNEL not in sys.modules:
        sys.exit(_NOT_BUILT)
    start = Location(Position(args.file, int(args.position)), "")
    end = Position(args.end_file, int(args.end_position))
    decoder = _theirs if args.who == PEER else _ours
    found = decoder(_Known(args.port), start, end)
    print(json.dumps({**found, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


if __name__ == "__main__":
    main()
