"""Full copy and catch-up into a real TiDB, against one statement per row, DM's default way to apply."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError, up
from deploy.local.tidb import TiDBServer
from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir
from dm_worker.loader import LoadUnit
from pkg.binlog.position import Location
from pkg.config.model import LoaderConfig
from tests.bench import one_statement
from tests.bench.binlog import end_of_binlog
from tests.bench.catchup import SINGLE
from tests.bench.rig import Rig, timed
from tests.bench.workloads import Workload, all_workloads

#: Workloads with a catch-up part.
CATCH_UPS = ("oltp", "insert-only", "update-heavy")
#: With more rows, one statement per row takes minutes.
_MOST_ROWS = 200_000


def copy(rig: Rig, rows: int) -> None:
    """Loads a dump of ``rows`` of sysbench's shape, against an INSERT for each row."""
    rig.warm_up()
    rows = min(rows, _MOST_ROWS)
    workload = all_workloads()["oltp"]
    rig.source.wipe()
    rig.source.execute("RESET MASTER")
    start = end_of_binlog(rig.source)
    workload.prepare(rig.source, rows)
    with up(tidb := TiDBServer()):
        copies = _Copies(rig, tidb, workload)
        dealt = one_statement.rounds(one_statement.statements(rig.source, start))
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rig.runs):
            ours.append(copies.load())
            for table in workload.tables:
                tidb.execute(f"TRUNCATE TABLE {table}")
            theirs.append(one_statement.apply(tidb, dealt))
            copies.check(f"TiDB, {SINGLE}")
        copies.remove()
    _tell(rig, f"TiDB, load, {rig.threads} threads", rows, ours, theirs)


def catch_up(rig: Rig, name: str) -> None:
    """Catches up with the binlog of one workload."""
    rig.warm_up()
    workload = all_workloads()[name]
    start = rig.fresh_source(workload, min(rig.rows, _MOST_ROWS))
    with up(tidb := TiDBServer()):
        copies = _Copies(rig, tidb, workload)
        changes = workload.write(rig.source, min(rig.rows, _MOST_ROWS), min(rig.changes, _MOST_ROWS))
        dealt = one_statement.rounds(one_statement.statements(rig.source, start))

        def single() -> float:
            return one_statement.apply(tidb, dealt)

        seconds = [(copies.changed(_syncing(rig, tidb, start)), copies.changed(single)) for _ in range(rig.runs)]
        copies.remove()
    _tell(rig, f"TiDB, {name}", changes, [one for one, _ in seconds], [other for _, other in seconds])


def _syncing(rig: Rig, tidb: TiDBServer, start: Location) -> Callable[[], float]:
    return lambda: rig.sync(start, rig.config("incremental", target=tidb.db_config)).seconds


@dataclass
class _Copies:
    """Dumps a workload's tables at once, as the start of each turn."""

    rig: Rig
    tidb: TiDBServer
    workload: Workload
    _folder: Path = Path()

    def __post_init__(self) -> None:
        cfg = self.rig.config("full", target=self.tidb.db_config)
        timed(DumpUnit(cfg, self.rig.engine))
        self._folder = dump_dir(cfg)

    def load(self) -> float:
        """Loads the dump into an emptied TiDB; returns the seconds."""
        self.tidb.wipe()
        cfg = self.rig.config("load", target=self.tidb.db_config)
        cfg = replace(cfg, loader=LoaderConfig(pool_size=self.rig.threads, dir=str(self._folder)))
        return timed(LoadUnit(cfg, self.rig.engine))

    def changed(self, apply: Callable[[], float]) -> float:
        """The measurement of ``apply``, which starts from the copy; checks that the content is then the source's."""
        self.load()
        seconds = apply()
        self.check(f"TiDB, {self.workload.name}")
        return seconds

    def check(self, what: str) -> None:
        for table in self.workload.tables:
            sums = [_checksum(server, table) for server in (self.rig.source, self.tidb)]
            if sums[0] != sums[1]:
                raise HarnessError(f"{what}: {table} differs between source and target: {sums}")

    def remove(self) -> None:
        shutil.rmtree(self._folder)


def _checksum(server: SQLServer, table: str) -> Sequence[object]:
    """A checksum by a query: TiDB's CHECKSUM TABLE differs from that of other servers."""
    values = ", ".join(f"IFNULL(HEX(`{row[0]}`), '-')" for row in server.execute(f"SHOW COLUMNS FROM {table}"))
    return server.execute(f"SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('/', {values}))) FROM {table}")[0]


def _tell(rig: Rig, work: str, rows: int, ours: Sequence[float], theirs: Sequence[float]) -> None:
    print(f"\n{work}: {rows:,} rows", flush=True)
    rig.report.measured(work, "ours", ours, rows)
    rig.report.measured(work, SINGLE, theirs, rows)
    rig.report.ratio("", work, SINGLE, ours, theirs)
