"""Prometheus metrics under DM's names, in the text form that scripts ``grep``.

The client library's text output renames counters to ``…_total`` and adds ``…_created`` series. DM's dashboards and
scripts know neither, so this module renders the text: one line per series, labels in alphabetical order, no blank in a
label's value.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BLANKS = re.compile(r"\s+")


class _PlainCounter(Counter):
    """A counter whose series has exactly the given name."""

    def _child_samples(self) -> Iterable[Sample]:
        return tuple(sample._replace(name="") for sample in super()._child_samples() if sample.name == "_total")


class Metrics:
    """One process's metrics: creates them, and renders them for ``GET /metrics``. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._refreshers: list[Callable[[], None]] = []
        self._others: list[Callable[[], bytes]] = []

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """A value that goes up and down. Raises ``ValueError`` for a name in use, as the other methods do."""
        return Gauge(name, text, labels, registry=self.registry)

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """A value that only grows; its series is ``name``, with ``_total`` only if ``name`` has it."""
        kind = Counter if name.endswith("_total") else _PlainCounter
        return kind(name, text, labels, registry=self.registry)

    def histogram(self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]) -> Histogram:
        """A distribution over ``buckets`` (upper bounds, ascending, in the metric's own unit)."""
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

    def cpu_usage(self, name: str) -> Gauge:
        """This process's CPU use in percent of one core, averaged since the last call."""
        gauge = self.gauge(name, "CPU usage of this process in percent of one core.")
        gauge.set_function(_CpuUsage())
        return gauge

    def before_render(self, refresh: Callable[[], None]) -> None:
        """Calls ``refresh`` before each rendering, to set values that are only needed then."""
        self._refreshers.append(refresh)

    def add_text(self, other: Callable[[], bytes]) -> None:
        """Appends another process's families, as text that ends with a newline."""
        self._others.append(other)

    def render(self) -> bytes:
        """All series in Prometheus' text format (content type :data:`CONTENT_TYPE`)."""
        for refresh in self._refreshers:
            refresh()
        lines: list[str] = []
        for metric in self.registry.collect():
            lines.extend(_family(metric))
        return b"".join(["".join(f"{line}\n" for line in lines).encode(), *(other() for other in self._others)])


class Distribution:
    """Counts values by the first of ``bounds`` (ascending, one for each doubling) that they don't exceed.

    For a hot path: one thread adds, without a lock; a scrape may see a value in its count and not yet in ``total``.
    """

    __slots__ = ("_bounds", "_counts", "_labels", "total")

    def __init__(self, first: float, doublings: int) -> None:
        self._bounds = [first * 2**n for n in range(doublings)]
        self._labels = [*map(floatToGoString, self._bounds), "+Inf"]
        self._counts = [0] * (doublings + 1)
        #: The sum of all values.
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Adds ``value`` ``times`` times: for the average of so many values."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self._counts)

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        """All counts under ``name``, for a collector."""
        return HistogramMetricFamily(name, text, buckets=self._buckets(), sum_value=self.total)

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """All counts as one series of ``family``."""
        family.add_metric(labels, self._buckets(), self.total)

    def _buckets(self) -> list[tuple[str, int]]:
        return list(zip(self._labels, accumulate(self._counts), strict=True))


class CounterFamily(Metric):
    """A counter for a collector; its series has the family's name, with ``_total`` only if that has it."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, text, "counter")
        self._labels = tuple(labels)

    def add_metric(self, labels: Sequence[str], value: float) -> None:
        self.add_sample(self.name, dict(zip(self._labels, labels, strict=True)), value)


class AnnouncedFamily(GaugeMetricFamily):
    """A family with HELP and TYPE, even without any series."""


class _CpuUsage:
    """CPU seconds per wall-clock second between two calls, in percent."""

    #: Shorter intervals would show the jitter of the clock rather than the load.
    MINIMUM = 0.5

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._cpu = time.process_time()
        self._last = 0.0

    def __call__(self) -> float:
        wall, cpu = time.monotonic(), time.process_time()
        if wall - self._wall >= self.MINIMUM:
            self._last = 100.0 * (cpu - self._cpu) / (wall - self._wall)
            self._wall, self._cpu = wall, cpu
        return self._last


def _family(metric: Metric) -> list[str]:
    samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    # Scripts look for names that must not exist.
    if not samples and not isinstance(metric, AnnouncedFamily):
        return []
    # A counter's family is announced under the exact name of its series.
    name = samples[0].name if samples and metric.type == "counter" else metric.name
    text = metric.documentation.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {text}", f"# TYPE {name} {metric.type}", *map(_series, samples)]


def _series(sample: Sample) -> str:
    labels = ",".join(f'{key}="{_label_value(key, value)}"' for key, value in sorted(sample.labels.items()))
    return f"{sample.name}{'{' + labels + '}' if labels else ''} {_number(_go_number(sample.value))}"


def _go_number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _number(text: str) -> str:
    """Whole numbers without ``.0``, since shell scripts compare them as integers."""
    return text.removesuffix(".0")


def _label_value(key: str, value: str) -> str:
    if key == "le":
        return _number(value)
    return _BLANKS.sub("_", value).replace("\\", "\\\\").replace('"', '\\"')
