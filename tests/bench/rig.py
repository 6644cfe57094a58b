"""The base of every part of the benchmark: a source, a target, the engine, and the measurement of a catch-up."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import HarnessError, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.subtask.unit import Unit, UnitOutcome
from dm_worker.syncer import SyncUnit
from dm_worker.syncer.unit.batch_observer import BatchObserver
from pkg.binlog.position import Location, parse_position
from pkg.config.model import LoaderConfig, Meta, MydumperConfig, SubTaskConfig, SyncerConfig, TaskMode
from pkg.rules.model import BlockAllowList
from pkg.settings.connections import DBConfig
from tests.bench import workloads
from tests.bench.binlog import end_of_binlog
from tests.bench.figures import Cost, Report
from tests.harness.cputime import cpu_by_kind, spent
from tests.harness.proctree import by_kind

#: The catch-ups that warm up the JVM and the Python workers, and row changes of each.
WARM_TURNS, WARM_CHANGES = 4, 200_000
#: A catch-up that takes longer, or applies nothing for this time, has failed (seconds).
_CATCH_UP_TIMEOUT, _STANDSTILL = 1800.0, 180.0
#: Tables are filled in any order.
_UNCHECKED = "SET SESSION foreign_key_checks = 0"


def subtask(
    number: int, source: DBConfig, target: DBConfig, mode: TaskMode, *, threads: int, meta: Meta | None = None
) -> SubTaskConfig:
    """The configuration of one task of the benchmark; ``number`` makes its name and replica id unique."""
    return SubTaskConfig(
        name=f"bench{number}",
        source_id="bench",
        task_mode=mode,
        from_=source,
        to=target,
        flavor="mariadb",
        server_id=429_496_729 + number,
        meta=meta,
        block_allow_list=BlockAllowList(do_dbs=(workloads.SCHEMA,)),
        mydumper=MydumperConfig(threads=threads, rows=50_000),
        loader=LoaderConfig(pool_size=threads, dir=str(Path(tempfile.gettempdir()) / f"dm-bench-{source.port}")),
        syncer=SyncerConfig(worker_count=threads),
    )


@dataclass
class Running:
    """A running syncer; ``outcome`` gets an entry when it ends."""

    unit: SyncUnit
    outcome: list[UnitOutcome]
    source: SQLServer

    def wait_synced(self, step: float = 0.02) -> None:
        """Waits until the checkpoint is at the current end of the source's binlog; looks each ``step`` seconds, which
        costs this process CPU.

        Raises HarnessError if the syncer has ended or makes no progress.
        """
        end = end_of_binlog(self.source).position
        rows, since = -1, time.monotonic()

        def synced() -> bool:
            nonlocal rows, since
            status = self.unit.status()
            if status.totalRows != rows:
                rows, since = status.totalRows, time.monotonic()
            if self.outcome:
                raise HarnessError(f"the syncer ended: {self.outcome}")
            if time.monotonic() - since > _STANDSTILL:
                raise HarnessError(f"the syncer has applied nothing for {_STANDSTILL:.0f} s: {status}")
            # MariaDB writes a BINLOG_CHECKPOINT by itself some time after it has begun a file.
            return "." in status.syncerBinlog and end <= parse_position(status.syncerBinlog)

        wait_until(synced, "the syncer catches up", _CATCH_UP_TIMEOUT, step=step)


@dataclass
class Rig:
    """Servers and engine; ``rows``, ``changes``, ``runs`` and ``threads`` as on the command line, for each part."""

    report: Report
    rows: int = 0
    changes: int = 0
    runs: int = 0
    threads: int = 0
    engine: SparkEngine = field(default_factory=lambda: SparkEngine(slots=8))
    source: MariaDBServer = field(default_factory=lambda: MariaDBServer(gtid=True))
    target: MariaDBServer = field(default_factory=lambda: MariaDBServer(binlog=False))
    _tasks: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _warm: bool = False

    @classmethod
    def started(cls, report: Report) -> Self:
        rig = cls(report)
        try:
            rig.source.start()
            rig.target.start()
        except BaseException:
            rig.close()
            raise
        return rig

    def renew_engine(self) -> None:
        """Ends the engine: a process has one Spark context at a time. The new one starts when it is used."""
        self.engine.close()
        self.engine, self._warm = SparkEngine(slots=8), False

    def resize(self, rows: int, changes: int, runs: int, threads: int) -> None:
        self.rows, self.changes, self.runs, self.threads = rows, changes, runs, threads

    def close(self) -> None:
        self.engine.close()
        self.source.cleanup()
        self.target.cleanup()

    def next_task(self) -> int:
        return next(self._tasks)

    def config(self, mode: TaskMode, *, target: DBConfig | None = None) -> SubTaskConfig:
        number = self.next_task()
        return subtask(number, self.source.db_config, target or self.target.db_config, mode, threads=self.threads)

    def durability(self, durable: bool, *servers: SQLServer) -> None:
        for server in servers or (self.target,):
            server.execute(f"SET GLOBAL innodb_flush_log_at_trx_commit = {1 if durable else 2}")

    def behind(self, workload: workloads.Workload, rows: int, changes: int) -> tuple[Location, Copies, int]:
        """A target that has the workload's ``rows`` and lacks its ``changes``: the location where these begin, the
        target's tables to restore, and the number of row changes."""
        start = self.fresh_source(workload, rows)
        copy_tables(self.source, self.target)
        return start, Copies(self.target, workload.tables), workload.write(self.source, rows, changes)

    def fresh_source(self, workload: workloads.Workload, rows: int) -> Location:
        """An upstream with only the workload's tables; returns the end of its binlog."""
        self.source.wipe()
        self.source.execute("RESET MASTER")
        workload.prepare(self.source, rows)
        return end_of_binlog(self.source)

    def warm_up(self) -> None:
        """Runs catch-ups of other rows, once, so that JVM and Python workers are warm when the clock starts.

        The JVM compiles frequent code only after several catch-ups.
        """
        if self._warm:
            return
        began = time.monotonic()
        self.fill_slots()
        workload = workloads.all_workloads()["oltp"]
        start = self.fresh_source(workload, 20_000)
        copy_tables(self.source, self.target)
        workload.write(self.source, 20_000, WARM_CHANGES)
        kept = Copies(self.target, workload.tables)
        for _ in range(WARM_TURNS):
            kept.restore()
            self.sync(start)
            self.check(workload.tables, "warm-up")
        self._warm = True
        print(f"warm-up: {time.monotonic() - began:.1f} s, not counted below", flush=True)

    def fill_slots(self) -> None:
        """Starts a process for each slot: those that were idle for a minute have ended."""
        # Code of this module must not get there: it would import the whole driver, and each task ends with a garbage
        # collection of everything loaded after the fork.
        slots = self.engine.slots
        self.engine.context().parallelize([2] * slots, slots).foreach(time.sleep)

    @contextmanager
    def syncing(
        self, start: Location, cfg: SubTaskConfig | None = None, observer: BatchObserver | None = None
    ) -> Iterator[Running]:
        """A syncer that runs from ``start``; stopped gracefully at the end. Raises HarnessError if it failed."""
        meta = Meta(start.position.name, start.position.pos)
        unit = SyncUnit(replace(cfg or self.config("incremental"), meta=meta), self.engine, observer=observer)
        outcome: list[UnitOutcome] = []
        thread = threading.Thread(target=lambda: outcome.append(unit.run()), name="bench-sync")
        thread.start()
        try:
            yield Running(unit, outcome, self.source)
        finally:
            unit.stop(graceful=True)
            thread.join()
        if not outcome or outcome[0].errors:
            raise HarnessError(f"the syncer ended: {outcome}")

    def sync(self, start: Location, cfg: SubTaskConfig | None = None, target: SQLServer | None = None) -> Cost:
        """From the unit's start (warm engine) to the checkpoint at the upstream's end."""
        before = cpu_by_kind(self.stages(target))
        begin = time.monotonic()
        with self.syncing(start, cfg) as running:
            running.wait_synced()
            seconds = time.monotonic() - begin
            cpu = spent(before, cpu_by_kind(self.stages(target)))
        return Cost(seconds, cpu)

    def copied(self, *units: Unit, target: SQLServer | None = None) -> Cost:
        """What the units of a full copy take that follow each other."""
        return cost_of(lambda: [timed(unit) for unit in units], lambda: self.stages(target))

    def stages(self, target: SQLServer | None = None) -> dict[str, list[int]]:
        """The processes that this program keeps busy."""
        return {**by_kind(os.getpid()), "target": [(target or self.target).pid], "source": [self.source.pid]}

    def check(self, tables: Iterable[str], what: str, other: SQLServer | None = None) -> None:
        """Raises HarnessError if source and target (or ``other``) differ in a table."""
        for table in tables:
            sums = [checksum(server, table) for server in (self.source, other or self.target)]
            if sums[0] != sums[1]:
                raise HarnessError(f"{what}: {table} differs between source and target: checksums {sums}")


