"""Small parts of the worker: temporary folders, the upstream's position, metrics, what may change in a config."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark import SparkContext

from dm_worker.engine.engine import SparkEngine
from dm_worker.relay import upstream_end
from dm_worker.relay.upstream_end import UpstreamEnd
from dm_worker.service import fixed_changes
from dm_worker.source import unit_factory
from dm_worker.source.binlog_needs import needed_from
from dm_worker.source.worker_metrics import WorkerMetrics
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SourceConfig, SubTaskConfig, SyncerConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import Metrics
from pkg.process.process_folder import ProcessFolder
from pkg.settings.connections import DBConfig
from tests.harness.process import wait_until

SERVER = DBConfig(host="127.0.0.1", port=1)
SOURCE = SourceConfig(source_id="s1", from_=SERVER)
TASK = SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER)


def test_a_killed_owners_folder_is_removed_by_the_next_process(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from pkg.process.process_folder import ProcessFolder\n"
        f"ProcessFolder('w-', Path({str(tmp_path)!r})); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[2])
    assert len(list(tmp_path.iterdir())) == 1
    living = ProcessFolder("w-", tmp_path)
    other = ProcessFolder("w-", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living.path, other.path]), "the dead one's is gone, the living stay"
    living.remove()
    living.remove()
    assert list(tmp_path.iterdir()) == [other.path]
    other.remove()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status waits for the upstream's answer, however long a thread takes to start."""
    monkeypatch.setattr(upstream_end, "ANSWER_TIMEOUT", 60.0)


@pytest.mark.usefixtures("patient")
def test_the_upstreams_position_is_that_of_now() -> None:
    """A second-old end would call a subtask synced although the upstream has gone on."""
    asked: list[int] = []

    def query(source: SourceConfig) -> Location:
        asked.append(1)
        return Location(Position("bin.000001", len(asked)))

    position = UpstreamEnd(SOURCE, query=query)
    assert position.get() == (Location(Position("bin.000001", 1)), True)
    assert position.get() == (Location(Position("bin.000001", 2)), True)


@pytest.mark.usefixtures("patient")
def test_calls_at_the_same_time_share_a_question_asked_after_them() -> None:
    begun, release = threading.Event(), threading.Event()
    asked: list[int] = []

    def query(source: SourceConfig) -> Location:
        asked.append(1)
        if len(asked) == 1:
            begun.set()
            assert release.wait(60)
        return Location(Position("bin.000001", len(asked)))

    position = UpstreamEnd(SOURCE, query=query)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(position.get)
        assert begun.wait(60)
        later = [pool.submit(position.get) for _ in range(4)]
        waiting = position._changed._waiters  # type: ignore[attr-defined]
        wait_until(lambda: len(waiting) == 5, "all calls wait", step=0.001)
        release.set()
        assert first.result()[1]
        assert {one.result() for one in later} == {(Location(Position("bin.000001", 2)), True)}
    assert len(asked) == 2


def test_a_hanging_upstream_does_not_hold_up_a_status() -> None:
    release = threading.Event()
    asked: list[int] = []

    def query(source: SourceConfig) -> None:
        asked.append(1)
        release.wait(30)

    position = UpstreamEnd(SOURCE, query=query)
    began = time.monotonic()
    assert position.get() == (None, False)
    assert position.get() == (None, False)
    assert time.monotonic() - began < 20
    assert len(asked) == 1, "one question at a time"
    release.set()


@pytest.mark.usefixtures("patient")
def test_an_upstream_that_refuses_has_no_position() -> None:
    def query(source: SourceConfig) -> Location:
        raise errors.new(Code.DBDriverError, "connect: connection refused")

    assert UpstreamEnd(SOURCE, query=query).get() == (None, True)


