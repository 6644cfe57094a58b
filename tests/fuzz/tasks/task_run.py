"""The syncer of one source, from its start to its end: looked at, resumed after errors that may pass, stopped."""

from __future__ import annotations

import time

from deploy.local.mysql import SQLServer
from dm_worker.subtask.unit import UnitOutcome
from dm_worker.syncer.shard_ddl.lock_client import LockService
from pkg.binlog.position import Location, parse_position
from pkg.config.model import SubTaskConfig
from tests.fuzz.engine import LocalEngine
from tests.fuzz.played import Hang, Stopped
from tests.fuzz.tasks.relays import TaskRelay
from tests.integration.syncer.support import Running, location

#: Seconds that a task may take for a few rows before it counts as hanging.
HANG = 60.0
#: Seconds in which it looks at what it has written, and stops if that is not right.
LATE = 1.5
#: As a subtask's auto-resume: how often an error that may pass is tried again.
RESUMES = 8


class TaskRun:
    """The subtask ``cfg``; ``locks`` decide when it executes a DDL of merged shards."""

    def __init__(self, cfg: SubTaskConfig, engine: LocalEngine, relay: TaskRelay | None, locks: LockService) -> None:
        self.cfg = cfg
        self.relay = relay
        #: Whether it has read the relay log.
        self.has_read_relay = False
        self.engine = engine
        self._locks = locks
        self._running: Running | None = None
        self._resumes = 0

    def start(self) -> None:
        if self.engine.dead:
            # Another worker, which knows only what is durable.
            self.engine = LocalEngine()
        self._running = Running(
            self.cfg,
            self.engine,
            lock_service=self._locks if self.cfg.shard_mode else None,
            relay=self.relay.reader() if self.relay is not None else None,
        )

    def stop(self, *, graceful: bool = True) -> None:
        running, self._running = self._running, None
        if running is not None and running.outcome is None:
            running.unit.stop(graceful=graceful)
            end = time.monotonic() + HANG
            while running._thread.is_alive():
                running._thread.join(0.02)
                if time.monotonic() > end:
                    raise Hang("the syncer does not stop")

    def close(self) -> None:
        try:
            self.stop(graceful=False)
        finally:
            if self.relay is not None:
                self.relay.close()

    def is_there(self, want: Location, upstream: SQLServer, *, settled: bool) -> bool:
        """Whether the target has all of the upstream up to ``want``; an error that may pass is tried again.

        ``settled``: see :meth:`tests.fuzz.tasks.source_runs.SourceRuns.wait`. Raises ``Stopped``.
        """
        running = self._running
        if running is None:
            self.start()
            return False
        if running.outcome is not None:
            self._resume(running.outcome)
            return False
        return self._is_at(want, running, settled=settled) and self._exists(upstream, running)

    def shown(self) -> str:
        return "not running" if self._running is None else str(self._running.unit.status())

    def _is_at(self, want: Location, running: Running, *, settled: bool) -> bool:
        status = running.unit.status()
        self.has_read_relay |= status.binlogType == "local"
        if not settled:
            # The status shows where the oldest row is that a DDL holds back.
            here = running.unit.flushed
            at, gtids = (here.position, here.gtid_set) if here is not None else (None, "")
        else:
            at = parse_position(status.syncerBinlog) if "." in status.syncerBinlog else None
            gtids = status.syncerBinlogGtid
        there = gtids == want.gtid_set if self.cfg.enable_gtid else at is not None and want.position <= at
        return there and not (settled and status.unresolvedGroups)

    def _exists(self, upstream: SQLServer, running: Running) -> bool:
        """Whether the upstream has the task's position: one from before a RESET MASTER may be beyond its end."""
        here = running.unit.flushed
        return self.cfg.enable_gtid or here is None or here.position <= location(upstream).position

    def forgive(self) -> None:
        """What failed so far is not counted: a server was away."""
        self._resumes = 0

    def _resume(self, outcome: UnitOutcome) -> None:
        error = outcome.errors[0] if outcome.errors else None
        self._resumes += 1
        if error is not None and (not error.retryable or self._resumes > RESUMES):
            raise Stopped.by(error)
        time.sleep(0.1 * self._resumes)
        self.start()
