"""Spark's Python daemon with all code of our tasks loaded: the workers that it forks start fast and share its memory.

Spark runs it as ``python -m dm_worker.engine.python_daemon pyspark.worker`` (spark.python.daemon.module). The imports
here must start no thread and open no connection, and must never include grpc: none of them survives a fork. Spark's
own daemon leaves the import of PySpark's worker to each process because of pandas and pyarrow, which start threads; but
that worker imports them only for the jobs that need them.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from pkg.process.heap import keep_freed


def without_copies(path: Sequence[str]) -> list[str]:
    """A module search path without the archives inside the installed PySpark.

    Spark puts them first: copies of PySpark and py4j as zip files, and its jar. Python compiles imports from such a
    file again in each process.
    """
    found = PathFinder.find_spec("pyspark", [entry for entry in path if not entry.endswith((".zip", ".jar"))])
    if found is None or found.origin is None:
        return list(path)
    installed = Path(found.origin).parent
    archives = (installed / "python" / "lib", installed / "jars")
    return [entry for entry in path if Path(entry).parent not in archives]


def preload() -> None:
    """Loads what a worker needs to run our tasks."""
    kept = without_copies(sys.path)
    # The first task of each process reads the lists of files of all known archives again.
    for archive in set(sys.path).difference(kept):
        sys.path_importer_cache.pop(archive, None)
    sys.path[:] = kept
    from dm_worker.engine.executors import TASK_MODULES

    for name in (*TASK_MODULES, "pyspark.worker"):
        importlib.import_module(name)


def _main() -> None:
    keep_freed()
    preload()
    # Freeze the current objects: the garbage collector of a worker must not touch them, which would copy their pages.
    gc.collect()
    gc.freeze()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    _main()