def test_series_of_a_removed_subtask_end() -> None:
    metrics = WorkerMetrics(Metrics(), "w1")
    status = pb.SubTaskStatus(
        name="t1", sync=pb.SyncStatus(masterBinlog="(bin.000012, 34)", syncerBinlog="", secondsBehindMaster=3)
    )
    told = [("s1", [status])]
    metrics.follow(lambda: told[0])
    metrics.task_state("s1", "t1", pb.Paused)
    text = metrics.metrics.render().decode()
    assert 'dm_worker_task_state{source_id="s1",task="t1",worker="w1"} 3\n' in text
    assert 'dm_syncer_binlog_file{node="master",source_id="s1",task="t1"} 12\n' in text
    assert 'dm_syncer_binlog_pos{node="master",source_id="s1",task="t1"} 34\n' in text
    assert 'node="syncer"' not in text, "an unknown position has no value"
    told[0] = ("", [])
    metrics.forget("s1", "t1")
    metrics.forget("s1", "t1")
    assert 'task="t1"' not in metrics.metrics.render().decode()


def test_only_what_keeps_the_replication_state_valid_may_change() -> None:
    assert fixed_changes(TASK, replace(TASK, syncer=SyncerConfig(worker_count=3), to=replace(SERVER, port=2))) == []
    assert fixed_changes(TASK, replace(TASK, meta_schema="other", task_mode="full")) == ["task-mode", "meta-schema"]


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(errors.DMError) as caught:
        unit_factory.make_unit(pb.Check, TASK, SparkEngine())
    assert caught.value.kind is Code.WorkerNoAvailUnits


def test_a_missing_java_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    engine = SparkEngine(folder=tmp_path)
    with pytest.raises(errors.DMError, match="JVM did not start") as caught:
        engine.context()
    assert "java" in caught.value.raw_cause
    assert "Java 17" in caught.value.workaround
    engine.close()
    assert not list(tmp_path.iterdir())
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


def test_a_closed_engine_does_not_start_again_and_leaves_another_one_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_another = object()
    monkeypatch.setattr(SparkContext, "_jvm", of_another)
    engine = SparkEngine(folder=tmp_path)
    engine.cancel("nothing runs")
    engine.close()
    assert SparkContext._jvm is of_another
    with pytest.raises(RuntimeError, match="closed"):
        engine.context()


def sharded(*, waiting: bool) -> pb.SubTaskStatus:
    place = Location(Position("bin.000003", 90), "0-1-5")
    group = pb.ShardingGroup(target="`m`.`t`", firstLocation=str(place), unsynced=["`d`.`t2`"], heldRows=7)
    blocking = ["ALTER …"] if waiting else []
    sync = pb.SyncStatus(syncerBinlog="(bin.000012, 4)", unresolvedGroups=[group], blockingDDLs=blocking)
    return pb.SubTaskStatus(name="t1", sync=sync)


def test_binlogs_with_rows_that_are_held_back_are_needed() -> None:
    sync = sharded(waiting=False).sync
    assert needed_from(sync) == Position("bin.000003", 90)
    del sync.unresolvedGroups[:]
    assert needed_from(sync) == Position("bin.000012", 4)


@pytest.mark.parametrize("waiting", [False, True])
def test_metrics_of_merged_shards(waiting: bool) -> None:
    metrics = WorkerMetrics(Metrics(), "w1")
    metrics.follow(lambda: ("s1", [sharded(waiting=waiting)]))
    labels = {"source_id": "s1", "task": "t1"}
    value = metrics.metrics.registry.get_sample_value
    assert value("dm_syncer_shard_lock_resolving", labels) == waiting
    assert value("dm_syncer_held_rows", labels) == 7
    assert value("dm_syncer_unsynced_table_number", {**labels, "table": "`m`.`t`"}) == 1


def test_the_number_of_unsynced_tables_stays_at_zero_until_the_task_ends() -> None:
    metrics = WorkerMetrics(Metrics(), "w1")
    statuses = [sharded(waiting=False)]
    metrics.follow(lambda: ("s1", statuses))

    def number() -> float | None:
        labels = {"source_id": "s1", "task": "t1", "table": "`m`.`t`"}
        return metrics.metrics.registry.get_sample_value("dm_syncer_unsynced_table_number", labels)

    assert number() == 1
    del statuses[0].sync.unresolvedGroups[:]
    assert [number(), number()] == [0, 0]
    del statuses[0]
    assert number() is None
    statuses.append(pb.SubTaskStatus(name="t1", sync=pb.SyncStatus()))
    assert number() is None, "another task of that name"
