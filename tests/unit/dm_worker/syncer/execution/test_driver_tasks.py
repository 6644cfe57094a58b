"""Hazards: a pause waits for a task in the driver; a canceled task writes after the pause; an exception is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deploy.local.process import WAIT_TIMEOUT
from dm_worker.syncer.execution.apply import BucketResult
from dm_worker.syncer.execution.driver_tasks import DriverTasks, NotCompleted
from dm_worker.syncer.execution.merge import BucketContent
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.execution.spark_tasks import BatchJob, results_of
from dm_worker.syncer.execution.target_connections import TargetSpec, WriterPool
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.errors import DMError
from pkg.settings.connections import DBConfig
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.execution.test_row_block import INSERT_EVENT, image, plan_of, slice_of
from tests.unit.dm_worker.syncer.execution.test_spark_tasks import CountRows


class Do(CountRows):
    """Calls a function for each bucket."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self._work = work

    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketResult:
        self._work()
        return BucketResult(bucket, content.changes)


def run(tasks: DriverTasks, work: Callable[[], object], buckets: int = 1) -> list[Any]:
    rows = binlog_bytes.rows(INSERT_EVENT, 2, b"".join(map(image, range(10))))
    return tasks.run([slice_of([(1, rows)])], BatchJob(Do(work), buckets, {1: plan_of()}))


class Caller:
    """Runs one batch in a thread of its own."""

    def __init__(self, tasks: DriverTasks, work: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, args=(tasks, work))
        self._thread.start()

    def _main(self, tasks: DriverTasks, work: Callable[[], object]) -> None:
        try:
            run(tasks, work)
        except NotCompleted as exc:
            self.error = exc

    def ended(self) -> BaseException | None:
        self._thread.join(WAIT_TIMEOUT)
        assert not self._thread.is_alive(), "the caller waits"
        return self.error


@pytest.mark.parametrize("buckets", [1, 4])
def test_all_rows_of_a_batch_are_consumed_once(buckets: int) -> None:
    tasks, seen = DriverTasks(), list[int]()
    for _ in range(2):
        results, report = results_of(run(tasks, lambda: seen.append(1), buckets), 1.0)
        assert sum(result.changes for result in results) == report.rows == 10
    assert len(seen) == 2 * buckets


def test_a_canceled_task_is_not_waited_for_and_later_ones_do_not_run() -> None:
    tasks, began, may_go_on, ended = DriverTasks(), threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert may_go_on.wait(WAIT_TIMEOUT)
        ended.set()

    caller = Caller(tasks, work)
    assert began.wait(WAIT_TIMEOUT)
    tasks.cancel()
    tasks.cancel()
    assert "canceled" in str(caller.ended())
    later: list[int] = []
    with pytest.raises(NotCompleted, match="canceled"):
        run(tasks, lambda: later.append(1))
    may_go_on.set()
    assert ended.wait(WAIT_TIMEOUT)
    assert not later


def test_a_canceled_task_is_not_waited_for_while_it_connects() -> None:
    """The server accepts the connection, and says nothing: only a cancellation ends the wait for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = DBConfig("127.0.0.1", server.getsockname()[1], "root")
        spec = TargetSpec(config, (), "m", "b", StatementForm())
        tasks, refused = DriverTasks(), threading.Event()

        def work() -> None:
            with pytest.raises(DMError), tasks.writers.writer(spec.address):
                pass
            refused.set()

        caller = Caller(tasks, work)
        client, _ = server.accept()
        tasks.cancel()
        assert "canceled" in str(caller.ended())
        client.close()
        assert refused.wait(WAIT_TIMEOUT)


def test_an_exception_of_a_task_reaches_the_caller() -> None:
    tasks = DriverTasks()

    def fail() -> None:
        raise ValueError("told to fail")

    with pytest.raises(NotCompleted, match=r"(?s)^ValueError\('told to fail'\)\nTraceback"):
        run(tasks, fail)
    assert run(tasks, lambda: None), "the next batch runs"


def test_a_pool_that_has_ended_does_not_even_connect() -> None:
    pool = WriterPool()
    pool.end()
    pool.end()
    with pytest.raises(DMError, match="canceled"), pool.writer((DBConfig("127.0.0.1", 1, "root"), ())):
        pass
