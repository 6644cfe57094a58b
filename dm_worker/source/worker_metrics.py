"""The worker's metrics under DM's names: set as subtasks change, or read from their status when scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dm_worker.engine.engine_figures import EngineFigures
from dm_worker.relay.relay_metrics import RelayCollector
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.source.cutover_collector import CutoverCollector
from dm_worker.source.own_collector import CopyCollector, EngineCollector, OwnSyncCollector
from dm_worker.source.purge_watch import PurgeCollector, PurgeWatch
from dm_worker.source.sync_collector import Figures, SyncFiguresCollector
from dm_worker.source.validator_collector import ValidatorCollector
from dm_worker.syncer.figures.table_counts import MOST_TABLES
from pkg import errors, native
from pkg.binlog.position import parse_position
from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import Metrics

_TASK = ("source_id", "task", "worker")
_NODE = ("node", "source_id", "task")
_SHARDS = ("source_id", "task")
_EXIT = ("resumable_err", "source_id", "task")

#: The served source's id and its subtasks' status; '' and none without a source.
Statuses = Callable[[], tuple[str, Sequence[pb.SubTaskStatus]]]


class WorkerMetrics:
    """``worker`` is this worker's name, a label of most series."""

    def __init__(self, metrics: Metrics, worker: str) -> None:
        self._worker = worker
        self.metrics = metrics
        self._state = metrics.gauge("dm_worker_task_state", "Stage of a subtask: 2 running, 3 paused.", _TASK)
        self._operate = metrics.counter("dm_worker_operate_error", "Operations that failed.", ("type", "worker"))
        self._exits: dict[int, Counter] = {
            pb.Dump: metrics.counter("dm_dumpling_exit_with_error_count", "Dumps that ended with an error.", _EXIT),
            pb.Load: metrics.counter("dm_loader_exit_with_error_count", "Loads that ended with an error.", _EXIT),
            pb.Sync: metrics.counter("dm_syncer_exit_with_error_count", "Syncs that ended with an error.", _EXIT),
        }
        metrics.cpu_usage("dm_worker_cpu_usage")
        kernel = metrics.gauge(
            "dm_worker_kernel_compiled", "1 where compiled code is in use, 0 with the reason.", ("part", "reason")
        )
        missing = native.missing()
        for part in native.PARTS:
            kernel.labels(part=part, reason=missing.get(part, "")).set(part not in missing)

    def expose(self, statuses: Statuses) -> None:
        """Shows lag, positions and merged shards of ``statuses`` at each scrape."""
        self.metrics.registry.register(_SyncCollector(statuses, self._worker))
        self.metrics.registry.register(CopyCollector(statuses))
        self.metrics.registry.register(ValidatorCollector(statuses))
        self.metrics.registry.register(CutoverCollector(statuses))

    def follow_figures(self, figures: Figures) -> None:
        """Shows the figures of the tasks that replicate at each scrape."""
        self.metrics.registry.register(SyncFiguresCollector(figures, self._worker))
        self.metrics.registry.register(OwnSyncCollector(figures, self._worker))

    def follow_engine(self, figures: Callable[[], EngineFigures]) -> None:
        """Shows Spark's jobs and the memory at each scrape."""
        self.metrics.registry.register(EngineCollector(figures))

    def follow_relay(self, relay: Callable[[], SourceRelay | None]) -> None:
        """Shows the current relay at each scrape."""
        self.metrics.registry.register(RelayCollector(relay))

    def follow_purges(self, watch: Callable[[], tuple[str, PurgeWatch | None]]) -> None:
        """Shows the purge guard's risks for the served source at each scrape."""
        self.metrics.registry.register(PurgeCollector(watch))

    def task_state(self, source: str, task: str, stage: int) -> None:
        self._state.labels(source_id=source, task=task, worker=self._worker).set(stage)

    def operate_error(self, kind: str) -> None:
        self._operate.labels(type=kind, worker=self._worker).inc()

    def unit_failed(self, unit: int, task: str, source: str, may_resume: bool) -> None:
        labels = {"resumable_err": str(may_resume).lower(), "source_id": source, "task": task}
        self._exits[unit].labels(**labels).inc()

    def forget(self, source: str, task: str) -> None:
        """Ends the series of a subtask that this worker no longer has."""
        self._state.remove(source, task, self._worker)


class _SyncCollector(Collector):
    """Lag, positions and merged shards as the subtasks' status has them, so that they end with their subtask."""

    def __init__(self, statuses: Statuses, worker: str) -> None:
        self._statuses = statuses
        self._worker = worker
        #: Task → the merged tables that had unsettled DDL at a scrape: they report 0 afterwards, as in DM.
        self._merged: dict[str, set[str]] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        lag = GaugeMetricFamily("dm_syncer_replication_lag_gauge", "Seconds behind the upstream.", labels=_TASK)
        behind = GaugeMetricFamily(
            "dm_syncer_bytes_behind", "Bytes of binlog up to the upstream's end, while that is known.", labels=_TASK
        )
        stream = GaugeMetricFamily(
            "dm_syncer_stream_lag_seconds", "Seconds that the reader of the binlog is behind.", labels=_TASK
        )
        unread = GaugeMetricFamily(
            "dm_syncer_stream_bytes_behind", "Bytes of binlog that are not read, while that is known.", labels=_TASK
        )
        offset = GaugeMetricFamily("dm_syncer_binlog_pos", "Offset in the binlog file.", labels=_NODE)
        file = GaugeMetricFamily("dm_syncer_binlog_file", "Number of the binlog file.", labels=_NODE)
        waiting = GaugeMetricFamily(
            "dm_syncer_shard_lock_resolving", "1 while a DDL of merged shards waits for other sources.", labels=_SHARDS
        )
        unsynced = GaugeMetricFamily(
            "dm_syncer_unsynced_table_number", "Shards that have not run the DDL yet.", labels=(*_SHARDS, "table")
        )
        held = GaugeMetricFamily("dm_syncer_held_rows", "Rows of merged shards that are held back.", labels=_SHARDS)
        source, statuses = self._statuses()
        merged = {status.name: self._merged.get(status.name, set()) for status in statuses}
        for status in statuses:
            if status.WhichOneof("status") != "sync":
                continue
            sync = status.sync
            # An unknown lag has no sample: -1 would read as less than no lag.
            for family, value in (
                (lag, sync.secondsBehindMaster),
                (behind, sync.bytesBehind),
                (stream, sync.streamSecondsBehind),
                (unread, sync.streamBytesBehind),
            ):
                if value >= 0:
                    family.add_metric([source, status.name, self._worker], value)
            for node, text in (("master", sync.masterBinlog), ("syncer", sync.syncerBinlog)):
                position = _position(text)
                if position is not None:
                    file.add_metric([node, source, status.name], position[0])
                    offset.add_metric([node, source, status.name], position[1])
            groups = sync.unresolvedGroups
            waiting.add_metric([source, status.name], bool(sync.blockingDDLs))
            held.add_metric([source, status.name], sum(group.heldRows for group in groups))
            counts = {group.target: len(group.unsynced) for group in groups}
            merged[status.name] = merged[status.name] | counts.keys()
            for target in sorted(merged[status.name])[:MOST_TABLES]:
                unsynced.add_metric([source, status.name, target], counts.get(target, 0))
        self._merged = merged
        yield from (lag, behind, stream, unread, offset, file, waiting, unsynced, held)


def _position(text: str) -> tuple[int, int] | None:
    """File number and offset of ``(mysql-bin.000001, 4)``; None while the position is unknown."""
    try:
        return parse_position(text).sort_key()
    except errors.DMError:
        return None