def cost_of(work: Callable[[], object], processes: Callable[[], Mapping[str, Sequence[int]]]) -> Cost:
    """Runs ``work`` and measures what it takes the processes, and those of their children that end meanwhile."""
    before, began = cpu_by_kind(processes()), time.monotonic()
    work()
    return Cost(time.monotonic() - began, spent(before, cpu_by_kind(processes())))


def checksum(server: SQLServer, table: str) -> int:
    """The checksum of all rows, including FLOAT and DOUBLE bits. Raises HarnessError if the table is missing."""
    value = server.execute(f"CHECKSUM TABLE {table} EXTENDED")[0][1]
    if value is None:
        raise HarnessError(f"no table {table} on port {server.port}")
    return int(value)


def copy_tables(source: SQLServer, target: SQLServer) -> None:
    """Makes the target's tables equal to the source's, bit by bit (also FLOAT, where a text dump loses bits)."""
    target.wipe()
    schema = workloads.SCHEMA
    target.execute(f"CREATE DATABASE {schema}")
    for (table,) in source.execute(f"SHOW TABLES FROM {schema}"):
        name = f"{schema}.{table}"
        created = source.execute(f"SHOW CREATE TABLE {name}")[0][1].replace("TABLE ", f"TABLE {schema}.", 1)
        target.execute(_UNCHECKED, created)
        _copy_rows(source, target, name)


