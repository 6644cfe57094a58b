"""Spark's classes in the form that the JVM maps from a file (class data sharing): a start takes half the CPU.

``python -m dm_worker.engine.class_archive`` creates the file, once per installation, because this takes longer than a
start. At each start the JVM itself checks that the file was created by the same Java for the same jars, and otherwise
does not use it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark import SparkConf

from dm_worker.engine.code_archive import source_paths
from dm_worker.engine.context import WorkerContext
from dm_worker.engine.engine import first_job
from dm_worker.engine.jvm import CLASS_ARCHIVE, JAVA_OPTIONS, SparkJvm
from dm_worker.engine.settings import spark_settings
from pkg.native import CHOICE

#: Seconds that the JVM may take to write the archive when it ends.
_WRITE_TIMEOUT = 300.0


def write_archive(archive: Path) -> None:
    """Writes ``archive``.

    Raises DMError 50000 if Spark does not start, and ``OSError`` if the file cannot be written.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    # The JVM crashes on a partial archive: only a complete one gets the name.
    part = archive.with_name(f"{archive.name}.{os.getpid()}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with TemporaryDirectory(prefix="dm-worker-classes-") as name:
        settings = spark_settings(
            master="local[2]",
            slots=2,
            folder=Path(name),
            paths=os.pathsep.join(source_paths(os.environ.get("PYTHONPATH", ""))),
            kernel=CHOICE,
            conf={JAVA_OPTIONS: f'"-XX:ArchiveClassesAtExit={part}"'},
        )
        jvm = SparkJvm(settings, Path(name))
        try:
            context = WorkerContext(SparkConf().setAll(list(settings.items())), jvm.gateway)
            first_job(context)
            context.stop()
        finally:
            jvm.close(_WRITE_TIMEOUT)
        if jvm.exit_code != 0 or not part.is_file():
            raise OSError(f"Java did not write {part} (exit code {jvm.exit_code}):\n{jvm.last_words}")
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(archive)


def main() -> int:
    write_archive(CLASS_ARCHIVE)
    sys.stdout.write(f"{CLASS_ARCHIVE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
