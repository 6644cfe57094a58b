"""A benchmark that counts wrongly is worse than none."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.figures import Cost, Figure, Report, histogram, middle, percentile


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_a_percentile_is_a_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    # No smaller value will do.
    below = [value for value in values if value < found]
    assert not below or len(below) < share * len(values) + 1e-9


def test_known_percentiles() -> None:
    values = list(range(1, 101))
    random.Random(1).shuffle(values)
    assert [percentile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_no_percentile_of_nothing(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, share)


def test_a_histogram_counts_every_value_once_and_shows_rare_ones() -> None:
    lines = histogram([1.0, 10.0, 10.5, 99.0, *[50.0] * 200], [10, 50])
    assert [int(line.split()[-2]) for line in lines] == [2, 201, 1]
    assert [len(line.split()[-1]) for line in lines] == [1, 40, 1]


def _figure(value: float, reach: float | None = None, *, at_most: bool = False, target: str = "T1") -> Figure:
    return Figure(target, "work", "peer", value, "x", reach, at_most)


def test_a_target_is_met_from_the_right_side() -> None:
    assert _figure(5.0, 5.0).met
    assert _figure(4.99, 5.0).met is False
    assert _figure(400, 400, at_most=True).met
    assert _figure(401, 400, at_most=True).met is False
    assert _figure(1.0).met is None


def test_the_summary_orders_targets_by_number_and_says_which_are_not_met() -> None:
    report = Report()
    for figure in (
        _figure(1.0, target=""),
        _figure(9.0, 10.0, target="T10"),
        _figure(3.0, 2.0, target="T2"),
        _figure(1.0, 3.0, at_most=True, target="T13"),
    ):
        report.add(figure)
    lines = report.table().splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["T2", "T10", "T13", "work"]
    assert [line.endswith("NOT met") for line in lines] == [False, True, False, False]


def test_a_ratio_is_of_medians_and_more_than_one_when_ours_is_faster() -> None:
    report = Report()
    report.ratio("T1", "work", "peer", [1.0, 100.0, 2.0], [6.0, 4.0, 5.0], 2.5)
    assert report.figures[0].value == 2.5
    assert report.figures[0].met
    report.measured("work", "ours", [1.0], 10)
    written = json.loads(report.to_json())
    assert written["figures"][0]["met"] is True
    assert written["measurements"][0]["seconds"] == [1.0]


def test_a_comparison_gives_the_ratios_of_time_and_cpu() -> None:
    report = Report()
    ours = [Cost(2.0, {"driver": 1.0, "target": 1.0}), Cost(1.0, {"driver": 3.0}), Cost(9.0, {"driver": 1.0})]
    report.compare("T1", "work", "peer", ours, [Cost(6.0, {"replica": 5.0})], 2.5)
    figure = report.figures[0]
    assert (figure.value, figure.cpu, figure.met) == (3.0, 2.5, True)
    assert figure.line().split() == ["T1", "work", "peer", "3.00x", "2.50x", ">=", "2.5x", "met"]
    report.turns("work", "ours", ours, 10)
    assert json.loads(report.to_json())["measurements"][0]["cpu"][1] == {"driver": 3.0}


def test_costs_of_successive_work_add_up_by_process() -> None:
    assert Cost(1.0, {"a": 1.0, "b": 2.0}) + Cost(2.0, {"b": 3.0, "c": 4.0}) == Cost(
        3.0, {"a": 1.0, "b": 5.0, "c": 4.0}
    )


def test_the_middle_turn_is_one_that_ran() -> None:
    assert [middle([Cost(float(x)) for x in found]).seconds for found in ([3], [5, 1], [9, 1, 4])] == [3, 1, 4]
