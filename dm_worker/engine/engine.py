"""The one SparkContext of a dm-worker, started on first use and stopped with the process."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

from dm_worker.engine import executors
from dm_worker.engine.code_archive import ship_code, source_paths
from dm_worker.engine.context import WorkerContext
from dm_worker.engine.engine_figures import EngineFigures, JobCounts, memory_by_part
from dm_worker.engine.jvm import SparkJvm, not_started
from dm_worker.engine.settings import PYTHON, TASK_ATTEMPTS, is_local, spark_settings
from pkg import errors
from pkg.config.worker import DEFAULT_SLOTS
from pkg.errors import Code
from pkg.native import CHOICE
from pkg.process.log import get_logger
from pkg.process.process_folder import ProcessFolder

log = get_logger(__name__)

#: Slots are not cores: writers and dumpers mostly wait for a server. An idle Python worker takes about 60 MB.
DEFAULT_DRIVER_MEMORY = "1g"
#: Bytes that each subtask's replication may use, in addition to idle processes.
DEFAULT_MEMORY = 1 << 30
#: A batch of so many bytes of rows events or less is applied by the driver: its rows cost less than a Spark job. -1 in
#: DM_TINY_BATCH makes each batch a Spark job.
TINY_BATCH = int(os.environ.get("DM_TINY_BATCH", 64 * 1024))
#: Timeout in seconds for a cluster to provide executors, also to replace all of them.
EXECUTOR_TIMEOUT = 120.0
#: Seconds between two checks whether a caller still waits for a start.
_STOP_POLL = 0.1
#: Timeout in seconds for an orderly stop of the context; then the JVM is ended.
STOP_TIMEOUT = 5.0


class SparkEngine:
    """Starts the SparkContext lazily and provides it to the units.

    ``master`` is empty for the embedded engine (``local`` with ``slots`` slots), or a Spark master URL.
    ``conf`` adds to or replaces our settings. ``folder`` contains the temporary folder.
    ``memory`` in bytes is the budget of each subtask's replication. ``tiny_batch``: as :data:`TINY_BATCH`.
    A cluster has ``executor_timeout`` seconds to provide executors.
    The next :meth:`context` replaces a dead JVM, a context that Spark ended and one that lost all executors; their jobs
    fail and are retried by their unit.
    """

    def __init__(
        self,
        *,
        master: str = "",
        slots: int = DEFAULT_SLOTS,
        conf: Mapping[str, str] | None = None,
        driver_memory: str = DEFAULT_DRIVER_MEMORY,
        memory: int = DEFAULT_MEMORY,
        folder: Path | None = None,
        executor_timeout: float = EXECUTOR_TIMEOUT,
        tiny_batch: int = TINY_BATCH,
    ) -> None:
        self._master = master or f"local[{slots},{TASK_ATTEMPTS}]"
        self.memory = memory
        self._tiny_batch = tiny_batch
        self._slots = slots
        self._executor_timeout = executor_timeout
        self._conf = {"spark.driver.memory": driver_memory, **(conf or {})}
        self._base = folder
        self._lock = threading.Lock()
        self._folder: ProcessFolder | None = None
        self._jvm: SparkJvm | None = None
        self._context: SparkContext | None = None
        self._watch: executors.ExecutorWatch | None = None
        self._closed = False
        self._jobs = JobCounts()
        #: Warnings for operators about the executors, from the start of the context.
        self.warnings: list[str] = []

    @property
    def tiny_batch(self) -> int:
        """As :data:`TINY_BATCH`."""
        return self._tiny_batch

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, so that driver and tasks share a file system."""
        return is_local(self._master)

    @property
    def shared_folder(self) -> Path | None:
        """A folder that the tasks can also read, removed with the engine; None on a cluster and before a start."""
        return self._folder.path if self.is_local and self._folder is not None else None

    @property
    def slots(self) -> int:
        """How many tasks can run at once, at least 1: as configured when embedded, as executors offer on a cluster.

        Starts Spark on a cluster; raises the errors of :meth:`context`.
        """
        return self._slots if self.is_local else max(1, executors.slots(self.context()))

    @property
    def parallel(self) -> int:
        """How many tasks can compute at the same time."""
        return min(self.slots, os.cpu_count() or 1) if self.is_local else self.slots

    @property
    def jvm_pid(self) -> int:
        """The running JVM's process id, 0 when there is none."""
        jvm = self._jvm
        return jvm.pid if jvm is not None and jvm.alive else 0

    def context(self, should_stop: Callable[[], bool] = lambda: False) -> SparkContext:
        """The SparkContext; the first call starts the JVM (about 5 s), later ones return at once.

        Raises 50000 when the JVM does not start, or when a cluster has no executors, or none that can run our code;
        also, retryable, as soon as ``should_stop`` is true: the start continues without the caller.
        """
        if self._lock.acquire(blocking=False):
            try:
                if self._is_running():
                    assert self._context is not None
                    return self._context
            finally:
                self._lock.release()
        return _EngineStart(self._started).wait(should_stop)

    def await_slots(self, should_stop: Callable[[], bool]) -> None:
        """Waits until :attr:`slots` can answer at once. Raises as :meth:`context`."""
        if not self.is_local:
            self.context(should_stop)

    def _is_running(self) -> bool:
        """Whether context and JVM are running."""
        if self._closed or self._context is None or self._jvm is None or not self._jvm.alive:
            return False
        return not executors.is_stopped(self._context)

    def _started(self) -> SparkContext:
        """Starts what is not running. Raises as :meth:`context`."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the Spark engine is closed: the worker is ending")
            if self._jvm is not None and not self._jvm.alive:
                log.error(
                    "Spark's JVM ended unexpectedly; starting it again", pid=self._jvm.pid, output=self._jvm.last_words
                )
                self._discard()
            if self._context is not None and executors.is_stopped(self._context):
                assert self._jvm is not None
                log.error("Spark ended its context; creating a new one", output=self._jvm.last_words)
                self._discard()
            if self._context is None:
                self._start()
            assert self._context is not None
            return self._context

    def warm_up(self) -> None:
        """Starts Spark in the background, so that the first unit does not wait for it. Idempotent."""
        threading.Thread(target=self._warm_up, name="spark-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        try:
            began = time.monotonic()
            first_job(self.context())
            log.info("Spark is ready", seconds=round(time.monotonic() - began, 1), master=self._master)
        except Exception as exc:  # noqa: BLE001 - py4j and Spark raise many kinds, also when stopped meanwhile
            # The unit that needs Spark gets the same error and shows it.
            if not self._closed:
                log.error("cannot start Spark", error=str(exc))

    def _start(self) -> None:
        # py4j raises failed calls and logs them too, some of them with the root logger.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_not_of_py4j)
        if PYTHON in self._conf:
            # PySpark itself reads only the environment.
            os.environ["PYSPARK_PYTHON"] = self._conf[PYTHON]
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if self.is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if self._folder is None:
            self._folder = ProcessFolder("dm-worker-", self._base)
        settings = spark_settings(
            master=self._master,
            slots=self._slots,
            folder=self._folder.path,
            paths=os.pathsep.join(source_paths(os.environ.get("PYTHONPATH", ""))),
            kernel=CHOICE,
            conf=self._conf,
        )
        self._jvm = SparkJvm(settings, self._folder.path)
        try:
            try:
                context = WorkerContext(SparkConf().setAll(list(settings.items())), self._jvm.gateway)
            except (Py4JError, OSError) as exc:
                text = str(exc)  # asks the JVM
                self._jvm.close()
                raise self._failed_start(text, self._jvm.last_words) from exc
            self._context = context
            # The default handler prints a stack trace to stderr when the JVM closes the connection.
            context._accumulatorServer.handle_error = _accumulators_cut  # type: ignore[method-assign, assignment]
            if not self.is_local:
                self._join_cluster(context, self._jvm, self._folder.path)
        except BaseException:
            self._discard()
            raise

    def _failed_start(self, text: str, said: str) -> errors.DMError:
        """The error for the message ``text`` of the context's constructor; ``said`` is the JVM's last output."""
        if not self.is_local and executors.is_refusal(said):
            return executors.refused(self._master, self._executor_timeout, said)
        # Spark refuses a setting, or the JVM died because of one.
        return not_started(_refusal(text), [text[:4000], said])

    def _join_cluster(self, context: SparkContext, jvm: SparkJvm, folder: Path) -> None:
        executors.await_executors(
            context, self._master, self._executor_timeout, lambda: self._closed, lambda: jvm.last_words
        )
        ship_code(context, folder)
        self.warnings = executors.prove_executors(context, self._master)
        # Without its JVM the jobs of the context end, and the next one gets a new pair.
        self._watch = executors.ExecutorWatch(context, self._executor_timeout, jvm.close)

    @contextlib.contextmanager
    def job_group(
        self, group: str, description: str = "", should_stop: Callable[[], bool] = lambda: False
    ) -> Iterator[SparkContext]:
        """Runs the jobs of this thread under ``group``, so that :meth:`cancel` can end them.

        Raises as :meth:`context`.
        """
        context = self.context(should_stop)
        jvm = self._jvm
        context.setJobGroup(group, description or group, interruptOnCancel=True)
        try:
            with self._jobs.counted(group):
                yield context
        finally:
            # Don't call a JVM that has ended; the next one does not know this context.
            if jvm is not None and jvm is self._jvm and jvm.alive:
                context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    def figures(self) -> EngineFigures:
        """Jobs and memory. From any thread; starts nothing."""
        jobs = self._jobs
        return EngineFigures(jobs.ended, jobs.failed, jobs.canceled, jobs.running, memory_by_part(self.jvm_pid))

    def cancel(self, group: str) -> None:
        """Cancels the running jobs of ``group``; does nothing when Spark never started."""
        # Without the lock: a start may hold it for seconds, and then no job of the group runs yet.
        context, jvm = self._context, self._jvm
        if context is not None and jvm is not None and jvm.alive:
            self._jobs.note_cancel(group)
            context.cancelJobGroup(group)

    def close(self) -> None:
        """Stops Spark and removes its files. Idempotent; Spark does not start again afterwards."""
        self._closed = True
        with self._without_start():
            if self._watch is not None:
                self._watch.close()
            if self._context is not None and self._jvm is not None and self._jvm.alive:
                # A context that hangs in its stop must not prevent the end of the process.
                stopper = threading.Thread(target=self._context.stop, name="spark-stop", daemon=True)
                stopper.start()
                stopper.join(STOP_TIMEOUT)
            self._discard()
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    @contextlib.contextmanager
    def _without_start(self) -> Iterator[None]:
        """Holds the lock. A start that has it may wait a minute for a cluster's master: ending its JVM fails it."""
        while not self._lock.acquire(timeout=_STOP_POLL):
            jvm = self._jvm
            if jvm is not None and jvm.alive:
                log.info("ending Spark's JVM, which still starts", pid=jvm.pid)
                jvm.close()
        try:
            yield
        finally:
            self._lock.release()

    def _discard(self) -> None:
        """Forgets context and JVM, so that a new pair can be created."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._jvm is None:
            return
        self.warnings = []
        self._jvm.close()
        if self._context is not None and self._context._accumulatorServer is not None:
            self._context._accumulatorServer.shutdown()
        self._jvm = self._context = None
        # PySpark caches these per process and would call the dead JVM.
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None


def first_job(context: SparkContext) -> None:
    """Loads what the jobs of batches need: Python's daemon, and the JVM's classes for a shuffle.

    Otherwise the first large batch would wait for them (1 to 2 s on a busy machine).
    """
    context.parallelize(range(2), 2).map(lambda number: (number, b"")).partitionBy(2).count()


class _EngineStart:
    """A start of Spark in its own thread; callers may stop waiting for it."""

    def __init__(self, start: Callable[[], SparkContext]) -> None:
        self._start = start
        self._done = threading.Event()
        self._result: SparkContext | BaseException | None = None
        threading.Thread(target=self._main, name="spark-start", daemon=True).start()

    def _main(self) -> None:
        try:
            self._result = self._start()
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            self._result = exc
        self._done.set()

    def wait(self, should_stop: Callable[[], bool]) -> SparkContext:
        while not self._done.wait(_STOP_POLL):
            if should_stop():
                raise errors.new(
                    Code.NotSet,
                    "a stop was requested while Spark was starting",
                    workaround="Resume the task; Spark may have started by then.",
                    retryable=True,
                )
        if isinstance(self._result, BaseException):
            raise self._result
        assert self._result is not None
        return self._result


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _refusal(text: str) -> str:
    """Java's message: the line after py4j's own."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = next((line[1:].strip() for line in lines if line.startswith(":")), None)
    return (java or next(iter(lines), "it failed without a message"))[:500]


def _accumulators_cut(request: object, client: object) -> None:
    log.debug("the connection for accumulator updates ended")
