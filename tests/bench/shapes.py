"""Tables of other shapes: bytes of the binlog per second and per CPU second, by those of the sysbench table.

The statements' texts are left out of the binlog, so that its bytes are rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deploy.local.mysql import SQLServer
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Cost, Figure
from tests.bench.rig import Copies, Rig
from tests.bench.workloads import SCHEMA, Workload, all_workloads, fill

#: The catch-up that the others are compared with, and the share of its rate that they should reach.
BASE, REACH = "one table", 0.8
#: The part of rows and changes for rows of 4 kB.
_FEW = 0.1
#: The part for rows of families: the cost of a batch must not dominate.
_FAMILY_PART = 0.3
_TEXT = "CONCAT_WS('-', MD5({0}), MD5({0} + 1), MD5({0} + 2))"
_LONG = "REPEAT(MD5({0}), 125)"
_COLUMNS = 60
_PARENTS, _CHILDREN = f"{SCHEMA}.parents", f"{SCHEMA}.children"
#: Children of each parent.
_BROOD = 4


@dataclass(frozen=True)
class Shape:
    """``part`` of the rows and changes of the command line; ``checked``: the target checks foreign keys."""

    workload: Workload
    part: float = 1.0
    checked: bool = False


def shapes() -> dict[str, Shape]:
    """The catch-ups; each transaction makes two updates, a delete and an insert."""
    known = all_workloads()
    numbers = [f"c{n}" for n in range(_COLUMNS - 1)]
    wide = ", ".join(["id INT PRIMARY KEY", *(f"{name} INT NOT NULL" for name in numbers)])
    pair = "tenant INT, code VARCHAR(40), c CHAR(120) NOT NULL, PRIMARY KEY (tenant, code)"
    single = "id INT PRIMARY KEY, c {0} NOT NULL"
    by_id = ("id = {0}", "{0}")
    by_pair = ("tenant = {0} % 100 AND code = CONCAT('key-', {0})", "{0} % 100, CONCAT('key-', {0})")
    document = f"JSON_OBJECT('a', {{0}}, 'b', {_LONG})"
    return {
        BASE: Shape(known["oltp"]),
        "two more unique keys": Shape(known["uniques"]),
        "eight tables": Shape(known["several"]),
        "key of integer and string": Shape(_table(pair, by_pair, {"c": _TEXT})),
        f"{_COLUMNS} columns": Shape(_table(wide, by_id, dict.fromkeys(numbers, "{0}"))),
        "texts of 4 kB": Shape(_table(single.format("TEXT"), by_id, {"c": _LONG}), _FEW),
        "documents of 4 kB": Shape(_table(single.format("JSON"), by_id, {"c": document}), _FEW),
        "acting foreign keys": Shape(_families(), _FAMILY_PART, checked=True),
    }


def run(rig: Rig) -> None:
    rig.warm_up()
    rig.durability(True)
    found: dict[str, tuple[float, float]] = {}
    with _bare_binlog(rig.source):
        for title, shape in shapes().items():
            found[title] = _rates(rig, title, shape)
    by_wall, by_cpu = found.pop(BASE)
    for title, (wall, cpu) in found.items():
        rig.report.add(Figure("T22", f"{title}: bytes per second", BASE, wall / by_wall, "x", REACH, cpu=cpu / by_cpu))


def _rates(rig: Rig, title: str, shape: Shape) -> tuple[float, float]:
    """Bytes per second, and per CPU second of all processes; medians of the turns."""
    workload, rows = shape.workload, int(rig.rows * shape.part)
    start, kept, changes = rig.behind(workload, rows, int(rig.changes * shape.part))
    size = end_of_binlog(rig.source).position.pos - start.position.pos
    print(f"\n{title}: {changes:,} row changes, {size / 2**20:,.0f} MiB", flush=True)
    turns = [_turn(rig, shape, start, kept, title) for _ in range(rig.runs)]
    seconds = statistics.median(one.seconds for one in turns)
    cpu = statistics.median(one.total for one in turns)
    rig.report.turns(title, "ours", turns, changes, size=size)
    print(f"  {size / seconds / 2**20:.1f} MiB/s, {size / cpu / 2**20:.1f} MiB per CPU second", flush=True)
    return size / seconds, size / cpu


def _turn(rig: Rig, shape: Shape, start: Location, kept: Copies, title: str) -> Cost:
    kept.restore()
    cfg = rig.config("incremental")
    caught = rig.sync(start, _with_checks(cfg) if shape.checked else cfg)
    rig.check(shape.workload.tables, title)
    return caught


def _with_checks(cfg: SubTaskConfig) -> SubTaskConfig:
    return replace(cfg, to=replace(cfg.to, session=(*cfg.to.session, ("foreign_key_checks", "1"))))


@contextmanager
def _bare_binlog(source: SQLServer) -> Iterator[None]:
    """A binlog without the texts of statements, in one file."""
    source.execute("SET GLOBAL binlog_annotate_row_events = OFF")
    try:
        yield
    finally:
        source.execute("SET GLOBAL binlog_annotate_row_events = ON")


def _table(definition: str, key: tuple[str, str], values: dict[str, str]) -> Workload:
    """``key``: a condition, and the key's values, of a number; ``values``: columns, and what they are of a number."""
    table = f"{SCHEMA}.shape"
    where, key_values = key

    def row(row_key: str, number: str) -> str:
        return ", ".join([key_values.format(row_key), *(value.format(number) for value in values.values())])

    def create(server: SQLServer, rows: int) -> None:
        server.execute(f"CREATE TABLE {table} ({definition})")
        fill(server, table, rows, row("seq", "seq"))

    def body(rows: int) -> str:
        chosen = f"FLOOR(1 + RAND() * {rows})"
        updates = [
            f"UPDATE {table} SET {', '.join(f'{name} = {value.format(number)}' for name, value in values.items())}"
            f" WHERE {where.format(variable)}"
            for variable, number in (("a", "(-3 * n)"), ("b", "(-3 * n - 1)"))
        ]
        return "; ".join(
            [
                f"SET a = {chosen}, b = {chosen}, d = {chosen}",
                *updates,
                f"DELETE FROM {table} WHERE {where.format('d')}",
                f"INSERT INTO {table} VALUES ({row('d', '(-3 * n - 2)')})",
            ]
        )

    return Workload("shape", 4, create, body, (table,))


