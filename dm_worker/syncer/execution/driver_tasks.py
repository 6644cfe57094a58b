"""The tasks of tiny batches: they run in threads of the driver, because their rows cost less than a Spark job.

The code is that of Spark's tasks. A caller never waits for a task that is canceled: the task goes on as one that Spark
lost track of, but its connection is broken off and it gets no other, so that it cannot commit.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from queue import SimpleQueue

from dm_worker.syncer.execution import spark_tasks
from dm_worker.syncer.execution.spark_tasks import BatchJob, BucketOutcome
from dm_worker.syncer.execution.spill import SpillStore, spill_slices
from dm_worker.syncer.execution.target_connections import WriterPool
from dm_worker.syncer.planning.batch import Slice

_CANCELED = "it was canceled"
#: The outcomes of a task, or why there are none.
_Answer = list[BucketOutcome] | str


class NotCompleted(Exception):
    """A task was canceled, or ended by an exception, whose traceback this has."""


class DriverTasks:
    """The tasks of one run, one at a time. ``writers``: their connections, which stay open for the next one."""

    def __init__(self) -> None:
        self.writers = WriterPool()
        self._lock = threading.Lock()
        self._is_canceled = False
        #: Where the caller waits.
        self._answers: SimpleQueue[_Answer] = SimpleQueue()

    def run(self, slices: Sequence[Slice], job: BatchJob) -> list[BucketOutcome]:
        """The outcomes of a batch's one task. Raises ``NotCompleted``."""
        answers: SimpleQueue[_Answer] = SimpleQueue()
        with self._lock:
            if self._is_canceled:
                raise NotCompleted(_CANCELED)
            self._answers = answers
        threading.Thread(target=_run, args=(slices, job, answers), name="tiny-batch", daemon=True).start()
        answer = answers.get()
        if isinstance(answer, str):
            raise NotCompleted(answer)
        return answer

    def cancel(self) -> None:
        """Ends the running task, and all later ones. From any thread; may be called again."""
        with self._lock:
            self._is_canceled = True
            self._answers.put(_CANCELED)
        self.writers.end()


def _run(slices: Sequence[Slice], job: BatchJob, answers: SimpleQueue[_Answer]) -> None:
    try:
        answers.put(spark_tasks.run_here(spill_slices(slices, SpillStore()), job))
    except Exception as exc:  # noqa: BLE001 - raised by run(), as Spark does with those of its tasks
        answers.put(f"{exc!r}\n{traceback.format_exc()}")
