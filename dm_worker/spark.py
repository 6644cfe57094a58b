"""The one SparkContext of a dm-worker, started on first use and stopped with the process."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext

from dm_worker.jvm import SparkJvm
from pkg.log import get_logger
from pkg.work_folder import WorkFolder

log = get_logger(__name__)

#: Slots are not cores: writers and dumpers mostly wait for a server. An idle Python worker takes about 60 MB.
DEFAULT_SLOTS = 16
DEFAULT_DRIVER_MEMORY = "1g"
#: Bytes that each subtask's replication may hold, beside what idle processes take.
DEFAULT_MEMORY = 1 << 30
#: A killed Python worker costs one attempt of its task; jobs are idempotent, so Spark may simply try again.
TASK_ATTEMPTS = 4
#: Seconds that an orderly stop of the context may take before the JVM is ended anyway.
STOP_TIMEOUT = 5.0

_ROOT = Path(__file__).resolve().parent.parent
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


class SparkEngine:
    """Starts the SparkContext lazily and hands it to the units.

    ``master`` is empty for the embedded engine (``local`` with ``slots`` slots), or a Spark master URL.
    ``conf`` adds to or replaces our settings. ``memory`` in bytes is the budget of each subtask's replication.
    ``folder`` is where the temporary folder is made.
    A JVM that died is replaced at the next :meth:`context`; jobs that it ran fail and are tried again by their unit.
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
    ) -> None:
        self._master = master or f"local[{slots},{TASK_ATTEMPTS}]"
        self.slots = slots
        self.memory = memory
        self._conf = {"spark.driver.memory": driver_memory, **(conf or {})}
        self._base = folder
        self._lock = threading.Lock()
        self._folder: WorkFolder | None = None
        self._jvm: SparkJvm | None = None
        self._context: SparkContext | None = None
        self._closed = False

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, so that driver and tasks share a file system."""
        return self._master.startswith("local[") or self._master == "local"

    @property
    def parallel(self) -> int:
        """How many tasks make progress at a time: those that compute, not those that wait."""
        return min(self.slots, os.cpu_count() or 1) if self.is_local else self.slots

    @property
    def jvm_pid(self) -> int:
        """The running JVM's process id, 0 when there is none."""
        jvm = self._jvm
        return jvm.pid if jvm is not None and jvm.alive else 0

    def context(self) -> SparkContext:
        """The SparkContext; the first call starts the JVM (about 5 s), later ones return at once.

        Raises 50000 when the JVM does not start.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the Spark engine is closed: the worker is ending")
            if self._jvm is not None and not self._jvm.alive:
                log.error("Spark's JVM died and is started again", pid=self._jvm.pid, output=self._jvm.last_words)
                self._discard()
            if self._context is None:
                self._context = self._start()
            return self._context

    def warm_up(self) -> None:
        """Starts Spark in the background, so that the first unit need not wait for it. Idempotent."""
        threading.Thread(target=self._warm_up, name="spark-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        try:
            began = time.monotonic()
            # One task makes Spark start its Python daemon too.
            self.context().parallelize([0], 1).count()
            log.info("Spark is ready", seconds=round(time.monotonic() - began, 1), master=self._master)
        except Exception as exc:  # noqa: BLE001 - py4j and Spark raise many kinds, also when stopped meanwhile
            # The unit that needs Spark runs into the same error and shows it.
            if not self._closed:
                log.error("cannot start Spark", error=str(exc))

    def _start(self) -> SparkContext:
        # py4j logs each failed call besides raising it.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if self.is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if self._folder is None:
            self._folder = WorkFolder("dm-worker-", self._base)
        settings = self._settings(self._folder.path)
        self._jvm = SparkJvm(settings, self._folder.path)
        context = SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=self._jvm.gateway)
        # Its default prints a stack trace to stderr when the JVM closes the connection.
        context._accumulatorServer.handle_error = _accumulators_cut  # type: ignore[method-assign, assignment]
        if not self.is_local:
            context.addPyFile(str(_pack_code(self._folder.path)))
        return context

    def _settings(self, folder: Path) -> dict[str, str]:
        # Python workers import our packages from where the driver found them.
        paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        return {
            "spark.master": self._master,
            "spark.app.name": "dm-worker",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.mode": "FAIR",
            "spark.locality.wait": "0",
            "spark.shuffle.compress": "false",
            "spark.python.worker.reuse": "true",
            "spark.task.maxFailures": str(TASK_ATTEMPTS),
            "spark.local.dir": str(folder),
            "spark.log.level": "ERROR",
            **(
                {"spark.executorEnv.PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **_LOCAL}
                if self.is_local
                else {}
            ),
            **self._conf,
        }

    @contextlib.contextmanager
    def job_group(self, group: str, description: str = "") -> Iterator[SparkContext]:
        """Runs the jobs of this thread under ``group``, so that :meth:`cancel` can end them."""
        context = self.context()
        context.setJobGroup(group, description or group, interruptOnCancel=True)
        try:
            yield context
        finally:
            if self._jvm is not None and self._jvm.alive:
                context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    def cancel(self, group: str) -> None:
        """Cancels the running jobs of ``group``; does nothing when Spark never started."""
        # Without the lock: a start may hold it for seconds, and then nothing of the group runs yet.
        context, jvm = self._context, self._jvm
        if context is not None and jvm is not None and jvm.alive:
            context.cancelJobGroup(group)

    def close(self) -> None:
        """Stops Spark and removes its files. Idempotent; Spark does not start again afterwards."""
        with self._lock:
            self._closed = True
            if self._context is not None and self._jvm is not None and self._jvm.alive:
                # A context that hangs in its stop must not keep the process from ending.
                stopper = threading.Thread(target=self._context.stop, name="spark-stop", daemon=True)
                stopper.start()
                stopper.join(STOP_TIMEOUT)
            self._discard()
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    def _discard(self) -> None:
        """Forgets context and JVM, so that a new pair can be made."""
        if self._jvm is not None:
            self._jvm.close()
        if self._context is not None and self._context._accumulatorServer is not None:
            self._context._accumulatorServer.shutdown()
        self._jvm = self._context = None
        # PySpark keeps these per process and would talk to the dead JVM.
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None


def _accumulators_cut(request: object, client: object) -> None:
    log.debug("the connection for accumulator updates ended")


def _pack_code(folder: Path) -> Path:
    """Our packages as one file that executors on other machines fetch from the driver."""
    archive = folder / "dm-code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for package in ("dm_worker", "pkg"):
            for source in sorted((_ROOT / package).rglob("*.py")):
                out.write(source, source.relative_to(_ROOT))
    return archive
