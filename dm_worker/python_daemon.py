"""Spark's Python daemon with our task code loaded: the workers that it forks start at once and share its memory.

Run by Spark as ``python -m dm_worker.python_daemon pyspark.worker`` (spark.python.daemon.module). What is imported here
must start no thread and open no connection, and must never be grpc: none of them survives a fork.
"""

from __future__ import annotations

import gc
import importlib

from pyspark.daemon import manager

from dm_worker.executors import TASK_MODULES


def _main() -> None:
    for name in TASK_MODULES:
        importlib.import_module(name)
    # What is there by now stays: a collection in a worker need not touch it, which would copy its pages.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    _main()
