"""Hazard: the operator's Java options contradict ours, so that the JVM does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.engine.jvm import _with_java_options


@pytest.mark.parametrize("given_options", ["", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4 -Dx=y", "-XX:-UseParallelGC"])
def test_the_operators_java_options_do_not_meet_ours(tmp_path: Path, given_options: str) -> None:
    key = "spark.driver.extraJavaOptions"
    words = _with_java_options({key: given_options}, tmp_path)[key].split()
    assert set(given_options.split()) <= set(words)
    assert sum("GC" in word for word in words) == 1
    assert sum("TieredStopAtLevel" in word for word in words) == 1
