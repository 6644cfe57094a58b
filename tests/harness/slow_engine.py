"""A Spark engine that starts only when a test allows it."""

from __future__ import annotations

import threading
from typing import cast

from pyspark import SparkContext

from dm_worker.engine.engine import SparkEngine

CONTEXT = cast(SparkContext, "the context")


class SlowEngine(SparkEngine):
    """Spark that starts when a test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_start = threading.Event()
        self.starts = 0

    def _start(self) -> None:
        self.starts += 1
        assert self.may_start.wait(60)
        self._context = CONTEXT
