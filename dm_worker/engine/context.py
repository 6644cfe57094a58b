"""A SparkContext that takes less CPU of driver and JVM for a job with small results: it counts where one row is a job.

PySpark's actions pass Scala functions on twice, and each time the JVM reads the bytes of the class that has them, one
of Spark's largest. They also ask the JVM for their classes by simple names, which it looks for in all packages and
jars.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from py4j.java_gateway import JavaGateway
from pyspark import RDD, SparkConf, SparkContext
from pyspark.serializers import write_with_length

T = TypeVar("T")
U = TypeVar("U")

#: PySpark's classes of each job, and their static methods.
_CLASSES: dict[str, Sequence[str]] = {
    "PythonRDD": ("readRDDFromFile",),
    "PythonUtils": ("getBroadcastThreshold",),
    "SimplePythonFunction": (),
}


class WorkerContext(SparkContext):
    """The context over a gateway to a running JVM; created and stopped as any other."""

    def __init__(self, conf: SparkConf, gateway: JavaGateway) -> None:
        super().__init__(conf=conf, gateway=gateway)
        _keep_classes(self._jvm)

    def runJob(
        self,
        rdd: RDD[T],
        partitionFunc: Callable[[Iterable[T]], Iterable[U]],
        partitions: Sequence[int] | None = None,
        allowLocal: bool = False,
    ) -> list[U]:
        """As PySpark's. Without ``partitions`` (all of them), for results of some KiB: they are passed on as text."""
        if partitions is not None:
            return super().runJob(rdd, partitionFunc, partitions, allowLocal)
        mapped = rdd.mapPartitions(partitionFunc)
        found = mapped._jrdd.collectAsync().get()
        stream = io.BytesIO()
        for number in range(found.size()):
            write_with_length(found.get(number), stream)  # type: ignore[no-untyped-call]
        stream.seek(0)
        return list(mapped._jrdd_deserializer.load_stream(stream))  # type: ignore[no-untyped-call]


def _keep_classes(view: Any) -> None:
    """Looks up the classes of each job once: PySpark finds them as attributes of the gateway's view."""
    for name, methods in _CLASSES.items():
        found = getattr(view, name)
        for method in methods:
            setattr(found, method, getattr(found, method))
        setattr(view, name, found)
