"""Spark's place is taken by threads of this process: the units' own task functions run, without a JVM.

A job starts in under a millisecond instead of 100, so that a whole migration of a few rows takes half a second.
What Spark itself does (serializing closures, processes, executors) is the business of other tests.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext

from dm_worker.dumper import dump_task, dump_unit
from dm_worker.engine.engine import TINY_BATCH, SparkEngine
from pkg.mysql.retry import retrying

Work = Callable[[Iterable[Any]], Iterable[Any]]
#: The partition that a thread works on, for tasks of a barrier stage.
_here = threading.local()


class TaskContext:
    """In place of Spark's BarrierTaskContext."""

    @staticmethod
    def get() -> type[TaskContext]:
        return TaskContext

    @staticmethod
    def partitionId() -> int:
        return int(_here.partition)


class LocalData:
    """Partitions, and what is still to do with each: as much of an RDD as the units use."""

    def __init__(self, context: LocalContext, make: Callable[[], list[list[Any]]]) -> None:
        self._context = context
        self._make = make
        self._kept: list[list[Any]] | None = None
        self._keep = False

    def partitions(self) -> list[list[Any]]:
        if self._kept is not None:
            return self._kept
        made = self._make()
        if self._keep:
            self._kept = made
        return made

    def barrier(self) -> LocalData:
        return self

    def mapPartitions(self, work: Work) -> LocalData:
        return LocalData(self._context, lambda: self._context.in_threads(work, self.partitions()))

    def partitionBy(self, count: int, place: Callable[[Any], int]) -> LocalData:
        def shuffled() -> list[list[Any]]:
            found: list[list[Any]] = [[] for _ in range(count)]
            for part in self.partitions():
                for entry in part:
                    found[place(entry[0]) % count].append(entry)
            return found

        return LocalData(self._context, shuffled)

    def persist(self, _level: object = None) -> LocalData:
        self._keep = True
        return self

    def unpersist(self) -> None:
        self._keep, self._kept = False, None

    def collect(self) -> list[Any]:
        return [entry for part in self.partitions() for entry in part]


class LocalBroadcast:
    def __init__(self, value: Any) -> None:
        self.value = value

    def destroy(self) -> None: ...


class LocalContext:
    """As much of a SparkContext as the units use. ``dies`` is asked for each task whether it ends without a result."""

    def __init__(self, slots: int, dies: Callable[[], str]) -> None:
        self.slots = slots
        self._dies = dies

    def parallelize(self, items: Iterable[Any], count: int) -> LocalData:
        entries = list(items)
        cuts = [len(entries) * i // count for i in range(count + 1)]
        return LocalData(self, lambda: [entries[a:b] for a, b in pairwise(cuts)])

    def runJob(self, data: LocalData, work: Work, _partitions: Sequence[int] | None = None) -> list[Any]:
        return data.mapPartitions(work).collect()

    def broadcast(self, value: Any) -> LocalBroadcast:
        return LocalBroadcast(value)

    def in_threads(self, work: Work, parts: list[list[Any]]) -> list[list[Any]]:
        def one(number: int) -> list[Any]:
            how = self._dies()
            if how == "before":
                raise Py4JError("the task was killed before it began")
            _here.partition = number
            done = list(work(iter(parts[number])))
            if how == "after":
                raise Py4JError("the task was killed when it had committed")
            return done

        if len(parts) == 1:
            return [one(0)]
        with ThreadPoolExecutor(max(1, len(parts))) as pool:
            return list(pool.map(one, range(len(parts))))


def _at_once(action: Callable[[], Any], **how: Any) -> Any:
    """In place of the dump's pauses before it begins again."""
    return retrying(action, **{**how, "base": 0.01})


class LocalEngine(SparkEngine):
    """An engine whose jobs run in threads. ``crash`` makes the next job die, before or after its commits.

    Each ``every``-th batch is for the driver, none with 0: with its one bucket it shows nothing of how rows are placed.
    """

    def __init__(self, slots: int = 4, every: int = 0) -> None:
        super().__init__(slots=slots)
        self._every = every
        self._crash = ""
        #: How many tasks still begin before it dies for good; None while it does not.
        self._passing: int | None = None
        self._guard = threading.Lock()
        self._batches = 0
        self._local = LocalContext(slots, self._take_crash)
        dump_task.BarrierTaskContext = TaskContext  # type: ignore[assignment, attr-defined]
        dump_unit.retrying = _at_once  # type: ignore[attr-defined]

    def crash(self, moment: str) -> None:
        """The next task that begins dies: ``before`` it works, or ``after`` it has committed."""
        with self._guard:
            self._crash = moment

    def die(self, tasks: int) -> None:
        """After so many tasks none does anything any more, as if the worker had been killed in the middle of a job."""
        with self._guard:
            self._passing = tasks

    @property
    def dead(self) -> bool:
        return self._passing == 0

    def unharmed(self) -> LocalEngine:
        """An engine in which nothing is to die any more: this one, or another if a death has not come."""
        return LocalEngine(self._local.slots, self._every) if self._crash or self._passing is not None else self

    def _take_crash(self) -> str:
        with self._guard:
            if self._passing is not None:
                if self._passing == 0:
                    return "before"
                self._passing -= 1
            found, self._crash = self._crash, ""
        return found

    @property
    def tiny_batch(self) -> int:
        """None is for the driver while a task is to die, because only a job's tasks do."""
        with self._guard:
            self._batches += 1
            is_for_jobs = not self._every or self._batches % self._every or self._crash or self._passing is not None
            return -1 if is_for_jobs else TINY_BATCH

    @property
    def shared_folder(self) -> Path | None:
        return None

    def context(self, should_stop: Callable[[], bool] = lambda: False) -> SparkContext:
        return cast(SparkContext, self._local)

    @contextlib.contextmanager
    def job_group(
        self, group: str, description: str = "", should_stop: Callable[[], bool] = lambda: False
    ) -> Iterator[SparkContext]:
        with self._jobs.counted(group):
            yield cast(SparkContext, self._local)

    def cancel(self, group: str) -> None: ...

    def close(self) -> None: ...
