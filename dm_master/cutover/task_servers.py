"""The servers and workers of a task, for its cutover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar

import pymysql
from pymysql.connections import Connection

from dm_master.cutover.facts import CutoverFacts
from dm_master.cutover.first_change import find_first_changes
from dm_master.cutover.table_checksums import TableSum, read_sums
from dm_master.workers.source_workers import ClusterView, ask_diffs
from dm_master.workers.stage_wait import reaches, wait_for_all
from pkg import errors
from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import Scope, classify, connect
from pkg.mysql.introspect import query, server_info
from pkg.mysql.names import TableId, qualified
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.settings.connections import DBConfig

_Answer = TypeVar("_Answer")

#: Seconds for a worker to read or store the state of a comparison in the target.
_DIFF_TIMEOUT = 60.0
#: Seconds between two queries of a comparison's status.
_POLL = 0.5
#: Seconds until the subtasks are paused: each applies its batch first.
_PAUSE_TIMEOUT = 60.0
_MOST_SOURCES_AT_ONCE = 16


class TaskServers:
    """See :class:`dm_master.cutover.run.CutoverServers`. ``stopping``: the run must end, because this master stops
    leading."""

    def __init__(
        self,
        task: str,
        subtasks: Mapping[str, SubTaskConfig],
        cluster: ClusterView,
        read_facts: Callable[[], CutoverFacts],
        stopping: Callable[[], bool],
    ) -> None:
        self._task = task
        self._subtasks = subtasks
        self._cluster = cluster
        self._read_facts = read_facts
        self._stopping = stopping

    @property
    def target(self) -> DBConfig:
        return next(iter(self._subtasks.values())).to

    def facts(self) -> CutoverFacts:
        return self._read_facts()

    def now(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())

    def set_counters(self, numbers: Mapping[TableId, int]) -> None:
        def alter(conn: Connection[Any]) -> None:
            for table, number in sorted(numbers.items()):
                query(conn, f"ALTER TABLE {qualified(*table)} AUTO_INCREMENT = {number}")

        _asked(self.target, "downstream", alter)

    def checksums(self, tables: Iterable[TableId]) -> list[TableSum]:
        return read_sums(self.target, tables)

    def compare(self, run: str) -> None:
        sources = sorted(self._subtasks)
        while True:
            self._ensure_leading()
            answers = self._ask_diffs(worker_pb.ShowDiff, sources, run)
            missing = [one.source for one in answers if one.run != run]
            if not missing and not any(one.stage in ("Running", "Waiting") for one in answers):
                return
            if missing:
                self._start(missing, sources, run)
            time.sleep(_POLL)

    def _start(self, missing: Sequence[str], sources: Sequence[str], run: str) -> None:
        request = worker_pb.OperateDiffWorkerRequest(op=worker_pb.StartDiff, task=self._task, run=run, sources=sources)
        refused = [one for one in ask_diffs(self._cluster, missing, request, timeout=_DIFF_TIMEOUT) if not one.result]
        if refused:
            raise errors.new(
                Code.CutoverRefused,
                f"the comparison does not start: {'; '.join(f'{one.source}: {one.msg}' for one in refused)}",
                workaround=f"Do what the message says, then `dmctl cutover run {self._task}` continues.",
            )

    def _ask_diffs(self, op: worker_pb.DiffOp, sources: Sequence[str], run: str) -> list[worker_pb.DiffSourceStatus]:
        request = worker_pb.OperateDiffWorkerRequest(op=op, task=self._task, run=run, sources=sources)
        return ask_diffs(self._cluster, sources, request, timeout=_DIFF_TIMEOUT)

    def pause(self) -> None:
        self._cluster.scheduler.set_stage(self._task, (), "Paused")
        answers = wait_for_all(
            self._cluster,
            self._subtasks,
            self._task,
            reaches(self._task, worker_pb.Paused),
            "the subtask is Paused",
            patience=_PAUSE_TIMEOUT,
        )
        failed = [f"{one.source}: {one.msg}" for one in answers if not one.result]
        if failed:
            raise errors.new(
                Code.CutoverRefused,
                f"the task is not paused everywhere: {'; '.join(failed)}",
                workaround=f"Make sure that the workers run, then `dmctl cutover run {self._task}` continues.",
                retryable=True,
            )

    def resume(self) -> None:
        self._cluster.scheduler.set_stage(self._task, (), "Running")

    def upstream_ends(self) -> Mapping[str, Location | None]:
        with ThreadPoolExecutor(_MOST_SOURCES_AT_ONCE, "cutover") as pool:
            ends = pool.map(lambda one: _asked(one.from_, "upstream", _end_of), self._subtasks.values())
            return dict(zip(self._subtasks, ends, strict=True))

    def target_end(self) -> Location | None:
        return _asked(self.target, "downstream", _end_of)

    def first_changes(self, start: Location, tables: list[TableId]) -> Mapping[TableId, str]:
        """If the binlog can't be read, the text of each table gives the reason."""
        try:
            found = find_first_changes(self.target, start, tables)
        except DMError as exc:
            return dict.fromkeys(
                tables, f"a moment that is not known (the target's binlog can't be read: {exc.message})"
            )
        return {table: str(change) for table, change in found.items()}

    def _ensure_leading(self) -> None:
        if self._stopping():
            raise errors.new(
                Code.CutoverEnded,
                f"the master that ran the cutover of task {self._task} ends",
                workaround=f"`dmctl cutover run {self._task}` continues it on the next leader.",
                retryable=True,
            )


def _end_of(conn: Connection[Any]) -> Location | None:
    flavor = server_info(conn).flavor
    return None if flavor == "tidb" else master_status(conn, flavor)


def _asked(server: DBConfig, scope: Scope, ask: Callable[[Connection[Any]], _Answer]) -> _Answer:
    """``ask`` on a connection of its own. Raises the classified error of a failed query."""
    with closing(connect(server, scope=scope)) as conn:
        try:
            return ask(conn)
        except pymysql.Error as exc:
            raise classify(exc, scope=scope) from exc
