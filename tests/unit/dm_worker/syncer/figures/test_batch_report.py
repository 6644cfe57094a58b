"""Hazard: tasks that work side by side are counted as more time than there was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.figures.batch_report import (
    BucketFigures,
    BucketReport,
    SliceReport,
    TaskTimes,
    batch_report,
    covered,
)

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(INTERVALS)
def test_what_overlaps_counts_once(found: list[tuple[int, int]]) -> None:
    seconds = {second for began, length in found for second in range(began, began + length)}
    assert covered((float(began), float(began + length)) for began, length in found) == len(seconds)


def test_a_batch_adds_up_its_tasks() -> None:
    slices = [
        SliceReport(TaskTimes(10.0, 12.0, {"decode": 1.5, "shuffle": 0.5}), {1: (3, 0, 1)}, 100, 60),
        SliceReport(TaskTimes(11.0, 13.0, {"decode": 2.0, "shuffle": 0.0}), {1: (1, 2, 0), 7: (0, 0, 4)}, 50, 40),
    ]
    bucket = BucketReport(TaskTimes(14.0, 18.0, {"shuffle": 0.5, "compact": 0.5, "write": 3.0}), 100, 6, 0.2)
    report = batch_report(9.0, slices, [], [BucketFigures(2, bucket, 3, 0.0)])
    assert report.changes == {1: (4, 2, 1), 7: (0, 0, 4)}
    assert (report.change_count, report.rows, report.read, report.packed) == (11, 6, 150, 100)
    assert report.busy == 7.0, "from 10 to 13 and from 14 to 18"
    assert report.stages == {"decode": 3.5, "shuffle": 1.0, "compact": 0.5, "write": 3.0}
    assert sum(report.shares.values()) == pytest.approx(report.busy)
    assert report.shares["write"] == pytest.approx(7.0 * 3 / 8)


def test_a_job_is_not_busier_than_it_is_long() -> None:
    report = batch_report(1.0, [SliceReport(TaskTimes(0.0, 5.0, {"decode": 5.0}), {}, 0, 0)], [], [])
    assert report.busy == 1.0
    assert batch_report(1.0, [], [], []).shares == {}
