"""The syncer's metrics under DM's names, from the figures of its units. docs/metrics.md has them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from dm_worker.syncer.figures.sync_figures import ApplyFigures, SyncFigures, queue_name
from pkg.process.metrics import CounterFamily, Distribution

#: DM's label sets.
TASK_SOURCE = ("task", "source_id")
TASK_WORKER = ("task", "worker", "source_id")
JOBS = ("type", "task", "queueNo", "source_id", "worker", "target_schema", "target_table")
#: What is not a row change does not pass the writers' queues.
ADMIN = "admin queue"

#: The bound source's id, and the figures of its tasks; '' and none without a bound source.
Figures = Callable[[], tuple[str, Sequence[tuple[str, SyncFigures]]]]
Labels = Mapping[str, str]
#: Histogram → help, labels, and its distributions by the labels other than the task.
_Several = Callable[[SyncFigures], Iterator[tuple[Labels, Distribution]]]


def _one(pick: Callable[[SyncFigures], Distribution]) -> _Several:
    return lambda figures: iter([({}, pick(figures))])


def _stages(figures: SyncFigures) -> Iterator[tuple[Labels, Distribution]]:
    for stage, cost in list(figures.applying.stage_cost.items()):
        yield {"stage": stage}, cost


def _statements(figures: SyncFigures) -> Iterator[tuple[Labels, Distribution]]:
    for kind, cost in figures.applying.statement.items():
        yield {"type": kind}, cost


def _hand_over(figures: SyncFigures) -> Iterator[tuple[Labels, Distribution]]:
    for kind, cost in figures.reading.hand_over.items():
        yield {"type": kind, "queueNo": queue_name(0) if kind == "dml" else ADMIN}, cost


def _skipped(figures: SyncFigures) -> Iterator[tuple[Labels, Distribution]]:
    for kind, cost in figures.applying.skipped.items():
        yield {"type": kind}, cost


def _transaction_sizes(figures: SyncFigures) -> Iterator[tuple[Labels, Distribution]]:
    for (queue, kind), sizes in list(figures.applying.transaction_size.items()):
        yield {"queueNo": queue, "type": kind}, sizes


#: Name → help, labels, distributions.
HISTOGRAMS: Mapping[str, tuple[str, tuple[str, ...], _Several]] = {
    "dm_syncer_read_binlog_duration": (
        "Seconds of waiting for a block of events.", TASK_SOURCE, _one(lambda one: one.reading.read),
    ),
    "dm_syncer_binlog_event_size": (
        "Bytes of a rows event, as the mean of its batch.", TASK_WORKER, _one(lambda one: one.reading.event_size),
    ),
    "dm_syncer_binlog_event_row": (
        "Rows of a rows event, as the mean of its batch.",
        ("worker", *TASK_SOURCE),
        _one(lambda one: one.applying.event_rows),
    ),
    "dm_syncer_binlog_transform_cost": (
        "Seconds that the tasks of a batch spent in a stage: decode, shuffle, compact, write.",
        ("stage", *TASK_WORKER),
        _stages,
    ),
    "dm_syncer_conflict_detect_duration": (
        "Seconds of finding the conflict sets of a batch.", TASK_SOURCE, _one(lambda one: one.applying.conflict_cost),
    ),
    "dm_syncer_add_job_duration": (
        "Seconds that a batch or a statement waited for room in the queue.",
        ("type", "task", "queueNo", "source_id"),
        _hand_over,
    ),
    "dm_syncer_dispatch_binlog_duration": (
        "Seconds of planning a block of events.",
        ("type", *TASK_SOURCE),
        lambda figures: iter([({"type": "dml"}, figures.reading.plan)]),
    ),
    "dm_syncer_skip_binlog_duration": (
        "Seconds of moving the checkpoint past filtered events.", ("type", *TASK_SOURCE), _skipped,
    ),
    "dm_syncer_txn_duration_time": (
        "Seconds of a transaction at the target: of one writer and batch.",
        TASK_WORKER,
        _one(lambda one: one.applying.transaction),
    ),
    "dm_syncer_query_duration_time": (
        "Seconds of a query about the target's tables.", TASK_WORKER, _one(lambda one: one.applying.query),
    ),
    "dm_syncer_stmt_duration_time": (
        "Seconds of a statement at the target (stmt, as the mean of its transaction) or a commit.",
        ("type", "task"),
        _statements,
    ),
    "dm_syncer_replication_transaction_batch": (
        "Rows, and statements, of a transaction at the target.",
        ("worker", *TASK_SOURCE, "queueNo", "type"),
        _transaction_sizes,
    ),
    "dm_syncer_flush_checkpoints_time_interval": (
        "Seconds between two writes of the checkpoint.",
        ("worker", *TASK_SOURCE),
        _one(lambda one: one.applying.flush_interval),
    ),
    "dm_syncer_replication_lag": (
        "Seconds behind the upstream, looked at once a second.",
        (*TASK_SOURCE, "worker"),
        _one(lambda one: one.lag),
    ),
}  # fmt: skip


class SyncFiguresCollector(Collector):
    """DM's histograms and counters of the syncer. ``worker`` is this worker's name."""

    def __init__(self, figures: Figures, worker: str) -> None:
        self._figures = figures
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        source, units = self._figures()
        common = [({"task": task, "source_id": source, "worker": self._worker}, one) for task, one in units]
        for name, (text, labels, pick) in HISTOGRAMS.items():
            family = HistogramMetricFamily(name, text, labels=labels)
            for own, one in common:
                for more, distribution in pick(one):
                    values = {**own, **more}
                    distribution.add_to(family, [values[label] for label in labels])
            yield family
        yield from _jobs(common)
        yield from _gauges(common)


def _jobs(units: Sequence[tuple[Labels, SyncFigures]]) -> Iterator[Metric]:
    added = CounterFamily(
        "dm_syncer_added_jobs_total", "Row changes by target table, and DDL statements, that were read.", JOBS
    )
    finished = CounterFamily(
        "dm_syncer_finished_jobs_total", "Row changes by target table, and DDL statements, that are applied.", JOBS
    )
    done = CounterFamily(
        "dm_syncer_finished_transaction_total", "Transactions of the upstream that are applied.", TASK_WORKER
    )
    for own, one in units:
        for labels, count in _row_jobs(one.applying):
            values = [{**own, **labels}[label] for label in JOBS]
            added.add_metric(values, count)
            finished.add_metric(values, count)
        ddl = {**own, "type": "ddl", "queueNo": ADMIN, "target_schema": "", "target_table": ""}
        added.add_metric([ddl[label] for label in JOBS], one.applying.ddl_added)
        finished.add_metric([ddl[label] for label in JOBS], one.applying.ddl_finished)
        done.add_metric([own[label] for label in TASK_WORKER], one.applying.transactions)
    yield from (added, finished, done)


def _row_jobs(applying: ApplyFigures) -> Iterator[tuple[Labels, int]]:
    for number, ((schema, table), counts) in enumerate(applying.tables.items()):
        for kind, count in counts.items():
            yield (
                {"type": kind, "queueNo": queue_name(number), "target_schema": schema, "target_table": table},
                count,
            )


def _gauges(units: Sequence[tuple[Labels, SyncFigures]]) -> Iterator[Metric]:
    ideal = GaugeMetricFamily(
        "dm_syncer_ideal_qps", "Rows per second if nothing but writing took time, by the last batch.",
        labels=TASK_WORKER,
    )  # fmt: skip
    queue = GaugeMetricFamily(
        "dm_syncer_queue_size", "Batches and statements that wait to be applied.",
        labels=("task", "queue_id", "source_id"),
    )  # fmt: skip
    remaining = GaugeMetricFamily(
        "dm_syncer_remaining_time", "Seconds until the upstream's end is reached, while that is known.",
        labels=(*TASK_SOURCE, "worker"),
    )  # fmt: skip
    for own, one in units:
        ideal.add_metric([own[label] for label in TASK_WORKER], one.applying.ideal_qps)
        queue.add_metric([own["task"], queue_name(0), own["source_id"]], one.queued_batches)
        if one.remaining is not None:
            remaining.add_metric([own["task"], own["source_id"], own["worker"]], one.remaining)
    yield from (ideal, queue, remaining)
