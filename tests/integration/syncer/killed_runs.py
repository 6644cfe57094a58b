"""Runs of the syncer that die between two of their writes to the meta tables, again and again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.unit.run import SyncRun
from pkg.binlog.position import Position, parse_position
from pkg.config.model import SubTaskConfig
from tests.integration.syncer.one_source import OneSource


class Killed(BaseException):
    """What ends a run in the middle: nothing catches it."""


class Faults:
    """Ends runs in front of or behind one of their writes to the meta tables."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int, longest: int = 12) -> None:
        """A run dies after ``longest`` writes at most."""
        self._chance = random.Random(seed)
        self._longest = longest
        self._left = 0
        self.kills = 0
        monkeypatch.setattr(MetaStore, "write", self.around(MetaStore.write))

    def arm(self) -> None:
        self._left = self._chance.randint(1, self._longest)

    def around(self, write: Callable[..., None]) -> Callable[..., None]:
        """What is called instead of a write of the store."""

        def instead(store: MetaStore, *args: Any, **options: Any) -> None:
            self._left -= 1
            early = self._chance.random() < 0.5
            if self._left == 0 and early:
                raise Killed
            write(store, *args, **options)
            if self._left == 0:
                raise Killed

        return instead


def kill_again_and_again(
    cfg: SubTaskConfig, spark: SparkEngine, lock_service: OneSource | None, faults: Faults, end: Position
) -> int:
    """Runs that die after a few durable steps, until one has nothing left to do. Returns how many died."""
    for kills in range(400):
        faults.arm()
        run = SyncRun(cfg, spark, "killed", lambda: is_done(run, lock_service, end), lock_service=lock_service)  # noqa: B023
        try:
            run.work()
            return kills
        except Killed:
            continue
        finally:
            run.close()
    raise AssertionError("there is no end to it")


def is_done(run: SyncRun, lock_service: OneSource | None, end: Position) -> bool:
    status = run.monitor.status()
    there = "." in status.syncerBinlog and end <= parse_position(status.syncerBinlog)
    return there and not status.unresolvedGroups and not (lock_service is not None and lock_service.waiting())
