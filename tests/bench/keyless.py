"""UPDATE and DELETE of all rows of a table without a key or index, in tables of two sizes.

There is no peer: a native replica looks for each row in a scan.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.local.mysql import SQLServer
from pkg.binlog.position import Location
from tests.bench.figures import Cost, Figure, middle
from tests.bench.rig import Copies, Rig
from tests.bench.workloads import SCHEMA, Workload, fill, sysbench_columns

TABLE = f"{SCHEMA}.keyless"
SIZES = (128_000, 1_000_000)
#: Rows/s of an UPDATE, and the larger table's rate by the smaller one's, that are wanted.
REACH, LINEAR = 20_000.0, 0.8
_SHAPE = "(id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
_STATEMENTS = {"UPDATE": f"UPDATE {TABLE} SET k = k + 1", "DELETE": f"DELETE FROM {TABLE}"}


def run(rig: Rig, verbs: Sequence[str] = tuple(_STATEMENTS)) -> None:
    rig.warm_up()
    rig.durability(True)
    for verb in verbs:
        few, many = (_rate(rig, verb, rows) for rows in SIZES)
        rig.report.add(
            Figure("T20", f"{verb} without a key: rate", "that of the smaller table", many / few, "x", LINEAR)
        )


def _rate(rig: Rig, verb: str, rows: int) -> float:
    """Rows per second, the median of all runs."""
    workload = Workload(f"keyless {verb}", rows, _create, lambda _: _STATEMENTS[verb], (TABLE,))
    start, kept, changes = rig.behind(workload, rows, rows)
    title = f"{verb} of {rows:,} rows without a key"
    print(f"\n{title}", flush=True)
    turns = [_turn(rig, start, kept, title) for _ in range(rig.runs)]
    rig.report.turns(title, "ours", turns, changes)
    rate = changes / middle(turns).seconds
    rig.report.add(Figure("T20", title, "-", rate, " rows/s", REACH if verb == "UPDATE" else None))
    return rate


def _turn(rig: Rig, start: Location, kept: Copies, title: str) -> Cost:
    kept.restore()
    caught = rig.sync(start)
    rig.check([TABLE], title)
    return caught


def _create(server: SQLServer, rows: int) -> None:
    server.execute(f"CREATE TABLE {TABLE} {_SHAPE}")
    fill(server, TABLE, rows, sysbench_columns(rows))
