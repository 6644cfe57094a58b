"""Hazards: writers wait for each other because too few tasks run; a batch starts processes that make nothing faster;
rows of a batch don't reach the job's action, or twice."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkContext

from dm_worker.syncer.execution.apply import BucketResult
from dm_worker.syncer.execution.bucket_action import BucketAction, MergeAgain
from dm_worker.syncer.execution.expected_rows import ExpectRows
from dm_worker.syncer.execution.merge import BucketContent, WriteRule
from dm_worker.syncer.execution.row_statements import StatementForm, write_rule_of
from dm_worker.syncer.execution.spark_tasks import WRITERS, BatchJob, first_error, results_of, run, writing_tasks
from dm_worker.syncer.execution.spill import SpillStore
from dm_worker.syncer.rows.conflict_sets import ConflictKey
from dm_worker.syncer.rows.key_normalization import EXACT, KeyNormalizer
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg import errors
from pkg.errors import Code
from tests.fuzz.engine import LocalContext, Work
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.execution.test_row_block import INSERT_EVENT, image, plan_of, slice_of

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


_SEEN: list[tuple[int, int]] = []
#: The partitions of each job.
_CHOSEN: list[Sequence[int] | None] = []
_GUARD = threading.Lock()


class CountRows(BucketAction):
    """Counts the rows of each bucket; refuses one of them."""

    safe = True

    def __init__(self, refused: int = -1) -> None:
        self._refused = refused

    def rule_of(self, plan: TablePlan) -> WriteRule:
        return write_rule_of(plan, StatementForm(safe=True))

    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketResult:
        if bucket == self._refused:
            raise errors.new(Code.DBExecuteFailed, "told to refuse")
        with _GUARD:
            _SEEN.append((bucket, sum(group.count for group in content.groups)))
        return BucketResult(bucket, content.changes)


class MergeByOthers(CountRows):
    """Has the rows merged again, for an action that counts them."""

    def rule_of(self, plan: TablePlan) -> WriteRule:
        return write_rule_of(plan, StatementForm(multiple=False))

    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketResult:
        assert len(content.groups) == content.rows
        raise MergeAgain(CountRows())


class OneTask:
    """In place of Spark: a single task, here."""

    @staticmethod
    def parallelize(items: Sequence[Any], partitions: int) -> Sequence[Any]:
        return items

    @staticmethod
    def runJob(
        items: Sequence[Any], work: Callable[[Iterable[Any]], Iterable[Any]], partitions: Sequence[int] | None
    ) -> list[Any]:
        _CHOSEN.append(partitions)
        return list(pickle.loads(pickle.dumps(work))(iter(items)))


def outcomes(action: BucketAction) -> list[Any]:
    _SEEN.clear()
    slices = [
        slice_of([(1, binlog_bytes.rows(INSERT_EVENT, 2, b"".join(map(image, range(n, n + 10)))))], order=n // 10)
        for n in (0, 10)
    ]
    job = BatchJob(action, 4, {1: plan_of()})
    return run(cast(SparkContext, OneTask()), slices, SpillStore(), job, small=True, partitions=1)


def test_every_row_of_a_batch_reaches_the_action_of_its_job_once() -> None:
    results, report = results_of(outcomes(CountRows()), 1.0)
    assert sorted(Counter(bucket for bucket, _ in _SEEN).items()) == [(bucket, 1) for bucket in range(4)]
    assert sum(rows for _, rows in _SEEN) == 20
    assert sum(result.changes for result in results) == report.rows == 20


def test_results_with_rows_are_not_passed_on_as_small_ones(tmp_path: Path) -> None:
    """As text they would take a multiple of their memory; in files they are small."""
    _CHOSEN.clear()
    outcomes(CountRows())
    outcomes(ExpectRows(full=True, most_rows=100, store=SpillStore()))
    outcomes(ExpectRows(full=True, most_rows=100, store=SpillStore(str(tmp_path))))
    assert _CHOSEN == [None, [0], None]


def test_an_action_may_leave_a_bucket_to_another_one_with_other_rules() -> None:
    results, report = results_of(outcomes(MergeByOthers()), 1.0)
    assert sorted(bucket for bucket, _ in _SEEN) == [0, 1, 2, 3]
    assert sum(rows for _, rows in _SEEN) == 20
    assert sum(result.changes for result in results) == report.rows == 20


def test_the_error_of_an_action_comes_back_as_the_outcome_of_its_bucket() -> None:
    error = first_error(outcomes(CountRows(refused=2)))
    assert error is not None
    with pytest.raises(errors.DMError, match="told to refuse"):
        raise error
    assert sorted(bucket for bucket, _ in _SEEN) == [0, 1, 3]


class WholePartitions(LocalContext):
    """Runs one task after the other, each of which reads its whole partition."""

    def __init__(self) -> None:
        super().__init__(2, lambda: "")

    def in_threads(self, work: Work, parts: list[list[Any]]) -> list[list[Any]]:
        found = []
        for part in parts:
            entries = iter(part)
            found.append(list(work(entries)))
            assert list(entries) == [], "Spark ends a Python worker whose task leaves data unread"
        return found


@pytest.mark.parametrize("conflicts", [False, True])
def test_a_batch_that_fails_leaves_the_python_workers_to_the_next_job(conflicts: bool) -> None:
    plan = plan_of()
    if conflicts:
        plan = replace(plan, conflict_keys=(ConflictKey(1, (1,), (KeyNormalizer(EXACT),)),))
    whole = b"".join(map(image, range(20)))
    slices = [
        slice_of([(1, binlog_bytes.rows(INSERT_EVENT, 2, data))], order=order)
        for order, data in enumerate((whole[:-1], whole))
    ]
    job = BatchJob(CountRows(), 4, {1: plan})
    found = run(cast(SparkContext, WholePartitions()), slices, SpillStore(), job, small=False, partitions=2)
    error = first_error(found)
    assert error is not None
    assert error.kind is Code.BinlogParseSingleEv
