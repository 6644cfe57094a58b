"""The syncer of an attempt, from its start to its end: waited for, resumed after errors that may pass, stopped."""

from __future__ import annotations

import time

from deploy.local.mysql import SQLServer
from dm_worker.subtask.unit import UnitOutcome
from pkg.binlog.position import Location, parse_position
from pkg.config.model import SubTaskConfig
from tests.fuzz.engine import LocalEngine
from tests.fuzz.played import Hang, Stopped
from tests.fuzz.tasks.relays import TaskRelay
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.support import Running, location

#: Seconds that a task may take for a few rows before it counts as hanging.
HANG = 60.0
#: As a subtask's auto-resume: how often an error that may pass is tried again.
RESUMES = 8


class TaskRun:
    """The task ``cfg``; its locks are those of one source, which gets what it asks for."""

    def __init__(self, cfg: SubTaskConfig, engine: LocalEngine, relay: TaskRelay | None) -> None:
        self.cfg = cfg
        self.relay = relay
        #: Whether it has read the relay log.
        self.has_read_relay = False
        self.engine = engine
        self._locks = OneSource()
        self._running: Running | None = None
        self._resumes = 0

    def start(self) -> None:
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

    def wait(self, upstream: SQLServer, *, settled: bool = True) -> None:
        """Until the target has all of the upstream; errors that may pass are tried again.

        With ``settled`` no DDL of merged shards may be open; otherwise what waits for one need not be at the target.
        """
        want = location(upstream)
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            running = self._running
            if running is None:
                self.start()
                continue
            if running.outcome is not None:
                self._resume(running.outcome)
                continue
            if self._is_at(want, running, settled=settled) and self._exists(upstream, running):
                return
            time.sleep(0.01)
        raise Hang(f"the task is not at {want}: {self._running and self._running.unit.status()}")

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
