"""Metrics that DM does not have: use of time and memory, and why a task is behind. docs/metrics.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dm_worker.engine.engine_figures import EngineFigures
from dm_worker.source.sync_collector import Figures
from dm_worker.syncer.figures.sync_figures import SyncFigures
from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import CounterFamily
from pkg.status.lag import STOPPED

_LABELS = ("source_id", "task")

#: Name → help, value.
COUNTERS: dict[str, tuple[str, Callable[[SyncFigures], float]]] = {
    "dm_syncer_job_seconds_total": ("Seconds of the batches' jobs.", lambda one: one.applying.job_seconds),
    "dm_syncer_busy_seconds_total": (
        "Seconds of the batches' jobs in which at least one task worked; the rest is Spark's own.",
        lambda one: one.applying.busy_seconds,
    ),
    "dm_syncer_row_changes_total": ("Row changes of the upstream that are applied.", lambda one: one.applying.changes),
    "dm_syncer_written_rows_total": (
        "Rows in the statements at the target: a row that is deleted and inserted again is there twice.",
        lambda one: one.applying.written_rows,
    ),
    "dm_syncer_compacted_rows_total": (
        "Row changes that needed no write, because a later one of the same key came with them.",
        lambda one: one.applying.compacted,
    ),
    "dm_syncer_conflict_sets_total": (
        "Sets of rows with different keys that had to keep their order.",
        lambda one: one.applying.conflict_sets,
    ),
    "dm_syncer_conflict_rows_total": ("Rows in conflict sets.", lambda one: one.applying.conflict_rows),
    "dm_syncer_batch_retries_total": ("Batches whose job was tried again.", lambda one: one.applying.retries),
    "dm_syncer_received_bytes_total": (
        "Bytes of the binlog stream that the upstream sent.", lambda one: one.reading.received,
    ),
}  # fmt: skip


class OwnSyncCollector(Collector):
    """Metrics of the bound source's tasks that replicate."""

    def __init__(self, figures: Figures, worker: str) -> None:
        self._figures = figures
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        source, units = self._figures()
        for name, (text, value) in COUNTERS.items():
            family = CounterFamily(name, text, _LABELS)
            for task, one in units:
                family.add_metric([source, task], value(one))
            yield family
        yield from _stages(source, units)
        yield from _threads(source, units)
        yield from _gauges(source, units)
        yield self._reasons(source, units)

    def _reasons(self, source: str, units: Sequence[tuple[str, SyncFigures]]) -> Metric:
        reason = GaugeMetricFamily(
            "dm_syncer_lag_reason", "1 for what the replication waits for now.",
            labels=("reason", "source_id", "task", "worker"),
        )  # fmt: skip
        for task, one in units:
            for name, here in one.reasons.items():
                reason.add_metric([name, source, task, self._worker], here)
        return reason


def _stages(source: str, units: Sequence[tuple[str, SyncFigures]]) -> Iterator[Metric]:
    labels = ("source_id", "stage", "task")
    seconds = CounterFamily("dm_syncer_stage_seconds_total", "Seconds of all tasks in a stage of the batches.", labels)
    size = CounterFamily("dm_syncer_stage_bytes_total", "Bytes into a stage of the batches.", labels)
    batches = CounterFamily(
        "dm_syncer_batches_total",
        "Batches that are applied: tiny ones by the worker itself, small ones by one Spark task, large ones by more.",
        ("size", "source_id", "task"),
    )
    for task, one in units:
        for stage, spent in list(one.applying.stage_seconds.items()):
            seconds.add_metric([source, stage, task], spent)
        for stage, count in one.applying.stage_bytes.items():
            size.add_metric([source, stage, task], count)
        for kind, count in one.applying.batches.items():
            batches.add_metric([kind, source, task], count)
    yield from (seconds, size, batches)


def _threads(source: str, units: Sequence[tuple[str, SyncFigures]]) -> Iterator[Metric]:
    family = CounterFamily(
        "dm_syncer_thread_seconds_total", "Seconds of the main loop, and of the reader, by what they did.",
        ("source_id", "stage", "task", "thread"),
    )  # fmt: skip
    for task, one in units:
        for thread, clock in (("main", one.applying.clock), ("reader", one.reading.clock)):
            for stage, spent in clock.totals().items():
                if stage != STOPPED:
                    family.add_metric([source, stage, task, thread], spent)
    yield family


