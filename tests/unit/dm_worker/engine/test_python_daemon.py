"""Hazard: each process that the daemon forks reads Spark's archives, with thousands of files, before its first task."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark

from deploy.local.cluster import environment

INSTALLED = Path(pyspark.__file__).parent
ARCHIVES = [*(INSTALLED / "python" / "lib").glob("*.zip"), *(INSTALLED / "jars").glob("spark-core_*.jar")]
CODE = """
import importlib.util, sys
importlib.util.find_spec("found_in_no_archive")
before = set(sys.path_importer_cache)
from dm_worker.engine.python_daemon import preload
preload()
print(*before, sep=":")
print(*sys.path_importer_cache, sep=":")
"""


def test_archives_of_spark_are_forgotten_when_its_code_is_loaded() -> None:
    paths = [*map(str, ARCHIVES), *filter(None, environment().get("PYTHONPATH", "").split(":"))]
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**environment(), "PYTHONPATH": ":".join(paths)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = (set(line.split(":")) for line in done.stdout.splitlines())
    assert len(ARCHIVES) == 3
    assert before >= set(map(str, ARCHIVES))
    assert after.isdisjoint(map(str, ARCHIVES))
