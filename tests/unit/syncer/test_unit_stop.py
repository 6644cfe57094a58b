"""Hazards: a pause that waits for a long batch, or a late cancellation that meets the next run."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dm_worker.syncer import unit
from dm_worker.syncer.unit import SyncUnit
from pkg.config.model import DBConfig, SubTaskConfig


class Engine:
    """Notes what is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self, group: str) -> None:
        self.cancelled.set()


class LongRun:
    """A run whose batch ends only when it is cancelled."""

    def __init__(self, engine: Engine, *_: Any) -> None:
        self.began = threading.Event()
        self.engine = engine

    def work(self) -> None:
        self.began.set()
        assert self.engine.cancelled.wait(60)

    def close(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(unit, "PATIENCE", 0.05)
    return Engine()


def _unit(engine: Engine) -> SyncUnit:
    server = DBConfig("127.0.0.1", 1, "root")
    cfg = SubTaskConfig(name="t", source_id="s", task_mode="incremental", from_=server, to=server, flavor="mariadb")
    return SyncUnit(cfg, engine)  # type: ignore[arg-type]


def test_a_pause_does_not_wait_for_a_long_batch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LongRun(engine)
    monkeypatch.setattr(unit, "Run", lambda *_: run)
    syncer = _unit(engine)
    thread = threading.Thread(target=syncer.run)
    thread.start()
    assert run.began.wait(60)
    syncer.stop(graceful=True)
    thread.join(60)
    assert not thread.is_alive()
    assert engine.cancelled.is_set()


def test_a_late_cancellation_leaves_the_next_run_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    syncer = _unit(engine)
    syncer.stop(graceful=True)
    run = LongRun(engine)
    monkeypatch.setattr(unit, "Run", lambda *_: run)
    thread = threading.Thread(target=syncer.run)
    thread.start()
    assert run.began.wait(60)
    assert not engine.cancelled.wait(0.3)
    engine.cancelled.set()
    thread.join(60)