def _gauges(source: str, units: Sequence[tuple[str, SyncFigures]]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "dm_syncer_held_bytes", "Bytes of rows events that are read and not applied.",
        labels=("part", "source_id", "task"),
    )  # fmt: skip
    for task, one in units:
        family.add_metric(["queue", source, task], one.queued_bytes)
        family.add_metric(["reader", source, task], one.waiting_bytes)
    yield family


#: Name → help, value; for a dump, and for a load.
DUMP: dict[str, tuple[str, Callable[[pb.DumpStatus], float]]] = {
    "dm_dumpling_finished_rows": ("Rows that are dumped.", lambda one: one.finishedRows),
    "dm_dumpling_estimate_total_rows": ("Rows to dump, by the upstream's estimate.", lambda one: one.estimateTotalRows),
    "dm_dumpling_finished_bytes": ("Bytes of the dump's files.", lambda one: one.finishedBytes),
    "dm_dumpling_finished_tables": ("Tables that are dumped.", lambda one: one.completedTables),
    # DM's name of it.
    "dumpling_dump_finished_tables": ("The same as dm_dumpling_finished_tables.", lambda one: one.completedTables),
    "dm_dumpling_bytes_per_second": ("Speed of the dump.", lambda one: one.bps),
}
LOAD: dict[str, tuple[str, Callable[[pb.LoadStatus], float]]] = {
    "dm_loader_finished_bytes": ("Bytes of the dump's files that are loaded.", lambda one: one.finishedBytes),
    "dm_loader_total_bytes": ("Bytes of the dump's files.", lambda one: one.totalBytes),
    "dm_loader_bytes_per_second": ("Speed of the load.", lambda one: one.bps),
}


class CopyCollector(Collector):
    """Rows, bytes, progress, speed and remaining time of dumps and loads."""

    def __init__(self, statuses: Callable[[], tuple[str, Sequence[pb.SubTaskStatus]]]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        source, statuses = self._statuses()
        dumps = [(one.name, one.dump) for one in statuses if one.WhichOneof("status") == "dump"]
        loads = [(one.name, one.load) for one in statuses if one.WhichOneof("status") == "load"]
        for name, (text, of_dump) in DUMP.items():
            yield _family(name, text, source, [(task, of_dump(dump)) for task, dump in dumps])
        for name, (text, of_load) in LOAD.items():
            yield _family(name, text, source, [(task, of_load(load)) for task, load in loads])
        done = (
            [(task, _fraction(one.progress)) for task, one in dumps],
            [(task, _fraction(one.progress)) for task, one in loads],
        )
        yield _family("dm_dumpling_progress", "Done part of the dump, 0 to 1.", source, done[0])
        yield _family("dm_loader_progress", "Done part of the load, 0 to 1.", source, done[1])
        left = [(task, (one.totalBytes - one.finishedBytes) / one.bps) for task, one in loads if one.bps]
        yield _family("dm_loader_remaining_time", "Seconds until the load is done, while that is known.", source, left)


def _family(name: str, text: str, source: str, values: Sequence[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=_LABELS)
    for task, value in values:
        family.add_metric([source, task], value)
    return family


def _fraction(progress: str) -> float:
    """``12.34 %`` as 0.1234."""
    return float(progress.partition(" ")[0] or 0) / 100


class EngineCollector(Collector):
    """Spark's jobs and the memory of this worker's processes."""

    def __init__(self, figures: Callable[[], EngineFigures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures()
        jobs = CounterFamily(
            "dm_worker_spark_jobs_total",
            "Jobs given to Spark: batches that are not tiny, dumps, loads, comparisons.",
            ("result",),
        )
        jobs.add_metric(["ok"], figures.ended)
        jobs.add_metric(["failed"], figures.failed)
        jobs.add_metric(["canceled"], figures.canceled)
        yield jobs
        yield GaugeMetricFamily("dm_worker_spark_jobs_running", "Spark's jobs that run now.", value=figures.running)
        memory = GaugeMetricFamily(
            "dm_worker_memory_bytes", "Resident memory of this worker, of Spark's JVM and of its Python processes.",
            labels=("part",),
        )  # fmt: skip
        for part, size in figures.memory.items():
            memory.add_metric([part], size)
        yield memory