def _families() -> Workload:
    """Parents and children, which go with their parent."""

    def create(server: SQLServer, rows: int) -> None:
        server.execute(
            f"CREATE TABLE {_PARENTS} (id INT PRIMARY KEY, c CHAR(120) NOT NULL)",
            f"CREATE TABLE {_CHILDREN} (id INT PRIMARY KEY, parent INT NOT NULL, c CHAR(120) NOT NULL,"
            f" FOREIGN KEY (parent) REFERENCES {_PARENTS} (id) ON DELETE CASCADE)",
        )
        fill(server, _PARENTS, rows, f"seq, {_TEXT.format('seq')}")
        fill(server, _CHILDREN, rows * _BROOD, f"seq, 1 + seq % {rows}, {_TEXT.format('seq')}")

    def body(rows: int) -> str:
        child = f"FLOOR(1 + RAND() * {rows * _BROOD})"
        return (
            f"SET a = (SELECT id FROM {_CHILDREN} WHERE id >= {child} ORDER BY id LIMIT 1), b = 1 + n % {rows};"
            f" UPDATE {_CHILDREN} SET c = {_TEXT.format('(-3 * n)')} WHERE id = a;"
            f" DELETE FROM {_PARENTS} WHERE id = b;"
            f" INSERT INTO {_PARENTS} VALUES (b, {_TEXT.format('(-3 * n - 1)')});"
            f" INSERT INTO {_CHILDREN} VALUES ({rows * _BROOD} + n, b, {_TEXT.format('(-3 * n - 2)')})"
        )

    return Workload("families", 4, create, body, (_PARENTS, _CHILDREN))
