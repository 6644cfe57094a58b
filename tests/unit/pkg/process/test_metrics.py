"""Hazard: the text form of a metric changes, so shell scripts that grep and compare it read nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pkg.process.metrics import Distribution, Metrics


def _lines(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.render().decode().splitlines() if line.startswith(name)]


def test_counters_keep_their_names_and_bring_no_created_series() -> None:
    metrics = Metrics()
    metrics.counter("dm_worker_operate_error", "Failed operations.", ["worker", "type"]).labels("w1", "Pause").inc()
    metrics.counter("dm_syncer_added_jobs_total", "Jobs.").inc(2)
    assert _lines(metrics, "dm_worker") == ['dm_worker_operate_error{type="Pause",worker="w1"} 1']
    assert _lines(metrics, "dm_syncer") == ["dm_syncer_added_jobs_total 2"]
    text = metrics.render().decode()
    assert "_created" not in text
    assert "# TYPE dm_worker_operate_error counter\n" in text


def test_labels_are_in_alphabetical_order_and_without_blanks() -> None:
    metrics = Metrics()
    gauge = metrics.gauge("dm_worker_task_state", "Stage.", ["worker", "task", "source_id"])
    gauge.labels("w 1", 'a "quoted" task', "mysql-01").set(2)
    expected = 'dm_worker_task_state{source_id="mysql-01",task="a_\\"quoted\\"_task",worker="w_1"} 2'
    assert _lines(metrics, "dm_worker") == [expected]


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (-1, "-1"), (1.5, "1.5"), (0, "0"), (2_000_000, "2e+06")])
def test_whole_numbers_can_be_compared_by_a_shell(value: float, text: str) -> None:
    metrics = Metrics()
    metrics.gauge("g", "A gauge.").set(value)
    assert _lines(metrics, "g") == [f"g {text}"]


def test_histograms_have_buckets_sum_and_count() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("h", "Lag.", ["task"], buckets=[1, 2.5])
    histogram.labels("t").observe(2)
    assert _lines(metrics, "h") == [
        'h_bucket{le="1",task="t"} 0',
        'h_bucket{le="2.5",task="t"} 1',
        'h_bucket{le="+Inf",task="t"} 1',
        'h_count{task="t"} 1',
        'h_sum{task="t"} 2',
    ]


def test_a_name_is_given_once() -> None:
    metrics = Metrics()
    metrics.gauge("g", "A gauge.")
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.counter("g", "Another.")


def test_processor_use_is_a_percentage() -> None:
    metrics = Metrics()
    metrics.cpu_usage("dm_master_cpu_usage")
    [line] = _lines(metrics, "dm_master_cpu_usage")
    assert float(line.split()[1]) >= 0


class _Shown(Collector):
    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution

    def collect(self) -> Iterator[Metric]:
        yield self._distribution.family("h", "Lag.")


@given(st.lists(st.one_of(st.floats(0, 100), st.sampled_from([0.5, 1.0, 2.0, 4.0]))))
def test_distributions_read_as_the_librarys_histograms(values: list[float]) -> None:
    theirs, ours = Metrics(), Metrics()
    histogram = theirs.histogram("h", "Lag.", buckets=[0.5, 1, 2, 4])
    distribution = Distribution(0.5, 4)
    ours.registry.register(_Shown(distribution))
    for value in values:
        histogram.observe(value)
        distribution.add(value)
    assert ours.render().splitlines()[-7:] == theirs.render().splitlines()[-7:]
    assert distribution.count == len(values)
