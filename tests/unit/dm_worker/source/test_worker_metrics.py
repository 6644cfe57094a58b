"""Hazard: a series shows a subtask that is gone, or no longer shows one that alerts are about."""

from __future__ import annotations

import pytest

from dm_worker.source.worker_metrics import WorkerMetrics
from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import Metrics
from tests.unit.dm_worker.source.support import sharded


def test_series_of_a_removed_subtask_end() -> None:
    metrics = WorkerMetrics(Metrics(), "w1")
    status = pb.SubTaskStatus(
        name="t1", sync=pb.SyncStatus(masterBinlog="(bin.000012, 34)", syncerBinlog="", secondsBehindMaster=3)
    )
    told = [("s1", [status])]
    metrics.expose(lambda: told[0])
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


@pytest.mark.parametrize("waiting", [False, True])
def test_metrics_of_merged_shards(waiting: bool) -> None:
    metrics = WorkerMetrics(Metrics(), "w1")
    metrics.expose(lambda: ("s1", [sharded(waiting=waiting)]))
    labels = {"source_id": "s1", "task": "t1"}
    value = metrics.metrics.registry.get_sample_value
    assert value("dm_syncer_shard_lock_resolving", labels) == waiting
    assert value("dm_syncer_held_rows", labels) == 7
    assert value("dm_syncer_unsynced_table_number", {**labels, "table": "`m`.`t`"}) == 1


def test_the_number_of_unsynced_tables_stays_at_zero_until_the_task_ends() -> None:
    metrics = WorkerMetrics(Metrics(), "w1")
    statuses = [sharded(waiting=False)]
    metrics.expose(lambda: ("s1", statuses))

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
