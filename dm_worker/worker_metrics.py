"""The worker's metrics under DM's names: set as subtasks change, and read from their status when scraped."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge

from pkg import errors
from pkg.binlog.position import parse_position
from pkg.metrics import Metrics
from pkg.pb import dmworker_pb2 as pb

_TASK = ("source_id", "task", "worker")
_NODE = ("node", "source_id", "task")
_EXIT = ("resumable_err", "source_id", "task")


class WorkerMetrics:
    """``worker`` is this worker's name, a label of most series."""

    def __init__(self, metrics: Metrics, worker: str) -> None:
        self._worker = worker
        self.metrics = metrics
        self._state = metrics.gauge("dm_worker_task_state", "Stage of a subtask: 2 running, 3 paused, …", _TASK)
        self._operate = metrics.counter(
            "dm_worker_operate_error", "Operations on subtasks that failed.", ("type", "worker")
        )
        self._exits: dict[int, Counter] = {
            pb.Dump: metrics.counter("dm_dumpling_exit_with_error_count", "Dumps that ended with an error.", _EXIT),
            pb.Load: metrics.counter("dm_loader_exit_with_error_count", "Loads that ended with an error.", _EXIT),
            pb.Sync: metrics.counter("dm_syncer_exit_with_error_count", "Syncs that ended with an error.", _EXIT),
        }
        self._lag = metrics.gauge("dm_syncer_replication_lag_gauge", "Seconds behind the upstream.", _TASK)
        self._pos = metrics.gauge("dm_syncer_binlog_pos", "Offset in the binlog file.", _NODE)
        self._file = metrics.gauge("dm_syncer_binlog_file", "Number of the binlog file.", _NODE)
        metrics.cpu_usage("dm_worker_cpu_usage")

    def task_state(self, source: str, task: str, stage: int) -> None:
        self._state.labels(source_id=source, task=task, worker=self._worker).set(stage)

    def operate_error(self, kind: str) -> None:
        self._operate.labels(type=kind, worker=self._worker).inc()

    def unit_failed(self, unit: int, task: str, source: str, may_resume: bool) -> None:
        labels = {"resumable_err": str(may_resume).lower(), "source_id": source, "task": task}
        self._exits[unit].labels(**labels).inc()

    def sync_status(self, source: str, statuses: Iterable[pb.SubTaskStatus]) -> None:
        """Takes lag and positions over from the subtasks' status."""
        for status in statuses:
            if status.WhichOneof("status") != "sync":
                continue
            task = status.name
            self._lag.labels(source_id=source, task=task, worker=self._worker).set(status.sync.secondsBehindMaster)
            for node, text in (("master", status.sync.masterBinlog), ("syncer", status.sync.syncerBinlog)):
                self._position(node, source, task, text)

    def _position(self, node: str, source: str, task: str, text: str) -> None:
        try:
            number, offset = parse_position(text).sort_key()
        except errors.DMError:
            return  # not known yet
        self._pos.labels(node=node, source_id=source, task=task).set(offset)
        self._file.labels(node=node, source_id=source, task=task).set(number)

    def forget(self, source: str, task: str) -> None:
        """Ends the series of a subtask that this worker no longer has."""
        _remove(self._state, source, task, self._worker)
        _remove(self._lag, source, task, self._worker)
        for node in ("master", "syncer"):
            for gauge in (self._pos, self._file):
                _remove(gauge, node, source, task)


def _remove(gauge: Gauge, *labels: str) -> None:
    gauge.remove(*labels)
