"""Full copy and catch-up into a real TiDB, against statements of one row, DM's default way, and INSERTs of many."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError, up
from deploy.local.tidb import TiDBServer
from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir
from dm_worker.loader import LoadUnit
from pkg.config.model import LoaderConfig
from tests.bench import many_rows, one_statement
from tests.bench.binlog import end_of_binlog
from tests.bench.catchup import MANY, SINGLE
from tests.bench.figures import Cost
from tests.bench.one_statement import CONNECTIONS
from tests.bench.peers import BestOf
from tests.bench.rig import Rig, timed
from tests.bench.workloads import Workload, all_workloads

#: Workloads with a catch-up part.
CATCH_UPS = ("oltp", "insert-only", "update-heavy")
_AIMS = {MANY: ("T18", 2.0)}
#: With more rows, one statement per row takes minutes.
_MOST_ROWS = 200_000


def copy(rig: Rig, rows: int) -> None:
    """Loads a dump of ``rows`` of sysbench's shape, against INSERTs of one row and of many."""
    rig.warm_up()
    rows = min(rows, _MOST_ROWS)
    workload = all_workloads()["oltp"]
    rig.source.wipe()
    rig.source.execute("RESET MASTER")
    start = end_of_binlog(rig.source)
    workload.prepare(rig.source, rows)
    with up(tidb := TiDBServer()), _dumped(rig, tidb, workload) as copies:
        dealt = one_statement.rounds(one_statement.statements(rig.source, start))
        made = many_rows.inserts(rig.source, start)
        others = {
            SINGLE: BestOf({SINGLE: partial(copies.inserted, SINGLE, lambda: one_statement.apply(tidb, dealt))}),
            MANY: BestOf({one.name: partial(copies.inserted, one.name, partial(one.apply, tidb)) for one in made}),
        }
        ours: list[Cost] = []
        for _ in range(rig.runs):
            ours.append(copies.load())
            copies.check("TiDB, load")
            for other in others.values():
                other.run()
    _tell(rig, f"TiDB, load, pool-size {CONNECTIONS}", rows, ours, others)


def catch_up(rig: Rig, name: str) -> None:
    """Catches up with the binlog of one workload."""
    rig.warm_up()
    workload = all_workloads()[name]
    start = rig.fresh_source(workload, min(rig.rows, _MOST_ROWS))
    with up(tidb := TiDBServer()), _dumped(rig, tidb, workload) as copies:
        changes = workload.write(rig.source, min(rig.rows, _MOST_ROWS), min(rig.changes, _MOST_ROWS))
        dealt = one_statement.rounds(one_statement.statements(rig.source, start))
        single = BestOf({SINGLE: partial(copies.changed, lambda: one_statement.apply(tidb, dealt))})
        ours: list[Cost] = []
        for _ in range(rig.runs):
            cfg = rig.config("incremental", target=tidb.db_config)
            ours.append(copies.changed(partial(rig.sync, start, cfg, tidb)))
            single.run()
    _tell(rig, f"TiDB, {name}", changes, ours, {SINGLE: single})


@contextmanager
def _dumped(rig: Rig, tidb: TiDBServer, workload: Workload) -> Iterator[_Copies]:
    """A dump of the workload's tables, the start of each turn."""
    cfg = rig.config("full", target=tidb.db_config)
    # A file for each connection.
    rows = int(rig.source.execute(f"SELECT COUNT(*) FROM {workload.tables[0]}")[0][0])
    cfg = replace(cfg, mydumper=replace(cfg.mydumper, rows=-(-rows // CONNECTIONS)))
    timed(DumpUnit(cfg, rig.engine))
    folder = dump_dir(cfg)
    try:
        yield _Copies(rig, tidb, workload, folder)
    finally:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class _Copies:
    """Brings a workload's tables into TiDB."""

    rig: Rig
    tidb: TiDBServer
    workload: Workload
    folder: Path

    def load(self) -> Cost:
        """What a load of the dump into an emptied TiDB takes."""
        self.tidb.wipe()
        cfg = self.rig.config("load", target=self.tidb.db_config)
        cfg = replace(cfg, loader=LoaderConfig(pool_size=CONNECTIONS, dir=str(self.folder)))
        return self.rig.copied(LoadUnit(cfg, self.rig.engine), target=self.tidb)

    def changed(self, apply: Callable[[], Cost]) -> Cost:
        """The measurement of ``apply``, which starts from the copy; checks that the content is then the source's."""
        self.load()
        cost = apply()
        self.check(f"TiDB, {self.workload.name}")
        return cost

    def inserted(self, name: str, apply: Callable[[], Cost]) -> Cost:
        """The measurement of ``apply``, which starts from empty tables."""
        for table in self.workload.tables:
            self.tidb.execute(f"TRUNCATE TABLE {table}")
        cost = apply()
        self.check(f"TiDB, {name}")
        return cost

    def check(self, what: str) -> None:
        for table in self.workload.tables:
            sums = [_checksum(server, table) for server in (self.rig.source, self.tidb)]
            if sums[0] != sums[1]:
                raise HarnessError(f"{what}: {table} differs between source and target: {sums}")


def _checksum(server: SQLServer, table: str) -> Sequence[object]:
    """A checksum by a query: TiDB's CHECKSUM TABLE differs from that of other servers."""
    values = ", ".join(f"IFNULL(HEX(`{row[0]}`), '-')" for row in server.execute(f"SHOW COLUMNS FROM {table}"))
    return server.execute(f"SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('/', {values}))) FROM {table}")[0]


def _tell(rig: Rig, work: str, rows: int, ours: Sequence[Cost], others: Mapping[str, BestOf]) -> None:
    print(f"\n{work}: {rows:,} rows", flush=True)
    rig.report.turns(work, "ours", ours, rows)
    for name, other in others.items():
        for way, turns in other.turns.items():
            rig.report.turns(work, way, turns, rows)
        target, reach = _AIMS.get(name, ("", None))
        rig.report.compare(target, work, other.best, ours, other.costs, reach)
