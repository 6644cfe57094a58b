"""Metrics of the watch over an upstream after a cutover, from the subtasks' status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import AnnouncedFamily

_LABELS = ("task", "source_id")


class CutoverCollector(Collector):
    """A task without a cutover has no series; dashboards and alerts find the names."""

    def __init__(self, statuses: Callable[[], tuple[str, Sequence[pb.SubTaskStatus]]]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        writes = AnnouncedFamily(
            "dm_worker_writes_after_cutover", "Writes of the task's tables in the upstream since.", labels=_LABELS
        )
        watched = AnnouncedFamily(
            "dm_worker_cutover_watched", "1 while the upstream's binlog is read after a cutover.", labels=_LABELS
        )
        source, statuses = self._statuses()
        for status in statuses:
            if status.HasField("cutover"):
                writes.add_metric([status.name, source], status.cutover.writes)
                watched.add_metric([status.name, source], not status.cutover.problem)
        yield from (writes, watched)
