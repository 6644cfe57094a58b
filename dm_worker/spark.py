"""The one SparkSession of a dm-worker, started on first use and stopped with the process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping

from pyspark import SparkConf, SparkContext

#: Slots are not cores: writers and dumpers mostly wait for a server. An idle Python worker takes about 60 MB.
DEFAULT_SLOTS = 16
#: A killed Python worker costs one attempt of its task; jobs are idempotent, so Spark may simply try again.
TASK_ATTEMPTS = 4


class SparkEngine:
    """Starts the SparkContext lazily and hands it to the units.

    ``master`` is empty for the embedded engine (``local`` with ``slots`` slots), or a Spark master URL.
    ``conf`` adds to or replaces the settings below.
    """

    def __init__(self, *, master: str = "", slots: int = DEFAULT_SLOTS, conf: Mapping[str, str] | None = None) -> None:
        self._master = master or f"local[{slots},{TASK_ATTEMPTS}]"
        self.slots = slots
        self._conf = dict(conf or {})
        self._lock = threading.Lock()
        self._context: SparkContext | None = None

    def context(self) -> SparkContext:
        """The SparkContext; the first call starts the JVM (about 5 s), later ones return at once."""
        with self._lock:
            if self._context is None:
                self._context = self._start()
            return self._context

    def _start(self) -> SparkContext:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Python workers import our packages from where the driver found them.
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        settings = {
            "spark.master": self._master,
            "spark.app.name": "dm-worker",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.mode": "FAIR",
            "spark.locality.wait": "0",
            "spark.shuffle.compress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.task.maxFailures": str(TASK_ATTEMPTS),
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "spark.log.level": "ERROR",
            **self._conf,
        }
        return SparkContext(conf=SparkConf().setAll(list(settings.items())))

    @contextlib.contextmanager
    def job_group(self, group: str, description: str = "") -> Iterator[SparkContext]:
        """Runs the jobs of this thread under ``group``, so that :meth:`cancel` can end them."""
        context = self.context()
        context.setJobGroup(group, description or group, interruptOnCancel=True)
        try:
            yield context
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)

    def cancel(self, group: str) -> None:
        """Cancels the running jobs of ``group``; does nothing when Spark never started."""
        with self._lock:
            context = self._context
        if context is not None:
            context.cancelJobGroup(group)

    def close(self) -> None:
        with self._lock:
            if self._context is not None:
                self._context.stop()
                self._context = None
