"""The settings that Spark is started with: ours for its kind of master, overridden by the operator's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: A killed Python worker costs one attempt of its task; jobs are idempotent, so Spark may repeat it.
TASK_ATTEMPTS = 4

_COMMON = {
    "spark.app.name": "dm-worker",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.locality.wait": "0",
    "spark.shuffle.compress": "false",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": str(TASK_ATTEMPTS),
    "spark.log.level": "ERROR",
    # A dump is a barrier stage, which Spark refuses together with dynamic allocation.
    "spark.dynamicAllocation.enabled": "false",
    # When executors are lost between counting them and the dump's start, Spark looks for free slots so often, every
    # so many seconds, before it gives up and the dump is tried again with what is left.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
PYTHON = "spark.pyspark.python"
DAEMON = "dm_worker.engine.python_daemon"


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return master == "local" or master.startswith("local[")


def spark_settings(
    *, master: str, slots: int, folder: Path, paths: str, kernel: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """All settings of a driver. ``folder`` contains its files; ``paths`` are the import paths of tasks on this machine,
    ``kernel`` the choice of compiled or Python code ('' for none); ``conf`` takes precedence over everything."""
    ours = {**_COMMON, "spark.master": master, "spark.local.dir": str(folder)}
    if is_local(master):
        # Executors on other machines get our code after their daemon has started, so they use Spark's own daemon.
        ours |= {**_LOCAL, "spark.executorEnv.PYTHONPATH": paths, "spark.python.daemon.module": DAEMON}
    elif master.startswith("spark://"):
        # Without a limit the first application takes every core of a standalone cluster, and all others wait.
        ours["spark.cores.max"] = str(slots)
    if kernel:
        ours["spark.executorEnv.DM_KERNEL"] = kernel
    return {**ours, **conf}


def as_properties(settings: Mapping[str, str]) -> str:
    """``settings`` in the form of a Java properties file."""
    return "".join(f"{_escaped(key, ' :=#!')} {_escaped(value, '')}\n" for key, value in settings.items())


def _escaped(text: str, special: str) -> str:
    out = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    for char in special:
        out = out.replace(char, "\\" + char)
    return out if special or not out.startswith(" ") else "\\" + out
