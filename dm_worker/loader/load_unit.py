"""The load unit: creates the structure, loads the files in one Spark job, cleans up."""

from __future__ import annotations

import functools
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.dumper import folder_owner
from dm_worker.dumper.file_names import METADATA
from dm_worker.dumper.folder import read_manifest
from dm_worker.dumper.metadata import DumpMetadata, dump_dir, read_dump_metadata
from dm_worker.engine.engine import SparkEngine
from dm_worker.engine.shared_folder import check_readable
from dm_worker.loader.computed_check import check_computed, check_copied
from dm_worker.loader.early_adoption import EarlyAdoption, remove_early
from dm_worker.loader.key_building import KeyBuilding, put_off
from dm_worker.loader.load_plan import (
    DumpListing,
    check_complete,
    file_specs,
    list_dump,
    load_session,
    load_spec,
    share_out,
)
from dm_worker.loader.load_rules import LoadRules
from dm_worker.loader.load_task import ATTEMPTS, FileReport, FileSpec, LoadSpec, load_fenced_error, run_load_task
from dm_worker.loader.schema_creation import SchemaCreation, create_schema, schema_creations, target_schemas
from dm_worker.meta.ddl_fence import DDLFence
from dm_worker.meta.foreign_copy import has_replicated, refuse_unfinished
from dm_worker.meta.load_progress import (
    begin_load,
    end_load,
    ensure_current,
    fence_off,
    loaded_bytes,
    progress_table,
    remove_progress,
    stored_state,
    unfinished_files,
)
from dm_worker.subtask.periodic import Periodic
from dm_worker.subtask.rate import Rate, percent
from dm_worker.subtask.unit import Control, UnitOutcome
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql import engines
from pkg.mysql.connection import classify, connect
from pkg.mysql.introspect import fetch_table_info, show_create_if_there
from pkg.mysql.names import TableId, quote
from pkg.mysql.retry import retrying
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.table_router import TableRouter

log = get_logger("loader")

_WATCH_SECONDS = 1.0
#: The names of all unfinished files are read so often, to count the tables.
_TABLES_SECONDS = 10.0
_LOG_SECONDS = 5.0


@dataclass(slots=True)
class _LoadProgress:
    """The state for ``status``; the run's threads write it."""

    total: int = 0
    finished: int = 0
    complete: bool = False
    metadata: DumpMetadata = field(default_factory=lambda: DumpMetadata(None))
    rate: Rate = field(default_factory=Rate)
    logged: float = 0.0
    #: The dumped tables, those of which no row is left, and when these were counted.
    tables: int = 0
    completed_tables: int = 0
    counted: float = 0.0
    #: All rows of the dump; 0 if it does not say.
    rows: int = 0

    @property
    def loaded_bytes(self) -> int:
        return self.total if self.complete else min(self.finished, self.total)

    @property
    def loaded_rows(self) -> int:
        """By the bytes: the target counts no rows."""
        return self.rows * self.loaded_bytes // self.total if self.total else 0


