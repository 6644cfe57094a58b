"""Comparison of two servers' tables: as a diff does it, by checksums alone and by rows, against the way of common
tools, with rows missing.

One table of sysbench's shape; single-threaded on each side. What counts is the CPU time of both servers and of this
process: it does not depend on what else the machine does, and elapsed time is at best half of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pymysql.connections import Connection

from deploy.local.process import HarnessError
from dm_worker.comparison.chunk_ways import ChunkWays
from dm_worker.comparison.compare import compare_chunk
from dm_worker.comparison.merged_tables import SourceName
from dm_worker.comparison.outcome import Difference
from dm_worker.comparison.pair import TablePair, Way
from dm_worker.comparison.ranges import plan_ranges
from dm_worker.comparison.reading import SourceSession, compared_server, read_pair
from dm_worker.dumper import DumpUnit
from dm_worker.loader import LoadUnit
from dm_worker.table_reads.row_splitter import RowSplitter
from dm_worker.table_reads.row_stream import read_values, send, stream
from dm_worker.table_reads.session import open_session
from tests.bench.figures import Cost, Figure, cpu_line
from tests.bench.rig import Rig, copy_tables, cost_of
from tests.bench.workloads import SCHEMA, TABLE, all_workloads

#: Rows of a chunk for all ways, and of a part that the peer reads row by row.
CHUNK, _READ = 50_000, 1000
#: Bytes per second between processes of one machine, and the seconds that a chunk may take.
_LOOPBACK, _LIMIT = 1e9, 30.0
#: Shares of missing rows, in percent.
MISSING = (0, 10, 40)
#: What they may cost, as a multiple of the equal case.
MOST = 1.5
OURS, CHECKSUMS, PEER = "as dmctl diff", "checksums", "peer: MD5 of CONCAT_WS"
_NAME = TABLE.partition(".")[2]
_COLUMNS = ("id", "k", "c", "pad")


def run(rig: Rig, rows: int) -> None:
    """``rows`` rows, of which each share of :data:`MISSING` is deleted at the target."""
    rig.fresh_source(all_workloads()["oltp"], rows)
    rig.source.execute("DROP DATABASE bench", f"ANALYZE TABLE {TABLE}")
    copy_tables(rig.source, rig.target)
    size = int(rig.source.execute(f"SELECT SUM(LENGTH(c) + LENGTH(pad) + 8) FROM {TABLE}")[0][0])
    print(f"\nComparison of {rows:,} rows, {size / 1e6:.0f} MB, chunks of {CHUNK:,} rows", flush=True)
    equal: dict[str, float] = {}
    for missing in MISSING:
        # Spread over the whole table, and no row twice.
        # The server removes deleted rows later: that is not the comparison's time.
        rig.target.execute(
            f"DELETE FROM {TABLE} WHERE id % 100 < {missing}", "SET GLOBAL innodb_max_purge_lag_wait = 0"
        )
        wanted = rows - int(rig.target.execute(f"SELECT COUNT(*) FROM {TABLE}")[0][0])
        for name, way in _WAYS.items():
            runs = [_compared(rig, way, wanted, name) for _ in range(rig.runs)]
            used = statistics.median(run.total for run in runs)
            equal.setdefault(name, used)
            rig.report.turns(f"diff, {missing} % missing", name, runs, rows)
            print(f"  {used / equal[name]:.2f} of the equal case", flush=True)
            if missing and name == OURS:
                work = f"diff: {missing} % of the rows missing"
                rig.report.add(Figure("", work, "all rows equal", used / equal[name], "x", MOST, at_most=True))
    for name in (OURS, CHECKSUMS):
        rig.report.ratio("", f"diff: {name}, CPU", PEER, [equal[name]], [equal[PEER]], 3.0)
    _beside_the_copy(rig, {name: equal[name] for name in (OURS, CHECKSUMS)}, rows, size)
    rig.target.wipe()


def _beside_the_copy(rig: Rig, ours: Mapping[str, float], rows: int, size: int) -> None:
    copies = []
    # The first copy also starts the engine's processes.
    for _ in range(rig.runs + 1):
        rig.target.wipe()
        cfg = rig.config("full")
        copies.append(rig.copied(DumpUnit(cfg, rig.engine), LoadUnit(cfg, rig.engine)))
    copy = statistics.median(one.total for one in copies[1:])
    print(f"  full copy: {size / copy / 1e6:.0f} MB per second of CPU\n{cpu_line(copies[-1].cpu, rows)}", flush=True)
    for name, used in ours.items():
        print(f"  {name}: {size / used / 1e6:.0f} MB per second of CPU", flush=True)
        rig.report.ratio("", f"diff: {name}, CPU", "own full copy", [used], [copy], 8.0)


def _compared(rig: Rig, way: _Compare, wanted: int, name: str) -> Cost:
    found: list[int] = []
    with _sessions(rig) as (here, there):
        cost = cost_of(lambda: found.append(way(here, there)), rig.stages)
    if found != [wanted]:
        raise HarnessError(f"{name} found {found[0]} differences instead of {wanted}")
    return cost


@contextmanager
def _sessions(rig: Rig) -> Iterator[tuple[Connection[Any], Connection[Any]]]:
    with open_session(rig.source.db_config) as here, open_session(rig.target.db_config) as there:
        for conn in (here, there):
            conn.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        yield here, there


_Compare = Callable[["Connection[Any]", "Connection[Any]"], int]


def _ours(way: Way, *, speed: float = 0.0) -> _Compare:
    """``speed``: the bytes per second of the network; 0 to read whole rows only after many differences."""

    def compare(here: Connection[Any], there: Connection[Any]) -> int:
        sources = [SourceSession(here, compared_server(here))]
        pair = read_pair(sources, [SourceName(0, SCHEMA, _NAME)], there, (SCHEMA, _NAME))
        if not isinstance(pair, TablePair):
            raise HarnessError(pair.reason)
        found: list[Difference] = []
        ways = ChunkWays()
        for part in plan_ranges(here, pair, CHUNK):
            whole = ways.whole(speed, _LIMIT)
            begin = time.monotonic()
            outcome = compare_chunk([here], there, replace(pair, way=way), part, report=found.extend, whole=whole)
            ways.took(outcome, time.monotonic() - begin, whole=whole)
        return len(found)

    return compare


def _peer(checksum: str) -> _Compare:
    """As sync-diff-inspector: a checksum for each chunk, halves of chunks that differ, and rows of small ones."""

    def compare(here: Connection[Any], there: Connection[Any]) -> int:
        low, high = (int(value or 0) for value in read_values(here, f"SELECT MIN(id), MAX(id) + 1 FROM {TABLE}"))
        waiting = [(start, min(start + CHUNK, high)) for start in range(low, high, CHUNK)]
        found = 0
        while waiting:
            start, stop = waiting.pop()
            where = f"id >= {start} AND id < {stop}"
            answers = _both(here, there, f"SELECT COUNT(*), {checksum} FROM {TABLE} WHERE {where}")
            if answers[0] == answers[1]:
                continue
            if stop - start > _READ:
                middle = (start + stop) // 2
                waiting += [(start, middle), (middle, stop)]
                continue
            rows = _both(here, there, f"SELECT {', '.join(_COLUMNS)} FROM {TABLE} WHERE {where} ORDER BY id")
            found += len(_rows(rows[0]) ^ _rows(rows[1]))
        return found

    return compare


def _both(here: Connection[Any], there: Connection[Any], sql: str) -> list[list[bytes | None]]:
    """The answers of both servers, which work at the same time."""
    for conn in (here, there):
        send(conn, sql)
    return [
        [value for (values, _), _ in stream(conn, sql, RowSplitter, sent=True) for value in values]
        for conn in (here, there)
    ]


def _rows(values: Sequence[bytes | None]) -> set[tuple[bytes | None, ...]]:
    return set(zip(*[iter(values)] * len(_COLUMNS), strict=True))


_JOINED = f"CONCAT_WS(',', {', '.join(_COLUMNS)}, CONCAT({', '.join(f'ISNULL({name})' for name in _COLUMNS)}))"
_HALVES = [f"CAST(CONV(SUBSTRING(MD5({_JOINED}), {start}, 16), 16, 10) AS UNSIGNED)" for start in (1, 17)]
_WAYS: dict[str, _Compare] = {
    OURS: _ours(Way.PUSHED, speed=_LOOPBACK),
    CHECKSUMS: _ours(Way.PUSHED),
    "rows": _ours(Way.STREAMED),
    PEER: _peer(f"BIT_XOR({_HALVES[0]} ^ {_HALVES[1]})"),
    "peer: CRC32 of CONCAT_WS": _peer(f"BIT_XOR(CAST(CRC32({_JOINED}) AS UNSIGNED))"),
}
