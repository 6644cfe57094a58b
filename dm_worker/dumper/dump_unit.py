"""The dump unit: plans on the driver, dumps in a barrier stage, reports progress."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

import pymysql

from dm_worker.dumper import folder_owner
from dm_worker.dumper.binlog_file import identified, snapshot_identified
from dm_worker.dumper.chunk_writer import schema_text
from dm_worker.dumper.ddl_check import DDLCheck
from dm_worker.dumper.dump_task import DumpSpec, TaskReport, run_dump_task
from dm_worker.dumper.early_rows import EarlyRows, RunningDump
from dm_worker.dumper.file_names import database_file
from dm_worker.dumper.folder import DumpWorkFolder, Manifest, fingerprint, read_manifest
from dm_worker.dumper.logged_ddl import ReadTables
from dm_worker.dumper.metadata import DumpMetadata, dump_dir, now_text
from dm_worker.dumper.options import DumpOptions, parse_options
from dm_worker.dumper.other_objects import list_skipped
from dm_worker.engine.engine import SparkEngine
from dm_worker.engine.shared_folder import check_writable
from dm_worker.meta.foreign_copy import refuse_unfinished
from dm_worker.meta.load_progress import stored_state
from dm_worker.subtask.periodic import Periodic
from dm_worker.subtask.rate import Rate, percent
from dm_worker.subtask.unit import Control, UnitOutcome
from dm_worker.table_reads.chunks import Chunk, TableStat, list_tables, plan_chunks
from dm_worker.table_reads.session import open_session
from dm_worker.table_reads.snapshot import SnapshotRendezvous, end_of_binlog
from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify
from pkg.mysql.introspect import ServerInfo, list_schemas, query, server_info, show_create
from pkg.mysql.retry import retrying
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.schema_tracker import ServerDefaults, fetch_server_defaults
from pkg.settings.connections import DBConfig

log = get_logger("dumper")

#: Retries of a dump whose snapshot broke for transient reasons.
ATTEMPTS = 5
_WATCH_SECONDS = 0.5
#: The number of rows that are read in about the time of a chunk's overhead.
_ROWS_OF_A_CHUNK = 2000
_LOG_SECONDS = 5.0
#: Task modes in which the dump is loaded by this task too.
_LOADING = ("all", "full")


@dataclass(slots=True)
class _Attempt:
    """One attempt: its plan and its progress so far. The run's threads write it, ``status`` reads it.

    ``begin``: the binlog's end before the plan; None when there is none, or the user may not query it.
    """

    work: DumpWorkFolder
    token: str
    stats: list[TableStat] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    collations_of: ServerDefaults | None = None
    json_types: bool = False
    begin: Location | None = None
    rate: Rate = field(default_factory=Rate)
    rows: int = 0
    size: int = 0
    chunks_done: int = 0
    tables_done: float = 0.0

    @property
    def estimate(self) -> int:
        return max(sum(stat.rows for stat in self.stats), self.rows)

    @property
    def progress(self) -> str:
        return dump_progress(self.rows, self.estimate, self.chunks_done, len(self.chunks))


def dump_progress(rows: int, estimate: int, chunks_done: int, chunks: int) -> str:
    """The completed share. A chunk without rows takes time too: many small tables are work as well.

    The number of rows is an estimate: 100 % is shown when the dump is complete, not before.
    """
    total = estimate + chunks * _ROWS_OF_A_CHUNK
    return percent(min(rows + chunks_done * _ROWS_OF_A_CHUNK, 0.9999 * total), max(total, 1))


class DumpUnit:
    """Dumps one upstream into ``<dir>.<task>``. See :class:`dm_worker.subtask.unit.Unit` for the methods."""

    unit_type = pb.Dump

    def __init__(self, cfg: SubTaskConfig, engine: SparkEngine, early: EarlyRows | None = None) -> None:
        self._cfg = cfg
        self._engine = engine
        self._early = early
        self._dir = dump_dir(cfg)
        self._control = Control()
        self._attempt: _Attempt | None = None
        #: Bytes that earlier attempts received.
        self._received = 0
        self._manifest: Manifest | None = None
        self._group = f"dump/{cfg.name}/{cfg.source_id}/{secrets.token_hex(4)}"

    @property
    def received_bytes(self) -> int:
        """Bytes of rows that the upstream sent, over all attempts."""
        attempt = self._attempt
        return self._received + (attempt.size if attempt is not None else 0)

    def is_finished(self) -> bool:
        """True for a complete dump of this configuration that was made here or that a load has begun with, and once
        a load has begun (even if the configuration has changed since) or has ended. An older dump without a load is
        from before --remove-meta. False when the target does not answer: ``run`` then reports the reason."""
        folder_owner.hold(self._dir, self._cfg.source_id)
        manifest = read_manifest(self._dir)
        ours = manifest is not None and manifest.fingerprint == fingerprint(self._cfg)
        if ours and (self._manifest is not None or self._cfg.task_mode not in _LOADING):
            self._manifest = manifest
            return True
        if self._cfg.task_mode not in _LOADING:
            return False
        try:
            state = stored_state(self._cfg)
            if state is not None and ours:
                self._manifest = manifest
            return state is not None and (state.finished or manifest is not None)
        except DMError as exc:
            log.warning("cannot read the load's progress", task=self._cfg.name, error=str(exc))
            return False

    def run(self, control: Control | None = None) -> UnitOutcome:
        self._control = control or Control()
        try:
            if self.is_finished():
                return UnitOutcome(finished=True)
            self._refuse_after_load_began()
            stopping = self._control.is_stopping
            retrying(self._dump, should_stop=stopping, attempts=ATTEMPTS, base=1.0, on_retry=self._note_retry)
        except DMError as exc:
            if self._control.is_stopping():
                return UnitOutcome(canceled=True)
            return UnitOutcome(errors=[exc])
        return UnitOutcome(canceled=True) if self._manifest is None else UnitOutcome(finished=True)

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        current = self._control
        if control is not None and control is not current:
            return
        current.stop()
        attempt = self._attempt
        if attempt is not None:
            attempt.work.request_stop()
        if not graceful:
            self._engine.cancel(self._group)

    def fill(self, status: pb.SubTaskStatus, received_before: int) -> None:
        status.dump.CopyFrom(self.status())

    def status(self) -> pb.DumpStatus:
        if self._manifest is not None:
            done = self._manifest
            return pb.DumpStatus(
                totalTables=done.tables,
                completedTables=done.tables,
                finishedBytes=done.size,
                finishedRows=done.rows,
                estimateTotalRows=done.rows,
                progress=percent(1, 1),
            )
        attempt = self._attempt
        if attempt is None:
            return pb.DumpStatus(progress=percent(0, 1))
        return pb.DumpStatus(
            totalTables=len(attempt.stats),
            completedTables=attempt.tables_done,
            finishedBytes=attempt.size,
            finishedRows=attempt.rows,
            estimateTotalRows=attempt.estimate,
            bps=attempt.rate.per_second,
            progress=attempt.progress,
            step=self._early.step() if self._early is not None else None,
        )

    def remove_meta(self) -> None:
        """Forgets a finished dump, so that the next run makes a new one (which empties the folder)."""
        (self._dir / "metadata").unlink(missing_ok=True)
        self._manifest = None

    def _note_retry(self, exc: DMError, attempt: int) -> None:
        log.warning(
            "dump starts again", task=self._cfg.name, source=self._cfg.source_id, attempt=attempt, error=str(exc)
        )

    def _refuse_after_load_began(self) -> None:
        if self._cfg.task_mode not in _LOADING:
            return
        refuse_unfinished(self._cfg)
        if stored_state(self._cfg) is not None:
            raise errors.new(
                Code.LoadTaskCheckPointNotMatch,
                f"the load of {self._cfg.source_id} has begun, but its dump is not in {self._dir} of this worker",
                workaround="Start the task on the worker that has the dump. Otherwise stop the task, empty the target "
                "tables, and start it with --remove-meta to copy again.",
            )

    def _dump(self) -> None:
        """One attempt. Returns without a manifest when it was stopped; raises DMError when it failed."""
        options = parse_options(self._cfg)
        self._engine.await_slots(self._control.is_stopping)
        options = replace(options, threads=max(1, min(options.threads, self._engine.slots)))
        upstream = replace(self._cfg.from_, security=options.security)
        token = secrets.token_hex(8)
        attempt = _Attempt(DumpWorkFolder(self._dir, token), token)
        started = now_text()
        if self._control.is_stopping():
            return
        try:
            folder_owner.claim(self._dir, self._cfg.source_id, self._may_replace)
            attempt.work.create()
        except OSError as exc:
            raise errors.new(
                Code.DumpUnitRuntime,
                f"cannot create the dump's folder {self._dir}",
                raw=exc,
                workaround="Check `dir` of loaders and the rights of the worker's user.",
            ) from exc
        info, databases = self._plan(attempt, options, upstream)
        self._received, self._attempt = self.received_bytes, attempt
        if not self._control.try_begin() or self._control.is_stopping():
            return
        count = min(options.threads, max(1, len(attempt.chunks)))
        self._begin_early(attempt, upstream, count)
        try:
            self._copy(attempt, options, upstream, info, databases, started, count)
        finally:
            if self._early is not None and self._manifest is None:
                self._early.abandon()

    def _begin_early(self, attempt: _Attempt, upstream: DBConfig, threads: int) -> None:
        if self._early is not None:
            stats, chunks = tuple(attempt.stats), tuple(attempt.chunks)
            self._early.start_attempt(RunningDump(attempt.work, attempt.token, upstream, stats, chunks, threads))

    def _copy(
        self,
        attempt: _Attempt,
        options: DumpOptions,
        upstream: DBConfig,
        info: ServerInfo,
        databases: dict[str, int],
        started: str,
        count: int,
    ) -> None:
        tables = tuple((stat.schema, stat.table) for stat in attempt.stats)
        consistency, flavor = options.consistency, info.flavor
        rendezvous = SnapshotRendezvous(attempt.token, count, consistency, flavor, tables, self._needs_position)
        folder = str(attempt.work.path.absolute())
        spec = DumpSpec(upstream, options, rendezvous, tuple(attempt.chunks), folder, attempt.collations_of)
        spec = replace(spec, json_types=attempt.json_types)
        reports = self._run_job(attempt, spec)
        if reports is None:
            return
        stopping = self._control.is_stopping
        self._refuse_ddl(attempt, reports, DDLCheck(self._cfg, upstream, info.version, stopping), options)
        if self._early is not None:
            self._early.settle(stopping)
        if stopping():
            return
        self._finish(attempt, reports, databases, started, upstream)

    @property
    def _needs_position(self) -> bool:
        return self._cfg.task_mode != "full"

    def _refuse_ddl(self, attempt: _Attempt, reports: list[TaskReport], check: DDLCheck, options: DumpOptions) -> None:
        """Raises DMError when DDL invalidated the dump, or when that is unknown and replication follows."""
        snapshot = next(report.snapshot for report in reports if report.snapshot is not None)
        if attempt.begin is None or snapshot.location is None:
            log.warning(
                "the binlog may not be read: make sure that no DDL ran on the tables while they were dumped",
                task=self._cfg.name,
                source=self._cfg.source_id,
            )
            return
        read = [report.read_until for report in reports]
        tables = ReadTables(snapshot.location.position, read, partial(_copies_schema, attempt, options))
        try:
            check.refuse_mixed(attempt.begin.position, tables)
        except DMError as exc:
            if self._needs_position or exc.kind is Code.DumpUnitRuntime:
                raise
            log.warning(
                "cannot read the upstream's binlog: make sure that no DDL ran on the tables while they were dumped",
                task=self._cfg.name,
                source=self._cfg.source_id,
                error=str(exc),
            )

    def _may_replace(self, source_id: str) -> bool:
        """Whether a dump that another source left is no longer needed."""
        state = stored_state(replace(self._cfg, source_id=source_id))
        return state is None or state.finished

    def _plan(self, attempt: _Attempt, options: DumpOptions, upstream: DBConfig) -> tuple[ServerInfo, dict[str, int]]:
        """Lists tables and chunks, writes the databases' files. Returns the server's facts and those files' sizes."""
        conn = open_session(upstream)
        try:
            info = server_info(conn)
            attempt.json_types = info.tells_json_types
            attempt.begin = self._begin(conn, info.flavor, upstream)
            if self._cfg.collation_compatible == "strict":
                attempt.collations_of = fetch_server_defaults(conn)
            attempt.stats = list_tables(conn, options.filter.allows)
            skipped = list_skipped(conn, options.filter.allows)
            attempt.chunks = plan_chunks(
                conn, attempt.stats, tasks=options.threads, most_bytes=options.chunk_filesize, rows=options.rows
            )
            databases: dict[str, int] = {}
            for schema in sorted({stat.schema for stat in attempt.stats} | self._empty_schemas(conn, options)):
                statement = show_create(conn, schema)
                text = schema_text(statement, schema, attempt.collations_of)
                (attempt.work.path / database_file(schema)).write_bytes(text)
                databases[database_file(schema)] = len(text)
        except pymysql.Error as exc:
            raise classify(exc, scope="upstream", statement="planning the dump") from exc
        finally:
            conn.close()
        log.info(
            "dump planned",
            task=self._cfg.name,
            source=self._cfg.source_id,
            tables=len(attempt.stats),
            chunks=len(attempt.chunks),
            estimate_rows=attempt.estimate,
        )
        if skipped:
            log.warning("only base tables are migrated", skipped=", ".join(skipped[:20]), count=len(skipped))
        engines = Counter(stat.engine for stat in attempt.stats if stat.engine.lower() != "innodb")
        if engines:
            log.warning(
                "tables of these engines have no snapshots: stop writes to them during the dump", engines=dict(engines)
            )
        return info, databases

    @staticmethod
    def _empty_schemas(conn: pymysql.connections.Connection[pymysql.cursors.Cursor], options: DumpOptions) -> set[str]:
        """Allowed databases without any table: replication may create tables in them later."""
        used = {str(row[0]) for row in query(conn, "SELECT DISTINCT TABLE_SCHEMA FROM information_schema.TABLES")}
        rules = options.filter.rules
        return {
            schema for schema in list_schemas(conn) if schema not in used and rules is not None and rules.allows(schema)
        }

    def _run_job(self, attempt: _Attempt, spec: DumpSpec) -> list[TaskReport] | None:
        """Runs the barrier stage; None when it was stopped. Raises the tasks' first error."""
        if not spec.chunks:
            log.warning("nothing to dump: the filter excludes every table of the upstream", task=self._cfg.name)
        tasks = spec.rendezvous.count
        work = partial(run_dump_task, spec)
        with Periodic(_WATCH_SECONDS, partial(self._watch, attempt)):
            try:
                group = self._engine.job_group(self._group, f"dump of {self._cfg.source_id}", self._control.is_stopping)
                with group as context:
                    if not self._engine.is_local:
                        check_writable(context, attempt.work.path, self._engine.slots)
                    reports = context.parallelize(range(tasks), tasks).barrier().mapPartitions(work).collect()
            except DMError:
                raise  # its message describes the fault of Spark or of the folder
            except Exception as exc:
                if self._control.is_stopping():
                    return None
                raise errors.new(
                    Code.DumpUnitRuntime,
                    "Spark cannot run the dump's tasks",
                    raw=str(exc)[:2000],
                    retryable=True,
                    workaround="See the worker's log, and check that the worker has memory and free slots.",
                ) from exc
        attempt.size = max(attempt.size, sum(report.size for report in reports))
        failures = [report.error for report in reports if report.error is not None]
        if self._control.is_stopping():
            return None
        if failures:
            # Other tasks may report that the failed one is gone; the root cause is the permanent error.
            raise min(failures, key=lambda error: error.retryable)
        if any(report.stopped for report in reports):
            raise errors.new(Code.DumpUnitRuntime, "the dump's Spark tasks were cancelled", retryable=True)
        return list(reports)

    def _watch(self, attempt: _Attempt) -> None:
        rows, size, done = attempt.work.progress()
        finished, total = Counter[str](), Counter(f"{chunk.schema}.{chunk.table}" for chunk in attempt.chunks)
        finished.update(f"{attempt.chunks[i].schema}.{attempt.chunks[i].table}" for i in done)
        attempt.rows, attempt.size, attempt.chunks_done = rows, size, len(done)
        attempt.tables_done = float(sum(finished[name] == count for name, count in total.items()))
        now = time.monotonic()
        attempt.rate.sample(now, size)
        if self._logged_before(now):
            return
        per_row = size / rows if rows else 0.0
        log.info(
            "dump progress",
            task=self._cfg.name,
            source=self._cfg.source_id,
            rows=rows,
            bytes=size,
            bps=attempt.rate.per_second,
            progress=self.status().progress,
            eta=attempt.rate.eta(int((attempt.estimate - rows) * per_row)),
        )

    def _logged_before(self, now: float) -> bool:
        if now - self._last_log < _LOG_SECONDS:
            return True
        self._last_log = now
        return False

    _last_log = 0.0

    def _finish(
        self,
        attempt: _Attempt,
        reports: list[TaskReport],
        databases: dict[str, int],
        started: str,
        upstream: DBConfig,
    ) -> None:
        snapshot = next(report.snapshot for report in reports if report.snapshot is not None)
        location = snapshot.location
        if location is not None and attempt.begin is not None and attempt.begin.file is not None:
            stopping = self._control.is_stopping
            location = snapshot_identified(self._cfg, upstream, attempt.begin, location, stopping)
        files = dict(databases)
        for report in reports:
            files |= report.sizes
        rows = sum(report.rows for report in reports)
        otherwise = sorted(set[tuple[str, str, str]]().union(*(report.otherwise for report in reports)))
        tables = len(attempt.stats)
        manifest = Manifest(fingerprint(self._cfg), tables, rows, files, otherwise, attempt.token)
        metadata = DumpMetadata(location, snapshot.exit_location, started, now_text())
        attempt.work.publish(manifest, metadata)
        self._manifest = manifest
        log.info(
            "dump finished",
            task=self._cfg.name,
            source=self._cfg.source_id,
            rows=rows,
            bytes=manifest.size,
            files=len(files),
            location=snapshot.location,
            consistency=snapshot.consistency,
            lock_wait_ms=f"{snapshot.waited * 1000:.1f}",
            lock_held_ms=f"{snapshot.held * 1000:.1f}",
        )
        if snapshot.consistency == "none":
            log.warning("dumped without a lock; replication starts in safe mode", until=snapshot.exit_location)

    def _begin(
        self, conn: pymysql.connections.Connection[pymysql.cursors.Cursor], flavor: str, upstream: DBConfig
    ) -> Location | None:
        """Checks before the first row is read: otherwise replication would fail hours later."""
        begin = end_of_binlog(conn, flavor, needed=self._needs_position)
        if begin is None and self._cfg.task_mode == "all":
            raise errors.new(
                Code.NoMasterStatus,
                f"the upstream of {self._cfg.source_id} writes no binlog, so replication has no position to start from",
                workaround="Turn on log_bin on the upstream, or use task-mode full.",
            )
        if begin is None or self._cfg.task_mode != "all":
            return begin
        return identified(self._cfg, upstream, begin, self._control.is_stopping)


def _copies_schema(attempt: _Attempt, options: DumpOptions, schema: str) -> bool:
    """Whether the dump creates a database at the target; also true for a new one, which no dump creates."""
    rules = options.filter.rules
    return any(stat.schema == schema for stat in attempt.stats) or (rules is not None and rules.allows(schema))
