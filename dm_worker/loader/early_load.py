"""Loads files of a dump that is still running, into early tables (:mod:`dm_worker.meta.early_progress`).

Only tables that the target lacks and that no other table is merged into, and only whole files. Nobody sees a row before
the dump is complete. If it does not become complete, the early tables are dropped: they have no other rows.
"""

from __future__ import annotations

import secrets
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.dumper.early_rows import RunningDump
from dm_worker.dumper.file_names import DumpFile, database_file, table_file
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader.early_files import CompleteFiles
from dm_worker.loader.key_building import suits
from dm_worker.loader.key_clauses import dropping, later_keys
from dm_worker.loader.load_plan import DumpListing, load_session, load_spec, share_out
from dm_worker.loader.load_task import FileSpec, run_load_task
from dm_worker.loader.schema_creation import create_schema, schema_creations
from dm_worker.meta.early_progress import EarlyProgress, EarlyTable
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.connection import connect
from pkg.mysql.early_tables import set_table_comment, table_comment
from pkg.mysql.foreign_key_introspect import fetch_foreign_keys, keys_in
from pkg.mysql.introspect import fetch_table_info, show_create, show_create_if_there
from pkg.mysql.names import TableId, qualified, quote
from pkg.process.log import get_logger
from pkg.rules.table_router import TableRouter
from pkg.status.amounts import in_bytes

log = get_logger("loader.early")

#: Seconds between two looks for complete files.
_LOOK_SECONDS = 0.2
#: Bytes for each task of a job: the end of the dump waits for a job.
_TASK_BYTES = 32 << 20
#: Seconds of retries of one file: the end of the dump waits for them.
_RETRY_SECONDS = 10.0
#: Seconds that a statement on an early table waits for a task of an earlier run.
_LOCK_WAIT = {"lock_wait_timeout": "10"}


def suits_task(cfg: SubTaskConfig, engine: SparkEngine) -> bool:
    """Whether rows may be loaded before the dump is complete: each target table has one upstream table, whose rows
    need no rules, and the tasks read the dump's files."""
    extracts = any(route.extract_table or route.extract_schema or route.extract_source for route in cfg.routes)
    wanted = cfg.loader.rows_while_dumping and cfg.task_mode in ("all", "full")
    return wanted and not cfg.shard_mode and not cfg.column_mappings and not extracts and engine.is_local


