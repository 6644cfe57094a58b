"""The executors of a Spark cluster: waits for them, counts them, and checks that they can run our code."""

from __future__ import annotations

import importlib
import platform
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from pkg import errors, native
from pkg.errors import Code, DMError
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread

log = get_logger(__name__)

#: Executors register one after another; after this many seconds without a new one, all are there.
SETTLE = 1.5
_POLL = 0.1
#: The driver's log line when the cluster's master cannot be reached or refuses the application.
_REFUSED = "Application has been killed. Reason:"
_WATCH = 1.0
#: The packages of our tasks.
TASK_MODULES = (
    "dm_worker.dumper.dump_task",
    "dm_worker.loader.load_task",
    "dm_worker.syncer.execution.spark_tasks",
    "dm_worker.diff.compare_task",
)
_COMPILED = "pkg.native._"


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor's report; ``kernel`` names its compiled parts.

    ``trouble`` is '' unless compiled parts are missing; ``problem`` is '' unless it cannot run tasks at all.
    """

    host: str
    python: str
    kernel: str
    trouble: str
    problem: str


def count(context: SparkContext) -> int:
    """The number of executors that are registered now."""
    return _count(_scala(context))


def _count(scala: Any) -> int:
    # The driver's own block manager is one of the entries.
    return int(scala.getExecutorMemoryStatus().size()) - 1


def slots(context: SparkContext) -> int:
    """How many tasks can run at the same time now; 0 without any executor."""
    scala = _scala(context)
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def is_stopped(context: SparkContext) -> bool:
    """Whether Spark itself has ended the context, as it does when the cluster's master removed the application."""
    return bool(_scala(context).isStopped())


def _scala(context: SparkContext) -> Any:
    return context._jsc.sc()


def await_executors(
    context: SparkContext, master: str, timeout: float, should_stop: Callable[[], bool], said: Callable[[], str]
) -> None:
    """Returns when executors are registered and no more arrive.

    Raises 50000 when none arrived in ``timeout`` seconds, when the master refused the application, or when
    ``should_stop``; ``said`` returns Spark's last output.
    """
    deadline = time.monotonic() + timeout
    known, changed = 0, time.monotonic()
    while True:
        now = time.monotonic()
        if is_stopped(context):
            raise refused(master, timeout, said())
        if (found := count(context)) != known:
            known, changed = found, now
        if known and now - changed >= SETTLE:
            return
        if not known and now > deadline:
            raise _no_executors(master, f"no executor registered within {timeout:.0f} s", timeout, said())
        if should_stop():
            raise errors.new(Code.NotSet, "the worker stops while it waits for Spark's executors", retryable=True)
        time.sleep(_POLL)


def is_refusal(said: str) -> bool:
    """Whether Spark's last output reports that it gave up the application. Spark then stops the context in its own
    thread while the constructor still runs, which fails with any error."""
    return _REFUSED in said


def refused(master: str, timeout: float, said: str) -> DMError:
    """The error of a worker that the cluster's master does not know; ``said`` is Spark's last output."""
    return _no_executors(master, "its master cannot be reached or refused this worker", timeout, said)


def _no_executors(master: str, why: str, timeout: float, said: str) -> DMError:
    return errors.new(
        Code.NotSet,
        f"Spark at {master} provides no executors for this worker's tasks: {why}",
        raw=said,
        workaround="Check `master` under [spark]; that the cluster has free cores and the memory of "
        "spark.executor.memory (another application may use them: limit each worker with `slots`); that "
        "executors reach this machine at spark.driver.host; and that spark.authenticate.secret is the "
        f"cluster's. If the cluster needs longer than {timeout:.0f} s to start executors, raise "
        "`executor-timeout`.",
        retryable=True,
    )


def prove_executors(context: SparkContext, master: str) -> list[str]:
    """Makes every executor import what tasks need, logs the executors, and returns warnings for operators.

    Raises 50000 with the reason when one cannot: another Python version, a missing package, no such interpreter.
    """
    tasks = max(1, slots(context))
    try:
        found = list(context.parallelize(range(tasks), tasks).mapPartitions(describe_executor).collect())
    except (Py4JError, PySparkException) as exc:
        raise _cannot_run(master, first_reason(exc), str(exc)[:4000]) from exc
    for executor in found:
        if executor.problem:
            raise _cannot_run(master, f"{executor.host}: {executor.problem}")
    for executor, tasks in Counter(found).items():
        kernel = executor.kernel or "pure Python"
        log.info("Spark executors", host=executor.host, slots=tasks, python=executor.python, kernel=kernel)
    return sorted(
        f"Spark executor {host}: {trouble} It needs parts that were built for the worker's platform and version of "
        "Python."
        for host, trouble in {(executor.host, executor.trouble) for executor in found if executor.trouble}
    )


def describe_executor(_partition: Iterable[int]) -> Iterator[Executor]:
    """Runs in a task."""
    problem = ""
    try:
        for name in TASK_MODULES:
            importlib.import_module(name)
    except Exception as exc:  # noqa: BLE001 - the driver must learn of every failed import
        problem = f"{type(exc).__name__}: {exc}"
    compiled = sorted(name.removeprefix(_COMPILED) for name in list(sys.modules) if name.startswith(_COMPILED))
    trouble = "" if problem else native.trouble()
    yield Executor(socket.gethostname(), platform.python_version(), ", ".join(compiled), trouble, problem)


_REASONS = ("PYTHON_VERSION_MISMATCH", "Cannot run program", "ModuleNotFoundError", "ImportError")


def first_reason(exc: BaseException) -> str:
    """The line of Spark's long message that names the fault on the executor."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    told = next((line for word in _REASONS for line in lines if word in line), None)
    return (told or next(iter(lines), type(exc).__name__))[:500]


def _cannot_run(master: str, reason: str, raw: str = "") -> DMError:
    return errors.new(
        Code.NotSet,
        f"an executor of {master} cannot run this worker's tasks: {reason}",
        raw=raw,
        workaround="Executors need this worker's Python version with PyMySQL 1.2 and cryptography, under the path that"
        " spark.pyspark.python (or PYSPARK_PYTHON of the worker) names; then resume the task.",
    )


class ExecutorWatch:
    """Calls ``on_lost`` once when jobs have waited for ``timeout`` seconds without any executor.

    This happens when the cluster's master was restarted and has lost the application: Spark itself waits for ever.
    """

    def __init__(self, context: SparkContext, timeout: float, on_lost: Callable[[], None]) -> None:
        self._scala = _scala(context)  # Python's half of the context forgets it when it stops
        self._timeout = timeout
        self._on_lost = on_lost
        self._ended = threading.Event()
        # If the watch fails, the executors count as lost: a new context has its own watch.
        self._thread = ServiceThread(
            "spark-executor-watch", self._run, self._ended, on_failure=lambda _: self._on_lost()
        ).start()

    def close(self) -> None:
        """Ends the watch. Idempotent; may be called from ``on_lost``."""
        self._ended.set()

    def _run(self) -> None:
        empty_since: float | None = None
        while not self._ended.wait(_WATCH):
            try:
                starving = _count(self._scala) == 0 and len(self._scala.statusTracker().getActiveJobIds()) > 0
            except (Py4JError, OSError) as exc:
                log.debug("the watch over executors ends with its JVM", error=str(exc))
                self._ended.set()
                return
            now = time.monotonic()
            empty_since = (empty_since or now) if starving else None
            if empty_since is not None and now - empty_since >= self._timeout:
                log.error(
                    "all Spark executors are lost and none came back; starting Spark again", seconds=self._timeout
                )
                self._on_lost()
                self._ended.set()
                return
