"""UPDATE and DELETE of all rows of a table without a key or index, in tables of two sizes.

There is no peer: a native replica looks for each row in a scan.
"""

from __future__ import annotations

from deploy.local.mysql import SQLServer
from pkg.binlog.position import Location
from tests.bench.figures import Figure
from tests.bench.rig import CatchUp, Copies, Rig, copy_tables, cpu_line
from tests.bench.workloads import SCHEMA, Workload, fill, sysbench_columns

TABLE = f"{SCHEMA}.keyless"
SIZES = (128_000, 1_000_000)
_SHAPE = "(id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
_STATEMENTS = {"UPDATE": f"UPDATE {TABLE} SET k = k + 1", "DELETE": f"DELETE FROM {TABLE}"}


def run(rig: Rig) -> None:
    rig.warm_up()
    rig.durability(True)
    for verb in _STATEMENTS:
        rates = [_rate(rig, verb, rows) for rows in SIZES]
        title = f"{verb} without a key, rate in {SIZES[1]:,} rows by that in {SIZES[0]:,}"
        rig.report.add(Figure("", title, "", rates[1] / rates[0], "x", None))


def _rate(rig: Rig, verb: str, rows: int) -> float:
    """Rows per second, the median of all runs."""
    workload = Workload(f"keyless {verb}", rows, _create, lambda _: _STATEMENTS[verb], (TABLE,))
    start = rig.fresh_source(workload, rows)
    copy_tables(rig.source, rig.target)
    kept = Copies(rig.target, workload.tables)
    changes = workload.write(rig.source, rows, rows)
    title = f"{verb} of {rows:,} rows without a key"
    print(f"\n{title}", flush=True)
    turns = sorted((_turn(rig, start, kept, title) for _ in range(rig.runs)), key=lambda one: one.seconds)
    middle = turns[(len(turns) - 1) // 2]
    rig.report.measured(title, "ours", [one.seconds for one in turns], changes, cpu=middle.cpu)
    print(cpu_line(middle.cpu, changes), flush=True)
    return changes / middle.seconds


def _turn(rig: Rig, start: Location, kept: Copies, title: str) -> CatchUp:
    kept.restore()
    caught = rig.sync(start)
    rig.check([TABLE], title)
    return caught


def _create(server: SQLServer, rows: int) -> None:
    server.execute(f"CREATE TABLE {TABLE} {_SHAPE}")
    fill(server, TABLE, rows, sysbench_columns(rows))
