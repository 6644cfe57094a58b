"""Hazard: writers wait for each other because too few tasks run; a batch starts processes that make nothing faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution.spark_tasks import WRITERS, writing_tasks

COUNTS = st.integers(1, 200)


@given(COUNTS, COUNTS, COUNTS)
def test_all_buckets_are_written_at_once_by_no_more_tasks_than_that_needs(buckets: int, slots: int, cores: int) -> None:
    parallel = min(slots, cores)
    found = writing_tasks(buckets, slots, parallel)
    assert 1 <= found <= min(buckets, slots)
    assert found * WRITERS >= buckets or found == slots, "buckets wait for each other"
    assert found >= min(buckets, parallel), "cores have nothing to do"
    assert found <= max(parallel, (buckets + WRITERS - 1) // WRITERS)


def test_default_of_16_writers_takes_four_processes_on_two_cores() -> None:
    assert writing_tasks(16, 16, 2) == 4
    assert writing_tasks(16, 16, 16) == 16, "on a cluster, or with many cores, each is a task"
