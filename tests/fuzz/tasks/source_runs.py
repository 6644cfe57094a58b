"""The subtasks of an attempt, one per source, as one task: started, waited for and stopped together."""

from __future__ import annotations

import time
from collections.abc import Sequence

from deploy.local.mysql import SQLServer
from pkg.config.model import SubTaskConfig
from tests.fuzz.engine import LocalEngine
from tests.fuzz.played import Hang
from tests.fuzz.tasks.locks import SharedLocks
from tests.fuzz.tasks.relays import TaskRelay
from tests.fuzz.tasks.task_run import HANG, LATE, TaskRun
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.support import location


class SourceRuns:
    """``relays``: of each source, if it has one."""

    def __init__(self, cfgs: Sequence[SubTaskConfig], engine: LocalEngine, relays: Sequence[TaskRelay | None]) -> None:
        shared = SharedLocks(cfgs[0].name, [cfg.source_id for cfg in cfgs])
        self.parts = [
            TaskRun(cfg, engine, relay, OneSource() if len(cfgs) == 1 else shared.of(cfg.source_id))
            for cfg, relay in zip(cfgs, relays, strict=True)
        ]

    @property
    def has_read_relay(self) -> bool:
        return all(part.has_read_relay for part in self.parts)

    def start(self) -> None:
        for part in self.parts:
            part.start()

    def stop(self, *, graceful: bool = True) -> None:
        for part in self.parts:
            part.stop(graceful=graceful)

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def forgive(self) -> None:
        for part in self.parts:
            part.forgive()

    def wait(self, upstream: SQLServer, *, settled: bool = True) -> None:
        """Until the target has all of the upstream; errors that may pass are tried again.

        With ``settled`` no DDL of merged shards may be open; otherwise what waits for one need not be at the target.
        """
        if not settled and len(self.parts) > 1:
            # A source that waits for the other one does not read on.
            return
        want = location(upstream)
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            # Each of them: one may wait for another, which has stopped.
            there = [part.is_there(want, upstream, settled=settled) for part in self.parts]
            if all(there):
                return
            time.sleep(0.01)
        raise Hang(f"the task is not at {want}: {[part.shown() for part in self.parts]}")

    def ensure_going(self, upstream: SQLServer) -> None:
        """Raises ``Stopped`` for an error that the task finds a moment after it has written the rows."""
        want = location(upstream)
        end = time.monotonic() + LATE
        while time.monotonic() < end:
            for part in self.parts:
                part.is_there(want, upstream, settled=False)
            time.sleep(0.02)
