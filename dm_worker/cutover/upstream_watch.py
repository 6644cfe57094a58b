"""Watches an upstream after the cutover of a task: the target's applications do not see what is written there. Writes
of a way back's task do not count.

The binlog is read from the agreed position on, and nothing is applied. After each start and each lost connection,
reading begins again at that position: so a restart loses no write, and an idle upstream costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TextIO

import pymysql

from dm_worker.cutover.late_writes import LateWrite, LateWrites
from dm_worker.cutover.opposite_task import OppositeTask
from pkg.binlog.position import Location
from pkg.binlog.streams.server_stream import open_upstream, replica_id
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.connection import Scope, classify, connect
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.names import TableId
from pkg.mysql.schema import Column
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.table_router import TableRouter
from pkg.settings.connections import DBConfig

log = get_logger("cutover")

_READ_BYTES, _WAIT = 1 << 20, 1.0
#: Seconds before a lost connection is opened again.
_RETRY = 2.0
#: The most bytes of the file, and the writes that the status shows.
MOST_BYTES, _FIRST = 16 << 20, 10


class UpstreamWatch:
    """Runs from :meth:`start` to :meth:`stop`. ``opposite``: the task that replicates back, '' without one."""

    def __init__(self, cfg: SubTaskConfig, agreed: Location, opposite: str) -> None:
        self._cfg = cfg
        self.agreed = agreed
        self.opposite = opposite
        self._router = TableRouter(cfg.routes, cfg.case_sensitive)
        self.file = Path(f"{cfg.loader.dir}.{cfg.name}.cutover").absolute() / cfg.source_id / "writes.jsonl"
        self._lock = threading.Lock()
        self._status = pb.CutoverWatchStatus(
            agreed=str(agreed), problem="the binlog has not been read yet", replicatedBy=opposite
        )
        self._stop = threading.Event()
        self._thread = ServiceThread(f"cutover-watch-{cfg.name}", self._main, self._stop)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end; returns at once."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Waits until a stopped watch has ended, or so many seconds."""
        self._thread.join(timeout)

    def status(self) -> pb.CutoverWatchStatus:
        shown = pb.CutoverWatchStatus()
        with self._lock:
            shown.CopyFrom(self._status)
        return shown

    def _main(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except (DMError, OSError) as exc:
                log.warning(
                    "the upstream of a cutover is not watched", task=self._cfg.name, source=self._cfg.source_id,
                    error=str(exc),
                )  # fmt: skip
                with self._lock:
                    self._status.problem = str(exc)
                self._stop.wait(_RETRY)

    def _read(self) -> None:
        """Reads from the agreed position until the stream ends. Raises DMError, or OSError for the file."""
        cfg = self._cfg
        takes = BlockAllowListFilter.of(cfg).allows
        opposite = OppositeTask(self.opposite, cfg.meta_schema, cache(self._columns)) if self.opposite else None
        finder = LateWrites(self.agreed.position, takes, self._columns, self._earlier, cfg.flavor, opposite)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        stream = open_upstream(
            cfg.from_,
            self.agreed,
            flavor=cfg.flavor,
            server_id=replica_id(cfg.name, cfg.source_id, f"{cfg.server_id}cutover"),
            use_gtid=cfg.enable_gtid and bool(self.agreed.gtid_set),
        )
        with closing(stream), self.file.open("w", encoding="utf-8") as file:
            self.file.chmod(0o600)
            log_of_writes = _WriteLog(file)
            while not self._stop.is_set():
                found = list(finder.find(stream.read(_READ_BYTES, _WAIT)))
                log_of_writes.add(found)
                self._note(log_of_writes, finder, found)

    def _columns(self, schema: str, table: str) -> Sequence[Column] | None:
        """The present columns of an upstream's table; None where it does not exist."""
        return _present_columns(self._cfg.from_, "upstream", (schema, table))

    def _earlier(self, schema: str, table: str) -> Sequence[Column] | None:
        """The columns of its target table: those at the cutover, until an application alters it. None also without an
        answer: the upstream is watched all the same."""
        try:
            return _present_columns(self._cfg.to, "downstream", self._router.route(schema, table))
        except DMError as exc:
            log.warning("the target does not show a table's columns", task=self._cfg.name, error=str(exc))
            return None

    def _note(self, writes: _WriteLog, finder: LateWrites, found: Sequence[LateWrite]) -> None:
        with self._lock:
            status = self._status
            # After a lost connection what is already known is found again.
            is_new = writes.count > status.writes
            if is_new:
                status.writes = writes.count
                status.first[:] = writes.first
                status.lastWrite = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(found[-1].timestamp))
                status.file = str(self.file)
            status.watched = str(finder.position)
            status.problem = ""
        if is_new:
            log.error(
                "the upstream was written to after the cutover: the target does not have these rows",
                task=self._cfg.name,
                source=self._cfg.source_id,
                writes=writes.count,
                last=found[-1].to_line(),
                file=str(self.file),
            )


class _WriteLog:
    """The writes in the file, up to its limit, with their number."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._bytes = 0
        self.count = 0
        self.first: list[str] = []

    def add(self, writes: Sequence[LateWrite]) -> None:
        for one in writes:
            line = one.to_line()
            self.count += 1
            if len(self.first) < _FIRST:
                self.first.append(line)
            self._bytes += len(line.encode()) + 1
            if self._bytes <= MOST_BYTES:
                self._file.write(f"{line}\n")
        self._file.flush()


def _present_columns(server: DBConfig, scope: Scope, table: TableId) -> Sequence[Column] | None:
    with closing(connect(server, scope=scope, read_timeout=30.0)) as conn:
        try:
            info = fetch_table_info(conn, *table)
        except pymysql.Error as exc:
            raise classify(exc, scope=scope) from exc
    return None if info is None else info.columns