class LoadUnit:
    """Loads one source's dump. See :class:`dm_worker.subtask.unit.Unit` for the methods."""

    unit_type = pb.Load
    #: Bytes of statements per transaction: its overhead is negligible, and a rollback is quick.
    transaction_bytes = 8 << 20
    #: Tables with fewer bytes of rows have their secondary keys from the start: others take two more statements each.
    late_key_bytes = 16 << 20
    #: Seconds of retries without progress after transient errors, before the error is shown to an operator.
    retry_seconds = 120.0

    def __init__(self, cfg: SubTaskConfig, engine: SparkEngine) -> None:
        self._cfg = cfg
        self._engine = engine
        self._dir = dump_dir(cfg)
        self._router = TableRouter(cfg.routes, cfg.case_sensitive)
        self._filter = BlockAllowListFilter.of(cfg)
        self._rules = LoadRules(cfg, self._router)
        self._session = load_session(cfg)
        self._control = Control()
        #: The epoch that a stop ends, or has ended.
        self._fenced_off = 0
        self._progress = _LoadProgress()
        #: The table of each data file.
        self._tables: Mapping[str, TableId] = {}
        #: What creates keys now.
        self._keys: KeyBuilding | None = None
        self._epoch = 0
        self._group = f"load/{cfg.name}/{cfg.source_id}/{secrets.token_hex(4)}"

    @property
    def received_bytes(self) -> int:
        """0: a load receives nothing from the upstream."""
        return 0

    def is_finished(self) -> bool:
        """Whether the target records the load as finished; False when it does not answer: ``run`` reports why."""
        folder_owner.hold(self._dir, self._cfg.source_id)
        try:
            state = stored_state(self._cfg)
            if state is None:
                self._progress.complete = has_replicated(self._cfg)
                return self._progress.complete
        except DMError as exc:
            log.warning("cannot read the load's progress", task=self._cfg.name, error=str(exc))
            return False
        if not state.finished:
            return False
        self._progress.complete = True
        self._progress.metadata = DumpMetadata(state.location, state.exit_location)
        return True

    def run(self, control: Control | None = None) -> UnitOutcome:
        self._control = control or Control()
        try:
            return retrying(
                self._load,
                should_stop=self._control.is_stopping,
                attempts=ATTEMPTS,
                budget=self.retry_seconds,
                on_retry=self._note_retry,
            )
        except DMError as exc:
            if self._control.is_stopping():
                return UnitOutcome(canceled=True)
            return UnitOutcome(errors=[exc])

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        current, epoch = self._control, self._epoch
        if control is not None and control is not current:
            return
        current.stop()
        if not graceful:
            self._engine.cancel(self._group)
        elif self._fenced_off != epoch:
            # Ending the epoch waits for each task's transaction, so it must not block the caller.
            self._fenced_off = epoch
            threading.Thread(target=self._fence_off, args=(epoch,), name="load-stop", daemon=True).start()

    def fill(self, status: pb.SubTaskStatus, received_before: int) -> None:
        status.load.CopyFrom(self.status())

    def status(self) -> pb.LoadStatus:
        progress = self._progress
        location = progress.metadata.location
        shown = progress.loaded_bytes
        return pb.LoadStatus(
            finishedBytes=shown,
            totalBytes=progress.total,
            progress=percent(1, 1)
            if progress.complete
            else percent(min(shown, 0.9999 * progress.total), max(progress.total, 1)),
            metaBinlog=str(location.position) if location else "",
            metaBinlogGTID=location.gtid_set if location else "",
            bps=progress.rate.per_second,
            step=keys.step() if (keys := self._keys) is not None else None,
            totalTables=progress.tables or None,
            completedTables=progress.completed_tables if progress.tables else None,
            totalRows=progress.rows or None,
            finishedRows=progress.loaded_rows if progress.rows else None,
        )

    def remove_meta(self) -> None:
        remove_progress(self._cfg)
        remove_early(self._cfg)
        self._progress = _LoadProgress()

    def _note_retry(self, exc: DMError, attempt: int) -> None:
        log.warning(
            "load starts again", task=self._cfg.name, source=self._cfg.source_id, attempt=attempt, error=str(exc)
        )

    def _load(self) -> UnitOutcome:
        """One attempt at all remaining files. Raises DMError for errors outside of the tasks.

        A task's error is part of the outcome: the task has retried already, so the load does not.
        """
        if self.is_finished():
            return UnitOutcome(finished=True)
        if stored_state(self._cfg) is None:
            refuse_unfinished(self._cfg)
        listing = self._listing()
        metadata = self._metadata()
        route = self._route
        creations = schema_creations(self._dir, listing, route, self._cfg.flavor)
        files = file_specs(listing, route)
        self._progress.metadata = metadata
        self._progress.rate = Rate()  # the speed before a pause does not count
        self._progress.total = sum(file.size for file in files)
        self._tables = {file.name: (file.schema, file.table) for file in listing.data}
        self._progress.tables = len({(file.schema, file.table) for file in (*listing.tables, *listing.data)})
        prepared = self._prepare(listing, files, metadata, creations)
        if prepared is None:
            return UnitOutcome(canceled=True)
        files, left = prepared
        self._progress.finished = self._progress.total - sum(left.values())
        self._count_tables(left)
        if self._control.is_stopping():
            return UnitOutcome(canceled=True)
        failure = self._run_job(files, left)
        if self._control.is_stopping():
            return UnitOutcome(canceled=True)
        if failure is not None:
            return UnitOutcome(errors=[failure])
        ensure_ours = functools.partial(ensure_current, self._cfg, self._epoch)
        self._keys = KeyBuilding(self._cfg, self._session, ensure_ours, self._control.is_stopping)
        try:
            self._keys.run(_targets(files))
        finally:
            self._keys = None
        if self._control.is_stopping():
            return UnitOutcome(canceled=True)
        self._finish(files)
        self._clean_up(listing)
        return UnitOutcome(finished=True)

    def _listing(self) -> DumpListing:
        """The dump's files of the tables that pass the block-allow-list."""
        listing = list_dump(self._dir)
        manifest = read_manifest(self._dir)
        if manifest is not None:
            check_complete(listing, manifest.files, self._dir)
        allows = self._filter.allows
        if self._cfg.task_mode not in ("load", "load&sync"):
            self._progress.rows = manifest.rows if manifest is not None else 0
            return listing  # dumped by this task: extra-args may have chosen tables instead of the block-allow-list
        return DumpListing(
            tuple(file for file in listing.databases if allows(file.schema)),
            tuple(file for file in listing.tables if allows(file.schema, file.table)),
            tuple(file for file in listing.data if allows(file.schema, file.table)),
            listing.sizes,
            listing.dump_id,
        )

    def _metadata(self) -> DumpMetadata:
        if self._cfg.task_mode == "load" and not (self._dir / METADATA).exists():
            return DumpMetadata(None)  # data files alone can be loaded; nothing replicates from them
        return read_dump_metadata(self._dir)

    def _route(self, schema: str, table: str) -> tuple[str, str]:
        return self._router.route(schema, table)

    def _prepare(
        self, listing: DumpListing, files: list[FileSpec], metadata: DumpMetadata, creations: list[SchemaCreation]
    ) -> tuple[list[FileSpec], Mapping[str, int]] | None:
        """Takes the load over and creates the structure. Returns the files with rules, and their remaining bytes.

        None when it was stopped before any change.
        """
        conn = connect(self._cfg.to, scope="downstream", session=self._session)
        try:
            rules = self._rules.compile(self._dir, listing, functools.partial(fetch_table_info, conn))
            structures = {(file.schema, file.table): file.name for file in listing.tables}
            tables = [(file, (file.schema, file.table)) for file in files]
            files = [replace(f, rules=rules.get(name), structure=structures.get(name, "")) for f, name in tables]
            sizes = {file.name: file.size for file in files}
            if not self._control.try_begin():
                return None
            self._epoch = begin_load(conn, self._cfg, listing.dump_id, sizes, metadata.location, metadata.exit_location)
            ensure_ours = functools.partial(ensure_current, self._cfg, self._epoch)
            DDLFence(self._cfg, self._control.is_stopping).take(conn, ensure_ours)
            # A later run that takes over ends this connection; it is never opened again.
            ensure_ours(conn)
            schemas = target_schemas(listing, self._route)
            for schema in schemas:
                has_file = any(schema == self._route(file.schema, "")[0] for file in listing.databases)
                if not has_file and not show_create_if_there(conn, schema):
                    conn.query(f"CREATE DATABASE IF NOT EXISTS {quote(schema)}")
            manifest = read_manifest(self._dir)
            early = EarlyAdoption(self._cfg, conn, manifest.token if manifest is not None else "")
            large = self._large(files)
            create = functools.partial(self._create, conn, large)
            created = create([one for one in creations if (one.schema, one.table) not in early.targets])
            adopted = early.run(self._epoch, sizes)
            left = early.targets - adopted
            created += create([one for one in creations if (one.schema, one.table) in left])
            put_off(conn, self._cfg, created)
            targets = _targets(files)
            self._check_engines(conn, targets)
            check_computed(self._cfg, conn, targets)
            loaded = {table for _, table in tables}
            copied = manifest.otherwise if manifest is not None else ()
            check_copied(conn, (one for one in copied if one[:2] in loaded), self._route)
            return files, unfinished_files(conn, self._cfg)
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream", statement="preparing the load") from exc
        finally:
            conn.close()

    def _create(self, conn: Connection[Any], large: set[TableId], creations: list[SchemaCreation]) -> list[TableId]:
        collations = self._cfg.target_collations
        return create_schema(conn, creations, self._control.is_stopping, self._cfg.flavor, collations, large)

    def _large(self, files: Iterable[FileSpec]) -> set[TableId]:
        """The targets whose keys are worth two more statements."""
        if not self._cfg.loader.keys_after_rows:
            return set()
        sizes = Counter[TableId]()
        for file in files:
            sizes[file.target_schema, file.target_table] += file.size
        return {table for table, size in sizes.items() if size >= self.late_key_bytes}

    def _check_engines(self, conn: Connection[Any], targets: Iterable[tuple[str, str]]) -> None:
        """Raises 34001 for a table in which an aborted load would leave rows, or its progress."""
        progress = (self._cfg.meta_schema, f"{self._cfg.name}_loader_progress")
        ignored = not {engines.IGNORE, "all"}.isdisjoint(self._cfg.ignore_checking_items)
        for table, engine in engines.tables_without_transactions(conn, [progress, *(() if ignored else targets)]):
            past = "" if table[1] == progress[1] else f" {engines.exemption()}"
            raise errors.new(
                Code.LoadUnitCreateSchemaFile,
                engines.problem(table, engine),
                scope="downstream",
                workaround=f"{engines.remedy(table)} Then resume the task.{past}",
            )

    def _run_job(self, files: list[FileSpec], left: Mapping[str, int]) -> DMError | None:
        """Loads the remaining files until done or stopped; returns the root error of the tasks."""
        self._engine.await_slots(self._control.is_stopping)
        shares = share_out(files, left, min(self._cfg.loader.pool_size, self._engine.slots))
        log.info(
            "load begins",
            task=self._cfg.name,
            source=self._cfg.source_id,
            files=len(files),
            left=len(left),
            bytes=sum(left.values()),
            tasks=len(shares),
            epoch=self._epoch,
        )
        if not shares:
            return None
        spec = load_spec(
            self._cfg,
            table=progress_table(self._cfg),
            epoch=self._epoch,
            folder=self._dir,
            transaction_bytes=self.transaction_bytes,
            retry_seconds=self.retry_seconds,
        )
        reports = self._collect(spec, shares)
        failures = [report.error for report in reports if report.error is not None]
        if not failures and any(report.fenced for report in reports):
            failures = [load_fenced_error(spec, reports)]
        return min(failures, key=lambda error: error.retryable, default=None)

    def _collect(self, spec: LoadSpec, shares: list[list[FileSpec]]) -> list[FileReport]:
        work = functools.partial(run_load_task, spec)
        with Periodic(_WATCH_SECONDS, self._watch):
            try:
                group = self._engine.job_group(self._group, f"load of {self._cfg.source_id}", self._control.is_stopping)
                with group as context:
                    if not self._engine.is_local:
                        sizes = {file.name: file.size for share in shares for file in share}
                        check_readable(context, self._dir, sizes, self._engine.slots)
                    return list(context.parallelize(shares, len(shares)).mapPartitions(work).collect())
            except DMError:
                raise  # its message describes the fault of Spark or of the folder
            except Exception as exc:
                if self._control.is_stopping():
                    return []
                raise errors.new(
                    Code.LoadLightningRuntime,
                    "Spark cannot run the load's tasks",
                    raw=str(exc)[:2000],
                    retryable=True,
                    workaround="See the worker's log, and check that the worker has memory and free slots. Then "
                    "resume the task.",
                ) from exc

    def _watch(self) -> None:
        conn = connect(self._cfg.to, scope="downstream", read_timeout=10.0)
        try:
            self._progress.finished = loaded_bytes(conn, self._cfg)
            if time.monotonic() - self._progress.counted > _TABLES_SECONDS:
                self._count_tables(unfinished_files(conn, self._cfg))
        finally:
            conn.close()
        progress, now = self._progress, time.monotonic()
        progress.rate.sample(now, progress.finished)
        if now - progress.logged < _LOG_SECONDS:
            return
        progress.logged = now
        log.info(
            "load progress",
            task=self._cfg.name,
            source=self._cfg.source_id,
            bytes=progress.finished,
            total=progress.total,
            bps=progress.rate.per_second,
            progress=self.status().progress,
            eta=progress.rate.eta(progress.total - progress.finished),
        )

    def _count_tables(self, left: Iterable[str]) -> None:
        """``left``: the unfinished files."""
        unfinished = {self._tables[file] for file in left if file in self._tables}
        self._progress.completed_tables = self._progress.tables - len(unfinished)
        self._progress.counted = time.monotonic()

    def _fence_off(self, epoch: int) -> None:
        try:
            conn = connect(self._cfg.to, scope="downstream")
            try:
                fence_off(conn, progress_table(self._cfg), self._cfg.source_id, epoch)
            finally:
                conn.close()
        except (DMError, pymysql.Error) as exc:
            log.warning("cannot end the load's epoch; its job is canceled", task=self._cfg.name, error=str(exc))
            self._fenced_off = 0
            self._engine.cancel(self._group)

    def _finish(self, files: list[FileSpec]) -> None:
        conn = connect(self._cfg.to, scope="downstream")
        try:
            end_load(conn, self._cfg, self._epoch, {file.name for file in files})
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream", table=progress_table(self._cfg)) from exc
        finally:
            conn.close()
        self._progress.finished, self._progress.complete = self._progress.total, True
        self._progress.completed_tables = self._progress.tables
        log.info("load finished", task=self._cfg.name, source=self._cfg.source_id, bytes=self._progress.total)

    def _clean_up(self, listing: DumpListing) -> None:
        """clean-dump-file: mode full removes all, mode all keeps metadata and structure for the syncer."""
        if not self._cfg.clean_dump_file:
            return
        kept = "nothing" if self._cfg.task_mode == "full" else "metadata and structures"
        if self._cfg.task_mode in ("full", "all"):
            log.info("clean dump files: the dump is loaded", folder=self._dir, kept=kept)
        try:
            if self._cfg.task_mode == "full":
                folder_owner.release(self._dir)
                shutil.rmtree(self._dir)
            elif self._cfg.task_mode == "all":
                for file in listing.data:
                    Path(self._dir / file.name).unlink(missing_ok=True)
        except OSError as exc:
            log.warning("cannot remove the dump's files", folder=self._dir, error=repr(exc))


def _targets(files: Iterable[FileSpec]) -> set[TableId]:
    return {(file.target_schema, file.target_table) for file in files}
