"""Hazards: a pause that waits for a long batch, a stop that is repeated or late and meets the next run."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dm_worker.dumper import DumpUnit
from dm_worker.loader import LoadUnit
from dm_worker.subtask.unit import Control
from dm_worker.syncer.unit import sync_unit
from dm_worker.syncer.unit.sync_unit import SyncUnit
from pkg.config.model import LoaderConfig, SubTaskConfig
from pkg.settings.connections import DBConfig


class Engine:
    """Notes what is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self, group: str) -> None:
        self.cancelled.set()


class LongRun:
    """A run whose batch ends only when it is cancelled."""

    finished = None

    def __init__(self, engine: Engine, *_: Any) -> None:
        self.began = threading.Event()
        self.engine = engine

    def work(self) -> None:
        self.began.set()
        assert self.engine.cancelled.wait(60)

    def cancel_batch(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(sync_unit, "PAUSE_TIMEOUT", 0.05)
    return Engine()


def _unit(engine: Engine) -> SyncUnit:
    server = DBConfig("127.0.0.1", 1, "root")
    cfg = SubTaskConfig(name="t", source_id="s", task_mode="incremental", from_=server, to=server, flavor="mariadb")
    return SyncUnit(cfg, engine)  # type: ignore[arg-type]


def test_a_pause_does_not_wait_for_a_long_batch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LongRun(engine)
    monkeypatch.setattr(sync_unit, "SyncRun", lambda *_: run)
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
    monkeypatch.setattr(sync_unit, "SyncRun", lambda *_: run)
    thread = threading.Thread(target=syncer.run)
    thread.start()
    assert run.began.wait(60)
    assert not engine.cancelled.wait(0.3)
    engine.cancelled.set()
    thread.join(60)


@pytest.mark.parametrize("kind", [SyncUnit, LoadUnit, DumpUnit])
def test_a_stop_for_another_run_does_nothing_to_this_one(engine: Engine, kind: type[Any], tmp_path: Path) -> None:
    present, former = Control(), Control()
    one = _other(kind, engine, tmp_path)
    one._control = present
    for graceful in (True, False):
        one.stop(graceful=graceful, control=former)
    assert not present.is_stopping()
    assert not engine.cancelled.is_set()
    one.stop(graceful=False, control=present)
    assert present.is_stopping()
    assert engine.cancelled.is_set()


def test_a_stop_that_is_repeated_ends_a_loads_epoch_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(LoadUnit, "_fence_off", lambda _, epoch: ended.append(epoch))
    load = _other(LoadUnit, engine, tmp_path)
    for load._epoch in (0, 4, 4, 4, 5, 5):
        load.stop(graceful=True)
    for thread in threading.enumerate():
        if thread.name == "load-stop":
            thread.join(60)
    assert sorted(ended) == [4, 5], "each of a run that has begun, once"


def test_a_pause_that_is_repeated_starts_one_timer(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_unit, "PAUSE_TIMEOUT", 3600.0)
    syncer = _unit(engine)
    syncer.stop(graceful=True)
    timer = syncer._cancel_timer
    assert timer is not None
    for _ in range(3):
        syncer.stop(graceful=True)
    assert syncer._cancel_timer is timer
    timer.cancel()


def _other(kind: type[Any], engine: Engine, folder: Path) -> Any:
    server = DBConfig("127.0.0.1", 1, "root")
    cfg = SubTaskConfig(name="t", source_id="s", task_mode="all", from_=server, to=server)
    return kind(replace(cfg, loader=LoaderConfig(dir=str(folder))), engine)