def _copy_rows(source: SQLServer, target: SQLServer, name: str) -> None:
    path = source.dir / "rows"
    path.unlink(missing_ok=True)
    # A FLOAT read in double precision keeps its bits.
    columns = [(str(row[0]), str(row[1])) for row in source.execute(f"SHOW COLUMNS FROM {name}")]
    picked = ", ".join(_exact_text(column, kind) for column, kind in columns)
    source.execute(f"SELECT {picked} INTO OUTFILE '{path}' CHARACTER SET binary FROM {name}")
    variables = ", ".join(f"@{column}" if "bit(" in kind else f"`{column}`" for column, kind in columns)
    bits = ", ".join(f"`{column}` = CAST(@{column} AS UNSIGNED)" for column, kind in columns if "bit(" in kind)
    target.execute(
        "SET SESSION sql_mode = ''",
        _UNCHECKED,
        f"LOAD DATA INFILE '{path}' INTO TABLE {name} CHARACTER SET binary ({variables})"
        + (f" SET {bits}" if bits else ""),
    )
    path.unlink()


def _exact_text(column: str, kind: str) -> str:
    if kind.startswith("float"):
        return f"CAST(`{column}` AS DOUBLE)"
    return f"`{column}` + 0" if kind.startswith("bit(") else f"`{column}`"


class Copies:
    """Saves a server's current tables, to restore them before every run."""

    def __init__(self, server: SQLServer, tables: Sequence[str]) -> None:
        self._server = server
        self._tables = {table: f"keep.t{i}" for i, table in enumerate(tables)}
        server.execute("CREATE OR REPLACE DATABASE keep")
        for table, kept in self._tables.items():
            server.execute(f"CREATE TABLE {kept} LIKE {table}", f"INSERT INTO {kept} SELECT * FROM {table}")

    def restore(self) -> None:
        for table, kept in self._tables.items():
            self._server.execute(_UNCHECKED, f"TRUNCATE TABLE {table}", f"INSERT INTO {table} SELECT * FROM {kept}")


def timed(unit: Unit) -> float:
    """Seconds of a unit that ends by itself."""
    start = time.monotonic()
    outcome = unit.run()
    if not outcome.finished:
        raise HarnessError(f"the unit did not finish: {outcome}")
    return time.monotonic() - start