class EarlyLoad:
    """The early rows of one subtask; see :class:`dm_worker.dumper.early_rows.EarlyRows` for the methods."""

    #: Tables with fewer bytes of rows are loaded after the dump: an early table takes several statements.
    least_bytes = 16 << 20
    #: Bytes of statements per transaction.
    transaction_bytes = 8 << 20

    def __init__(self, cfg: SubTaskConfig, engine: SparkEngine) -> None:
        self._cfg = cfg
        self._engine = engine
        self._router = TableRouter(cfg.routes, cfg.case_sensitive)
        self._progress = EarlyProgress(cfg)
        self._group = f"early/{cfg.name}/{cfg.source_id}/{secrets.token_hex(4)}"
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._token = ""
        #: Of the attempt that is running: the tables that are loaded, and the bytes of their files that are.
        self._tables = self._bytes = 0

    def step(self) -> str | None:
        if not self._tables or self._thread is None:
            return None
        if self._ending.is_set() and self._thread.is_alive():
            return "waiting for rows that are being loaded"
        of = f"{self._tables} {'table' if self._tables == 1 else 'tables'}"
        return f"{in_bytes(self._bytes)} of {of} are loaded while the dump runs"

    def start_attempt(self, dump: RunningDump) -> None:
        self._ending = threading.Event()
        self._token = dump.token
        self._tables = self._bytes = 0
        work = partial(self._main, dump, self._ending)
        self._thread = threading.Thread(target=work, name=f"early-load-{self._cfg.name}", daemon=True)
        self._thread.start()

    def settle(self, should_stop: Callable[[], bool]) -> None:
        self._ending.set()
        while self._thread is not None and self._thread.is_alive() and not should_stop():
            self._thread.join(_LOOK_SECONDS)

    def abandon(self) -> None:
        self._ending.set()
        while self._thread is not None and self._thread.is_alive():
            self._engine.cancel(self._group)
            self._thread.join(_LOOK_SECONDS)
        try:
            with closing(connect(self._cfg.to, scope="downstream", session=_LOCK_WAIT)) as conn:
                self._progress.remove(conn, self._token)
        except (DMError, pymysql.Error) as exc:
            log.warning(
                "rows that were loaded while the dump was running stay in tables of their own until the next dump",
                task=self._cfg.name, source=self._cfg.source_id, error=str(exc),
            )  # fmt: skip

    def _main(self, dump: RunningDump, ending: threading.Event) -> None:
        try:
            session = {**load_session(self._cfg), **_LOCK_WAIT}
            with closing(connect(self._cfg.to, scope="downstream", session=session)) as conn:
                self._load(conn, dump, ending)
        except Exception as exc:  # noqa: BLE001 - Spark raises many kinds; the load after the dump reports what lasts
            if ending.is_set():
                return
            known = isinstance(exc, DMError | pymysql.Error)
            log.warning(
                "no more rows are loaded before the dump is complete",
                task=self._cfg.name, source=self._cfg.source_id, error=str(exc),
                trace="" if known else "".join(traceback.format_exception(exc)),
            )  # fmt: skip

    def _load(self, conn: Connection[Any], dump: RunningDump, ending: threading.Event) -> None:
        tasks = min(self._cfg.loader.pool_size, self._engine.slots - dump.threads)
        if not suits(conn):
            return
        epoch = self._progress.record_dump(conn, dump.token)
        self._progress.drop_tables(conn)
        chosen = self._chosen(conn, dump) if tasks > 0 else {}
        if not chosen:
            return
        files = CompleteFiles(dump, chosen)
        tables: dict[TableId, EarlyTable | None] = {}
        while not ending.is_set():
            specs: list[FileSpec] = []
            for source, sizes in files.take(tasks * _TASK_BYTES).items():
                if source not in tables:
                    tables[source] = self._create(conn, dump, epoch, source, chosen[source], len(tables))
                if (table := tables[source]) is not None:
                    self._progress.add_files(conn, epoch, table, sizes)
                    structure = table_file(*source)
                    specs += [
                        FileSpec(name, size, *source, *table.early, None, structure) for name, size in sizes.items()
                    ]
            if not specs:
                ending.wait(_LOOK_SECONDS)
            elif not self._run_job(dump, epoch, specs, tasks):
                return

    def _chosen(self, conn: Connection[Any], dump: RunningDump) -> dict[TableId, TableId]:
        """The upstream's tables that may be loaded early, with their targets."""
        routed = {(stat.schema, stat.table): self._router.route(stat.schema, stat.table) for stat in dump.stats}
        sharers = Counter(_folded(target) for target in routed.values())
        chosen = {
            (stat.schema, stat.table): target
            for stat in dump.stats
            for target in (routed[stat.schema, stat.table],)
            if stat.data_bytes >= self.least_bytes and stat.engine.lower() == "innodb" and sharers[_folded(target)] == 1
        }
        if not chosen:
            return {}
        with closing(connect(dump.upstream, scope="upstream")) as upstream:
            parents = {_folded(key.parent) for key in fetch_foreign_keys(upstream)}
        there = {_folded(key.parent) for key in fetch_foreign_keys(conn)}
        return {
            source: target
            for source, target in chosen.items()
            if _folded(source) not in parents and _folded(target) not in there
        }

    def _create(
        self, conn: Connection[Any], dump: RunningDump, epoch: int, source: TableId, target: TableId, number: int
    ) -> EarlyTable | None:
        """The early table of ``source``; None when its rows must wait for the end of the dump."""
        if show_create_if_there(conn, *target):
            return None
        table = EarlyTable(self._progress.name(dump.token, number), target)

        def route(schema: str, name: str) -> TableId:
            return table.early if (schema, name) == source else self._router.route(schema, name)

        schema, name = source
        databases = (DumpFile(database_file(schema), "database", schema),)
        listing = DumpListing(databases, (DumpFile(table_file(schema, name), "table", schema, name),), (), {}, "")
        creations = schema_creations(dump.work.path, listing, route, self._cfg.flavor)
        self._progress.add_table(conn, epoch, table)
        if not show_create_if_there(conn, target[0]) and target[0] != creations[0].schema:
            conn.query(f"CREATE DATABASE IF NOT EXISTS {quote(target[0])}")
        collations = self._cfg.target_collations
        create_schema(conn, creations, self._ending.is_set, self._cfg.flavor, collations)
        info, shown = fetch_table_info(conn, *table.early), show_create(conn, *table.early)
        usual = info is not None and info.engine.lower() == "innodb" and not keys_in(table.early, shown)
        if info is None or not usual or any(column.generated for column in info.columns):
            conn.query(f"DROP TABLE {qualified(*table.early)}")
            self._progress.forget(conn, table)
            return None
        keys = later_keys(shown, info) if self._cfg.loader.keys_after_rows else {}
        table = replace(table, keys=keys, comment=table_comment(conn, *table.early) or "")
        self._progress.set_detail(conn, table)
        set_table_comment(conn, *table.early, table.name)
        if keys:
            conn.query(dropping(qualified(*table.early), keys))
        self._tables += 1
        log.info("rows are loaded before the dump is complete", table=target, early=table.name)
        return table

    def _run_job(self, dump: RunningDump, epoch: int, files: list[FileSpec], tasks: int) -> bool:
        """Loads ``files``; False when a file failed, which the load after the dump tries again."""
        left: Mapping[str, int] = {file.name: file.size for file in files}
        shares = share_out(files, left, tasks)
        spec = load_spec(
            self._cfg,
            table=self._progress.table,
            epoch=epoch,
            folder=dump.work.path,
            transaction_bytes=self.transaction_bytes,
            retry_seconds=_RETRY_SECONDS,
        )
        description = f"rows of {self._cfg.source_id} before the dump is complete"
        with self._engine.job_group(self._group, description, self._ending.is_set) as context:
            reports = context.parallelize(shares, len(shares)).mapPartitions(partial(run_load_task, spec)).collect()
        failed = [report for report in reports if report.error is not None or report.fenced]
        for report in failed:
            log.warning("a file could not be loaded before the dump was complete", file=report.name, error=report.error)
        self._bytes += 0 if failed else sum(left.values())
        return not failed


def _folded(table: TableId) -> TableId:
    return table[0].lower(), table[1].lower()
